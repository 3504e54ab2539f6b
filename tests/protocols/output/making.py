"""Lines for tests, as a log would give them."""

from collections.abc import Iterable

from outlive.core.cursor import BEGINNING, Cursor
from outlive.protocols.output.body import Excerpt
from outlive.protocols.output.error_lines import with_errors
from outlive.protocols.plain import Line, LineSplitter


def made_lines(*texts: str, start: Cursor = BEGINNING) -> list[Line]:
    """Return lines of stdout, one behind the other."""
    splitter = LineSplitter(start)
    splitter.feed(0, "".join(text + "\n" for text in texts).encode())
    return splitter.lines


def texts_of(lines: Iterable[Line]) -> list[str]:
    """Return the texts of lines."""
    return [line.text for line in lines]


def an_excerpt(lines: list[Line], **members: Cursor) -> Excerpt:
    """Return lines as an excerpt that begins and ends with them; errors are looked for."""
    start, end = (lines[0].start, lines[-1].end) if lines else (BEGINNING, BEGINNING)
    return Excerpt(lines=with_errors(lines), start=members.get("start", start), end=members.get("end", end))
