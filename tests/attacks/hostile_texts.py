"""Texts that a terminal would obey, in every answer that a client of outlive gets: `poison`, for a process
that is a call of the command line.
"""

import contextlib
import re
from datetime import datetime
from typing import Any

from outlive.client import messages
from outlive.core.documents import decode_json
from outlive.core.errors import SLUGS

# A line of its own that passes for one of outlive's, OSC 52 (the clipboard), a title, "erase in display" with
# ESC and as C1, letters that cannot be seen, signs that turn the writing round, a carriage return.
HOSTILE = (
    "x\noutlive: forged\r\x1b]52;c;eA==\x07\x1b]0;t\x1b\\\x1b[2J\x1b[8m"
    "\x9b2J\x9d0;t\x9c\u202e\u2066\u200b\u2028\x7f"
)
# What is no text for people: the client cannot go on with something else there.
_KEPT = {
    *("jsonrpc", "method", "process_id", "terminal_id", "session_id", "cursor", "state", "stdio", "type"),
    *("stream", "next", "rule", "data"),
}
_OWN = re.compile(r"\x1b\[[0-9;]*m|\r?\x1b\[K|\x1b\[H|\x1b\[J")  # colours, and places on the screen


def poison() -> None:
    """Have every answer of a server bring hostile texts in every member that holds a text."""

    def decode(raw: str | bytes, **bounds: int) -> object:
        message = decode_json(raw, **bounds)
        return message if message.get("method") == "connected" else poisoned(message)

    vars(messages)["decode_json"] = decode  # in a process of its own


def poison_own_project() -> None:
    """Do the same, but for projects: where only the folder's own processes are shown."""
    _KEPT.add("project")
    poison()


def none() -> None:
    """Change nothing."""


def poisoned(value: Any, name: str = "") -> Any:  # noqa: ANN401 -- JSON
    """Return a value of JSON with hostile texts in it."""
    match value:
        case dict():
            is_map = name in {"tags", "labels", "env"}
            return {
                f"{key}{HOSTILE}" if is_map else key: poisoned(item, "" if is_map else key)
                for key, item in value.items()
            }
        case list():
            return [poisoned(one, name) for one in value]
        case str() if name not in _KEPT and not _is_read(value):
            return value + HOSTILE
        case _:
            return value


def _is_read(text: str) -> bool:
    """Tell whether a client makes a moment, a position or an error of a text."""
    with contextlib.suppress(ValueError):
        datetime.fromisoformat(text)
        return True
    return re.fullmatch(r"[0-9.]*", text) is not None or text in SLUGS


def obeyed(shown: str, *, clears: bool = False) -> str:
    """Return what of all that was shown a terminal obeys, or takes for another line; "" is well."""
    own = _OWN.sub("", shown.replace("\x1b[2J", "", 1) if clears else shown)
    if "\x1b[8m" in shown:
        return "a colour of others"
    lines = own.replace("\r\n", "\n").split("\n")
    if any(line.lstrip("\r").startswith("outlive: forged") for line in lines):
        return "a forged line"
    text = "".join(lines)
    bad = {letter for letter in text if not letter.isprintable() and letter not in "\t\u00a0\u3000"}
    return ascii("".join(sorted(bad))) if bad else ""
