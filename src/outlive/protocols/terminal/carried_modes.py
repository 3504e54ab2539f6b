"""What output has changed in a terminal: `CarriedModes`. Pure.

A viewer that skips a part of the output keeps its terminal as it is. But the part may have switched a mode
(the alternate screen, the mouse, bracketed paste), the scroll region, a character set or the colours. The
last of each is kept here, and given as escape sequences, so that the output behind it is drawn as it was
meant. What only moves the cursor or draws is not: the skipped part is not on the screen. A person who leaves
a running program gets back a terminal without what the program has switched on: `undo`.

Sequences and modes: ECMA-48 (5th edition, sections 8.3.106 SM, 8.3.117 SGR), xterm's control sequences
(DECSET, DECSTBM, DECSCUSR, DECKPAM, RIS, XTMODKEYS) and kitty's keyboard protocol (CSI > u, CSI < u).
"""

import re

# A sequence that begins at the end of one piece is read with the next one; longer ones are no modes.
LONGEST_BYTES = 64
# Modes of DECSET that outlast a moment. Others (1048, for instance) save or move, which must not be done
# again.
_PRIVATE = frozenset(
    b"1 5 6 7 9 12 25 45 47 66 1000 1002 1003 1004 1005 1006 1007 1015 1016 1047 1049 2004 2026".split()
)
# One mode in three numbers: the last of them counts for all.
_SCREEN = b"1049"
_ON_BY_DEFAULT = frozenset({b"?7", b"?25"})  # lines wrap, and the cursor is seen
_ALIASES = {b"47": _SCREEN, b"1047": _SCREEN}
# SGR is looked for separately: in coloured output it is nearly all there is (70 ms for 16 MB with this look
# ahead, 170 without).
_MODE = re.compile(
    rb"\x1b(?!\[[0-9;:]*m)(?:\[(?P<private>\?)?(?P<numbers>[0-9;]{1,48})(?P<switch>[hl])"
    rb"|(?P<region>\[[0-9;]{0,12}r)|(?P<cursor>\[[0-9]? q)|(?P<soft>\[!p)|(?P<reset>c)|(?P<keypad>[=>])"
    rb"|(?P<set>[()])(?P<letter>[0-9A-Z])|(?P<keys>\[>4(?:;[0-9])?m)|(?P<push>\[>[0-9]{0,3}u)"
    rb"|\[<(?P<pop>[0-9]{0,2})u)"
)
_COLOUR = re.compile(rb"\x1b\[([0-9;:]{0,60})m")
_END_BYTES = 4096  # at the end of a piece: the newest colours are here, or nearly nowhere
_MOST_COLOURS = 32  # since the newest reset; each sets some attributes
_MOST_PUSHED = 8  # terminals keep some too, and drop the oldest
# CAN ends a sequence that the skip cut in two (ECMA-48, section 8.3.6); a link that was open is closed (OSC
# 8).
_PRELUDE = b"\x18\x1b]8;;\x1b\\"


class CarriedModes:
    """The newest state of each mode in the pieces that were taken, oldest piece first."""

    __slots__ = ("_colours", "_pushed", "_rest", "_shift", "_states")

    def __init__(self) -> None:
        self._rest = b""  # the end of the piece before, in which a sequence may have begun
        self._states: dict[bytes, bytes] = {}  # what it is about: the sequence; the newest is the last one
        self._colours: list[bytes] = []
        self._pushed: list[bytes] = []  # kitty's stack of keyboard modes
        self._shift = b""

    def take(self, data: bytes) -> None:
        """Read one more piece.

        Costs 1 ms for 256 KiB of coloured lines, at most 4 KiB of memory for any number of pieces.
        """
        data = self._rest + data
        begin = end = 0  # behind the newest reset, and behind the last sequence
        for found in _MODE.finditer(data):
            self._switch(found)
            end = found.end()
            if found.lastgroup in {"soft", "reset"}:
                begin = found.end()
        self._colour(data, begin)
        shifts = max(data.rfind(b"\x0e", begin), data.rfind(b"\x0f", begin))
        if shifts >= 0:
            self._shift = data[shifts : shifts + 1]
        # From the last ESC on: a colour that is whole there is read twice, which changes nothing.
        start = data.rfind(b"\x1b", max(end, len(data) - LONGEST_BYTES))
        self._rest = data[start:] if start >= 0 else b""

    def leave_out(self) -> None:
        """Read on elsewhere: a sequence that has begun does not end there."""
        self._rest = b""

    def sequences(self) -> bytes:
        """Return what to write to a terminal, so that it is as the pieces would have left it."""
        return b"".join((_PRELUDE, *self._states.values(), *self._pushed, self._shift, *self._colours))

    def undo(self) -> bytes:
        """Return what to write to a terminal, so that nothing of the pieces is left on; b"" if nothing is."""
        off = []
        if self._pushed:
            off.append(b"\x1b[<%du" % len(self._pushed))
        for name, sequence in reversed(self._states.items()):
            off.append(_off(name, sequence))
        if self._shift == b"\x0e":
            off.append(b"\x0f")
        if self._colours and self._colours[-1] not in {b"\x1b[m", b"\x1b[0m"}:
            off.append(b"\x1b[m")
        undone = b"".join(off)
        return _PRELUDE + undone if undone else b""

    def _switch(self, found: re.Match[bytes]) -> None:
        match found.lastgroup:
            case "switch":
                for number in found["numbers"].split(b";"):
                    self._set_mode(number, found["private"] or b"", found["switch"])
            case "region":
                # It moves the cursor to the first row, so the cursor is saved around it (DECSC, DECRC).
                self._put(b"region", b"\x1b7" + found[0] + b"\x1b8")
            case "cursor":
                self._put(b"cursor", found[0])
            case "keypad":
                self._put(b"keypad", found[0])
            case "letter":
                self._put(found["set"], found[0])
            case "keys":
                self._put(b"keys", found[0])
            case "push":
                self._pushed.append(found[0])
                del self._pushed[:-_MOST_PUSHED]
            case "pop":
                del self._pushed[max(0, len(self._pushed) - int(found["pop"] or 1)) :]
            case _:
                self._begin_anew(found[0])

    def _set_mode(self, number: bytes, private: bytes, switch: bytes) -> None:
        if (number in _PRIVATE) if private else (number in {b"4", b"20"}):
            name = _ALIASES.get(number, number) if private else number
            if name == _SCREEN:
                self._states.pop(b"region", None)  # each of the two screens has its own
            self._put(private + name, b"\x1b[" + private + number + switch)

    def _begin_anew(self, reset: bytes) -> None:
        """Forget everything before a reset of the terminal (RIS, DECSTR)."""
        self._states.clear()
        self._colours.clear()
        self._pushed.clear()
        self._shift = b""
        self._states[b"reset"] = reset

    def _put(self, name: bytes, sequence: bytes) -> None:
        self._states.pop(name, None)
        self._states[name] = sequence

    def _colour(self, data: bytes, begin: int) -> None:
        newest = list(_COLOUR.finditer(data, max(begin, len(data) - _END_BYTES)))
        for found in newest or _COLOUR.finditer(data, begin):
            if found[1] in {b"", b"0"} or found[1].startswith(b"0;"):
                self._colours.clear()
            self._colours.append(found[0])
        del self._colours[:-_MOST_COLOURS]


def _off(name: bytes, sequence: bytes) -> bytes:
    """Return what takes one state back; b"" for the state that a terminal begins with."""
    match name:
        case b"region":
            return b"" if sequence[2:-2] == b"\x1b[r" else b"\x1b7\x1b[r\x1b8"
        case b"cursor":
            return b"\x1b[0 q"
        case b"keypad":
            return b"\x1b>" if sequence == b"\x1b=" else b""
        case b"(" | b")":
            return b"" if sequence.endswith(b"B") else b"\x1b" + name + b"B"
        case b"keys":
            return b"\x1b[>4m"
        case b"reset":
            return b""
        case _:
            default = b"h" if name in _ON_BY_DEFAULT else b"l"
            return b"" if sequence.endswith(default) else sequence[:-1] + default
