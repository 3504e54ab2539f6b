"""Output that is no text: where it is among lines, what it looks like, and the line that stands for it. Pure.

It is decided line by line, since a command may print text, then a file, then text again: one bad byte leaves
a text a text, and a clean line between two pieces of binary data is a part of it.
"""

import re
from collections.abc import Sequence

from outlive.core.cursor import Cursor
from outlive.core.values import dataclass
from outlive.protocols.plain import Line

BINARY = "[binary: "  # how a mark begins
MAGIC_BYTES = 264  # so many first bytes tell the kind: tar's mark is at 257
# Control characters that no text has (tab, newline, BEL, BS, VT, FF, CR and ESC it may have), and what was
# invalid UTF-8.
_BAD = re.compile("[\x00-\x06\x0e-\x1a\x1c-\x1f\x7f\ufffd]")
_LEAST_BAD = 8  # fewer are a text with some bytes of another encoding, and cost little when they are shown
_BAD_SHARE = 0.3  # of a line's characters; compressed data has half or more, a Latin-1 text one in ten
_LEAST_ITEM = 3  # characters between two NULs, on average: in UTF-16, each character but a few has a NUL
_ABSORBED_BYTES = 8192  # the longest clean piece that belongs to the binary data on both sides of it

# Offset and bytes at the beginning of a file, and the kind; from file(1)'s database of magic numbers.
_MAGIC = (
    (0, b"\x1f\x8b", "gzip"),
    (0, b"\x89PNG\r\n\x1a\n", "PNG"),
    (0, b"\x7fELF", "ELF"),
    (0, b"PK\x03\x04", "zip"),
    (0, b"%PDF-", "PDF"),
    (0, b"\xff\xd8\xff", "JPEG"),
    (0, b"GIF8", "GIF"),
    (0, b"SQLite format 3\x00", "SQLite"),
    (0, b"\x00asm", "WebAssembly"),
    (0, b"BZh", "bzip2"),
    (0, b"\xfd7zXZ\x00", "xz"),
    (0, b"\x28\xb5\x2f\xfd", "zstd"),
    (0, b"7z\xbc\xaf\x27\x1c", "7-Zip"),
    (0, b"\xca\xfe\xba\xbe", "Java class"),
    (0, b"!<arch>\n", "ar archive"),
    (0, b"\xff\xfe", "UTF-16 text"),
    (0, b"\xfe\xff", "UTF-16 text"),
    (0, b"MZ", "Windows program"),
    (0, b"OggS", "Ogg"),
    (4, b"ftyp", "MP4"),
    (8, b"WEBP", "WebP"),
    (257, b"ustar", "tar"),
)


@dataclass(frozen=True, slots=True)
class BinaryRun:
    """Lines `first` to `last` (exclusive) that are binary data together, and the cursors around them."""

    first: int
    last: int
    start: Cursor
    end: Cursor


def kind_of(first_bytes: bytes) -> str:
    """Return what data looks like by its magic number; empty when none is known."""
    return next((kind for offset, magic, kind in _MAGIC if first_bytes.startswith(magic, offset)), "")


def binary_mark(size: int, first_bytes: bytes) -> str:
    """Return the line that stands for binary data."""
    kind = kind_of(first_bytes)
    looks = f", looks like {kind}" if kind else ""
    return (
        f"[binary: {size:,} bytes{looks}, first bytes {first_bytes[:4].hex(' ')}; redirect it to a "
        "file, or see it as hex]"
    )


def is_binary(text: str) -> bool:
    """Tell whether decoded text (invalid bytes are U+FFFD) is no text."""
    bad = len(_BAD.findall(text))
    return bad >= _LEAST_BAD and bad >= _BAD_SHARE * len(text) and not _is_list(text)


def with_visible_nuls(text: str) -> str:
    """Return the text of a list whose items end in NUL (`find -print0`) with a visible sign in their
    place.
    """
    return text.replace("\0", "␀") if "\0" in text.strip("\0") and _is_list(text) else text


def _is_list(text: str) -> bool:
    """Tell whether text consists of clean items that NULs end."""
    items = text.strip("\0").split("\0")
    return (
        len(items) > 1
        and all(items)
        and not _BAD.search(text.replace("\0", ""))
        and len(text) > _LEAST_ITEM * len(items)
    )


def binary_runs(lines: Sequence[Line]) -> list[BinaryRun]:
    """Return where lines, as they were written, are binary data."""
    runs: list[BinaryRun] = []
    first = last = -1  # of the run so far; -1 when there is none
    size = clean = 0  # bytes of the run, and of the clean lines behind it
    for place, line in enumerate(lines):
        if is_binary(line.text):
            if first < 0:
                first = _beginning(lines, place, runs[-1].last if runs else 0)
            last, size, clean = place + 1, size + clean + line.size, 0
        elif first >= 0:
            # One bad character is enough directly behind binary data, while a line on its own needs many.
            if last == place and _BAD.search(line.text):
                last, size = place + 1, size + line.size  # the end of the data, behind its last newline
                continue
            clean += line.size
            if clean > min(size, _ABSORBED_BYTES):
                runs.append(BinaryRun(first, last, lines[first].start, lines[last - 1].end))
                first, size, clean = -1, 0, 0
    if first >= 0:
        runs.append(BinaryRun(first, last, lines[first].start, lines[last - 1].end))
    return runs


def _beginning(lines: Sequence[Line], place: int, bound: int) -> int:
    """Return where binary data begins that is seen at `place`: short pieces before its newlines belong to
    it.
    """
    while place > bound and _BAD.search(lines[place - 1].text):
        place -= 1
    return place
