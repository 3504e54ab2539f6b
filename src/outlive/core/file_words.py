"""Names of files as text of the wire, names of unfinished files, and how much of a file is asked for at once.
Pure.

A file's name is bytes (POSIX, 3.170): any but NUL and the slash. On the wire and in programs it is text, in
which each byte that is no UTF-8 is a NUL with two hexadecimal digits behind it: no name has a NUL, so nothing
else looks like that.
"""

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from outlive.core.errors import InvalidRequest

# What an entry of a folder is; "other" are sockets, FIFOs and devices, which are not copied.
FileKind = Literal["file", "folder", "link", "other"]

# One request carries at most so many bytes of a file: a megabyte is copied in a millisecond, far longer than
# a round trip here.
PIECE_BYTES = 1024 * 1024
# So much is compared by one SHA-256: some 0.1 s of work, and what is sent again at most where a file's
# beginning turns out to differ.
DIGEST_BYTES = 64 * 1024 * 1024
KEY_PATTERN = r"^[0-9a-f]{16}$"  # of an unfinished file: 64 bits of a hash

_MAX_NAME = 255  # bytes; NAME_MAX of every usual file system
_MARK = ".outlive-part"


class OtherRoot(NamedTuple):
    """A folder, opened as a path, where absolute paths begin instead of `/`, as in a container.

    Whose is what is made below it.
    """

    fd: int
    uid: int
    gid: int


def compared_stretches(size: int) -> Iterator[tuple[int, int]]:
    """Yield where each stretch begins, and its length, by which two files of `size` bytes are compared.

    None is shorter than 64 MiB but that of a whole file: the last one reaches back to be as long.
    """
    last = max(0, size - DIGEST_BYTES)
    yield from ((offset, DIGEST_BYTES) for offset in range(0, last, DIGEST_BYTES))
    if size:
        yield last, min(size, DIGEST_BYTES)


def is_compared_stretch(offset: int, length: int, size: int) -> bool:
    """Tell whether the digest of a stretch of a file of `size` bytes says no more than whether the file is
    the same as another one.
    """
    is_placed = offset % DIGEST_BYTES == 0 or offset + length == size
    return length == 0 or (is_placed and length == min(size, DIGEST_BYTES))


def wire_name(raw: bytes) -> str:
    """Return a name as text of the wire."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        pass
    # Surrogates stand for bytes that are no UTF-8 (PEP 383); JSON has no place for them.
    text = raw.decode("utf-8", "surrogateescape")
    return "".join(
        f"\0{ord(letter) - 0xDC00:02x}" if "\udc80" <= letter <= "\udcff" else letter for letter in text
    )


def name_bytes(text: str) -> bytes:
    """Return the bytes of a name.

    Raises:
        InvalidRequest: It is no text of the wire.
    """
    begin, *rest = text.split("\0")
    try:
        return b"".join((begin.encode(), *(_byte(piece[:2]) + piece[2:].encode() for piece in rest)))
    except ValueError:
        raise InvalidRequest("invalid_params", f"{shown_name(text)[:100]!r} is no name of a file.") from None


def _byte(digits: str) -> bytes:
    raw = bytes.fromhex(digits)
    if len(raw) != 1 or raw < b"\x80":
        raise ValueError(digits)
    return raw


def shown_name(text: str) -> str:
    """Return a name as people see it, on one line: bytes that are no text, and control characters, by their
    numbers.
    """
    shown = re.sub("\0(..)", r"\\x\1", text)
    return "".join(letter if letter.isprintable() else f"\\x{ord(letter):02x}" for letter in shown)


def parts_of(name: str) -> list[bytes]:
    """Return the parts of a name below a copied folder; none for the folder itself.

    Raises:
        InvalidRequest: It leads out of the folder, or is none.
    """
    if not name:
        return []
    parts = name_bytes(name).split(b"/")
    if any(part in {b"", b".", b".."} or b"\0" in part for part in parts):
        raise InvalidRequest("invalid_params", f"{shown_name(name)[:100]!r} is no name below a folder.")
    return parts


def part_name(name: bytes, key: str) -> bytes:
    """Return what a file is called until it is whole; `key` says which source it has."""
    tail = f".{key}{_MARK}".encode()
    return b"." + name[: _MAX_NAME - 1 - len(tail)] + tail


def is_part(name: bytes) -> bool:
    """Tell whether a name is that of an unfinished file."""
    return name.startswith(b".") and name.endswith(_MARK.encode())
