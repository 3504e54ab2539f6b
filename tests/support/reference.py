"""The plain way to cut a stream into lines: slow, obvious, and what the fast path is compared with."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Line:
    """One expected process.output: any of `texts` is right, `end` is the stream's offset behind it.

    `length` is the full size of a truncated line in bytes, its newline not counted, and None otherwise.
    """

    texts: frozenset[str]
    truncated: bool
    length: int | None
    end: int


def lines_of(data: bytes, *, max_line_bytes: int = 8192) -> list[Line]:
    """Return the notifications that one finished stream must have caused (promises S0.6 and S0.7)."""
    lines: list[Line] = []
    end = 0
    for raw in _split(data):
        end += len(raw)
        content = raw.removesuffix(b"\n")
        if len(content) > max_line_bytes:
            lines.append(Line(first_parts(content, max_line_bytes), True, len(content), end))
        else:
            lines.append(Line(frozenset({raw.decode("utf-8", "replace")}), False, None, end))
    return lines


def _split(data: bytes) -> list[bytes]:
    pieces = [piece + b"\n" for piece in data.split(b"\n")]
    pieces[-1] = pieces[-1][:-1]
    return [piece for piece in pieces if piece]


def first_parts(content: bytes, max_line_bytes: int) -> frozenset[str]:
    """Return what may be shown of a line that is too long.

    The cut is at a character's end. Where the bytes around the limit are no valid UTF-8, "character" can be
    read in more than one way: up to three bytes of an unfinished sequence may be left out or replaced.
    """
    return frozenset(
        content[:cut].decode("utf-8", "replace") + "...\n"
        for cut in range(max(0, max_line_bytes - 3), max_line_bytes + 1)
        if _is_boundary(content, cut) and not _fits_more(content, cut, max_line_bytes)
    )


def _is_boundary(content: bytes, cut: int) -> bool:
    """Tell whether decoding the two halves gives what decoding the whole gives."""
    whole = content[: cut + 4].decode("utf-8", "replace")
    return (
        content[:cut].decode("utf-8", "replace") + content[cut : cut + 4].decode("utf-8", "replace") == whole
    )


def _fits_more(content: bytes, cut: int, limit: int) -> bool:
    """Tell whether a whole valid character behind `cut` would still fit."""
    for size in range(1, limit - cut + 1):
        try:
            content[cut : cut + size].decode("utf-8")
        except UnicodeDecodeError:
            continue
        return True
    return False
