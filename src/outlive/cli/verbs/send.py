"""`outlive send`: a text, keys and end-of-file to a process's input."""

import os

from outlive.cli.output import show_json
from outlive.cli.parameters import NAME, SERVER, ServerFlags, options, place, switch, takes
from outlive.cli.processes import connected, find_process
from outlive.client import InvalidRequest

_KEYS = {
    "enter": b"\r",
    "tab": b"\t",
    "escape": b"\x1b",
    "ctrl-c": b"\x03",
    "ctrl-d": b"\x04",
    "ctrl-z": b"\x1a",
}


@takes(
    NAME,
    place("text", "[TEXT]", about="What to write, a newline behind it.", is_required=False),
    options("--key", metavar="KEY", about="enter, tab, escape, ctrl-c, ctrl-d, ctrl-z.", to="keys"),
    switch("--eof", about="Close the input behind it."),
    switch("--no-newline", "-n", about="No newline behind the text."),
    *SERVER,
)
def send(
    *,
    name: str,
    text: str | None,
    keys: list[str],
    eof: bool,
    no_newline: bool,
    server: ServerFlags,
) -> int:
    """Write to a process's input: the text, then keys, then end-of-file.

    Raises:
        InvalidRequest: There is nothing to send, or a key has no such name.
    """
    with connected(server) as client:
        unknown = [key for key in keys if key.lower() not in _KEYS]
        if unknown:
            hint = f"There are {', '.join(_KEYS)}."
            raise InvalidRequest("invalid_params", f"{unknown[0]!r} is no key.", hint=hint)
        data = b"" if text is None else os.fsencode(text) + (b"" if no_newline else b"\n")
        data += b"".join(_KEYS[key.lower()] for key in keys)
        if not data and not eof:
            raise InvalidRequest("invalid_params", "There is nothing to send: pass a text, --key or --eof.")
        process = find_process(client, name)
        if data:
            process.write(data)
        if eof:
            process.close_stdin()
    if server.as_json:
        show_json({"process_id": process.process_id, "written": len(data), "eof": eof})
    return 0
