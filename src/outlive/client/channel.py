"""One open connection and all callers that wait for something from it: `ClientConnection`.

No task and no thread is reserved for reading. One of the waiting callers reads, and wakes another when a frame is meant for that
one. While no caller waits, nothing is read, the socket fills, and the server waits: that is the whole back-pressure.

What a frame means is decided by `conversation`; opening connections, and opening them again, belongs to `link`.
"""

import base64
from collections.abc import Callable, Mapping
from typing import Any

from outlive.client.conversation import FOLLOWER, Conversation
from outlive.client.messages import FollowedMessage, ServerAnswer, ServerHello, read_frame
from outlive.client.runtime import ConnectionLost, Runtime, Transport, Unreachable, WakeEvent
from outlive.core.cursor import Cursor
from outlive.core.errors import BackendUnavailable, OutliveError, ProtocolViolation

# An earlier server hands at most this much to the keeper at once, so that a piece is written as a whole or not at all.
_TEXT_INPUT_BYTES = 64 * 1024
_GREETING_S = 30.0  # a server that has just started finds its running processes first


class ClientConnection:
    """Requests with their answers, and the messages about the followed processes or events.

    Attributes:
        hello: The server's first message.
    """

    def __init__(self, wire: Transport, world: Runtime, hello: ServerHello) -> None:
        """Take over an open connection whose greeting was read."""
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
        self, method: str, params: Mapping[str, object], *, answer_s: float
    ) -> Mapping[str, Any]:
        """Send a request and return its result.

        Raises:
            ConnectionLost: The connection ended before the answer came.
            BackendUnavailable: `timeout`, no answer came within `answer_s` seconds.
            OutliveError: What the server answered.

        Cancellation: safe; what was asked for may be done all the same.
        """
        with self._lock:
            request_id, text = self._conversation.ask(method, params)
        return await self._settle(request_id, text, answer_s)

    async def write(self, process_id: str, data: memoryview, *, answer_s: float) -> int:
        """Write the beginning of `data` to a process's input and return how many bytes that was.

        Raises:
            LimitExceeded: `stdin_full`: the details count the bytes written, and those that wait in the keeper.
            Everything that `request` raises, too.

        Cancellation: bytes that were sent may be written all the same.
        """
        limit_bytes = self.hello.input_bytes
        if not limit_bytes:  # an earlier server
            piece = data[:_TEXT_INPUT_BYTES]
            text = base64.b64encode(piece).decode("ascii")
            params = {"process_id": process_id, "data": text, "encoding": "base64"}
            await self.request("write", params, answer_s=answer_s)
            return len(piece)
        piece = data[:limit_bytes]
        with self._lock:
            request_id, frame = self._conversation.ask_input(process_id, piece)
        await self._settle(request_id, frame, answer_s)
        return len(piece)

    async def attach(
        self, process_id: str, cursor: Cursor, *, answer_s: float, raw: bool = False, beside: bool = False
    ) -> Mapping[str, Any]:
        """Follow a process from `cursor` on, and nothing else, and return it; messages that were not taken yet are dropped.

        With `beside` everything that is followed already goes on, and its messages stay.

        Raises what `request` raises. Cancellation: attach again.
        """
        with self._lock:
            request_id, text = self._conversation.ask_attach(process_id, cursor, raw=raw, beside=beside)
        return await self._settle(request_id, text, answer_s)

    async def listen(self, params: Mapping[str, object], *, answer_s: float) -> None:
        """Receive events from now on, and no process's output; messages that were not taken yet are dropped.

        Raises what `request` raises. Cancellation: listen again.
        """
        with self._lock:
            request_id, text = self._conversation.ask_events(params)
        await self._settle(request_id, text, answer_s)

    async def next_message(self) -> FollowedMessage | None:
        """Return the next message about the followed process, or the next event, however long that takes.

        For one caller at a time. None: messages were dropped, because too many came before an answer that another caller
        waited for. Attach again at the cursor.

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

    async def _settle(self, request_id: int, frame: str | bytes, answer_s: float) -> Mapping[str, Any]:
        conversation = self._conversation
        try:
            await self._wire.send(frame)
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
        """Read one frame and wake the caller that it is for; wake every caller when the connection has ended."""
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
