"""One open connection and all who wait for something from it: `ClientConnection`.

There is no task and no thread that reads. Whoever waits reads, one at a time, and wakes the others when what comes is
theirs; when nobody waits nothing is read, the socket fills, and the server waits: that is the whole back-pressure.
"""

import base64
from collections.abc import Callable, Mapping
from typing import Any

from outlive.client.conversation import FOLLOWER, Conversation
from outlive.client.messages import Heard, ServerAnswer, ServerHello, read_frame
from outlive.client.runtime import ConnectionLost, Runtime, Transport, Unreachable, WakeEvent
from outlive.core.cursor import Cursor
from outlive.core.errors import BackendUnavailable, OutliveError, ProtocolViolation

_TEXT_INPUT_BYTES = (
    64 * 1024
)  # what an earlier server hands over at once: of less nothing needs to be counted
_GREETING_S = 30.0  # a server that has just started recovers first


class ClientConnection:
    """Requests and their answers, and what is told of at most one followed process.

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
        self._bells: dict[int, WakeEvent] = {}
        self._is_read = False
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
            LimitExceeded: `stdin_full`: the details tell what was written, and what waits in the keeper's hands.
            What `request` raises, too.

        Cancellation: what was sent may be written all the same.
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
        """Follow a process from `cursor` on, and nothing else, and return it; what was told and not taken is dropped.

        With `beside` whatever is followed already goes on, and what was told stays.

        Raises what `request` raises. Cancellation: attach again.
        """
        with self._lock:
            request_id, text = self._conversation.ask_attach(process_id, cursor, raw=raw, beside=beside)
        return await self._settle(request_id, text, answer_s)

    async def listen(self, params: Mapping[str, object], *, answer_s: float) -> None:
        """Hear of events from now on, and of no process's output; what was told and not taken is dropped.

        Raises what `request` raises. Cancellation: listen again.
        """
        with self._lock:
            request_id, text = self._conversation.ask_events(params)
        await self._settle(request_id, text, answer_s)

    async def next_told(self) -> Heard | None:
        """Return what was told next of the followed process, or the next event, however long that takes.

        For one caller at a time. None: something was left out, because others had to hear their answers first: attach
        again at the cursor.

        Raises:
            ConnectionLost: The connection has ended.

        Cancellation: safe; nothing is lost.
        """
        await self._read_until(FOLLOWER, lambda: self._conversation.has_told, None)
        with self._lock:
            return self._conversation.next_told()

    @property
    def has_told(self) -> bool:
        """Whether `next_told` would return at once."""
        return self._conversation.has_told

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
        deadline = None if timeout_s is None else self._world.now() + timeout_s
        bell = self._world.bell()
        with self._lock:
            self._bells[key] = bell
        try:
            while True:
                with self._lock:
                    if is_done():
                        return
                    if self._end is not None:
                        raise _again(self._end)
                    reads = not self._is_read
                    self._is_read = True
                    bell.clear()
                left = None if deadline is None else deadline - self._world.now()
                if reads:
                    await self._read(left)
                elif left is not None and left <= 0:
                    raise TimeoutError
                else:
                    await bell.wait(left)
        finally:
            with self._lock:
                self._bells.pop(key, None)
                if not self._is_read and self._bells:
                    next(iter(self._bells.values())).ring()  # somebody else's turn to read

    async def _read(self, timeout_s: float | None) -> None:
        """Read one frame and wake whom it concerns; everybody when there will be no other."""
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
            if concerned in self._bells:
                self._bells[concerned].ring()

    def _finish(self, error: Exception) -> None:
        self._end = error
        for bell in self._bells.values():
            bell.ring()


def _again(error: Exception) -> Exception:
    """Return an error of its own for each who waited: one object raised in several places mixes up tracebacks."""
    if isinstance(error, ConnectionLost):
        return ConnectionLost(was_sent=error.was_sent)
    return BackendUnavailable("server_lost", str(error))


async def greet(wire: Transport, world: Runtime) -> ClientConnection:
    """Read the greeting of a new connection and return its channel; closes the connection when that fails.

    Raises:
        Unreachable: The server went away.
        OutliveError: It does not serve this client (`connection_limit`), or is none of ours.
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
