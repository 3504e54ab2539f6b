"""`Copier`: what one end has becomes what the other end has; what is there already is not sent again.

A file that is there with the same size and time is left alone. Small files travel whole, many at once. A
large one travels in pieces, many at once, into an unfinished file; of that, what an earlier copy has brought
is compared stretch by stretch, by SHA-256, and kept, and what this one brings is compared the same way when
it is on the disk. Whatever ends this program, the same copy goes on from there.

What cannot be copied is left out and counted, and the copy goes on; what ends it is a lost connection, or a
copy that the server has closed.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

from outlive.client.files.ends import FileEnd
from outlive.client.files.pipeline import Pipeline
from outlive.client.files.stream import key_of, same_beginning, same_content, seal_of, send_stream
from outlive.core.errors import InvalidState, OutliveError
from outlive.core.file_words import PIECE_BYTES, name_bytes, shown_name
from outlive.core.values import dataclass, field

Members = Mapping[str, Any]

# These are about the whole copy: the server has closed it, or is not there.
_COPY_ENDS = frozenset({"copy_unknown", "server_lost", "server_unavailable", "node_unavailable", "timeout"})
# in a folder that a copy has made: it gets mode and time at the end, and one that was there keeps its own
_MARK = "copy"
_MARK_KEY = "0" * 16
_FILLED = 0o700  # the permissions of its owner that a folder needs to be filled


@dataclass(slots=True, kw_only=True)
class CopyTally:
    """What was done so far.

    `kept` files were there already; `left_out` are names as they are shown, and why.
    """

    files: int = 0
    folders: int = 0
    links: int = 0
    kept: int = 0
    sent_bytes: int = 0
    left_out: list[tuple[str, OutliveError]] = field(default_factory=list)


class Copier:
    """Copies once, from one end to the other."""

    def __init__(
        self,
        source: FileEnd,
        target: FileEnd,
        tally: CopyTally,
        *,
        compares: bool = False,
        progress: Callable[[int], None] = lambda _bytes: None,
    ) -> None:
        """Take both ends, opened.

        Args:
            source: Where it is.
            target: Where it will be.
            tally: Counts what is done.
            compares: Whether files of the same size and time are compared by their content.
            progress: Called with the bytes of each piece that has arrived, or was there.
        """
        self._source = source
        self._target = target
        self._tally = tally
        self._compares = compares
        self._is_single = source.entry is None or source.entry["kind"] != "folder"
        self._progress = progress
        self._pipeline = Pipeline(source, target, arrived=self._file_arrived, leave_out=self._leave_out)
        self._settles: list[tuple[str, Members]] = []
        self._made: str | None = None  # the identity of the target's folder
        self._begun = 0  # entries of which something is written at the target

    async def run(self) -> None:
        """Copy everything.

        Raises:
            InvalidState: `file_missing`: there is no source; `file_failed`: a single file cannot be copied,
                or the source is neither a file nor a folder.
            ConnectionLost: Run another one over another connection.
        """
        entry = self._source.entry
        if entry is None:
            raise InvalidState("file_missing", "There is no such file or folder.")
        match entry["kind"]:
            case "folder":
                await self._tree(entry)
            case "file":
                await self._one("", entry, self._target.entry)
                await self._pipeline.drain()
            case "link":
                # An end follows links to what it opens. A link made of this answer would lead where the other
                # machine wants.
                raise InvalidState(
                    "file_failed", "The source is a link, where what it leads to was asked for."
                )
            case _:
                raise _not_copied("")

    def _is_in(self, source: Members, folders: Sequence[str | None]) -> bool:
        """Tell whether a folder of the source is one of these folders of the target.

        A copy of a folder into itself copies what it makes, and does not end. Paths do not tell: links,
        mounts and containers lead to one folder by several, and this program, its server and a node may be on
        one machine. Device and inode do, where the kernel is the same.
        """
        is_known = bool(self._source.machine) and self._source.machine == self._target.machine
        return is_known and source["identity"] in folders

    async def _tree(self, root: Members) -> None:
        if self._is_in(root, self._target.folders):
            raise _into_itself()
        is_new = await self._begin_root()
        waiting = [("", root, self._target.entry)]
        while waiting:
            name, entry, there = waiting.pop()
            is_there = there is not None and there["kind"] == "folder"
            # One that its owner may not write to is opened meanwhile.
            is_made = there is None or not is_there or there["mode"] & _FILLED != _FILLED
            if name and is_made and not await self._made_folder(name):
                continue
            begun = self._begun
            try:
                async for inner, old in self._pairs(name, is_there=is_there):
                    path = f"{name}/{inner['name']}" if name else inner["name"]
                    if inner["kind"] == "folder" and self._is_in(inner, [self._made]):
                        # A mount shows a part of the source elsewhere: the way up from the target has not led
                        # by the source.
                        self._leave_out(path, _into_itself())
                    elif inner["kind"] == "folder":
                        waiting.append((path, inner, old))
                    else:
                        await self._one(path, inner, old)
            except OutliveError as error:
                self._leave_out(name, error)
                continue
            is_touched = begun != self._begun
            self._tally.folders += 1
            if name and (there is None or is_made or is_touched or _looks(there) != _looks(entry)):
                self._settles.append((name, entry))
        await self._pipeline.drain()
        for name, entry in reversed(
            self._settles
        ):  # a folder behind what is in it: a new entry changes its time
            await self._settle(name, entry)
        await self._pipeline.drain()
        if is_new:
            await self._target.drop(_MARK, _MARK_KEY)
            await self._settle("", root)
            await self._pipeline.drain()

    async def _begin_root(self) -> bool:
        """Make the target's folder; tell whether this copy, or an earlier one that was cut, has made it."""
        if self._target.entry is None:
            made = await (await self._target.make("", "folder", key="", seal=None, target="")).result()
            self._made = made["entry"]["identity"]
            mark = await self._target.write(_MARK, _MARK_KEY, 0, b"\n", cut=False, seal=None)
            await mark.result()
            return True
        if self._target.entry["kind"] != "folder":
            raise InvalidState("file_failed", "A folder is to be copied, and the target is none.")
        self._made = self._target.entry["identity"]
        found = await (await self._target.digest(_MARK, 0, 0, _MARK_KEY)).result()
        return bool(found["size"])

    async def _made_folder(self, name: str) -> bool:
        try:
            await (await self._target.make(name, "folder", key="", seal=None, target="")).result()
        except OutliveError as error:
            self._leave_out(name, error)
            return False
        return True

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
                raise _not_copied(name)
            elif _seems_same(entry, there) and (not self._compares or await self._is_same(name, entry)):
                self._tally.kept += 1
                self._progress(entry["size"])
                if there is not None and there["mode"] != entry["mode"]:
                    await self._settle(name, entry)
            elif entry["size"] <= PIECE_BYTES:
                self._begun += 1
                await self._pipeline.send(name, entry)
            else:
                self._begun += 1
                await self._large(name, entry)
        except OutliveError as error:
            self._leave_out(name, error)

    async def _link(self, name: str, entry: Members, there: Members | None) -> None:
        if there is not None and (there["kind"], there["target"]) == ("link", entry["target"]):
            self._tally.kept += 1
            return
        self._tally.links += 1
        self._begun += 1
        making = await self._target.make(name, "link", key="", seal=seal_of(entry), target=entry["target"])
        await self._pipeline.wait_for(name, None, making)

    async def _is_same(self, name: str, entry: Members) -> bool:
        return await same_content(self._source, self._target, name, entry["size"])

    async def _settle(self, name: str, entry: Members) -> None:
        settling = await self._target.make(name, "settled", key="", seal=seal_of(entry), target="")
        await self._pipeline.wait_for(name, None, settling)

    def _file_arrived(self, size: int) -> None:
        self._tally.files += 1
        self._arrived(size)

    def _arrived(self, size: int) -> None:
        self._tally.sent_bytes += size
        self._progress(size)

    async def _large(self, name: str, entry: Members) -> None:
        """Copy a file in pieces."""
        key, size = key_of(entry), entry["size"]
        part = await (await self._target.digest(name, 0, 0, key)).result()
        begin = await same_beginning(self._source, self._target, name, min(part["size"], size), key=key)
        self._progress(begin)
        await send_stream(
            self._source,
            self._target,
            name,
            entry,
            begin=begin,
            cuts=part["size"] > begin,
            arrived=self._arrived,
        )
        making = await self._target.make(name, "file", key=key, seal=seal_of(entry), target="")
        await making.result()
        self._tally.files += 1

    def _leave_out(self, name: str, error: OutliveError) -> None:
        """Count what is not copied, and why.

        Raises:
            OutliveError: It is about the whole copy.
        """
        if error.code in _COPY_ENDS or self._is_single:
            raise error
        self._tally.left_out.append((name, error))


def _into_itself() -> InvalidState:
    hint = "Copy it to a place outside of it."
    return InvalidState("file_failed", "A folder cannot be copied into itself.", hint=hint)


def _not_copied(name: str) -> InvalidState:
    text = f"{shown_name(name) or 'It'} is a socket, FIFO or device, which is not copied."
    return InvalidState("file_failed", text)


def _seems_same(entry: Members, there: Members | None) -> bool:
    """Tell whether a file is there with the same size and time."""
    if there is None or there["kind"] != "file":
        return False
    return bool((there["size"], there["mtime_ns"]) == (entry["size"], entry["mtime_ns"]))


async def _entries(end: FileEnd, name: str) -> AsyncIterator[Members]:
    """Yield a folder's entries in the order of their names' bytes; pages are asked for as they are needed."""
    after: str | None = ""
    while after is not None:
        page = await end.page(name, after)
        for entry in page["entries"]:
            yield entry
        after = page["after"]


def _looks(entry: Members) -> tuple[int, int]:
    return entry["mode"], entry["mtime_ns"]
