"""A sane place to begin in a terminal's output: `sane_start`, never within a character or an escape sequence.

Sequences as in ECMA-48 (5th edition, sections 5.3 to 5.6) and as terminals read them: a new ESC, CAN or SUB ends an unfinished one.
"""

import re

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
