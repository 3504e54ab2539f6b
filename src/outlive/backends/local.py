"""This machine as a place of execution: the operations of the keeper's local protocol as a `Backend`.

Every byte that goes through the keeper costs it a message, and the writer two more changes of process for
each piece. So for input in full flow the keeper gives the server a descriptor of the pipe itself
(`DirectInputs`), as long as nothing waits there (op "input"). It is given back soon after the last write, and
before the input is closed: a reader sees the end of its input only when every writer has closed it (pipe(7)).
Bytes that a process does not read are handed to the keeper: they must not be lost with the server.
"""

import asyncio
import contextlib
import fcntl
import functools
import os
import socket
from collections.abc import Callable, Mapping, Sequence

from outlive.backends.contract import BackendListener, NodeState, StartOutcome, unknown_backend
from outlive.backends.keeper_link import KeeperLink, Reply
from outlive.backends.tree_inspection import input_wait, observe_trees, window_size
from outlive.core.controls import (
    CloseInput,
    Operation,
    ReleaseOutput,
    SignalProcess,
    Stop,
)
from outlive.core.errors import BackendUnavailable, InvalidState, LimitExceeded, OutliveError
from outlive.core.identity import ProcessId
from outlive.core.layout import Layout
from outlive.core.location import LOCAL, Kind
from outlive.core.process import InputWait, Observation
from outlive.core.values import dataclass, field
from outlive.protocols.keeper import CauseCode

PIECE_BYTES = (
    64 * 1024
)  # of an input in one packet to the keeper: larger ones would travel in files of their own
_MAX_HELD = 64  # pipes, of the descriptors that the server may have; further inputs go through the keeper
_LINGER_S = (
    1.0  # how long after its last write a pipe is kept: a descendant may wait for the end of its input
)
_INPUT_S = 15.0
_LEFT_TO_THE_KEEPER = {"process_ended", "timeout"}  # the write itself then says what is wrong
# with a process that does not read: then what is left waits where it outlives the server, and its end is seen
_PATIENCE_S = 1.0
_BUSY_PIPE_BYTES = 1024 * 1024  # one of the usual 64 KiB would wake the writer for each piece
# A reader takes 32 KiB or so at a time and makes room for as much: it has a megabyte still, and we write more
# at once.
_MORE_ROOM_S = 0.001


@dataclass(eq=False, slots=True)
class _Pipe:
    """The writing end of one process's input; `used_at` is the loop's time of its last write."""

    fd: int
    used_at: float = field(default=0.0, init=False)
    is_busy: bool = field(default=False, init=False)
    is_large: bool = field(default=False, init=False)

    def widen(self) -> None:
        """Make room for much, once.

        Where the user's pipes hold too much already (pipe(7)) it stays as it is.
        """
        if not self.is_large:
            with contextlib.suppress(OSError):
                fcntl.fcntl(self.fd, fcntl.F_SETPIPE_SZ, _BUSY_PIPE_BYTES)
                self.is_large = True


@dataclass(eq=False, slots=True)
class DirectInputs:
    """The pipes that the server writes to just now.

    Only the loop's thread uses it; one writer at a time for each process.
    """

    link: KeeperLink
    _held: dict[ProcessId, _Pipe] = field(default_factory=dict, init=False)
    _sweeper: asyncio.TimerHandle | None = field(default=None, init=False)

    def holds(self, process_id: ProcessId) -> bool:
        """Tell whether a write to this process needs no question."""
        return process_id in self._held

    async def write(self, process_id: ProcessId, data: bytes | memoryview) -> int:
        """Write to the input and return how many bytes went in.

        The rest is the keeper's, in whose hands it may wait.

        Less than all: there is no pipe to be had, or the process does not read.

        Raises:
            InvalidState: `stdin_closed`: nothing reads there any more.
            BackendUnavailable: The keeper does not answer.

        Cancellation: what has not gone in is handed to the keeper, and goes in.
        """
        try:
            pipe = self._held.get(process_id) or await self._ask(process_id)
        except asyncio.CancelledError:
            self._hand_over(process_id, memoryview(data))
            raise
        if pipe is None:
            return 0
        pipe.used_at = asyncio.get_running_loop().time()
        pipe.is_busy = True
        view = memoryview(data)
        try:
            while view := view[_write(pipe.fd, view) :]:
                if len(data) >= PIECE_BYTES:  # what is short waits until there is room
                    pipe.widen()
                async with asyncio.timeout(_PATIENCE_S):
                    await _writable(pipe.fd)
                if pipe.is_large:
                    await asyncio.sleep(_MORE_ROOM_S)
        except TimeoutError:
            self.drop(process_id)
        except asyncio.CancelledError:
            self.drop(process_id)
            self._hand_over(process_id, view)
            raise
        except OSError as error:  # EPIPE
            self.drop(process_id)
            text = "The process ended before it read its input."
            raise InvalidState("stdin_closed", text) from error
        finally:
            pipe.is_busy = False
        return len(data) - len(view)

    def drop(self, process_id: ProcessId) -> None:
        """Give a pipe back, if it is held: the keeper has one of its own."""
        pipe = self._held.pop(process_id, None)
        if pipe is not None:
            os.close(pipe.fd)

    def close(self) -> None:
        """Give all of them back."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        for process_id in list(self._held):
            self.drop(process_id)

    async def _ask(self, process_id: ProcessId) -> _Pipe | None:
        """Return a pipe that the keeper gives; None when it gives none: a terminal, or something waits there
        already.

        The descriptor comes over a socket made for it, so that the connection to the keeper need not look for
        any.
        """
        if len(self._held) >= _MAX_HELD:
            return None
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours, theirs:
            ours.settimeout(0.0)
            message: Reply = {"op": "input", "id": process_id}
            try:
                reply = await self.link.request(
                    message, deadline_s=_INPUT_S, is_repeatable=True, sent_with=theirs
                )
            except (InvalidState, BackendUnavailable) as error:
                if error.code not in _LEFT_TO_THE_KEEPER:
                    raise
                return None
            if not reply.get("given"):
                return None
            try:
                _, fds, _, _ = socket.recv_fds(ours, 1, 1, socket.MSG_CMSG_CLOEXEC)
            except OSError:
                return None
        if not fds:  # we have no room for another descriptor
            return None
        pipe = self._held[process_id] = _Pipe(fds[0])
        pipe.used_at = asyncio.get_running_loop().time()
        self._sweep()
        return pipe

    def _hand_over(self, process_id: ProcessId, rest: memoryview) -> None:
        for at in range(0, len(rest), PIECE_BYTES):
            self.link.tell(
                {"op": "write", "id": process_id}, rest[at : at + PIECE_BYTES], deadline_s=_INPUT_S
            )

    def _sweep(self) -> None:
        """Give back what was not written to for a while, and come back as long as something is held."""
        loop = asyncio.get_running_loop()
        before = loop.time() - _LINGER_S
        idle = [one for one, pipe in self._held.items() if not pipe.is_busy and pipe.used_at <= before]
        for process_id in idle:
            self.drop(process_id)
        if self._sweeper is not None:
            self._sweeper.cancel()
        self._sweeper = loop.call_later(_LINGER_S, self._sweep) if self._held else None


def _write(fd: int, view: memoryview) -> int:
    try:
        return os.write(fd, view)
    except BlockingIOError:
        return 0


async def _writable(fd: int) -> None:
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    loop.add_writer(fd, _settle, ready)
    try:
        await ready
    finally:
        loop.remove_writer(fd)


def _settle(ready: "asyncio.Future[None]") -> None:
    if not ready.done():
        ready.set_result(None)


# From here on an input is worth a pipe of the server's own; what is typed is not.
_DIRECT_BYTES = 16 * 1024
_CONNECT_S = 20.0
# A hung supervisor is replaced by the guardian within 5 s and the request is sent again: time for both.
_START_S = 25.0
_OFFERS_S = 25.0  # longer than trying may take
_ANSWER_S = 15.0
_WRITE_S = 30.0  # how long a process may leave its input unread before the writer is told


class LocalBackend:
    """The keeper of one state folder.

    The two callables are handed in: they belong to the keeper's own package.
    """

    def __init__(
        self,
        state_dir: str,
        *,
        connect_unix: Callable[[str], socket.socket],
        ensure_keeper: Callable[[str], None],
    ) -> None:
        self._layout = Layout(state_dir)
        self._connect = functools.partial(connect_unix, self._layout.keeper_socket)
        self._ensure = functools.partial(ensure_keeper, state_dir)
        self._stack = contextlib.AsyncExitStack()
        self._link: KeeperLink | None = None
        self._inputs: DirectInputs | None = None

    def kind_of(self, backend: str) -> Kind:
        """Return the kind of this machine, for its own name.

        Raises:
            InvalidRequest: It is another one.
        """
        if backend != LOCAL:
            raise unknown_backend(backend, [LOCAL])
        return "local"

    async def open(self, listener: BackendListener) -> None:
        """Connect, starting the keeper when no process listens.

        Returns when it answers, or is there and silent.

        Raises:
            BackendUnavailable: It did not within 20 s.
        """
        root = self._layout.root
        link = KeeperLink(root, listener=listener, connect=self._connect, ensure=self._ensure)
        await self._stack.enter_async_context(link)
        self._link = link
        self._inputs = DirectInputs(link)
        try:
            await link.wait_ready(_CONNECT_S)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Disconnect; what runs goes on."""
        if self._inputs is not None:
            self._inputs.close()
        self._link = self._inputs = None
        await self._stack.aclose()

    async def start(
        self,
        process_id: ProcessId,
        spec: bytes,
        script: bytes,
        *,
        settle: Callable[[StartOutcome | OutliveError], None],
        secrets: Mapping[str, str] | None = None,
        backend: str = LOCAL,  # noqa: ARG002 - there is one here
    ) -> StartOutcome:
        """Start a command once (see `Backend.start`), here or in a container."""
        started: list[StartOutcome] = []  # once it is settled; then the request returns

        def settled(outcome: Reply | OutliveError) -> None:
            if isinstance(outcome, OutliveError):
                settle(outcome)
                return
            pid, started_ns = int(str(outcome["pid"])), int(str(outcome["started_ns"]))
            is_existing = bool(outcome.get("existing"))
            started.append(StartOutcome(pid=pid, started_ns=started_ns, is_existing=is_existing))
            settle(started[0])

        message: Reply = {"op": "start", "id": process_id, "spec_bytes": len(spec)}
        if secrets:  # not in the payload: all of that is written to disk
            message["secrets"] = dict(secrets)
        await _opened(self._link).request(
            message, spec + script, deadline_s=_START_S, is_repeatable=True, settle=settled
        )
        return started[0]

    async def control(
        self,
        process_id: ProcessId,
        operation: Operation,
        *,
        acknowledged: Callable[[], None] | None = None,
    ) -> None:
        """Have the keeper carry out an operation."""
        if isinstance(operation, CloseInput) and self._inputs is not None:
            self._inputs.drop(process_id)

        def settled(outcome: Reply | OutliveError) -> None:
            if acknowledged is not None and not isinstance(outcome, OutliveError):
                acknowledged()

        await _opened(self._link).request(
            {"id": process_id, **_words(operation)},
            deadline_s=_ANSWER_S,
            is_repeatable=not isinstance(operation, SignalProcess),
            settle=settled,
        )

    async def write(self, process_id: ProcessId, data: bytes | memoryview) -> None:
        """Write to the input; never repeated.

        Much of it goes straight into the pipe, the rest through the keeper.
        """
        written = 0
        inputs = self._inputs
        if inputs is not None and (len(data) >= _DIRECT_BYTES or inputs.holds(process_id)):
            written = await inputs.write(process_id, data)
        if written < len(data) or not data:
            await self._write_there(process_id, data[written:], written)

    async def _write_there(self, process_id: ProcessId, data: bytes | memoryview, written: int) -> None:
        """Have the keeper write what follows `written` bytes.

        Pieces do not wait for each other: it takes them in order.
        """
        pieces = [data[at : at + PIECE_BYTES] for at in range(0, len(data), PIECE_BYTES)]
        if len(pieces) > 1:
            outcomes = await asyncio.gather(*(self._write(process_id, piece) for piece in pieces))
        else:  # sent before anything else that the caller asks for next
            outcomes = [await self._write(process_id, data)]
        waiting = 0
        failed: OutliveError | None = None
        for piece, outcome in zip(pieces, outcomes, strict=True):
            if outcome is None:
                written += len(piece)
            elif isinstance(outcome, BackendUnavailable) and outcome.code == "timeout":
                waiting += len(piece)
            else:
                failed = failed or outcome
        if isinstance(failed, LimitExceeded):
            raise LimitExceeded(
                failed.code, failed.message, hint=failed.hint, details=_counted(written, waiting)
            ) from failed
        if failed is not None:
            raise failed
        if waiting:
            raise LimitExceeded(
                "stdin_full",
                (
                    f"The process has not read all of its input for {_WRITE_S:.0f} s; these bytes still wait "
                    "for it."
                ),
                details=_counted(written, waiting),
            )

    async def _write(self, process_id: ProcessId, piece: bytes | memoryview) -> OutliveError | None:
        """Write one piece and return why it failed, None when it is in."""
        message: Reply = {"op": "write", "id": process_id}
        try:
            await _opened(self._link).request(message, piece, deadline_s=_WRITE_S, is_repeatable=False)
        except OutliveError as error:
            return error
        return None

    async def observe(self, process_ids: Sequence[ProcessId], *, has_stdin: bool) -> list[Observation]:
        """Look at the trees, in one thread."""
        folders = [self._layout.process(one) for one in process_ids]
        return await asyncio.to_thread(observe_trees, folders, has_stdin=has_stdin)

    async def input_wait(self, process_id: ProcessId) -> InputWait | None:
        """Ask the kernel, in a thread."""
        return await asyncio.to_thread(input_wait, self._layout.process(process_id))

    async def window_size(self, process_id: ProcessId) -> tuple[int, int] | None:
        """Ask the kernel, in a thread."""
        return await asyncio.to_thread(window_size, self._layout.process(process_id))

    async def offers(self) -> str:
        """Return what the keeper has found out about bounds."""
        link = _opened(self._link)
        reply = await link.request({"op": "offers"}, deadline_s=_OFFERS_S, is_repeatable=True)
        return str(reply["found"])

    def nodes(self) -> dict[str, NodeState]:
        """Know of none."""
        return {}

    async def status(self) -> dict[str, object]:
        """Return what the supervisor says about itself."""
        return await _opened(self._link).request({"op": "status"}, deadline_s=_ANSWER_S, is_repeatable=True)


def _words(operation: Operation) -> Reply:
    """Return an operation in the words of the keeper's protocol: most are its verb and its members."""
    match operation:
        case Stop(cause=cause):
            members = {**operation.members(), "cause": int(CauseCode[cause.name])}
        case ReleaseOutput(stdout_bytes=stdout_bytes, stderr_bytes=stderr_bytes):
            members = {"out": stdout_bytes, "err": stderr_bytes}
        case _:
            members = operation.members()
    return {"op": operation.verb, **members}


def _counted(written: int, waiting: int) -> dict[str, int]:
    return {"written_bytes": written, "waiting_bytes": waiting}


def _opened(link: KeeperLink | None) -> KeeperLink:
    if link is None:
        raise BackendUnavailable("keeper_unavailable", "The server is not connected to the keeper.")
    return link
