"""`Copier`: what one end has becomes what the other end has; what is there already is not sent again.

A file that is there with the same size and time is left alone. Small files travel whole, many at once. A
large one travels in pieces, many at once, into an unfinished file; of that, what an earlier copy has brought
is compared stretch by stretch, by SHA-256, and kept, and what this one brings is compared the same way when
it is on the disk. Whatever ends this program, the same copy goes on from there.

What cannot be copied is left out and counted, and the copy goes on; what ends it is a lost connection, or a
copy that the server has closed.
"""

import hashlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from typing import Any

from outlive.client.files.ends import FileEnd, ask
from outlive.client.files.stream import (
    LargeFile,
    Pipeline,
    check_unchanged,
    is_same_stretch,
    key_of,
    seal_of,
)
from outlive.core.errors import InvalidState, OutliveError
from outlive.core.file_words import PIECE_BYTES, compared_stretches, name_bytes, shown_name

Members = Mapping[str, Any]

# These are about the whole copy: the server has closed it, or is not there.
_COPY_ENDS = frozenset({"copy_unknown", "server_lost", "server_unavailable", "node_unavailable", "timeout"})
# in a folder that a copy has made: it gets mode and time at the end, and one that was there keeps its own
_MARK = {"name": "copy", "key": "0" * 16}
_FILLED = 0o700  # the permissions of its owner that a folder needs to be filled


class Copier:
    """Copies once, from one end to the other.

    Attributes:
        counts: What was done so far, by the names that `Copied` has for it.
        left_out: What was not copied, by its name on the wire, and why.
    """

    def __init__(
        self,
        source: FileEnd,
        target: FileEnd,
        *,
        compares: bool = False,
        progress: Callable[[int], None] = lambda _bytes: None,
    ) -> None:
        """Take both ends, opened.

        Args:
            source: Where it is.
            target: Where it will be.
            compares: Whether files of the same size and time are compared by their content.
            progress: Called with the bytes of each piece that has arrived, or was there.
        """
        self.counts = {"files": 0, "folders": 0, "links": 0, "kept": 0, "sent_bytes": 0}
        self.left_out: list[tuple[str, OutliveError]] = []
        self._source = source
        self._target = target
        self._compares = compares
        self._progress = progress
        self._reads, self._writes = Pipeline(self._leave_out), Pipeline(self._leave_out)
        self._is_single = True
        self._begun = 0  # entries of which something is written at the target

    async def run(self, entry: Members) -> None:
        """Copy everything; the source is `entry`.

        Raises:
            InvalidState: `file_failed`: a single file cannot be copied, or the source is neither a file nor a
                folder.
            ConnectionLost: Run another one over another connection.
        """
        self._is_single = entry["kind"] != "folder"
        if entry["kind"] == "folder":
            await self._tree(entry)
        elif entry["kind"] == "link":
            # An end follows links to what it opens. A link made of this answer would lead where the other
            # machine wants.
            raise InvalidState("file_failed", "The source is a link, where what it leads to was asked for.")
        else:
            await self._one("", entry, self._target.entry)
            await self._drain()

    async def _tree(self, root: Members) -> None:
        self._check_outside(root, self._target.folders)
        made, is_new = await self._begin_root()
        settled: list[tuple[str, Members]] = []
        waiting = [("", root, self._target.entry)]
        while waiting:
            name, entry, there = waiting.pop()
            is_there = there is not None and there["kind"] == "folder"
            # One that its owner may not write to is opened meanwhile.
            is_made = there is None or not is_there or there["mode"] & _FILLED != _FILLED
            begun = self._begun
            try:
                if name:
                    # A mount shows a part of the source elsewhere: the way up from the target has not led by
                    # the source.
                    self._check_outside(entry, [made])
                if name and is_made:
                    await ask(self._target, "file_make", name=name, kind="folder")
                async for inner, old in self._pairs(name, is_there=is_there):
                    path = f"{name}/{inner['name']}" if name else inner["name"]
                    if inner["kind"] == "folder":
                        waiting.append((path, inner, old))
                    else:
                        await self._one(path, inner, old)
            except OutliveError as error:
                self._leave_out(name, error)
                continue
            self.counts["folders"] += 1
            if name and (there is None or is_made or begun != self._begun or _looks(there) != _looks(entry)):
                settled.append((name, entry))
        await self._drain()
        for name, entry in reversed(settled):  # a folder behind what is in it: a new entry changes its time
            await self._settle(name, entry)
        await self._drain()
        if is_new:
            await ask(self._target, "file_drop", **_MARK)
            await self._settle("", root)
            await self._drain()

    def _check_outside(self, source: Members, folders: Sequence[str]) -> None:
        """Let a folder of the source pass that is none of these folders of the target.

        A copy of a folder into itself copies what it makes, and does not end. Paths do not tell: links,
        mounts and containers lead to one folder by several, and this program, its server and a node may be on
        one machine. Device and inode do, where the kernel is the same.
        """
        is_known = bool(self._source.machine) and self._source.machine == self._target.machine
        if is_known and source["identity"] in folders:
            hint = "Copy it to a place outside of it."
            raise InvalidState("file_failed", "A folder cannot be copied into itself.", hint=hint)

    async def _begin_root(self) -> tuple[str, bool]:
        """Make the target's folder; return its identity, and whether this copy has made it, or an earlier one
        that was cut.
        """
        there = self._target.entry
        if there is None:
            made = await ask(self._target, "file_make", name="", kind="folder")
            await ask(self._target, "file_write", b"\n", **_MARK)
            return made["entry"]["identity"], True
        if there["kind"] != "folder":
            raise InvalidState("file_failed", "A folder is to be copied, and the target is none.")
        found = await ask(self._target, "file_digest", **_MARK, length=0)
        return there["identity"], bool(found["size"])

    async def _pairs(self, name: str, *, is_there: bool) -> AsyncIterator[tuple[Members, Members | None]]:
        """Yield each entry of a source folder with what has its name in the target.

        Both come in the order of their bytes.
        """
        theirs = _entries(self._target, name) if is_there else None
        other = await anext(theirs, None) if theirs is not None else None
        async for entry in _entries(self._source, name):
            own = name_bytes(entry["name"])
            while theirs is not None and other is not None and name_bytes(other["name"]) < own:
                other = await anext(theirs, None)
            yield entry, other if other is not None and other["name"] == entry["name"] else None

    async def _one(self, name: str, entry: Members, there: Members | None) -> None:
        """Copy a file or link, or leave it out."""
        try:
            if entry["kind"] == "link":
                await self._link(name, entry, there)
            elif entry["kind"] != "file":
                text = f"{shown_name(name) or 'It'} is a socket, FIFO or device, which is not copied."
                raise InvalidState("file_failed", text)
            elif _seems_same(entry, there) and (not self._compares or await self._is_same(name, entry)):
                self.counts["kept"] += 1
                self._progress(entry["size"])
                if there is not None and there["mode"] != entry["mode"]:
                    await self._settle(name, entry)
            elif entry["size"] <= PIECE_BYTES:
                self._begun += 1
                reading = await self._source.begin("file_read", name=name)
                await self._reads.add(name, reading, partial(self._write_whole, name, entry))
            else:
                self._begun += 1
                await self._large(name, entry)
        except OutliveError as error:
            self._leave_out(name, error)

    async def _link(self, name: str, entry: Members, there: Members | None) -> None:
        if there is not None and (there["kind"], there["target"]) == ("link", entry["target"]):
            self.counts["kept"] += 1
            return
        self.counts["links"] += 1
        self._begun += 1
        await self._make(name, "link", entry, target=entry["target"])

    async def _settle(self, name: str, entry: Members) -> None:
        await self._make(name, "settled", entry)

    async def _make(self, name: str, kind: str, entry: Members, **members: object) -> None:
        making = await self._target.begin("file_make", name=name, kind=kind, seal=seal_of(entry), **members)
        await self._writes.add(name, making, _done)

    async def _write_whole(self, name: str, entry: Members, found: Members) -> None:
        """Write a file that was read in one piece."""
        data = found["data"]
        check_unchanged(name, entry, found, length=entry["size"])
        seal = seal_of(entry, hashlib.sha256(data).hexdigest())
        members = {"name": name, "key": key_of(entry), "cut": True, "seal": seal}
        writing = await self._target.begin("file_write", data, **members)
        await self._writes.add(name, writing, partial(self._arrive_whole, entry["size"]))

    async def _arrive_whole(self, size: int, _written: Members) -> None:
        self.counts["files"] += 1
        self._arrived(size)

    def _arrived(self, size: int) -> None:
        self.counts["sent_bytes"] += size
        self._progress(size)

    async def _large(self, name: str, entry: Members) -> None:
        """Copy a file in pieces: what is there of it is compared, the rest is sent and compared.

        Raises:
            InvalidState: `file_changed`: it is not what it was when the copy began, or not what was sent.
        """
        file = LargeFile(self._source, self._target, name, entry)
        begin = await file.same_beginning()
        self._progress(begin)
        await file.send(begin, self._arrived)
        self.counts["files"] += 1

    async def _is_same(self, name: str, entry: Members) -> bool:
        for offset, length in compared_stretches(entry["size"]):
            if not await is_same_stretch(self._source, self._target, offset, length, name=name):
                return False
        return True

    async def _drain(self) -> None:
        await self._reads.drain()
        await self._writes.drain()

    def _leave_out(self, name: str, error: OutliveError) -> None:
        """Count what is not copied, and why.

        Raises:
            OutliveError: It is about the whole copy.
        """
        if error.code in _COPY_ENDS or self._is_single:
            raise error
        self.left_out.append((name, error))


def _seems_same(entry: Members, there: Members | None) -> bool:
    """Tell whether a file is there with the same size and time."""
    if there is None or there["kind"] != "file":
        return False
    return bool((there["size"], there["mtime_ns"]) == (entry["size"], entry["mtime_ns"]))


async def _entries(end: FileEnd, name: str) -> AsyncIterator[Members]:
    """Yield a folder's entries in the order of their names' bytes; pages are asked for as they are needed."""
    after: str | None = ""
    while after is not None:
        page = await ask(end, "file_list", name=name, after=after)
        for entry in page["entries"]:
            yield entry
        after = page["after"]


def _looks(entry: Members) -> tuple[int, int]:
    return entry["mode"], entry["mtime_ns"]


async def _done(_answer: Members) -> None:
    """Nothing follows."""
