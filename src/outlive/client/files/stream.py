"""One large file, in pieces that are under way many at once: `send_stream`.

And what both ends say of a file, compared.
"""

import hashlib
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from outlive.client.files.ends import FileEnd, Pending
from outlive.core.errors import InvalidState
from outlive.core.file_words import DIGEST_BYTES, PIECE_BYTES, compared_stretches, shown_name

Members = Mapping[str, Any]

# So many pieces of up to a megabyte are under way in each direction: on a line of 50 ms that is 240 MB/s, and
# 24 MB of memory.
AT_ONCE = 12
_CHECKED_LATER = 1  # stretches that are compared while the next one is sent


class _Stretch(NamedTuple):
    """Bytes of a file from `begin` on, and the SHA-256 that they have at the source."""

    begin: int
    length: int
    sha256: str


class _Written(NamedTuple):
    """A piece that is being written; with `ends` a stretch ends."""

    size: int
    pending: Pending
    ends: _Stretch | None


class _StretchSums:
    """The SHA-256 of each stretch of what passes."""

    def __init__(self, begin: int, size: int) -> None:
        self._begin = begin
        self._at = begin
        self._size = size
        self._hashed = hashlib.sha256()

    def add(self, data: bytes) -> _Stretch | None:
        """Return the stretch that ends with these bytes, if one does."""
        self._hashed.update(data)
        self._at += len(data)
        if self._at - self._begin < DIGEST_BYTES and self._at < self._size:
            return None
        stretch = _Stretch(self._begin, self._at - self._begin, self._hashed.hexdigest())
        self._begin, self._hashed = self._at, hashlib.sha256()
        return stretch


async def send_stream(
    source: FileEnd,
    target: FileEnd,
    name: str,
    entry: Members,
    *,
    begin: int,
    cuts: bool,
    arrived: Callable[[int], None],
) -> None:
    """Send a file from `begin` on into its unfinished file, and return when the target has compared all of
    it.

    Args:
        source: Where it is.
        target: Where it will be.
        name: Its name at both ends.
        entry: What it is.
        begin: So much is there.
        cuts: What is there behind that goes first.
        arrived: Called with the bytes of each piece that was written.

    Raises:
        InvalidState: `file_changed`: it is not what it was when the copy began.
    """
    size, key, asked, written = entry["size"], key_of(entry), begin, begin
    sums = _StretchSums(begin, size)
    reads: deque[tuple[int, Pending]] = deque()
    writes: deque[_Written] = deque()
    checks: deque[tuple[_Stretch, Pending]] = deque()
    while written < size or writes or checks:
        while asked < size and len(reads) < AT_ONCE:
            limit = min(PIECE_BYTES, size - asked, DIGEST_BYTES)
            reads.append((limit, await source.read(name, asked, limit)))
            asked += limit
        if reads:
            expected, reading = reads.popleft()
            found = await reading.result()
            data = found["data"]
            check_unchanged(name, entry, found, is_whole=len(data) == expected)
            writing = await target.write(name, key, written, data, cut=cuts, seal=None)
            writes.append(_Written(len(data), writing, sums.add(data)))
            written += len(data)
            if cuts:  # the pieces behind it must not be written before: they would be cut off
                checks.extend(await _take(target, name, key, writes, arrived))
                cuts = False
        if writes and (len(writes) >= AT_ONCE or not reads):
            checks.extend(await _take(target, name, key, writes, arrived))
        while len(checks) > _CHECKED_LATER or (checks and not (reads or writes)):
            stretch, asking = checks.popleft()
            sum_there = await asking.result()
            if (sum_there["length"], sum_there["sha256"]) != (stretch.length, stretch.sha256):
                await target.drop(name, key)
                raise changed(name, "did not arrive as it was sent")


async def _take(
    target: FileEnd, name: str, key: str, writes: deque[_Written], arrived: Callable[[int], None]
) -> list[tuple[_Stretch, Pending]]:
    """Wait for the oldest piece; where a stretch ends with it, begin to have that compared."""
    piece = writes.popleft()
    await piece.pending.result()
    arrived(piece.size)
    if (stretch := piece.ends) is None:
        return []
    return [(stretch, await target.digest(name, stretch.begin, stretch.length, key))]


async def same_beginning(source: FileEnd, target: FileEnd, name: str, size: int, *, key: str) -> int:
    """Return how many bytes the source's file and the target's unfinished one have in common at the
    beginning, of `size` at most.

    They are counted in whole stretches.
    """
    done = 0
    while done < size:
        length = min(DIGEST_BYTES, size - done)
        if not await _same_stretch(source, target, name, done, length, key=key):
            break
        done += length
    return done


async def same_content(source: FileEnd, target: FileEnd, name: str, size: int) -> bool:
    """Tell whether a file of `size` bytes is the same at both ends."""
    for offset, length in compared_stretches(size):
        if not await _same_stretch(source, target, name, offset, length, key=""):
            return False
    return True


async def _same_stretch(
    source: FileEnd, target: FileEnd, name: str, offset: int, length: int, *, key: str
) -> bool:
    asked = await target.digest(name, offset, length, key)
    own = await (await source.digest(name, offset, length, "")).result()
    other = await asked.result()
    is_whole = own["length"] == other["length"] == length
    return is_whole and bool(own["sha256"] == other["sha256"])


def key_of(entry: Members) -> str:
    """Return which source an unfinished file has: the same file, unchanged, has the same key in every
    copy.
    """
    return hashlib.sha256(f"{entry['size']} {entry['mtime_ns']}".encode()).hexdigest()[:16]


def seal_of(entry: Members, sha256: str | None = None) -> Members:
    """Return what a file must be to get its name, and what it gets with it (`operations.files.FileSeal`)."""
    return {"size": entry["size"], "mtime_ns": entry["mtime_ns"], "mode": entry["mode"], "sha256": sha256}


def check_unchanged(name: str, entry: Members, found: Members, *, is_whole: bool) -> None:
    """Let a piece pass of a file that is what it was.

    Raises:
        InvalidState: `file_changed`.
    """
    if not is_whole or (found["size"], found["mtime_ns"]) != (entry["size"], entry["mtime_ns"]):
        raise changed(name, "was changed while it was copied")


def changed(name: str, what: str) -> InvalidState:
    """Return the error for a file that is not what it was."""
    return InvalidState("file_changed", f"{shown_name(name) or 'The file'} {what}.")
