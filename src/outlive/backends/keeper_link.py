"""The connection to the keeper's supervisor: requests and replies by number, doorbells, reconnecting for
ever.

Owns the socket and what is unanswered; what requests mean is in `local`. The supervisor may die at any
moment: then this reconnects (it is back within some 50 ms; else `ensure` starts it) and sends again what may
be repeated.
"""

import array
import asyncio
import contextlib
import logging
import os
import socket
from collections import deque
from collections.abc import Callable
from typing import Self

from outlive.backends.contract import BackendListener
from outlive.core.errors import BackendUnavailable, OutliveError, error_from_slug
from outlive.core.events import KeeperBounds
from outlive.core.hints import MEANINGS
from outlive.core.layout import Layout
from outlive.core.values import dataclass, field
from outlive.kernel.lock_proof import rouse_keeper
from outlive.protocols.keeper import CANNOT_START, MAX_INLINE_BYTES, RECORD, decode_message, encode_message

_logger = logging.getLogger(__name__)

_RECEIVE_BYTES = 256 * 1024  # above the largest packet
_PACKETS_PER_TURN = 64  # then the loop's other work has its turn
_MAX_UNSENT = 1024  # requests that wait for room in the socket; more callers wait before they ask
_QUICK_TRIES = 20  # a supervisor that was killed is back within 20-100 ms (measured)
_QUICK_PAUSE_S = 0.005
_PATIENCE_S = 1.0  # between attempts to start a keeper that does not start
_HELLO_S = 15.0  # the guardian replaces a hung supervisor within 5 s; then the socket ends
_LATE_S = 1.0  # from a request to the first doubt about the keeper
_DOORBELL = ord("D")
# A supervisor that lives answers within a few ms; one that is stopped, or still being started, is not waited
# for.
_SILENCE_S = 0.25


Reply = dict[str, object]
Settle = Callable[[Reply | OutliveError], None]


@dataclass(eq=False, slots=True, kw_only=True)
class KeeperRequest:
    """One question; `future` is what its caller waits for, `settle` is called even if no caller waits any
    more. `sent_with` travels with it, and its caller closes it.
    """

    number: int
    message: Reply = field(repr=False)
    payload: bytes | memoryview = field(repr=False)
    future: asyncio.Future[Reply]
    is_repeatable: bool
    settle: Settle | None
    sent_with: socket.socket | None
    asked_at: float
    is_sent: bool = False
    timer: asyncio.TimerHandle | None = None

    def finish(self, outcome: Reply | OutliveError) -> None:
        """Hand over the outcome."""
        if self.timer is not None:
            self.timer.cancel()
        if not self.future.done():  # a cancelled caller has cancelled it
            if isinstance(outcome, OutliveError):
                self.future.set_exception(outcome)
            else:
                self.future.set_result(outcome)
        if self.settle is not None:
            self.settle(outcome)


@dataclass(eq=False, slots=True, kw_only=True)
class Unanswered:
    """One entry for each waiting caller, and those of cancelled callers until their deadline: numbers,
    deadlines, what happens when the keeper restarts. Touches no socket.

    `late` is called once a second while one of them waits for longer than that. `trouble` is why the keeper
    cannot be reached, `is_reachable` whether it can.
    """

    late: Callable[[], None]
    trouble: OutliveError | None = field(default=None, init=False)
    is_reachable: bool = field(default=False, init=False)
    _requests: dict[int, KeeperRequest] = field(default_factory=dict, init=False)
    _number: int = field(default=0, init=False)
    _watch: asyncio.TimerHandle | None = field(default=None, init=False)  # one for the oldest

    def __contains__(self, request: KeeperRequest) -> bool:
        """Tell whether `request` still waits for its answer."""
        return request.number in self._requests

    def add(
        self,
        message: Reply,
        payload: bytes | memoryview,
        *,
        deadline_s: float,
        is_repeatable: bool,
        settle: Settle | None = None,
        sent_with: socket.socket | None = None,
    ) -> KeeperRequest:
        """Enter a question; after `deadline_s` it is answered with an error and forgotten."""
        loop = asyncio.get_running_loop()
        self._number += 1
        request = self._requests[self._number] = KeeperRequest(
            number=self._number,
            message={**message, "req": self._number},
            payload=payload,
            future=loop.create_future(),
            is_repeatable=is_repeatable,
            settle=settle,
            sent_with=sent_with,
            asked_at=loop.time(),
        )
        request.timer = loop.call_later(deadline_s, self._expire, request, deadline_s)
        if self._watch is None:
            self._watch = loop.call_later(_LATE_S, self._look)
        return request

    def _look(self) -> None:
        self._watch = None
        if (oldest := next(iter(self._requests.values()), None)) is None:
            return
        loop = asyncio.get_running_loop()
        rest_s = oldest.asked_at + _LATE_S - loop.time()
        if rest_s <= 0:
            self.late()
            rest_s = _LATE_S
        self._watch = loop.call_later(rest_s, self._look)

    def forget(self, request: KeeperRequest) -> None:
        """Drop a question without an outcome."""
        self._requests.pop(request.number, None)

    def answer(self, packet: bytes) -> None:
        """Take over a reply; one whose question is forgotten is dropped.

        Raises:
            ValueError: The packet is no message.
        """
        reply, _ = decode_message(packet)
        number = reply.get("req")
        request = self._requests.pop(number, None) if isinstance(number, int) else None
        if request is None:
            return
        if reply.get("ok"):
            request.finish(reply)
            return
        details = reply.get("details")
        request.finish(
            error_from_slug(
                str(reply.get("error")),
                str(reply.get("message", "The keeper refused.")),
                details=details if isinstance(details, dict) else None,
            )
        )

    def outstanding(self) -> list[KeeperRequest]:
        """Return all of them in the order in which they were asked."""
        return list(self._requests.values())

    def fail_unrepeatable(self) -> None:
        """Fail what was sent to a keeper that died and cannot be repeated.

        The rest waits for the next one.
        """
        for request in self.outstanding():
            if request.is_sent and not request.is_repeatable:
                self._fail(
                    request,
                    BackendUnavailable(
                        "keeper_restarted", "The keeper restarted before it answered this request."
                    ),
                )

    def fail_vain(self) -> None:
        """Fail all of them if waiting is in vain: no keeper comes back into a folder that is gone."""
        if self.trouble is not None and self.trouble.code == "folder_gone":
            self.fail_all(self.trouble)

    def fail_all(self, error: OutliveError) -> None:
        """Answer all of them with `error`."""
        for request in self.outstanding():
            self._fail(request, error)

    def silence(self, deadline_s: float) -> OutliveError:
        """Return the error for a question that was not answered in time."""
        if self.trouble is not None:
            return self.trouble
        if not self.is_reachable:
            text = f"The keeper could not be reached for {deadline_s:.0f} s."
            return BackendUnavailable("keeper_unavailable", text)
        return BackendUnavailable("timeout", f"The keeper did not answer within {deadline_s:.0f} s.")

    def _expire(self, request: KeeperRequest, deadline_s: float) -> None:
        if request.message.get("op") == "stop":
            # What was to end ends, however late the keeper answers, and whichever supervisor does.
            request.finish(self.silence(deadline_s))
        else:
            self._fail(request, self.silence(deadline_s))

    def _fail(self, request: KeeperRequest, error: OutliveError) -> None:
        if self._requests.pop(request.number, None) is not None:
            request.finish(_of_start(request, error) if isinstance(error, BackendUnavailable) else error)


def _of_start(request: KeeperRequest, error: BackendUnavailable) -> BackendUnavailable:
    """Return the error for a caller; nothing that was sent to be started is to be started again unseen."""
    if request.message.get("op") != "start" or not request.is_sent:
        return error
    process_id = request.message["id"]
    hint = f"It may run, as {process_id}: look at it before you start it again."
    return BackendUnavailable(
        error.code, error.message, hint=hint, details={**error.details, "process_id": process_id}
    )


class KeeperLink:
    """Talks to the supervisor as role "server".

    `async with` keeps it connected; only the loop's thread uses it.

    When the socket is full, requests wait in the order they were asked; beyond 1024 callers wait before they
    ask.
    """

    def __init__(
        self,
        root: str,
        *,
        listener: BackendListener,
        connect: Callable[[], socket.socket],
        ensure: Callable[[], None],
    ) -> None:
        """Take the parts.

        Args:
            root: The state folder; a keeper of another folder at its path is not ours.
            listener: Is notified of connections and doorbells; `link_opened` comes before anything is read
                from a new connection.
            connect: Returns a connected, non-blocking SEQPACKET socket.
            ensure: Starts the keeper; blocks.
        """
        self._root = root
        self._identity: tuple[int, int] | None = None
        self._listener = listener
        self._connect = connect
        self._ensure = ensure
        self._view = memoryview(bytearray(_RECEIVE_BYTES))
        self._socket: socket.socket | None = None
        self._lost, self._was_ready = asyncio.Event(), asyncio.Event()
        self._is_there, self._has_room = asyncio.Event(), asyncio.Event()
        self._unanswered = Unanswered(late=self._rouse)
        self._unsent: deque[KeeperRequest] = deque()
        self._hello: KeeperRequest | None = None
        self._task: asyncio.Task[None] | None = None
        self._rousing: asyncio.Future[None] | None = None
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Begin connecting; `wait_ready` tells when it is done."""
        self._has_room.set()
        self._identity = await asyncio.to_thread(identity_of, self._root)
        group = await self._stack.enter_async_context(asyncio.TaskGroup())
        self._task = group.create_task(self._keep_connected(), name="keeper link")
        return self

    async def __aexit__(self, *_exception: object) -> None:
        """Disconnect; what is unanswered fails."""
        if self._task is not None:
            self._task.cancel()
        await self._stack.aclose()
        self._unanswered.fail_all(BackendUnavailable("keeper_unavailable", "The server is being stopped."))

    async def wait_ready(self, deadline_s: float) -> None:
        """Return when the supervisor has answered, or has been silent for 0.25 s.

        Else raise `BackendUnavailable`.
        """
        await _wait(self._is_there, deadline_s, self._unanswered)
        trouble = self._unanswered.trouble
        if trouble is not None and trouble.details.get("reason") == CANNOT_START:
            raise trouble

    async def request(
        self,
        message: Reply,
        payload: bytes | memoryview = b"",
        *,
        deadline_s: float,
        is_repeatable: bool,
        settle: Settle | None = None,
        sent_with: socket.socket | None = None,
    ) -> Reply:
        """Ask and return the reply.

        Args:
            message: The request without its number.
            payload: Raw bytes; more than a packet holds travels in a memfd.
            deadline_s: After so long the request is forgotten.
            is_repeatable: Send it again when the supervisor dies before it has answered.
            settle: Called once with the outcome, in the order of the packets, also when the caller was
                cancelled.
            sent_with: A socket that travels with the request; it stays the caller's, which closes it.

        Raises:
            OutliveError: What the supervisor answered; `keeper_restarted` for a request that cannot be
                repeated; `keeper_unavailable` or `timeout` when nothing came within the deadline.
        """
        if not self._has_room.is_set():
            await _wait(self._has_room, deadline_s, self._unanswered)
        request = self._unanswered.add(
            message,
            payload,
            deadline_s=deadline_s,
            is_repeatable=is_repeatable,
            settle=settle,
            sent_with=sent_with,
        )
        if self._unanswered.is_reachable:
            self._send(request)
        else:
            self._unanswered.fail_vain()
        return await request.future

    def tell(self, message: Reply, payload: bytes | memoryview, *, deadline_s: float) -> None:
        """Ask without waiting for the reply, once: for a caller that is being cancelled."""
        request = self._unanswered.add(message, payload, deadline_s=deadline_s, is_repeatable=False)
        request.future.cancel()
        if self._unanswered.is_reachable:
            self._send(request)

    def _rouse(self) -> None:
        self._rousing = asyncio.get_running_loop().run_in_executor(None, rouse_keeper, Layout(self._root))

    # -- sending

    def _send(self, request: KeeperRequest) -> bool:
        """Send now, or once the socket has room, in the order of the calls; False: it waits.

        What meets a dead socket waits among the unanswered, for the next connection.
        """
        if self._socket is None:
            return True
        if not self._unsent:  # otherwise what waits was asked before
            try:
                if request.sent_with is not None or len(request.payload) > MAX_INLINE_BYTES:
                    _send_with_descriptor(self._socket, request)
                else:
                    self._socket.send(encode_message(request.message, request.payload), socket.MSG_NOSIGNAL)
            except BlockingIOError:
                pass  # the socket is full
            except OSError:
                self._lose()
                return True
            else:
                request.is_sent = True
                return True
        self._unsent.append(request)
        if len(self._unsent) >= _MAX_UNSENT:
            self._has_room.clear()
        asyncio.get_running_loop().add_writer(self._socket.fileno(), self._writable)
        return False

    def _writable(self) -> None:
        waiting, self._unsent = self._unsent, deque()
        while waiting:
            request = waiting.popleft()
            if request in self._unanswered and not self._send(request):
                self._unsent.extend(waiting)
                return
        self._has_room.set()
        if self._socket is not None:
            asyncio.get_running_loop().remove_writer(self._socket.fileno())

    # -- receiving

    def _readable(self) -> None:
        # Nothing may leave this callback as an exception: the stream would stop for ever, in silence.
        try:
            for _ in range(_PACKETS_PER_TURN):
                if self._socket is None:
                    return
                if not (size := self._socket.recv_into(self._view)):
                    self._lose()
                    return
                if self._view[0] == _DOORBELL:
                    # The records are valid during the call only: the next packet overwrites them.
                    self._listener.ring(RECORD.iter_unpack(self._view[1:size]))
                else:
                    self._unanswered.answer(bytes(self._view[:size]))
        except BlockingIOError:
            return
        except OSError:
            self._lose()
        except Exception:
            _logger.exception("a packet of the keeper could not be taken")

    def _lose(self) -> None:
        """Take note that the connection has ended; `_serve` cleans up."""
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket.fileno())
        self._lost.set()
        if self._hello is not None:
            self._unanswered.forget(self._hello)
            self._hello.finish(BackendUnavailable("keeper_restarted", "The keeper restarted."))

    # -- connecting

    async def _keep_connected(self) -> None:
        while True:
            try:
                await self._serve(await self._connected())
            except Exception:
                _logger.exception("the link to the keeper failed; it is built anew")
                await asyncio.sleep(_PATIENCE_S)

    async def _connected(self) -> socket.socket:
        """Return a connected socket, however long that takes."""
        loop = asyncio.get_running_loop()
        tries = _QUICK_TRIES if self._was_ready.is_set() else 0
        while True:
            trouble: OutliveError
            try:
                if await loop.run_in_executor(None, identity_of, self._root) != self._identity:
                    raise BackendUnavailable("folder_gone", MEANINGS["folder_gone"])
                with contextlib.suppress(FileNotFoundError, ConnectionRefusedError, BlockingIOError):
                    return self._connect()
                if tries > 0:
                    tries -= 1
                    await asyncio.sleep(_QUICK_PAUSE_S)
                    continue
                await loop.run_in_executor(None, self._ensure)
                return self._connect()
            except OutliveError as error:
                trouble = error
            except OSError as error:
                text = f"The keeper cannot be started: {error.strerror or error}."
                trouble = BackendUnavailable("keeper_unavailable", text)
            self._unanswered.trouble = trouble
            self._unanswered.fail_vain()
            _logger.warning("the keeper cannot be reached: %s", trouble.message)
            if trouble.details.get("reason") == CANNOT_START:  # nothing comes of waiting
                self._unanswered.fail_all(trouble)
                self._is_there.set()
            await asyncio.sleep(_PATIENCE_S)

    async def _serve(self, connection: socket.socket) -> None:
        """Use one connection until it ends."""
        loop = asyncio.get_running_loop()
        silence = loop.call_later(_SILENCE_S, self._is_there.set)
        self._lost.clear()
        self._socket = connection
        try:
            self._listener.link_opened()
            loop.add_reader(connection.fileno(), self._readable)
            if await self._greet(silence):
                await self._lost.wait()
        finally:
            silence.cancel()
            loop.remove_reader(connection.fileno())
            loop.remove_writer(connection.fileno())
            self._socket = None
            connection.close()
            self._unsent.clear()
            self._has_room.set()
            self._unanswered.fail_unrepeatable()
            was_reachable, self._unanswered.is_reachable = self._unanswered.is_reachable, False
            if was_reachable and self._lost.is_set():  # not when the server itself hangs up
                self._listener.link_closed()

    async def _greet(self, silence: asyncio.TimerHandle) -> bool:
        """Say hello and, once answered, send what was left unanswered; False when no answer comes."""
        message: Reply = {"op": "hello", "role": "server", "pid": os.getpid()}
        hello = self._hello = self._unanswered.add(message, b"", deadline_s=_HELLO_S, is_repeatable=False)
        self._send(hello)
        try:
            reply = await hello.future
        except OutliveError as error:
            if error.code == "inside_process":  # and stays so: a command of ours may not drive the keeper
                silence.cancel()
                self._unanswered.trouble = error
                await asyncio.sleep(_PATIENCE_S)
            return False
        finally:
            self._hello = None
            self._unanswered.forget(hello)
        self._unanswered.trouble = None
        self._unanswered.is_reachable = True
        self._was_ready.set()
        self._is_there.set()
        for request in self._unanswered.outstanding():
            self._send(request)
        supervisor = reply.get("supervisor")
        pid = supervisor.get("pid") if isinstance(supervisor, dict) else None
        sessions = reply.get("sessions")
        known = tuple(one for one in sessions if isinstance(one, int)) if isinstance(sessions, list) else ()
        self._listener.link_ready(pid if isinstance(pid, int) else 0, known, _bounds_in(reply))
        return True


def identity_of(root: str) -> tuple[int, int] | None:
    """Return device and inode of a state folder; None where there is none."""
    try:
        found = os.stat(root)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _bounds_in(reply: Reply) -> KeeperBounds | None:
    match reply.get("bounds"):
        case [int(filters), int(locks), [*namespaces]]:
            return filters, locks, tuple(one if isinstance(one, str) else None for one in namespaces)
    return None


async def _wait(event: asyncio.Event, deadline_s: float, unanswered: Unanswered) -> None:
    try:
        async with asyncio.timeout(deadline_s):
            await event.wait()
    except TimeoutError:
        raise unanswered.silence(deadline_s) from None


def _send_with_descriptor(connection: socket.socket, request: KeeperRequest) -> None:
    """Send a request with the socket that travels with it, or with its payload in a memory file
    (memfd_create(2)).
    """
    if request.sent_with is not None:
        fd = request.sent_with.fileno()
        # -1: its caller has gone, and has closed it.
        _send_with(connection, encode_message(request.message), [fd] if fd >= 0 else [])
        return
    payload = request.payload
    fd = os.memfd_create("outlive-start", os.MFD_CLOEXEC)
    try:
        offset = 0
        # Memory only, some 0.5 ms a megabyte; pwrite leaves the shared offset at 0.
        while offset < len(payload):
            offset += os.pwrite(fd, payload[offset:] if offset else payload, offset)
        _send_with(connection, encode_message({**request.message, "in_fd": True}), [fd])
    finally:
        os.close(fd)


def _send_with(connection: socket.socket, packet: bytes, fds: list[int]) -> None:
    ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    connection.sendmsg([packet], ancillary, socket.MSG_NOSIGNAL)
