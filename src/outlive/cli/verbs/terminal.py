"""`outlive terminal`: the seven calls of docs/terminals.md, and a terminal in the foreground."""

import os
from collections.abc import Mapping
from typing import Any

from outlive.cli.far import a_client, far_url
from outlive.cli.output import Answer, deliver, say, show, show_json, tell_hidden
from outlive.cli.parameters import (
    DETACH_KEYS,
    NO_START,
    SERVER,
    STATE_DIR,
    ServerFlags,
    UsageError,
    option,
    options,
    place,
    places,
    seconds,
    takes,
)
from outlive.cli.processes import connected, find_process
from outlive.cli.tables import shown_table
from outlive.client import Client, InvalidRequest, ProcessNotFound
from outlive.core.identity import short_name
from outlive.kernel.project import own_folder

_STILL_RUNS = 124  # as timeout(1), and as `outlive wait`
_UNKNOWN = 125  # as `outlive run`: it cannot be known how it ended
_Terminal = Mapping[str, Any]


_WHICH = place("name", "TERMINAL", about="Its name or id, or any of what its shell's process is called.")


@takes(*SERVER)
def ls(*, server: ServerFlags) -> Answer:
    """Show those that are open, oldest first."""
    with connected(server) as client:
        found = _all(client)
    if not found:
        return Answer({"terminals": found}, said=["No terminal is open; `outlive terminal new` opens one."])
    rows = [
        (short_name(one["terminal_id"]), one["terminal_name"], one["target"], one["state"], one["cwd"] or "")
        for one in found
    ]
    return Answer({"terminals": found}, shown_table([("ID", "NAME", "TARGET", "STATE", "FOLDER"), *rows]))


@takes(
    option("--name", metavar="NAME", about='What it is called; else "MCP Terminal N".'),
    option("--target", metavar="engine|vscode", about="Where it is: here, or in VS Code.", default="engine"),
    option("--shell", metavar="PROGRAM", about="Its shell; else the server's own."),
    option("--cwd", metavar="FOLDER", about="Where it begins; else here."),
    option("--profile", metavar="PROFILE", about="Its sandbox; else the server's default."),
    *SERVER,
)
def new(
    *,
    name: str | None,
    target: str,
    shell: str | None,
    cwd: str | None,
    profile: str | None,
    server: ServerFlags,
) -> Answer:
    """Open one; its id goes to stdout, alone, so that a script can keep it."""
    if far_url() is None:
        if cwd is not None:
            cwd = os.path.abspath(cwd)
        elif target == "engine":
            cwd = own_folder()
    with connected(server) as client:
        opened = client.terminals.call(
            "create", terminal_name=name, target=target, shell=shell, cwd=cwd, profile=profile
        )
    return Answer(opened, [opened["terminal_id"]])


@takes(
    places(
        "words", "COMMAND...", about="As typed at its prompt; words are joined by spaces.", ends_flags=True
    ),
    option(
        "--terminal",
        "-t",
        metavar="TERMINAL",
        about="Which; else the one used last, the newest, or a new one.",
    ),
    seconds("--timeout", about="How long to wait for its end (45).", to="wait_s"),
    *SERVER,
)
def execute(
    *,
    words: list[str],
    terminal: str | None,
    wait_s: float | None,
    server: ServerFlags,
) -> int:
    """Run a command in a terminal, the active one if none is named; return its exit code."""
    with connected(server) as client:
        terminal_id = None if terminal is None else _found(client, terminal)["terminal_id"]
        gave = client.terminals.call(
            "execute", terminal_id=terminal_id, command=" ".join(words), wait_s=wait_s
        )
    if server.as_json:
        show_json(dict(gave))
    else:
        _show_text(gave["output"])
        _tell_hidden(gave)
    if not gave["is_complete"]:
        waits = "" if gave["waiting"] == "none" else f", waits for {gave['waiting']}"
        where = short_name(gave["terminal_id"])
        say(f"It still runs{waits}: `outlive terminal read {where}`, `outlive terminal send {where}`.")
        return _STILL_RUNS
    return _UNKNOWN if gave["exit_code"] is None else int(gave["exit_code"])


@takes(
    _WHICH,
    place("text", "[TEXT]", about="What is typed.", is_required=False),
    options("--key", metavar="KEY", about="Then this key: enter, tab, ctrl-c, up.", to="keys"),
    *SERVER,
)
def send(*, name: str, text: str | None, keys: list[str], server: ServerFlags) -> Answer:
    """Type a text, then keys."""
    if text is None and not keys:
        raise UsageError("TEXT or --key is needed")
    with connected(server) as client:
        terminal_id = _found(client, name)["terminal_id"]
        return Answer(client.terminals.call("write", terminal_id=terminal_id, text=text, keys=keys or None))


@takes(
    _WHICH,
    option(
        "--form",
        metavar="clean|screen|raw",
        about="Plain text, what a person sees now, or as it came.",
        default="clean",
    ),
    *SERVER,
)
def read(*, name: str, form: str, server: ServerFlags) -> int:
    """Print what one shows."""
    with connected(server) as client:
        known = _matching(client, name)
        terminal_id = known[0]["terminal_id"] if len(known) == 1 else name  # a closed one has its id only
        text = client.terminals.call("read", terminal_id=terminal_id, form=form)
    if server.as_json:
        show_json(dict(text))
        return 0
    if form == "raw":
        deliver(1, text["text"].encode(errors="replace"))
    else:
        _show_text(text["text"])
    _tell_hidden(text)
    return 0


@takes(
    _WHICH,
    DETACH_KEYS._replace(about="What leaves it, which lives on."),
    STATE_DIR,
    NO_START,
)
def attach_terminal(*, name: str, detach_keys: str, state_dir: str | None, no_start: bool) -> int | Answer:
    """Bring one to the foreground; return its shell's exit code, if that ends."""
    from outlive.cli.verbs.attach import attach  # noqa: PLC0415 -- the other verbs need nothing of it

    with a_client(state_dir, no_start=no_start) as client:
        found = _found(client, name)
    if found["process_id"] is None:
        text = f"The terminal {name!r} is VS Code's own: what it shows does not come by here."
        raise InvalidRequest("terminal_not_ours", text, hint="Look at it in VS Code.")
    return attach(
        name=found["process_id"],
        detach_keys=detach_keys,
        read_only=False,
        state_dir=state_dir,
        no_start=no_start,
    )


@takes(places("names", "TERMINAL...", about="Ids, ends of ids, or names."), *SERVER)
def close(*, names: list[str], server: ServerFlags) -> Answer:
    """Close them."""
    with connected(server) as client:
        chosen = [_found(client, name) for name in names]
        closed = [dict(client.terminals.call("close", terminal_id=one["terminal_id"])) for one in chosen]
    said = [f"{one['terminal_name']} ({short_name(one['terminal_id'])}) is closed." for one in chosen]
    return Answer({"terminals": closed}, said=said)


def _show_text(text: str) -> None:
    """Print lines of a terminal; what it has shown is told by a server, and obeyed by no terminal here."""
    show(*text.removesuffix("\n").split("\n") if text else ())


def _tell_hidden(shown: _Terminal) -> None:
    """Tell a person how many secrets are stars.

    A terminal of VS Code's own has no cursor, and no log that has them.
    """
    by = None if shown["cursor"] is None else f"`outlive logs --raw {short_name(shown['terminal_id'])}`"
    tell_hidden(shown.get("redacted", 0), by=by)


def _all(client: Client) -> list[_Terminal]:
    return list(client.terminals.call("list")["terminals"])


def _matching(client: Client, name: str) -> list[_Terminal]:
    """Return the open terminals that a word may mean: an id or a name, else the one whose shell is called so
    among processes.
    """
    known = _all(client)
    if exact := [one for one in known if name in {one["terminal_id"], one["terminal_name"]}]:
        return exact
    try:
        process_id = find_process(client, name).process_id
    except ProcessNotFound:
        # VS Code's own are no processes of ours.
        return [one for one in known if one["process_id"] is None and one["terminal_id"].endswith(name)]
    return [one for one in known if one["process_id"] == process_id]


def _found(client: Client, name: str) -> _Terminal:
    """Return the one that a word means.

    Raises:
        InvalidRequest: `process_ambiguous`: several may be meant.
        ProcessNotFound: `terminal_not_found`.
    """
    known = _matching(client, name)
    if len(known) == 1:
        return known[0]
    if known:
        text = f"{len(known)} terminals are called {name!r} or end so."
        raise InvalidRequest("process_ambiguous", text, hint="`outlive terminal ls` shows their ids.")
    hint = "`outlive terminal ls` shows those that are open."
    raise ProcessNotFound("terminal_not_found", f"There is no terminal {name!r}.", hint=hint)
