"""Output that is too long for a result: which parts of a stream are shown, and how they become text (promise S1.8)."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Clip:
    """Bytes of a stream from `offset` on; shorter than asked for where the log no longer holds them."""

    offset: int
    data: bytes

    @property
    def end(self) -> int:
        """The offset behind it."""
        return self.offset + len(self.data)


def shown_ranges(size: int, limit_bytes: int) -> list[tuple[int, int]]:
    """Return the ranges [from, to) of a stream of `size` bytes that are shown: all of it, or its head and its tail."""
    if size <= limit_bytes:
        return [(0, size)] if size else []
    head = limit_bytes - limit_bytes // 2
    return [(0, head), (size - limit_bytes // 2, size)]


def join_pieces(pieces: Sequence[Clip], size: int) -> str:
    """Return pieces (in order, none empty or adjoining) of a stream of `size` bytes as text, with a visible mark where bytes are left out.

    Invalid UTF-8 becomes U+FFFD; a character that a cut would damage is left out with the rest.
    """
    texts: list[str] = []
    position = 0
    for piece in pieces:
        data = piece.data
        start = piece.offset
        if start > position:
            skipped = continuation_bytes(data)
            start, data = start + skipped, data[skipped:]
            texts.append(_mark(start - position))
        if piece.end < size:
            data = data[: len(data) - unfinished_bytes(data)]
        texts.append(data.decode("utf-8", "replace"))
        position = start + len(data)
    if position < size:
        texts.append(_mark(size - position))
    return "".join(texts)


def _mark(missing_bytes: int) -> str:
    return f"\n[... {missing_bytes} bytes omitted ...]\n"


def continuation_bytes(data: bytes) -> int:
    """Count the bytes (3 at most) at the beginning that belong to a character before it."""
    count = 0
    while count < min(3, len(data)) and data[count] & 0xC0 == 0x80:
        count += 1
    return count


def unfinished_bytes(data: bytes) -> int:
    """Count the bytes (3 at most) at the end that are the beginning of a longer character."""
    for back in range(1, min(3, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 == 0x80:
            continue
        width = 2 if byte & 0xE0 == 0xC0 else 3 if byte & 0xF0 == 0xE0 else 4 if byte & 0xF8 == 0xF0 else 1
        return back if width > back else 0
    return 0
