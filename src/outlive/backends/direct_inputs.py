"""Inputs in full flow, written by the server itself: `DirectInputs`, pipes that the keeper has given it.

Every byte that goes through the keeper costs it a message, and the writer two more changes of process for
each piece. So the keeper gives the server a descriptor of the pipe itself, as long as nothing waits there (op
"input"). It is given back soon after the last write, and before the input is closed: a reader sees the end of
its input only when every writer has closed it (pipe(7)).

What must not be lost with the server is not kept here: bytes that a process does not read are handed to the
keeper.
"""

import asyncio
import contextlib
import fcntl
import os
import socket

from outlive.backends.keeper_link import KeeperLink, Reply
from outlive.core.errors import BackendUnavailable, InvalidState
from outlive.core.identity import ProcessId
from outlive.core.values import dataclass, field

PIECE_BYTES = (
    64 * 1024
)  # of an input in one packet to the keeper: larger ones would travel in files of their own
_MAX_HELD = 64  # pipes, of the descriptors that the server may have; further inputs go through the keeper
_LINGER_S = (
    1.0  # how long after its last write a pipe is kept: a descendant may wait for the end of its input
)
_ANSWER_S = 15.0
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
                    message, deadline_s=_ANSWER_S, is_repeatable=True, sent_with=theirs
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
                {"op": "write", "id": process_id}, rest[at : at + PIECE_BYTES], deadline_s=_ANSWER_S
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
