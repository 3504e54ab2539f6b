"""One viewer of a process: `Viewer` takes its messages, sends its output, and ends with either side.

The frames come from `TerminalOutput`. Input goes through `TypedInput`: while a process does not read it,
64 KiB wait here, then the viewer's messages are not read any more. No input is dropped as long as the process
lives. Which process a viewer may see was decided by `door`.

`TerminalHolds` says which viewer types, among those that take part (`hold` in their address,
docs/ws-terminal.md). A terminal is held by one viewer or by none. It is in memory alone: after a restart
viewers connect again, and ask again.
"""

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Coroutine
from typing import Literal, Protocol

from starlette.websockets import WebSocket, WebSocketDisconnect

from outlive.core.controls import CloseInput, ResizeWindow, SignalProcess
from outlive.core.cursor import Cursor
from outlive.core.errors import AccessDenied, InvalidState, LimitExceeded, OutliveError
from outlive.core.identity import ProcessId
from outlive.core.lifecycle import signal_number
from outlive.core.process import ProcessRecord
from outlive.core.values import dataclass
from outlive.engine import AuditedControls, Engine, Process
from outlive.frontends.terminal.terminal_output import Flow, TerminalOutput
from outlive.protocols.terminal_messages import (
    AckMessage,
    ClientMessage,
    EndOfFile,
    HelloMessage,
    HolderMessage,
    LagBound,
    Notice,
    Release,
    ResizeMessage,
    SendSignal,
    TakeHold,
    Where,
    decode_message,
    encode_message,
    kind_of,
)
from outlive.protocols.websocket_frames import text_frame
from outlive.server.http.websocket_io import Outbox
from outlive.server.limiters import Take
from outlive.server.sender import Sender
from outlive.store.output_log import OutputLog

_MOST_BYTES = 64 * 1024  # the size of one write to the backend
_LEAVING_S = 1.0  # half of the time that a stopping server gives its connections
_AGAIN_S = 0.5  # between two attempts, and between two checks that the viewer is still there


class TypedInput:
    """Writes the input of `put`, in order and in as few pieces as possible; `run` is a task of the
    viewer's.
    """

    def __init__(
        self,
        process: Process,
        acting: AuditedControls,
        *,
        report: Callable[[OutliveError], None],
        is_gone: Callable[[], bool],
    ) -> None:
        """Write to `process` by `acting`.

        Args:
            process: The process that gets the input.
            acting: The verbs as the viewer's principal, which the audit log records.
            report: Called with the error when input is stuck, or did not arrive.
            is_gone: Returns whether the viewer has left: no message is read while input waits for room, so no
                other check sees it.
        """
        self._is_gone = is_gone
        self._process = process
        self._acting = acting
        self._report = report
        self._waiting = bytearray()
        self._is_writing = False
        self._changed = asyncio.Event()
        self._moved = asyncio.Event()

    async def put(self, data: bytes) -> None:
        """Take input; returns when all of it is written or waits here, or when the viewer has left.

        Cancellation: safe; the part that was taken is written.
        """
        view = memoryview(data)
        while view:
            while not (room := _MOST_BYTES - len(self._waiting)):
                if self._is_gone():
                    return
                await self._wait()
            self._waiting += view[:room]
            view = view[room:]
            self._changed.set()

    @property
    def _is_busy(self) -> bool:
        return bool(self._waiting) or self._is_writing

    async def flushed(self) -> None:
        """Return when all input is written, or when the viewer has left."""
        while self._is_busy and not self._is_gone():
            await self._wait()

    async def finish(self) -> None:
        """Return when all input is written, after a second at the latest.

        For a viewer that types and leaves at once.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LEAVING_S):
                while self._is_busy:
                    await self._wait()

    async def _wait(self) -> None:
        """Return when the writer has moved on, or after half a second."""
        self._moved.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_AGAIN_S):
                await self._moved.wait()

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            while self._waiting:
                piece = bytes(self._waiting)
                self._waiting.clear()
                self._is_writing = True
                self._moved.set()
                try:
                    await self._write(piece)
                finally:
                    self._is_writing = False
                    self._moved.set()

    async def _write(self, piece: bytes) -> None:
        """Write one piece, without a deadline; a piece that may have arrived is never written again."""
        while True:
            try:
                await self._acting.write(self._process, piece)
            except LimitExceeded as error:
                self._report(error)
                if "waiting_bytes" in error.details:
                    return  # the keeper holds this piece; the next one waits behind it
            except OutliveError as error:
                self._report(error)
                if error.code == "process_queued":  # it has no input before it runs: try again
                    await asyncio.sleep(_AGAIN_S)
                    continue
                return
            else:
                return
            await asyncio.sleep(_AGAIN_S)


class Participant(Protocol):
    """A viewer that takes part."""

    def holder_changed(self) -> None:
        """Report which viewer holds the terminal now, and how many take part."""


class TerminalHolds:
    """The viewers that take part, by terminal, and which of them holds it. On the event loop only."""

    def __init__(self) -> None:
        self._joined: dict[ProcessId, list[Participant]] = {}
        self._holders: dict[ProcessId, Participant] = {}

    def holder(self, process_id: ProcessId) -> Participant | None:
        """Return the viewer that holds a terminal."""
        return self._holders.get(process_id)

    def count(self, process_id: ProcessId) -> int:
        """Return how many viewers of a terminal take part."""
        return len(self._joined.get(process_id, ()))

    def join(self, process_id: ProcessId, viewer: Participant) -> None:
        """Let a viewer take part; it has to `leave`."""
        self._joined.setdefault(process_id, []).append(viewer)
        self._report(process_id)

    def leave(self, process_id: ProcessId, viewer: Participant) -> None:
        """Forget a viewer that is gone: what it held is free."""
        joined = self._joined.get(process_id, [])
        if viewer not in joined:
            return
        joined.remove(viewer)
        if not joined:
            del self._joined[process_id]
        if self._holders.get(process_id) is viewer:
            del self._holders[process_id]
        self._report(process_id)

    def take(self, process_id: ProcessId, viewer: Participant, *, is_over: bool) -> bool:
        """Let a viewer hold a terminal that is free, or with `is_over` any.

        Return whether it holds it now.
        """
        had = self._holders.get(process_id)
        if had is not None and had is not viewer and not is_over:
            return False
        self._holders[process_id] = viewer
        self._report(process_id)
        return True

    def release(self, process_id: ProcessId, viewer: Participant) -> None:
        """Let go of a terminal; nothing happens to one that another viewer holds."""
        if self._holders.get(process_id) is viewer:
            del self._holders[process_id]
            self._report(process_id)

    def _report(self, process_id: ProcessId) -> None:
        for viewer in self._joined.get(process_id, ()):
            viewer.holder_changed()


# WebSocket close codes (RFC 6455, section 7.4.1).
_NORMAL = 1000
_INTERNAL_ERROR = 1011
_CLOSE_PATIENCE_S = 1.0  # for a viewer that does not read: the server then cuts the connection
_RESIZE_S = (
    2.0  # before the greeting: while the keeper is being replaced, a viewer still gets the history soon
)
_MESSAGES_A_TURN = 64  # of a flood of messages; then other tasks run


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What a viewer sees and may do: the process, its log with or without secrets, the cursor to begin at,
    and the rights.
    """

    process: Process
    log: OutputLog
    cursor: Cursor
    principal: str
    acting: AuditedControls
    is_controlled: bool
    is_readonly: bool
    size: tuple[int, int] | None
    hold: Literal["watch", "free", "over"] | None  # None: it takes no part in holding the terminal
    ahead: int | None = None  # None: as much is sent as the socket takes
    lag: int | None = None  # None: it skips nothing


class Viewer:
    """Serves one accepted WebSocket; every task of it ends with `run`."""

    def __init__(
        self,
        websocket: WebSocket,
        outbox: Outbox,
        view: View,
        *,
        engine: Engine,
        take: Take,
        holds: TerminalHolds,
    ) -> None:
        self._websocket = websocket
        self._outbox = outbox
        self._view = view
        self._engine = engine
        self._take = take
        self._holds = holds
        self._ended = asyncio.Event()  # set by either side
        self._is_greeted = False
        self._close_code: int | None = None  # set when the server ends the connection
        self._tasks = asyncio.TaskGroup()
        self._side: set[asyncio.Task[None]] = set()
        self._keyboard = TypedInput(
            view.process,
            view.acting,
            report=lambda error: self._report("input", error),
            is_gone=lambda: outbox.is_closed,
        )
        self.output = TerminalOutput(
            view.process,
            view.log,
            view.cursor,
            is_controlled=view.is_controlled,
            flow=Flow(ahead_bytes=view.ahead, lag_bytes=view.lag),
            over=self._finish,
        )
        self._follower = Sender(
            self.output, outbox, spawn=self._spawn, fail=self._fail, shows_partial=False, reads=True
        )

    async def run(self) -> None:
        """Serve until the viewer leaves, the process has ended, or the server ends it."""
        async with self._tasks:
            try:
                await self._greet()
                self._is_greeted = True
                self._follower.begin()
                self._spawn(self._keyboard.run())
                self._spawn(self._receive())
                await self._ended.wait()
                if self._close_code is None:
                    await self._keyboard.finish()
                else:
                    await self._outbox.send(b"")  # everything before it was handed over
            finally:
                self._holds.leave(self._view.process.process_id, self)
                self._follower.close()
                for task in self._side:
                    task.cancel()
        await self._close()

    def holder_changed(self) -> None:
        """Report which viewer holds the terminal, in the next turn."""
        process_id = self._view.process.process_id
        holder = self._holds.holder(process_id)
        word: Literal["you", "other", "none"] = (
            "none" if holder is None else "you" if holder is self else "other"
        )
        self.output.report_holder(HolderMessage(holder=word, viewers=self._holds.count(process_id)))
        if self._is_greeted:
            self._follower.kick()

    @property
    def _may_act(self) -> bool:
        """Whether what it types counts: a viewer that takes part has to hold the terminal."""
        return self._view.hold is None or self._holds.holder(self._view.process.process_id) is self

    async def _greet(self) -> None:
        """Hold the terminal if that was asked for, set the viewer's size, so that the greeting has it, then
        send the greeting.
        """
        view, process = self._view, self._view.process
        if view.hold is not None:
            self._holds.join(process.process_id, self)
            if view.hold != "watch" and not view.is_readonly:
                self._holds.take(process.process_id, self, is_over=view.hold == "over")
        if view.size is not None and not process.status.is_ended and self._may_act:
            await self._resize(*view.size)
        if not view.is_controlled:
            return
        size = await self._engine.queries.window_size(process)
        hello = HelloMessage(
            cursor=str(view.cursor),
            end=str(_end_of(view)),
            rows=None if size is None else size[0],
            cols=None if size is None else size[1],
            state=process.status.state.value,
            process_id=process.process_id,
            readonly=view.is_readonly,
            terminal=process.has_terminal,
        )
        await self._outbox.send(text_frame(encode_message(hello)))

    async def _resize(self, rows: int, cols: int) -> None:
        view = self._view
        if view.is_readonly:
            return
        try:
            async with asyncio.timeout(_RESIZE_S):
                await view.acting.control(view.process, ResizeWindow(rows=rows, cols=cols))
        except TimeoutError:
            pass  # the request was sent, and takes effect later
        except OutliveError as error:
            self._report("resize", error)

    async def _receive(self) -> None:
        """Take messages until the socket ends."""
        for number in itertools.count(1):
            if number % _MESSAGES_A_TURN == 0:
                # Messages that have come already are received without a pause in between.
                await asyncio.sleep(0)
            message = await self._websocket.receive()
            if message["type"] == "websocket.disconnect":
                self._ended.set()
                return
            if early_s := self._take(self._view.principal, 1):
                await asyncio.sleep(early_s)  # the client's further messages wait in its own buffers
            text = message.get("text")
            if text is None or not self._view.is_controlled:
                await self._type(message["bytes"] if text is None else text.encode("utf-8", "surrogatepass"))
            else:
                await self._obey(text)

    async def _type(self, data: bytes) -> None:
        if self._view.is_readonly:
            # Dropped, and the connection goes on: terminal emulators answer a program's queries by
            # themselves.
            self._report("input", _read_only())
        elif not self._may_act:
            self._report("input", _not_holder())
        else:
            await self._keyboard.put(data)

    async def _obey(self, text: str) -> None:
        """Do what a control message asks; an error becomes a notice, and the connection goes on."""
        about = "message"
        try:
            message = decode_message(text)
            about = kind_of(message)
            if isinstance(message, Where | AckMessage | LagBound):
                self.output.obey(message)  # no act: viewers that only look may ask for it
                self._follower.kick()
                return
            if self._view.is_readonly:
                raise _read_only()
            if isinstance(message, TakeHold | Release):
                self._hold(message)
                return
            if not self._may_act:
                raise _not_holder()
            await self._do(message)
        except OutliveError as error:
            self._report(about, error)

    def _hold(self, message: TakeHold | Release) -> None:
        """Take the terminal or let go of it.

        Raises:
            InvalidState: `not_holder`: another viewer holds it, or this one takes no part.
        """
        process_id = self._view.process.process_id
        if self._view.hold is None:
            raise _not_holder("Viewers that take part say so in their address: hold=watch.")
        if isinstance(message, Release):
            self._holds.release(process_id, self)
        elif not self._holds.take(process_id, self, is_over=message.over):
            raise _not_holder()

    async def _do(self, message: ClientMessage) -> None:
        process, acting = self._view.process, self._view.acting
        match message:
            case ResizeMessage(rows=rows, cols=cols):
                await acting.control(process, ResizeWindow(rows=rows, cols=cols))
            case SendSignal(name=name, to=to):
                number = signal_number(name)
                await acting.control(
                    process, SignalProcess(signal=number, whole_tree=to == "tree", whole_group=to == "group")
                )
            case EndOfFile():
                await self._keyboard.flushed()
                await acting.control(process, CloseInput())
            case Where() | AckMessage() | LagBound() | TakeHold() | Release():
                raise AssertionError("this was answered before")

    def _report(self, about: str, error: OutliveError) -> None:
        """Send a notice that something did not happen, to a viewer that understands control messages."""
        self._engine.redaction.finish(error)
        self.output.notice(Notice(reason=error.code, message=error.message, about=about))
        self._follower.kick()

    def _finish(self) -> None:
        """End because the last message was returned."""
        self._close_code = _NORMAL
        self._ended.set()

    def _fail(self) -> None:
        """End after an unexpected error in the sender: the viewer connects again and continues at its
        cursor.
        """
        self._close_code = _INTERNAL_ERROR
        self._ended.set()

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        """Run `work` in this viewer's task group, until the viewer ends."""
        task = self._tasks.create_task(work)
        self._side.add(task)
        task.add_done_callback(self._side.discard)

    async def _close(self) -> None:
        """Close with the process's end as the reason, after all output.

        Does nothing when the viewer has left.
        """
        if self._close_code is None:
            return
        reason = _how(self._view.process.record) if self._close_code == _NORMAL else "continue at your cursor"
        with contextlib.suppress(TimeoutError, RuntimeError, WebSocketDisconnect):  # gone already, or stuck
            async with asyncio.timeout(_CLOSE_PATIENCE_S):
                await self._websocket.close(self._close_code, reason)


def _end_of(view: View) -> Cursor:
    """Return the end of the output now.

    At least the viewer's cursor, which may lie behind output that is held back.
    """
    log, cursor = view.log, view.cursor
    return Cursor(max(log.size(0), cursor.stdout), max(log.size(1), cursor.stderr))


def _read_only() -> AccessDenied:
    return AccessDenied(
        "scope_missing",
        "This viewer looks only: what it types and asks for is dropped.",
        hint="Leave out readonly=1.",
    )


def _not_holder(hint: str = "") -> InvalidState:
    return InvalidState("not_holder", "This viewer does not hold the terminal.", hint=hint)


def _how(record: ProcessRecord) -> str:
    """Return a close frame's reason (at most 123 bytes, RFC 6455, section 5.5)."""
    if record.exit_code is not None:
        return f"exited with {record.exit_code}"
    if record.exit_signal is not None:
        return f"ended by signal {record.exit_signal}"
    return f"ended: {record.state.value}"
