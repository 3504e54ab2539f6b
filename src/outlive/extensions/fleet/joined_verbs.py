"""`outlive node join` and `leave`: this machine as a node of another server, which it dials."""

import os
import sys

from outlive.cli.output import say, show_json, typed_secret
from outlive.cli.parameters import SERVER, ServerFlags, UsageError, option, place, takes
from outlive.cli.processes import connected
from outlive.extensions.fleet.node_verbs import LABELS, parsed_labels
from outlive.files.documents import MAX_TOKEN_BYTES, read_named


@takes(
    place("url", "URL", about="wss://HOST:8003, of the server that has invited this machine."),
    option(
        "--token-file",
        metavar="FILE",
        about="Has the code of the invitation; without it, or with -, the code is read from stdin.",
        to="code_file",
    ),
    option("--ca", metavar="FILE", about="PEM file of the authority of its certificate.", default=""),
    LABELS,
    *SERVER,
)
def join(*, url: str, code_file: str | None, ca: str, labels: list[str], server: ServerFlags) -> int:
    """Run the commands of another server from now on, also after a restart of either.

    This machine dials it: nothing has to reach this one. There, `outlive node invite NAME` makes the code.
    """
    words = parsed_labels(labels)
    code = _code(code_file)
    with connected(server) as client:
        found = client.fleet.join(url, code, ca=os.path.abspath(ca) if ca else "", labels=words)
    if server.as_json:
        show_json(dict(found))
        return 0
    joined = max(found["gateways"], key=lambda one: str(one["since"]))  # the one that came just now
    say(f"This machine is a node of {joined['name']} from now on, called {joined['node']} there.")
    return 0


@takes(
    place("gateway", "URL|NAME", about="Its address, or its name as `outlive node ls` shows it."),
    *SERVER,
)
def leave(*, gateway: str, server: ServerFlags) -> int:
    """Run no more commands for a server. What it has started here goes on."""
    with connected(server) as client:
        found = client.fleet.leave(gateway)
    if server.as_json:
        show_json(dict(found))
        return 0
    say(f"This machine is no node of {gateway} any more.")
    return 0


def _code(path: str | None) -> str:
    """Return the code: from no argument, since other users of the machine can read those."""
    try:
        if path not in {None, "-"}:
            code = read_named(str(path), MAX_TOKEN_BYTES).decode().strip()
        elif sys.stdin.isatty():
            code = typed_secret("Code of the invitation").strip()
        else:
            code = sys.stdin.readline().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--token-file: {path} cannot be read: {error}") from None
    except EOFError:
        code = ""
    if not code:
        raise UsageError(
            "there is no code: `outlive node invite NAME` makes one, on the server that this machine is "
            "to join"
        )
    return code
