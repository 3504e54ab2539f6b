"""`Copies`: files of this machine, its containers and nodes, opened, read and written for callers that copy
them.

A copy is opened by a caller that might run any command there, unbounded: only such a caller can read and
write what files there are without it. Where lists are in force, they judge `outlive cp` with the path, as a
command, and once more with the path that this has led to, when it is open: links and renames in between
change nothing. What is outlive's own is never copied (`files.wall`). On a node the same is asked of its
server, which decides once more, about the token that this server shows there.

An open copy lives in memory, and is closed when it has rested. All that is done in it may be done twice, so a
caller whose server was started again opens another one and goes on: what was written is in an unfinished file
beside its place.
"""

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol, assert_never

import msgspec

from outlive.core.errors import InvalidRequest, InvalidState, OutliveError, ProcessNotFound
from outlive.core.file_words import OtherRoot, name_bytes, shown_name, wire_name
from outlive.core.location import LOCAL, Location
from outlive.core.process import Owner
from outlive.core.values import dataclass
from outlive.engine.file_bounds import EarlyBytes, FileThreads
from outlive.engine.lookup import Asker, Lookup
from outlive.engine.open_copies import OpenCopies, OpenCopy
from outlive.engine.processes.event_publisher import EventPublisher
from outlive.engine.settings import EngineSettings
from outlive.engine.starts.typed_lines import TypedLines
from outlive.files.identity import this_machine
from outlive.files.root import FileRoot, TooEarly
from outlive.files.wall import Wall
from outlive.operations.files import (
    METHOD_OF,
    FileAsked,
    FileClose,
    FileDigest,
    FileDrop,
    FileListing,
    FileLook,
    FileMake,
    FileOpen,
    FileRead,
    FileWrite,
)

Members = Mapping[str, Any]

_EARLY_S = 20.0  # how long a piece waits for the one before it, which is on its way over the same connection
_LOOK_AGAIN_S = 1.0  # another connection may have brought that one
# What is said of what was opened.
_FOUND = ("entry", "machine", "folders")


class FileNodes(Protocol):
    """The nodes, as copies need them (`engine.machines.routes.NodeRoutes`)."""

    def states(self) -> Mapping[str, object]:
        """Return what is known of them, by name."""

    async def ask_files(self, name: str, method: str, params: Members, data: bytes | memoryview) -> Members:
        """Return a node's answer to a method about files; the bytes of a piece are its member `data`."""


@dataclass(frozen=True, slots=True)
class _CopyPlace:
    """A machine and a path there: absolute, or below the home folder or (`process_id`) the process's folder,
    as the node knows them.
    """

    location: Location
    path: str
    process_id: str = ""


class Copies:
    """Opens copies, and does what is asked in them. On the engine's loop only."""

    def __init__(
        self,
        settings: EngineSettings,
        nodes: FileNodes,
        *,
        lookup: Lookup,
        lines: TypedLines,
        events: EventPublisher,
    ) -> None:
        self._wall = Wall([settings.state_dir], settings.own_files)
        self._home = os.fsencode(settings.environment.get("HOME", "/"))
        self._nodes = nodes
        self._open_root = settings.open_root
        self._lookup = lookup
        self._lines = lines
        self._open = OpenCopies(events)
        self._threads = FileThreads()
        self._early = EarlyBytes()

    async def open(self, by: Owner, asked: FileOpen) -> Members:
        """Open a file or folder for a copy; what `FileOpened` has.

        Raises:
            CommandRefused: The caller may not run any command there, or the lists do not allow the path, or
            what it leads to.
            AccessDenied: `path_refused`.
            InvalidState: `file_missing`, `file_failed`.
            ProcessNotFound: The place is neither a node nor a process.
            InvalidRequest: It is in a container whose files are not seen here.
            BackendUnavailable: The node does not answer.
            LimitExceeded: `copy_limit`: as many are being opened as may be open.
        """
        with self._open.room_for(by.principal):
            return await self._admitted(by, asked)

    async def _admitted(self, by: Owner, asked: FileOpen) -> Members:
        """Open one for which there is room (see `open`)."""
        place = await self._place(by, asked)
        location, path = place.location, place.path
        details = {
            "direction": "to" if asked.write else "from",
            "place": location.backend,
            "path": shown_name(path),
        }
        await self._lines.check_copy(path, location.backend, by, write=asked.write)
        try:
            opened, found = await self._opened(by, asked, place, details)
        except OutliveError as error:
            self._open.publish("copy", by, details, error)
            raise
        try:
            await self._lines.check_led_to(opened.path, location.backend, by, path=path, write=asked.write)
        except BaseException:
            if opened.root is not None:
                opened.root.close()
            await self._let_go(opened)
            raise
        name = self._open.add(opened)
        return {"copy": name, "place": location.backend, "path": opened.path, **found}

    async def ask(self, by: Owner, asked: FileAsked, data: bytes | memoryview = b"") -> tuple[Members, bytes]:
        """Do what is asked in an open copy.

        Return the answer's members, and the bytes of a piece that was read.

        Raises:
            InvalidState: `copy_unknown`; `file_missing`, `file_failed`, `file_changed`.
            InvalidRequest: The copy was opened to be read and is to be written, or the other way round.
            AccessDenied: `path_refused`.
            BackendUnavailable: The node does not answer.
        """
        opened = self._open.get(asked.copy)
        if opened is None or (opened.by.principal, opened.by.inside) != (by.principal, by.inside):
            raise InvalidState("copy_unknown", "No such copy is open.")
        opened.check_asked(asked)
        opened.used_at = time.monotonic()
        found = await (
            self._ask_node(opened, asked, data) if opened.node else self._ask_here(opened, asked, data)
        )
        opened.check_answered(asked, found[0])
        opened.written_bytes += len(data)
        opened.read_bytes += len(found[1])
        opened.used_at = time.monotonic()
        return found

    async def end(self, by: Owner, asked: FileClose) -> Members:
        """Close a copy; one that is not open (any more) is closed."""
        opened = self._open.get(asked.copy)
        if opened is not None and opened.by.principal == by.principal:
            self._open.close(asked.copy)
            await self._let_go(opened)
        return {"done": True}

    async def close(self) -> None:
        """Close everything; what was written stays, finished or not.

        A disk that is busy with a piece is not waited for.
        """
        self._open.close_all()
        self._threads.close()

    async def _place(self, by: Owner, asked: FileOpen) -> _CopyPlace:
        """Return the machine that is meant, and the path there."""
        if not asked.path and asked.place == LOCAL:
            return _CopyPlace(_at(LOCAL), wire_name(self._home))
        if asked.place == LOCAL:
            return _CopyPlace(_at(LOCAL), wire_name(os.path.join(self._home, name_bytes(asked.path))))
        if asked.place in self._nodes.states():
            return _CopyPlace(_at(asked.place), asked.path)
        asker = Asker(principal=by.principal, project=asked.project, connection_id=by.connection_id)
        try:
            process = await self._lookup.find(asked.place, asker)
        except ProcessNotFound as error:
            text = f"There is no node and no process {shown_name(asked.place)[:60]!r}."
            hint = f"Nodes are {', '.join((LOCAL, *sorted(self._nodes.states())))}."
            raise ProcessNotFound(error.code, text, hint=hint) from None
        location, folder = process.location, os.fsencode(process.record.cwd)
        if location.is_open:
            text = f"{shown_name(asked.place)} waits for a place: it has no files yet."
            raise InvalidState("process_queued", text)
        if location.is_elsewhere and not os.path.isabs(folder):
            # Its caller has named no folder, or one below the node's own: the node knows which, and the
            # process by the same id.
            return _CopyPlace(location, asked.path, process.process_id)
        return _CopyPlace(location, wire_name(os.path.join(folder, name_bytes(asked.path))))

    async def _opened(
        self, by: Owner, asked: FileOpen, place: _CopyPlace, details: Mapping[str, str | int | bool]
    ) -> tuple[OpenCopy, Members]:
        location, path = place.location, place.path
        if location.is_elsewhere:
            params = {"path": path, "place": place.process_id or LOCAL, "write": asked.write}
            answer = await self._nodes.ask_files(location.backend, METHOD_OF[FileOpen], params, b"")
            opened = OpenCopy(
                by=by,
                details=details,
                writes=asked.write,
                node=location.backend,
                there=str(answer["copy"]),
                path=str(answer["path"]),
            )
            return opened, {name: answer[name] for name in _FOUND}
        root = await self._threads.run(
            by.principal,
            lambda: _root_of(place, self._wall, self._open_root, writes=asked.write),
            unwanted=FileRoot.close,
        )
        try:
            found = await self._threads.run(by.principal, lambda: _shown(root))
        except BaseException:
            root.close()
            raise
        return OpenCopy(by=by, details=details, writes=asked.write, root=root, path=root.path), found

    async def _let_go(self, opened: OpenCopy) -> None:
        """Close it on its node; what is here is closed by `OpenCopies.close`."""
        if opened.node:
            with contextlib.suppress(OutliveError):  # it closes by itself there when it has rested
                params = {"copy": opened.there}
                await self._nodes.ask_files(opened.node, METHOD_OF[FileClose], params, b"")

    async def _ask_node(
        self, opened: OpenCopy, asked: FileAsked, data: bytes | memoryview
    ) -> tuple[Members, bytes]:
        params = {**msgspec.to_builtins(asked), "copy": opened.there}
        found = dict(await self._nodes.ask_files(opened.node, METHOD_OF[type(asked)], params, data))
        return found, found.pop("data", b"")

    async def _ask_here(
        self, opened: OpenCopy, asked: FileAsked, data: bytes | memoryview
    ) -> tuple[Members, bytes]:
        root = opened.root
        if root is None:
            raise AssertionError("a copy is here or on a node")
        name, of, run = asked.name, opened.by.principal, self._threads.run
        match asked:
            case FileLook():
                return {"entry": await run(of, lambda: root.look(name))}, b""
            case FileListing(after=after):
                return await run(of, lambda: root.list(name, after)), b""
            case FileRead(offset=offset, limit=limit):
                return await run(of, lambda: root.read(name, offset, limit))
            case FileDigest(offset=offset, length=length, key=key):
                return await run(of, lambda: root.digest(name, offset, length, key=key)), b""
            case FileWrite():
                return await self._write(opened, root, asked, data), b""
            case FileMake():
                return {"entry": await run(of, lambda: _make(root, asked))}, b""
            case FileDrop(key=key):
                await run(of, lambda: root.drop(name, key))
                return {"done": True}, b""
            case _:
                assert_never(asked)

    async def _write(
        self, opened: OpenCopy, root: FileRoot, asked: FileWrite, data: bytes | memoryview
    ) -> Members:
        """Write a piece behind the one before it: several are on their way at once, and the unfinished file
        has no holes.
        """
        deadline = time.monotonic() + _EARLY_S
        of, run, moved = opened.by.principal, self._threads.run, opened.moved

        def write() -> Members | TooEarly:
            return root.write(asked.name, asked.key, asked.offset, data, cut=asked.cut)

        with contextlib.ExitStack() as held:
            is_held = False
            while isinstance(written := await run(of, write), TooEarly):
                if time.monotonic() > deadline:
                    text = f"Only {written.size} bytes are there of the {asked.offset} before this piece."
                    raise InvalidState("file_failed", text, hint="Send the pieces in their order.")
                if not is_held:
                    held.enter_context(self._early.held(asked.copy, len(data)))
                    is_held = True
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_LOOK_AGAIN_S):
                        await moved.wait()
                moved = opened.moved
        opened.moved.set()
        opened.moved = asyncio.Event()
        if (seal := asked.seal) is None:
            return written
        entry = await run(of, lambda: root.place(asked.name, asked.key, **msgspec.structs.asdict(seal)))
        return {"size": entry["size"]}


def _root_of(
    place: _CopyPlace, wall: Wall, open_root: Callable[[str], OtherRoot] | None, *, writes: bool
) -> FileRoot:
    """Open a place of this machine or of one of its containers. Blocks."""
    path, container = name_bytes(place.path), place.location.container
    if container is None:
        return FileRoot(path, wall, writes=writes)
    if open_root is None:
        raise InvalidRequest("invalid_params", "This server has no containers.")
    other = open_root(container)
    try:
        return FileRoot(path, wall, writes=writes, other=other)
    finally:
        os.close(other.fd)


def _shown(root: FileRoot) -> Members:
    return {"entry": root.look(""), "machine": this_machine(), "folders": root.folders}


def _make(root: FileRoot, asked: FileMake) -> Members:
    seal = asked.seal
    if asked.kind == "folder" or seal is None:
        return root.make_folder(asked.name)
    match asked.kind:
        case "file":
            return root.place(asked.name, asked.key, **msgspec.structs.asdict(seal))
        case "link":
            return root.make_link(asked.name, asked.target, mtime_ns=seal.mtime_ns)
        case "settled":
            return root.settle(asked.name, mode=seal.mode, mtime_ns=seal.mtime_ns)
        case _:
            assert_never(asked.kind)


def _at(name: str) -> Location:
    return Location(kind="local" if name == LOCAL else "node", backend=name)
