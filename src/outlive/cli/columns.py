"""Rows of text in columns: as wide as they are, or cut or wrapped to a terminal's width, with coloured
states. Pure.
"""

from collections.abc import Sequence

from outlive.cli.output import Line, Painted, plain

_GAP = 2  # blanks between two columns
_NARROWEST = 6  # cells: a column is not cut below this, nor below its head
_LAST = 12  # cells that the last column, mostly a command, keeps as long as others can give way

# What a state begins with, and its colour (ECMA-48, 8.3.117): whatever needs a person is not green.
_COLOURS = (
    (("running", "starting"), "32"),
    (("finished", "stopped", "denied", "not approved"), "2"),
    (("queued", "paused", "stopping"), "33"),
    (("unknown", "lost"), "35"),
    (("timed out", "killed", "crashed", "failed"), "31"),
)
_URGENT = (("asks for", "33;1"), ("needs approval", "33;1"), ("unreachable", "35"), ("output lost", "35"))


def table(rows: Sequence[tuple[str, ...]], *, width: int | None = None) -> list[Line]:
    """Return rows in columns, two blanks apart, with coloured states; no line is longer than `width` cells.

    Args:
        rows: The head, and what stands below it.
        width: The terminal's cells a line; None cuts nothing.
    """
    rows = [tuple(map(plain, row)) for row in rows]  # a cell is as wide as it is shown
    widths = [max(cells(row[column]) for row in rows) for column in range(len(rows[0]))]
    if width is not None:
        widths = _narrowed(widths, [cells(head) for head in rows[0]], width)
    state = rows[0].index("STATE") if "STATE" in rows[0] else -1
    lines: list[Line] = []
    for number, row in enumerate(rows):
        shown = []
        for column, (text, room) in enumerate(zip(row, widths, strict=True)):
            cut = text if width is None else shortened(text, room)
            padded = cut + " " * (room - cells(cut)) if column < len(row) - 1 else cut
            shown.append(padded)
        colour = _colour_of(row[state]) if number and state >= 0 else None
        gap = " " * _GAP
        if colour is None:
            lines.append(gap.join(shown).rstrip())
        else:
            before, behind = (
                "".join(one + gap for one in shown[:state]),
                "".join(gap + one for one in shown[state + 1 :]),
            )
            lines.append((before, Painted(shown[state], colour), behind.rstrip()))
    return lines


def cells(text: str) -> int:
    """Return how many cells of a terminal a text takes: an ideograph two, a combining mark none (UAX 11)."""
    if text.isascii():
        return len(text)
    import unicodedata  # noqa: PLC0415 -- start-up time: a shared object that few texts need

    return sum(
        0 if unicodedata.combining(letter) else 2 if unicodedata.east_asian_width(letter) in "WF" else 1
        for letter in text
    )


def shortened(text: str, room: int) -> str:
    """Return a text that takes at most `room` cells, with "…" where its end is cut off."""
    if cells(text) <= room:
        return text
    return _beginning(text, room - 1) + "…" if room > 0 else ""


def wrapped(text: str, room: int) -> list[str]:
    """Return a text in lines of at most `room` cells, broken at blanks, and within a word that is longer than
    a line.
    """
    lines: list[str] = []
    for word in text.split():
        if lines and cells(f"{lines[-1]} {word}") <= room:
            lines[-1] += f" {word}"
            continue
        rest = word
        while rest:
            lines.append(_beginning(rest, room) or rest[0])  # a letter wider than the line has one of its own
            rest = rest[len(lines[-1]) :]
    return lines or [""]


def _beginning(text: str, room: int) -> str:
    """Return as much of a text as fits into `room` cells."""
    for end, letter in enumerate(text):
        room -= cells(letter)
        if room < 0:
            return text[:end]
    return text


def _narrowed(widths: Sequence[int], least: Sequence[int], width: int) -> list[int]:
    """Return widths that fit: the last column gives way first, then the widest of the others."""
    found = list(widths)
    room = width - _GAP * (len(found) - 1)
    found[-1] = min(found[-1], max(_LAST, room - sum(found[:-1])))
    floors = [max(_NARROWEST, floor) for floor in least[:-1]]
    while sum(found) > room:
        column = max(range(len(floors)), key=lambda one: found[one] - floors[one], default=None)
        if column is None or found[column] <= floors[column]:
            break  # a terminal narrower than the heads: the last column has what is left
        found[column] -= 1
    found[-1] = max(0, min(found[-1], room - sum(found[:-1])))
    return found


def _colour_of(state: str) -> str | None:
    urgent = (colour for words, colour in _URGENT if words in state)
    usual = (colour for words, colour in _COLOURS if state.startswith(words))
    return next(urgent, None) or next(usual, None)
