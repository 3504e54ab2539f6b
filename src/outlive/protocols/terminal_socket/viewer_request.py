"""What a viewer asks for when it connects (`Opening`, the subprotocol), and where its view of the output begins (`sane_start`).

A view never begins within a character or an escape sequence. Sequences are those of ECMA-48 (5th edition, sections 5.3 to 5.6),
read as terminals do: a new ESC, CAN or SUB ends an unfinished one. Bytes are sent in `frontends.terminal`.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from outlive.core.cursor import Cursor
from outlive.core.errors import InvalidRequest

CONTROLLED = "outlive.terminal.v1"  # text frames are control messages
# The same as without a subprotocol: a browser that offers a token as one must be answered with something.
PLAIN = "outlive.terminal.plain"

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
    """Return the subprotocol to answer with: control messages if they are offered; None if neither is."""
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
    # One of them alone is refused by the other's check.
    return _cells("rows", rows), _cells("cols", cols)


def _cells(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and 1 <= int(text) <= _MOST_CELLS):
        raise InvalidRequest(
            "invalid_params", f"{name} is a number from 1 to {_MOST_CELLS}, beside the other one."
        )
    return int(text)


# Bytes that are examined before the wanted position: a sequence that begins there may reach beyond it. Longer ones are pictures.
CONTEXT_BYTES = 32 * 1024
LOOK_BYTES = 16 * 1024  # bytes that are examined behind it

# OSC also ends with BEL; the other strings (DCS, SOS, PM, APC) end with ST alone.
_SEQUENCE = re.compile(
    rb"\x1b(?:\[[ -?]*[@-~]?|\][^\x07\x18\x1a\x1b]*(?:\x07|\x1b\\)?|[PX^_][^\x18\x1a\x1b]*(?:\x1b\\)?|[ -/]*[0-~]?)",
    re.DOTALL,
)
_LONGEST_CHARACTER = 4


def sane_start(data: bytes, wanted: int) -> int:
    """Return the first good position in `data` at or behind `wanted`: where a line begins if one does, else a character.

    `data` are the bytes around the wanted position, as far as they are known; the position behind the last one is possible.
    """
    newline = data.find(b"\n", max(0, wanted - 1))
    character = _character_start(data, wanted)
    # Sequences that reach across the wanted position, or across the newline found, push the beginning behind them.
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
    # A byte 10xxxxxx continues a character (RFC 3629, section 3); after three of them the text is no UTF-8 anyway.
    place = wanted
    while place < min(len(data), wanted + _LONGEST_CHARACTER - 1) and data[place] & 0xC0 == 0x80:
        place += 1
    return place
