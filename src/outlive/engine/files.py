"""`OpenFiles`: files and folders of this machine, its containers and nodes, opened for callers, and what they
ask about them.

One is opened by a caller that might run any command there, unbounded: only such a caller can read and write
files there without it. Where lists are in force, they judge `outlive cp` with the path, as a command, and
once more with the path that this has led to, when it is open: links and renames in between change nothing.
What is outlive's own is refused (`files.denied`). On a node the same is asked of its server, which decides
once more, about the token that this server shows there.

What is open lives in memory, and is closed when it has rested. All that is asked may be done twice, so a
caller whose server was started again opens it anew and goes on: what was written is in an unfinished file
beside its place.
"""

import asyncio
import contextlib
import os
import secrets
import time
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import msgspec

from outlive.backends.contract import Backend
from outlive.core.errors import InvalidRequest, InvalidState, LimitExceeded, OutliveError, ProcessNotFound
from outlive.core.events import AuditEvent
from outlive.core.file_words import (
    DIGEST_BYTES,
    PIECE_BYTES,
    is_compared_stretch,
    name_bytes,
    shown_name,
    wire_name,
)
from outlive.core.location import HERE, LOCAL, Location
from outlive.core.process import Owner
from outlive.core.values import dataclass, field
from outlive.engine.lookup import Asker, Lookup
from outlive.engine.processes.event_publisher import EventPublisher
from outlive.engine.settings import EngineSettings
from outlive.engine.starts.typed_lines import TypedLines
from outlive.files.denied import DeniedPaths
from outlive.files.root import FileRoot
from outlive.operations.files import (
    METHOD_OF,
    FileAsked,
    FileClose,
    FileDigest,
    FileDrop,
    FileMake,
    FileOpen,
    FileRead,
    FileWrite,
)

Members = Mapping[str, Any]
_T = TypeVar("_T")

_RESTED_S = 600.0  # a caller that has asked nothing for so long is gone
# Of one principal; each holds a descriptor. One more closes the one that has rested longest: its caller opens
# it again, if it still lives.
_MOST_OPEN = 64
_MOST_OPEN_OF_ALL = 256  # descriptors of this server, which has a thousand where its limit was not raised
# Threads of one principal: a disk that stands still (NFS, FUSE) keeps its own callers waiting, and no others.
_THREADS = 2
_EARLY_BYTES = 24 * PIECE_BYTES  # our own client has no more under way (`client.files.stream`)
_EARLY_S = 20.0  # how long a piece waits for the one before it, which is on its way over the same connection
_LOOK_AGAIN_S = 1.0  # another connection may have brought that one


@dataclass(slots=True, kw_only=True, eq=False)
class _OpenFile:
    """Something that is open: here it has a root, on a node the name that the node has given it.

    Lists and callers' bounds were judged for one direction (`writes`), and may refuse the other: nothing is
    asked in that.
    """

    by: Owner
    details: Mapping[str, str | int | bool]
    writes: bool
    path: str = ""  # where it really lies, absolute
    root: FileRoot | None = None
    node: str = ""
    there: str = ""
    threads: ThreadPoolExecutor | None = None
    rest: asyncio.TimerHandle | None = None
    read_bytes: int = 0
    written_bytes: int = 0
    moved: asyncio.Event = field(default_factory=asyncio.Event)

    def check_asked(self, asked: FileAsked) -> None:
        """Let pass what goes in this direction.

        What lies in a folder that is written is shown, without its content: a caller that copies into it has
        to know what is there.

        Raises:
            InvalidRequest: It goes in the other one.
        """
        refused = FileRead if self.writes else FileWrite | FileMake | FileDrop
        if isinstance(asked, refused):
            how, done, again = ("written", "read", "without") if self.writes else ("read", "written", "with")
            text = f"This copy was opened to be {how}: nothing is {done} in it."
            raise InvalidRequest("invalid_params", text, hint=f"Open another one: file_open {again} `write`.")

    def check_answered(self, asked: FileAsked, found: Members) -> None:
        """Let a digest pass of what is written that tells whether a file is the same, and nothing about its
        bytes one by one.

        An unfinished file (`key`) is digested by any stretch: only a caller that knows its source's size, and
        its time to the nanosecond, has its name.

        Raises:
            InvalidRequest: A stretch of the file would be read by it.
        """
        if not self.writes or not isinstance(asked, FileDigest) or asked.key:
            return
        if not is_compared_stretch(asked.offset, found["length"], found["size"]):
            text = f"Of a file that is to be written, all is digested, or stretches of {DIGEST_BYTES} bytes."
            hint = "Begin at a multiple of that, or end with the file. To read it: file_open without `write`."
            raise InvalidRequest("invalid_params", text, hint=hint)


class OpenFiles:
    """Opens files and folders, and does what is asked about them. On the engine's loop only."""

    def __init__(
        self,
        settings: EngineSettings,
        backend: Backend,
        *,
        lookup: Lookup,
        lines: TypedLines,
        events: EventPublisher,
    ) -> None:
        self._denied = DeniedPaths([settings.state_dir, *settings.own_files])
        self._home = os.fsencode(settings.environment.get("HOME", "/"))
        self._backend = backend
        self._remote = settings.remote_files
        self._containers = settings.containers
        self._lookup = lookup
        self._lines = lines
        self._events = events
        self._open: dict[str, _OpenFile] = {}  # by name; the one that has rested longest is the first
        # Of each principal that has something open, or opens it: threads end with the last reference.
        self._threads: WeakValueDictionary[str, ThreadPoolExecutor] = WeakValueDictionary()

    async def open(self, by: Owner, asked: FileOpen) -> Members:
        """Open a file or folder; what `FileOpened` has.

        Raises:
            CommandRefused: The caller may not run any command there, or the lists do not allow the path, or
            what it leads to.
            AccessDenied: `path_refused`.
            InvalidState: `file_missing`, `file_failed`.
            ProcessNotFound: The place is neither a node nor a process.
            InvalidRequest: It is in a container whose files are not seen here.
            BackendUnavailable: The node does not answer.
        """
        location, path, process_id = await self._place(by, asked)
        place, writes = location.backend, asked.write
        details = {"direction": "to" if writes else "from", "place": place, "path": shown_name(path)}
        await self._lines.check_copy(path, place, by, write=writes)
        opened = _OpenFile(by=by, details=details, writes=writes)
        try:
            if location.is_elsewhere:
                found = await self._open_there(opened, place, path, process_id)
            else:
                found = await self._open_here(opened, path, location.container)
        except OutliveError as error:
            if opened.root is not None:
                opened.root.close()
            decision: Any = "denied" if error.code == "path_refused" else "failed"
            event = AuditEvent(what="copy", by=by, decision=decision, reason=error.code, details=details)
            self._events.publish(event)
            raise
        name = secrets.token_hex(16)  # as good as a key: what one caller has opened is used by no other
        self._use(name, opened)
        try:
            self._make_room()
            if opened.path != path:
                await self._lines.check_copy(opened.path, place, by, write=writes)
        except BaseException:
            if name in self._open:
                self._drop(name)
            await self._close_there(opened)
            raise
        self._events.publish(AuditEvent(what="copy", by=by, details=details))
        return {"copy": name, "place": place, "path": opened.path, **found}

    async def ask(self, by: Owner, asked: FileAsked, data: bytes | memoryview = b"") -> Members:
        """Return the answer to what is asked about something open; the bytes of a piece that was read are the
        member `data`.

        Raises:
            InvalidState: `copy_unknown`; `file_missing`, `file_failed`, `file_changed`.
            InvalidRequest: It was opened to be read and is to be written, or the other way round.
            AccessDenied: `path_refused`.
            LimitExceeded: `copy_limit`: a piece is far ahead of those before it.
            BackendUnavailable: The node does not answer.
        """
        opened = self._open.get(asked.copy)
        if opened is None or (opened.by.principal, opened.by.inside) != (by.principal, by.inside):
            raise InvalidState("copy_unknown", "No such copy is open.")
        opened.check_asked(asked)
        self._use(asked.copy, opened)
        method, members = METHOD_OF[type(asked)], msgspec.to_builtins(asked)
        if opened.root is None:
            members["copy"] = opened.there
            found = await self._ask_node(opened.node, method, members, data)
        else:
            del members["copy"]
            work = partial(opened.root.ask, method, data, **members)
            if isinstance(asked, FileWrite):
                found = await self._write(opened, asked.offset, work)
            else:
                found = await self._run(opened, work)
        opened.check_answered(asked, found)
        opened.written_bytes += len(data)
        opened.read_bytes += len(found.get("data", b""))
        return found

    async def end(self, by: Owner, asked: FileClose) -> Members:
        """Close something; what is not open (any more) is closed."""
        opened = self._open.get(asked.copy)
        if opened is not None and opened.by.principal == by.principal:
            self._close(asked.copy)
            await self._close_there(opened)
        return {"done": True}

    async def close(self) -> None:
        """Close everything; what was written stays, finished or not.

        A disk that is busy with a piece is not waited for.
        """
        for name in list(self._open):
            self._close(name)
        for threads in self._threads.values():
            threads.shutdown(wait=False, cancel_futures=True)

    async def _place(self, by: Owner, asked: FileOpen) -> tuple[Location, str, str]:
        """Return the machine that is meant, and the path there: absolute, or below the home folder or
        (with a process's id) the process's folder, as a node knows them.
        """
        if asked.place == LOCAL:
            path = os.path.join(self._home, name_bytes(asked.path)) if asked.path else self._home
            return HERE, wire_name(path), ""
        if asked.place in self._backend.nodes():
            return Location(kind="node", backend=asked.place), asked.path, ""
        asker = Asker(principal=by.principal, project=asked.project, connection_id=by.connection_id)
        try:
            process = await self._lookup.find(asked.place, asker)
        except ProcessNotFound as error:
            text = f"There is no node and no process {shown_name(asked.place)[:60]!r}."
            hint = f"Nodes are {', '.join((LOCAL, *sorted(self._backend.nodes())))}."
            raise ProcessNotFound(error.code, text, hint=hint) from None
        location, folder = process.base.location, os.fsencode(process.record.cwd)
        if location.is_open:
            text = f"{shown_name(asked.place)} waits for a place: it has no files yet."
            raise InvalidState("process_queued", text)
        if location.is_elsewhere and not os.path.isabs(folder):
            # Its caller has named no folder, or one below the node's own: the node knows which, and the
            # process by the same id.
            return location, asked.path, process.process_id
        return location, wire_name(os.path.join(folder, name_bytes(asked.path))), ""

    async def _open_there(self, opened: _OpenFile, node: str, path: str, process_id: str) -> Members:
        """Open it at a node's server."""
        params = {"path": path, "place": process_id or LOCAL, "write": opened.writes}
        found = await self._ask_node(node, METHOD_OF[FileOpen], params)
        opened.node, opened.there, opened.path = node, found["copy"], found["path"]
        return {name: found[name] for name in ("entry", "machine", "folders")}

    async def _ask_node(
        self, node: str, method: str, params: Members, data: bytes | memoryview = b""
    ) -> Members:
        if self._remote is None:
            raise AssertionError("nodes are the extension's that asks them")
        return await self._remote.ask_files(node, method, params, data)

    async def _open_here(self, opened: _OpenFile, path: str, container: str | None) -> Members:
        """Open it on this machine, or in one of its containers."""
        principal = opened.by.principal
        opened.threads = self._threads.get(principal) or ThreadPoolExecutor(_THREADS, "files")
        self._threads[principal] = opened.threads
        root = opened.root = await self._run(
            opened, lambda: self._root_of(path, container, writes=opened.writes)
        )
        opened.path = root.path
        return await self._run(opened, root.opened)

    def _root_of(self, path: str, container: str | None, *, writes: bool) -> FileRoot:
        """Open a path of this machine or of one of its containers. Blocks."""
        if container is None:
            return FileRoot(name_bytes(path), self._denied, writes=writes)
        if self._containers is None:
            raise InvalidRequest("invalid_params", "This server has no containers.")
        other = self._containers.open_root(container)
        try:
            return FileRoot(name_bytes(path), self._denied, writes=writes, other=other)
        finally:
            os.close(other.fd)

    async def _run(self, opened: _OpenFile, work: Callable[[], _T]) -> _T:
        """Return the result of `work`, which blocks.

        Cancelled, it is not begun; what is under way goes on in its thread.
        """
        return await asyncio.get_running_loop().run_in_executor(opened.threads, work)

    async def _write(self, opened: _OpenFile, offset: int, work: Callable[[], Members]) -> Members:
        """Write a piece behind the one before it: several are on their way at once, and the unfinished file
        has no holes.
        """
        deadline = time.monotonic() + _EARLY_S
        while True:
            moved = opened.moved
            found = await self._run(opened, work)
            if (size := found["size"]) >= offset:
                opened.moved.set()
                opened.moved = asyncio.Event()
                return found
            hint = "Send the pieces in their order."
            if offset - size > _EARLY_BYTES:
                text = "Too many pieces came before those that lie before them."
                raise LimitExceeded("copy_limit", text, hint=hint)
            if time.monotonic() > deadline:
                text = f"Only {size} bytes are there of the {offset} before this piece."
                raise InvalidState("file_failed", text, hint=hint)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_AGAIN_S):
                    await moved.wait()

    def _use(self, name: str, opened: _OpenFile) -> None:
        """Note that it is used now.

        Something open holds a descriptor, which keeps a file system mounted: when it has rested, it is
        closed.
        """
        self._open.pop(name, None)
        self._open[name] = opened
        if opened.rest is not None:
            opened.rest.cancel()
        opened.rest = asyncio.get_running_loop().call_later(_RESTED_S, self._close, name)

    def _make_room(self) -> None:
        """Close what has rested longest, of the principal that has most, where there is too much."""
        counts = Counter(one.by.principal for one in self._open.values())
        principal, most = counts.most_common(1)[0]
        if most > _MOST_OPEN or counts.total() > _MOST_OPEN_OF_ALL:
            self._close(next(name for name, one in self._open.items() if one.by.principal == principal))

    def _close(self, name: str) -> None:
        """Close something here, and have the audit log say so."""
        opened = self._drop(name)
        counts = {"bytes_read": opened.read_bytes, "bytes_written": opened.written_bytes}
        self._events.publish(AuditEvent(what="copied", by=opened.by, details={**opened.details, **counts}))

    def _drop(self, name: str) -> _OpenFile:
        opened = self._open.pop(name)
        if opened.rest is not None:
            opened.rest.cancel()
        if opened.root is not None:
            # What its threads still do has descriptors of its own, and what they begin fails with an error.
            opened.root.close()
        return opened

    async def _close_there(self, opened: _OpenFile) -> None:
        """Close it on its node, too."""
        if opened.node:
            with contextlib.suppress(OutliveError):  # it closes by itself there when it has rested
                params = {"copy": opened.there}
                await self._ask_node(opened.node, METHOD_OF[FileClose], params)
