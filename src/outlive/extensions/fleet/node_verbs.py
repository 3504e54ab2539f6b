"""`outlive node`: the machines that commands run on, listed, added, drained, resumed and removed while the
server runs; and this machine as a node of another server, which it dials (`join`, `leave`).
"""

import os
import sys
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from outlive.cli.output import Answer, say, show, show_json, typed_secret
from outlive.cli.parameters import (
    NEED_EXAMPLES,
    SERVER,
    ServerFlags,
    UsageError,
    option,
    options,
    place,
    switch,
    takes,
)
from outlive.cli.processes import connected
from outlive.cli.tables import shown_size, shown_table
from outlive.config.placement_settings import ResourceWords, parse_resources
from outlive.core.location import LOCAL
from outlive.files.documents import MAX_TOKEN_BYTES, read_named

_Members = Mapping[str, Any]
_APART = "--capacity takes cpu, mem and gpu, and --label everything else"
LABELS = options(
    "--label", metavar="NAME=VALUE", about="A label beside those that it has itself.", to="labels"
)
_NAME = place("name", "NAME", about="As `outlive node ls` shows it; local is this machine.")


@takes(*SERVER)
def ls(*, server: ServerFlags) -> int:
    """List all machines with what is free there."""
    with connected(server) as client:
        found = client.fleet.list()
    return _show(found, server)


@takes(
    place("name", "NAME", about="What it is called here."),
    place("url", "URL", about="https://HOST:8003, of its server."),
    option(
        "--token-file",
        metavar="FILE",
        about="Its token, or - for stdin; else OUTLIVE_NODE_TOKEN.",
        to="token_file",
    ),
    option("--ca", metavar="FILE", about="PEM file of the authority of its certificate.", default=""),
    LABELS,
    options(
        "--capacity",
        metavar="NAME=VALUE",
        about=f"At most so much of what it has: {NEED_EXAMPLES.rpartition(', ')[0]}.",
        to="capacity",
    ),
    *SERVER,
)
def add(
    *,
    name: str,
    url: str,
    token_file: str | None,
    ca: str,
    labels: list[str],
    capacity: list[str],
    server: ServerFlags,
) -> Answer:
    """Run commands there from now on, also after a restart of the server."""
    amounts = _resources("--capacity", capacity)
    if amounts.labels:
        raise UsageError(_APART)
    with connected(server) as client:
        found = client.fleet.add(
            name,
            url,
            token=_token(token_file),
            ca=os.path.abspath(ca) if ca else "",
            labels=parsed_labels(labels),
            cpu=amounts.cpu,
            memory=amounts.memory,
            gpu=amounts.gpu,
        )
    said = f"{name} is a node from now on; `outlive node ls` shows whether it answers."
    return Answer(found, said=[said])


@takes(
    place("name", "NAME", about="What the machine is to be called here."),
    LABELS,
    *SERVER,
)
def invite(*, name: str, labels: list[str], server: ServerFlags) -> int:
    """Let a machine that this one cannot reach become a node.

    Prints a code, which counts once, for ten minutes. On the machine, give it to `outlive node join URL`.
    """
    with connected(server) as client:
        found = client.fleet.invite(name, labels=parsed_labels(labels))
    if server.as_json:
        show_json(dict(found))
        return 0
    invitation = found["invitation"]
    until = datetime.fromisoformat(invitation["expires_at"]).astimezone()
    show(str(invitation["code"]))
    say(
        "On the machine: outlive node join wss://HOST:PORT of this server. The code counts once, until "
        f"{until:%H:%M:%S}."
    )
    return 0


@takes(_NAME, *SERVER)
def drain(*, name: str, server: ServerFlags) -> Answer:
    """Place no more commands there."""
    with connected(server) as client:
        found = client.fleet.drain(name)
    placed = _room(found, name).get("placed", 0)
    words = {0: "none was placed there", 1: "one that was placed there goes on"}
    rest = words.get(placed, f"{placed} that were placed there go on")
    return Answer(found, said=[f"{name} takes no more commands; {rest}."])


@takes(_NAME, *SERVER)
def resume(*, name: str, server: ServerFlags) -> Answer:
    """Place commands there again."""
    with connected(server) as client:
        return Answer(client.fleet.resume(name), said=[f"{name} takes commands again."])


@takes(
    place("name", "NAME", about="As `outlive node ls` shows it."),
    switch("--ended", about="Also those that have ended, as far as the node has not forgotten them."),
    *SERVER,
)
def adopt(*, name: str, ended: bool, server: ServerFlags) -> Answer:
    """Follow what other servers have started there, as if this one had.

    Where the server that started them is gone for good: they are listed, read and stopped here from now on,
    and are yours.
    """
    with connected(server) as client:
        found = client.fleet.adopt(name, ended=ended)
    adopted = found["adopted"]
    known = "1 process" if len(adopted) == 1 else f"{len(adopted)} processes"
    return Answer(found, adopted, [f"Known here from now on: {known} of {name}."])


@takes(
    _NAME,
    switch("--force", about="Also where processes run: they go on there, and are not reached from here."),
    *SERVER,
)
def rm(*, name: str, force: bool, server: ServerFlags) -> Answer:
    """Forget a node that was added."""
    with connected(server) as client:
        return Answer(client.fleet.remove(name, force=force), said=[f"{name} is no node any more."])


@takes(_NAME, *SERVER)
def inspect(*, name: str, server: ServerFlags) -> Answer:
    """Show everything that is known of a node."""
    with connected(server) as client:
        found = client.fleet.list()
    node = _node(found, name)
    room = node.get("room") or {}
    rows = [
        ("name", name),
        ("address", node.get("address")),
        ("state", node.get("state")),
        ("since", node.get("since")),
        ("reason", node.get("reason")),
        ("hint", node.get("hint")),
        ("processes", node.get("processes")),
        ("labels", _labels(room) or None),
        ("draining", "yes" if room.get("draining") else None),
        *((amount, _amount(room, amount)) for amount in ("cpu", "memory", "gpu") if room),
        ("placed", room.get("placed")),
    ]
    return Answer(node, [f"{title:10} {value}" for title, value in rows if value is not None])


def _show(found: _Members, server: ServerFlags) -> int:
    if server.as_json:
        show_json(dict(found))
        return 0
    for gateway in found["gateways"]:
        reason = "" if gateway["reason"] is None else f": {gateway['reason']}"
        words = f"{gateway['name']}, as {gateway['node']} ({gateway['state']}{reason})"
        say(f"This machine is a node of {words}.")
    rows = [("NAME", "STATE", "CPU", "MEMORY", "GPU", "PLACED", "LABELS")]
    for name in (LOCAL, *(node["name"] for node in found["nodes"])):
        node = _node(found, name)
        room = node.get("room") or {}
        rows.append(
            (
                name,
                "draining" if room.get("draining") and node["state"] == "connected" else node["state"],
                *(_amount(room, amount) for amount in ("cpu", "memory", "gpu")),
                str(room.get("placed", "")),
                _labels(room),
            )
        )
    show(*shown_table(rows))
    if found["waiting"]:
        say(f"{len(found['waiting'])} of your commands wait for a place.")
    if found.get("unfit"):
        say(f"{len(found['unfit'])} of them need more than any of these machines has, or other labels.")
    return 0


def _node(found: _Members, name: str) -> _Members:
    """Return a node as the list has it; this machine looks the same."""
    if name == LOCAL:
        return {"name": LOCAL, "state": "connected", "room": found["local"]}
    for node in found["nodes"]:
        if node["name"] == name:
            one: _Members = node
            return one
    known = ", ".join([LOCAL, *(node["name"] for node in found["nodes"])])
    raise UsageError(f"there is no node {name!r}; there are {known}")


def _room(found: _Members, name: str) -> _Members:
    return _node(found, name).get("room") or {}


def _amount(room: _Members, name: str) -> str:
    """Return what is free, and of how much."""
    whole, free = room.get("capacity", {}).get(name, 0), room.get("free", {}).get(name, 0)
    if not whole and not free:
        return "-"
    if name == "memory":
        return f"{shown_size(max(0, free))} of {shown_size(whole)}"
    return f"{free:g} of {whole:g}"


def _labels(room: _Members) -> str:
    return ", ".join(f"{name}={value}" for name, value in room.get("labels", {}).items())


def parsed_labels(words: list[str]) -> dict[str, str]:
    """Return the labels that `--label` gives."""
    found = _resources("--label", words)
    if found.amounts.view():
        raise UsageError(_APART)
    return dict(found.labels)


def _resources(flag: str, words: list[str]) -> ResourceWords:
    try:
        return parse_resources(",".join(words))
    except ValueError as error:
        raise UsageError(f"{flag}: {error}") from None


def _token(path: str | None) -> str:
    """Return the node's token: no flag, since other users of the machine can read those."""
    if path is None:
        return os.environ.get("OUTLIVE_NODE_TOKEN", "").strip()
    try:
        if path == "-":
            return sys.stdin.read().strip()
        return read_named(path, MAX_TOKEN_BYTES).decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--token-file: {path} cannot be read: {error}") from None


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
def join(*, url: str, code_file: str | None, ca: str, labels: list[str], server: ServerFlags) -> Answer:
    """Run the commands of another server from now on, also after a restart of either.

    This machine dials it: nothing has to reach this one. There, `outlive node invite NAME` makes the code.
    """
    words = parsed_labels(labels)
    code = _code(code_file)
    with connected(server) as client:
        found = client.fleet.join(url, code, ca=os.path.abspath(ca) if ca else "", labels=words)
    joined = max(found["gateways"], key=lambda one: str(one["since"]))  # the one that came just now
    said = f"This machine is a node of {joined['name']} from now on, called {joined['node']} there."
    return Answer(found, said=[said])


@takes(
    place("gateway", "URL|NAME", about="Its address, or its name as `outlive node ls` shows it."),
    *SERVER,
)
def leave(*, gateway: str, server: ServerFlags) -> Answer:
    """Run no more commands for a server. What it has started here goes on."""
    with connected(server) as client:
        said = f"This machine is no node of {gateway} any more."
        return Answer(client.fleet.leave(gateway), said=[said])


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
