"""What a viewer asks for when it connects: `Opening`, the query of its address, and the subprotocol.

A sane place to begin in a terminal's output: `sane_start`, never within a character or an escape sequence.

Sequences as in ECMA-48 (5th edition, sections 5.3 to 5.6) and as terminals read them: a new ESC, CAN or SUB ends an unfinished one.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from outlive.core.cursor import Cursor
from outlive.core.errors import InvalidRequest

CONTROLLED = "outlive.terminal.v1"  # text frames are control messages
PLAIN = (
    "outlive.terminal.plain"  # as without any: a browser that offers a token must be answered with something
)

_SWITCHES = {"": False, "0": False, "false": False, "1": True, "true": True}
_MOST_CELLS = 65535  # struct winsize holds 16 bits (ioctl_tty(2))


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """Where to begin (None: with the newest history), whether to look only, the window's size, and if secrets are shown."""

    cursor: Cursor | None = None
    readonly: bool = False
    raw: bool = False
    size: tuple[int, int] | None = None  # rows, columns

    @classmethod
    def parse(cls, query: Mapping[str, str]) -> "Opening":
        """Read the members of a query string; unknown ones are ignored.

        Raises:
            InvalidRequest: A member makes no sense.
        """
        text = query.get("cursor", "")
        return cls(
            cursor=Cursor.parse(text) if text else None,
            readonly=_switch(query, "readonly"),
            raw=_switch(query, "raw"),
            size=_size(query),
        )


def chosen_subprotocol(offered: Sequence[str]) -> str | None:
    """Return the one to answer with: control messages where they are offered; None where neither is."""
    return next((known for known in (CONTROLLED, PLAIN) if known in offered), None)


def _switch(query: Mapping[str, str], name: str) -> bool:
    value = _SWITCHES.get(query.get(name, "").lower())
    if value is None:
        raise InvalidRequest("invalid_params", f"{name} is 1 or 0.")
    return value


def _size(query: Mapping[str, str]) -> tuple[int, int] | None:
    rows, cols = query.get("rows", ""), query.get("cols", "")
    if not rows and not cols:
        return None
    return _cells("rows", rows), _cells("cols", cols)


def _cells(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and 1 <= int(text) <= _MOST_CELLS):
        raise InvalidRequest(
            "invalid_params", f"{name} is a number from 1 to {_MOST_CELLS}, beside the other one."
        )
    return int(text)


CONTEXT_BYTES = (
    32 * 1024
)  # before the wanted place: what begins there may reach beyond it; longer strings are pictures
LOOK_BYTES = 16 * 1024  # behind it

# OSC ends with BEL, too; the other strings (DCS, SOS, PM, APC) with ST alone.
_SEQUENCE = re.compile(
    rb"\x1b(?:\[[ -?]*[@-~]?|\][^\x07\x18\x1a\x1b]*(?:\x07|\x1b\\)?|[PX^_][^\x18\x1a\x1b]*(?:\x1b\\)?|[ -/]*[0-~]?)",
    re.DOTALL,
)
_LONGEST_CHARACTER = 4


def sane_start(data: bytes, wanted: int) -> int:
    """Return the first good place of `data` at `wanted` or behind: a line's beginning where there is one, else a character's.

    `data` is what lies around the wanted place, as far as it is known; the place after its last byte is possible, too.
    """
    newline = data.find(b"\n", max(0, wanted - 1))
    character = _character_start(data, wanted)
    for found in _SEQUENCE.finditer(data):
        begin, end = found.span()
        if end <= wanted:
            continue
        if begin < wanted:
            character = end
        if newline < 0 or newline + 1 <= begin:
            break
        if newline + 1 < end:
            newline = data.find(b"\n", end - 1)
    return character if newline < 0 else newline + 1


def _character_start(data: bytes, wanted: int) -> int:
    place = wanted
    while place < min(len(data), wanted + _LONGEST_CHARACTER - 1) and data[place] & 0xC0 == 0x80:
        place += 1
    return place
