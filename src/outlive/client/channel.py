"""One open connection and all callers that wait for something from it: `ClientConnection`.

No task and no thread is reserved for reading. One of the waiting callers reads, and wakes another when a
frame is meant for that one. While no caller waits, nothing is read, the socket fills, and the server waits:
that is the whole back-pressure.

`Conversation` decides what a frame means: requests and their answers, and the messages that were not taken
yet. It is pure: frames go in, values come out. Opening connections, and opening them again, belongs to
`link`.
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from outlive.client.messages import (
    Attached,
    Begun,
    Ended,
    FollowedMessage,
    OutputMissing,
    OutputPiece,
    ServerAnswer,
    ServerHello,
    encode_bytes,
    encode_request,
    read_frame,
)
from outlive.client.results import ProcessEvent
from outlive.client.runtime import ConnectionLost, Runtime, Transport, Unreachable, WakeEvent
from outlive.core.cursor import Cursor
from outlive.core.errors import BackendUnavailable, OutliveError, ProtocolViolation

FOLLOWER = 0  # stands for the caller that takes the messages of followed processes; requests count from 1

# Messages are kept while their follower does not take them, because another caller reads on to its own
# answer. Beyond this bound they are dropped, and the follower attaches again at its cursor: the output log is
# the queue.
_MAX_KEPT_BYTES = 4 * 1024 * 1024
_EVENT_BYTES = 4096  # the size that an event counts for: it carries the description of a process


class Conversation:
    """Requests by number, and the messages about followed processes and events that were not taken yet.

    Attributes:
        attached: The processes whose output is accepted now, for the last `attach` of each.
        is_listening: Whether events are accepted.
        has_left_out: Whether messages were dropped: ask again, once everything kept is taken.
    """

    def __init__(self) -> None:
        self.is_listening = self.has_left_out = False
        self.attached: set[str] = set()
        self._asked = FOLLOWER
        self._answers: dict[int, ServerAnswer | None] = {}
        self._attaching: dict[int, tuple[str, bool]] = {}  # the process, and whether beside others
        self._events_id: int | None = None
        self._messages: deque[FollowedMessage] = deque()
        self._kept_bytes = 0

    def ask(
        self, method: str, params: Mapping[str, object], data: bytes | memoryview = b""
    ) -> tuple[int, str | bytes]:
        """Return the number of a new request and its frame: text, or binary with bytes behind the JSON."""
        self._asked += 1
        self._answers[self._asked] = None
        if data:
            return self._asked, encode_bytes(self._asked, method, params, data)
        return self._asked, encode_request(self._asked, method, params)

    def ask_attach(
        self, process_id: str, cursor: Cursor, *, raw: bool = False, beside: bool = False
    ) -> tuple[int, str | bytes]:
        """Return the number and frame of an `attach` request: from its answer on, messages about the process
        are kept.

        Without `beside` nothing else is followed any more. With it, the answer is kept among the messages as
        well, in its order, since a caller could not tell otherwise whether an event is newer.
        """
        params: dict[str, object] = {"process_id": process_id, "cursor": str(cursor), "output": "binary"}
        if raw:
            params["raw"] = True
        asked = self.ask("attach", params)
        if not beside:
            self.drop_messages()
        # Messages of an earlier attach to it come before this one's answer, and are ignored.
        self.attached.discard(process_id)
        self._attaching = {number: one for number, one in self._attaching.items() if one[0] != process_id}
        self._attaching[asked[0]] = process_id, beside
        return asked

    def ask_events(self, params: Mapping[str, object]) -> tuple[int, str | bytes]:
        """Return the number and frame of an `events` request: from its answer on, events are kept."""
        asked = self.ask("events", params)
        self.drop_messages()
        self._events_id = asked[0]
        return asked

    def drop_messages(self) -> None:
        """Follow nothing any more."""
        self.is_listening = self.has_left_out = False
        self.attached.clear()
        self._attaching.clear()
        self._events_id = None
        self._messages.clear()
        self._kept_bytes = 0

    def answer(self, request_id: int) -> ServerAnswer | None:
        """Return the answer to a request, None as long as there is none."""
        return self._answers.get(request_id)

    def forget(self, request_id: int) -> None:
        """Drop a request whose caller no longer waits."""
        self._answers.pop(request_id, None)

    def next_message(self) -> FollowedMessage | None:
        """Take the oldest message; None when there is none."""
        if not self._messages:
            return None
        message = self._messages.popleft()
        self._kept_bytes -= _size(message)
        return message

    @property
    def has_message(self) -> bool:
        """Whether the follower has something to do."""
        return bool(self._messages) or self.has_left_out

    def take(self, frame: str | bytes) -> int | None:
        """Take in a frame; return the caller that it is for: a request's number, FOLLOWER, or None.

        Raises:
            ProtocolViolation: The frame does not come from an outlive server.
            OutliveError: The server ends the connection, for this reason.
        """
        message = read_frame(frame)
        match message:
            case ServerAnswer(request_id=None, error=error) if error is not None:
                raise error
            case ServerAnswer(request_id=request_id) if request_id in self._answers:
                return self._answered(request_id, message)
            case OutputPiece() | OutputMissing() | Ended():
                is_wanted = message.process_id in self.attached
            case Begun():
                is_wanted = self.is_listening and message.process_id in self.attached
            case ProcessEvent():
                is_wanted = self.is_listening
            case _:  # a greeting, an answer that nothing waits for, or nothing for this client
                return None
        if not is_wanted:
            return None
        self._keep(message)
        return FOLLOWER

    def _answered(self, request_id: int, answer: ServerAnswer) -> int:
        self._answers[request_id] = answer
        attached = self._attaching.pop(request_id, None)
        if attached is not None and answer.result is not None:
            # Recorded here and not when the caller wakes: the next frame may be output already.
            process_id, beside = attached
            self.attached.add(process_id)
            if beside:
                self._keep(Attached(process_id, answer.result))
        if request_id == self._events_id:
            self.is_listening = answer.error is None
        return request_id

    def _keep(self, message: FollowedMessage) -> None:
        size = _size(message)
        if self.has_left_out or (self._messages and self._kept_bytes + size > _MAX_KEPT_BYTES):
            self.has_left_out = True
            return
        self._messages.append(message)
        self._kept_bytes += size


def _size(message: FollowedMessage) -> int:
    if isinstance(message, OutputPiece):
        return len(message.data)
    return _EVENT_BYTES if isinstance(message, ProcessEvent | Attached) else 1


_GREETING_S = 30.0  # a server that has just started finds its running processes first


class ClientConnection:
    """Requests with their answers, and the messages about the followed processes or events.

    Attributes:
        hello: The server's first message.
    """

    def __init__(self, wire: Transport, world: Runtime, hello: ServerHello) -> None:
        self.hello = hello
        self._wire = wire
        self._world = world
        self._conversation = Conversation()
        # Held for moments only: several threads may wait here (coroutines need no lock, and have none).
        self._lock = world.lock()
        self._wake_events: dict[int, WakeEvent] = {}
        self._is_read = False  # whether a caller reads now
        self._end: Exception | None = None

    async def request(
        self,
        method: str,
        params: Mapping[str, object],
        *,
        answer_s: float,
        data: bytes | memoryview = b"",
    ) -> Mapping[str, Any]:
        """Send a request, with bytes behind it if there are any, and return its result.

        Raises:
            ConnectionLost: The connection ended before the answer came.
            BackendUnavailable: `timeout`, no answer came within `answer_s` seconds.
            OutliveError: What the server answered.

        Cancellation: safe; what was asked for may be done all the same.
        """
        return await self.answer_to(await self.send(method, params, data), answer_s=answer_s)

    async def send(self, method: str, params: Mapping[str, object], data: bytes | memoryview = b"") -> int:
        """Send a request, with bytes behind it if there are any; return its number, for `answer_to`.

        Raises ConnectionLost.
        """
        with self._lock:
            request_id, frame = self._conversation.ask(method, params, data)
        await self._wire.send(frame)
        return request_id

    async def write(self, process_id: str, data: memoryview, *, answer_s: float) -> int:
        """Write the beginning of `data` to a process's input and return how many bytes that was.

        Raises:
            LimitExceeded: `stdin_full`: the details count the bytes written, and those that wait in the
            keeper. Everything that `request` raises, too.

        Cancellation: bytes that were sent may be written all the same.
        """
        piece = data[: self.hello.input_bytes]
        await self.request("write", {"process_id": process_id}, data=piece, answer_s=answer_s)
        return len(piece)

    async def attach(
        self, process_id: str, cursor: Cursor, *, answer_s: float, raw: bool = False, beside: bool = False
    ) -> Mapping[str, Any]:
        """Follow a process from `cursor` on, and nothing else, and return it.

        Messages that were not taken yet are dropped.

        With `beside` everything that is followed already goes on, and its messages stay.

        Raises what `request` raises. Cancellation: attach again.
        """
        with self._lock:
            request_id, frame = self._conversation.ask_attach(process_id, cursor, raw=raw, beside=beside)
        await self._wire.send(frame)
        return await self.answer_to(request_id, answer_s=answer_s)

    @property
    def followed(self) -> set[str]:
        """The ids of the processes whose messages are passed on.

        One whose start asks for them is added by its caller.
        """
        return self._conversation.attached

    async def listen(self, params: Mapping[str, object], *, answer_s: float) -> None:
        """Receive events from now on, and no process's output; messages that were not taken yet are dropped.

        Raises what `request` raises. Cancellation: listen again.
        """
        with self._lock:
            request_id, frame = self._conversation.ask_events(params)
        await self._wire.send(frame)
        await self.answer_to(request_id, answer_s=answer_s)

    async def next_message(self) -> FollowedMessage | None:
        """Return the next message about the followed process, or the next event, however long that takes.

        For one caller at a time. None: messages were dropped, because too many came before an answer that
        another caller waited for. Attach again at the cursor.

        Raises:
            ConnectionLost: The connection has ended.

        Cancellation: safe; nothing is lost.
        """
        await self._read_until(FOLLOWER, lambda: self._conversation.has_message, None)
        with self._lock:
            return self._conversation.next_message()

    @property
    def has_message(self) -> bool:
        """Whether `next_message` would return at once."""
        return self._conversation.has_message

    async def close(self) -> None:
        """End the connection. Safe to repeat."""
        await self._wire.close()

    async def answer_to(self, request_id: int, *, answer_s: float) -> Mapping[str, Any]:
        """Return the result of a request that was sent, once.

        Raises what `request` raises.
        """
        conversation = self._conversation
        try:
            await self._read_until(request_id, lambda: conversation.answer(request_id) is not None, answer_s)
            answer = conversation.answer(request_id)
        except TimeoutError:
            raise BackendUnavailable("timeout", f"No answer came within {answer_s:g} s.") from None
        finally:
            with self._lock:
                conversation.forget(request_id)
        if answer is None or (answer.error is None and answer.result is None):
            raise AssertionError("an answer is a result or an error")
        if answer.result is None:
            raise answer.error or AssertionError("checked above")
        return answer.result

    async def _read_until(self, key: int, is_done: Callable[[], bool], timeout_s: float | None) -> None:
        """Read, or wait for the caller that reads, until `is_done`; `key` names the waiting caller."""
        deadline = None if timeout_s is None else self._world.now() + timeout_s
        wake_event = self._world.wake_event()
        with self._lock:
            self._wake_events[key] = wake_event
        try:
            while True:
                with self._lock:
                    if is_done():
                        return
                    if self._end is not None:
                        raise _again(self._end)
                    reads = not self._is_read
                    self._is_read = True
                    wake_event.clear()
                left = None if deadline is None else deadline - self._world.now()
                if reads:
                    await self._read(left)
                elif left is not None and left <= 0:
                    raise TimeoutError
                else:
                    await wake_event.wait(left)
        finally:
            with self._lock:
                self._wake_events.pop(key, None)
                # This caller reads no more: another waiting one has to, or all would sleep for ever.
                if not self._is_read and self._wake_events:
                    next(iter(self._wake_events.values())).set()

    async def _read(self, timeout_s: float | None) -> None:
        """Read one frame and wake the caller that it is for.

        Wake every caller when the connection has ended.
        """
        try:
            frame = await self._wire.receive(timeout_s)
        except BaseException as error:
            with self._lock:
                self._is_read = False
                if isinstance(error, ConnectionLost):
                    self._finish(error)
            raise
        with self._lock:
            self._is_read = False
            try:
                concerned = self._conversation.take(frame)
            except OutliveError as error:
                self._finish(error)
                raise
            if concerned in self._wake_events:
                self._wake_events[concerned].set()

    def _finish(self, error: Exception) -> None:
        self._end = error
        for wake_event in self._wake_events.values():
            wake_event.set()


def _again(error: Exception) -> Exception:
    """Return a new error for each waiting caller: one object raised in several places mixes up tracebacks."""
    if isinstance(error, ConnectionLost):
        return ConnectionLost(was_sent=error.was_sent)
    return BackendUnavailable("server_lost", str(error))


async def greet(wire: Transport, world: Runtime) -> ClientConnection:
    """Read the greeting of a new connection and return its channel; closes the connection when that fails.

    Raises:
        Unreachable: The server went away.
        OutliveError: It does not serve this client (`connection_limit`), or is no outlive server.
    """
    try:
        hello = _hello(await wire.receive(_GREETING_S))
    except BaseException as error:
        await wire.close()
        if isinstance(error, ConnectionLost | TimeoutError):
            raise Unreachable(str(error) or "the server did not greet") from error
        raise
    return ClientConnection(wire, world, hello)


def _hello(frame: str | bytes) -> ServerHello:
    match read_frame(frame):
        case ServerHello() as hello:
            return hello
        case ServerAnswer(error=OutliveError() as error):
            raise error
    text = "What answers there did not greet."
    raise ProtocolViolation("invalid_request", text, hint="Check the address.")
