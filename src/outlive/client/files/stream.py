"""One large file, in pieces that are under way many at once: `LargeFile`. `Pipeline` bounds how many.

And what both ends say of a file, compared.
"""

import hashlib
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from outlive.client.files.ends import FileEnd, Pending, ask
from outlive.core.errors import InvalidState, OutliveError
from outlive.core.file_words import DIGEST_BYTES, PIECE_BYTES, shown_name

Members = Mapping[str, Any]

# So many pieces of up to a megabyte are under way in each direction: on a line of 50 ms that is 240 MB/s, and
# 24 MB of memory.
_AT_ONCE = 12
_CHECKED_LATER = 2  # a stretch is compared while the next one is sent


class Pipeline:
    """Answers that are waited for, at most so many: one more waits for the oldest.

    What fails is given to `failed`, with the name that it was about.
    """

    def __init__(self, failed: Callable[[str, OutliveError], None], *, most: int = _AT_ONCE) -> None:
        self._failed = failed
        self._most = most
        self._waiting: deque[tuple[str, Pending, Callable[[Members], Awaitable[None]]]] = deque()

    async def add(self, name: str, pending: Pending, heard: Callable[[Members], Awaitable[None]]) -> None:
        """Have `heard` called with an answer, in the order of requests."""
        self._waiting.append((name, pending, heard))
        if len(self._waiting) >= self._most:
            await self._hear()

    async def drain(self) -> None:
        """Wait for all of them."""
        while self._waiting:
            await self._hear()

    async def _hear(self) -> None:
        name, pending, heard = self._waiting.popleft()
        try:
            await heard(await pending())
        except OutliveError as error:
            self._failed(name, error)


class _Stretch(NamedTuple):
    """Bytes of a file from `begin` on, and the SHA-256 that they have at the source."""

    begin: int
    length: int
    sha256: str


class LargeFile:
    """A file that is copied in pieces, into its unfinished file."""

    def __init__(self, source: FileEnd, target: FileEnd, name: str, entry: Members) -> None:
        """Take both ends, the file's name at both, and what it is."""
        self._source = source
        self._target = target
        self._name = name
        self._entry = entry
        self._size: int = entry["size"]
        self._part = {"name": name, "key": key_of(entry)}
        self._reads, self._writes = Pipeline(_fail), Pipeline(_fail)
        self._checks = Pipeline(_fail, most=_CHECKED_LATER)
        self._begin = 0
        self._hashed = hashlib.sha256()

    async def same_beginning(self) -> int:
        """Return how many bytes are there from an earlier copy, in whole stretches that are the same; what is
        there behind them is cut off.
        """
        there: int = (await ask(self._target, "file_digest", **self._part, length=0))["size"]
        done, most = 0, min(there, self._size)
        while done < most:
            length = min(DIGEST_BYTES, most - done)
            if not await is_same_stretch(self._source, self._target, done, length, **self._part):
                break
            done += length
        if there > done:
            await ask(self._target, "file_write", **self._part, offset=done, cut=True)
        return done

    async def send(self, begin: int, arrived: Callable[[int], None]) -> None:
        """Send the file from `begin` on, and return when the target has compared all of it and it has its
        name.

        `arrived` is called with the bytes of each piece that was written.

        Raises:
            InvalidState: `file_changed`: it is not what it was when the copy began.
        """
        self._begin = begin
        for offset in range(begin, self._size, PIECE_BYTES):
            length = min(PIECE_BYTES, self._size - offset)
            reading = await self._source.begin("file_read", name=self._name, offset=offset, limit=length)
            await self._reads.add(self._name, reading, partial(self._write, offset, length, arrived))
        for pipeline in (self._reads, self._writes, self._checks):
            await pipeline.drain()
        await ask(self._target, "file_make", **self._part, kind="file", seal=seal_of(self._entry))

    async def _write(self, offset: int, length: int, arrived: Callable[[int], None], found: Members) -> None:
        """Write a piece that was read."""
        check_unchanged(self._name, self._entry, found, length=length)
        self._hashed.update(found["data"])
        end, stretch = offset + length, None
        if end == self._size or (end - self._begin) % DIGEST_BYTES == 0:
            size = (end - self._begin - 1) % DIGEST_BYTES + 1
            stretch = _Stretch(end - size, size, self._hashed.hexdigest())
            self._hashed = hashlib.sha256()
        writing = await self._target.begin("file_write", found["data"], **self._part, offset=offset)

        async def written(answer: Members) -> None:
            if answer["size"] < end:
                raise changed(self._name, "was cut at the other end while it was copied")
            arrived(length)
            if stretch is not None:
                await self._check(stretch)

        await self._writes.add(self._name, writing, written)

    async def _check(self, stretch: _Stretch) -> None:
        """Compare a stretch that was written."""

        async def compare(found: Members) -> None:
            if (found["length"], found["sha256"]) != (stretch.length, stretch.sha256):
                await ask(self._target, "file_drop", **self._part)
                raise changed(self._name, "did not arrive as it was sent")

        members = {**self._part, "offset": stretch.begin, "length": stretch.length}
        await self._checks.add(self._name, await self._target.begin("file_digest", **members), compare)


def _fail(_name: str, error: OutliveError) -> None:
    raise error


async def is_same_stretch(
    source: FileEnd, target: FileEnd, offset: int, length: int, *, name: str, key: str = ""
) -> bool:
    """Tell whether a stretch is the same at both ends; with a `key`, of the target's unfinished file."""
    asked = await target.begin("file_digest", name=name, offset=offset, length=length, key=key)
    own = await ask(source, "file_digest", name=name, offset=offset, length=length)
    other = await asked()
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


def check_unchanged(name: str, entry: Members, found: Members, *, length: int) -> None:
    """Let a piece of so many bytes pass of a file that is what it was.

    Raises:
        InvalidState: `file_changed`.
    """
    is_same = (found["size"], found["mtime_ns"]) == (entry["size"], entry["mtime_ns"])
    if len(found["data"]) != length or not is_same:
        raise changed(name, "was changed while it was copied")


def changed(name: str, what: str) -> InvalidState:
    """Return the error for a file that is not what it was."""
    return InvalidState("file_changed", f"{shown_name(name) or 'The file'} {what}.")
