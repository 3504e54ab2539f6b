"""Output and events as they come, over any number of connections: `AsyncFollow` and `AsyncEvents`, with their
blocking twins.

`Position` (pure) is the reader's place in the output: it drops bytes that come a second time after a
reconnection, and refuses a hole. Opening connections again belongs to `link`; pages of recorded output to
`process`.
"""

import contextlib
from collections.abc import Mapping
from typing import Self

from outlive.client.channel import ClientConnection
from outlive.client.link import ANSWER_S, Link, Links, is_passing
from outlive.client.messages import Attached, Begun, Ended, OutputMessage, OutputMissing, OutputPiece
from outlive.client.results import Completion, Gap, Output, ProcessEvent, Stream
from outlive.client.runtime import Blocking, ConnectionLost, blocking, run
from outlive.core.cursor import Cursor
from outlive.core.errors import AccessDenied, OutliveError, ProtocolViolation
from outlive.core.identity import is_process_id


class Position:
    """The cursor after everything that was passed on.

    Across all connections, bytes before it are never passed on again, and a hole is never skipped.
    """

    __slots__ = ("cursor",)

    def __init__(self, cursor: Cursor) -> None:
        """Begin at `cursor`."""
        self.cursor = cursor

    def take(self, message: OutputPiece | OutputMissing) -> Output | Gap | None:
        """Return the new part of a message and move behind it; None when nothing is new.

        Raises:
            ProtocolViolation: It begins behind the position: bytes in between never came.
        """
        here = self.cursor.stdout if message.stream == "stdout" else self.cursor.stderr
        start = message.end - len(message.data) if isinstance(message, OutputPiece) else message.start
        if start > here:
            text = f"The server left out bytes {here} to {start} of {message.stream}."
            raise ProtocolViolation("invalid_request", text, hint="Follow again from the last cursor.")
        if message.end <= here:
            return None
        behind = self._behind(message.stream, message.end)
        self.cursor = behind
        if isinstance(message, OutputPiece):
            return Output(message.stream, message.data[here - start :], behind, message.redacted)
        return Gap(message.stream, here, message.end, behind)

    def _behind(self, stream: Stream, end: int) -> Cursor:
        if stream == "stdout":
            return Cursor(end, self.cursor.stderr)
        return Cursor(self.cursor.stdout, end)


class AsyncFollow:
    """An asynchronous iterator over a process's output, for one consumer. It ends with the process.

    The connection may be lost, the server or the keeper killed and started again: the iteration goes on
    behind the last byte that it returned. It reads only while the consumer waits for the next item, so a slow
    consumer makes the server wait, and output piles up in the log only.

    Leaving it early (`break`, a cancelled `async for`) does not affect the process. Cancellation: safe at any
    point; the next `async for` over the same object goes on with the next byte. `close`, the end of an `async
    with` block, or the end of the iteration frees its connection; at the latest the client's `close` does.

    Attributes:
        process_id: The followed process.
        completion: How the process ended, once the iteration has ended.
    """

    def __init__(
        self,
        links: Links,
        process_id: str,
        cursor: Cursor,
        *,
        over: Link,
        raw: bool | None = False,
        project: str | None = None,
    ) -> None:
        """Follow over a link of its own; a private process only over its own link, which alone may see it.

        Another word than an id is looked up once, in `project`: later it may mean another process.
        `raw` True hides no secrets; None hides them only if this caller may not see them.
        """
        self.process_id = process_id
        self.completion: Completion | None = None
        self.redacted = 0
        self._links = links
        self._is_private = over is not links.shared
        self._link = over if self._is_private else links.new()
        self._raw = raw
        self._project = project
        self._position = Position(cursor)
        self._channel: ClientConnection | None = None
        self._is_closed = False

    @property
    def cursor(self) -> Cursor:
        """Everything before it was returned: another follow from here repeats nothing and loses nothing."""
        return self._position.cursor

    def __aiter__(self) -> Self:
        """Go on."""
        return self

    async def __anext__(self) -> Output | Gap:
        """Return the next bytes, or what is missing of them.

        Raises:
            BackendUnavailable: `server_unavailable`: it did not come back in time.
            ProcessNotFound: The process was removed from the history meanwhile.
        """
        while self.completion is None and not self._is_closed:
            message = await self._next_message()
            if isinstance(message, Ended):
                if message.completion.cursor != self.cursor:
                    text = (
                        f"The server ended at {message.completion.cursor}, after output up to {self.cursor}."
                    )
                    raise ProtocolViolation(
                        "invalid_request", text, hint="Follow again from the last cursor."
                    )
                self.completion = message.completion
            else:
                item = self._position.take(message)
                if item is not None:
                    self.redacted += item.redacted if isinstance(item, Output) else 0
                    return item
        await self.close()
        raise StopAsyncIteration

    async def close(self) -> None:
        """Stop following. Safe to repeat."""
        if self._is_closed:
            return
        self._is_closed = True
        self._channel = None
        if not self._is_private:
            await self._links.drop(self._link)
            return
        with contextlib.suppress(OutliveError):  # a server that is away sends no more messages anyhow
            await self._link.request("attach", {"process_id": self.process_id, "output": "none"})

    async def __aenter__(self) -> Self:
        """Nothing is opened before the first item is asked for."""
        return self

    async def __aexit__(self, *_exception: object) -> None:
        """Close."""
        await self.close()

    async def _next_message(self) -> OutputMessage:
        if self._channel is None and not is_process_id(self.process_id):
            asked = {"process_id": self.process_id, "project": self._project}
            self.process_id = (await self._link.request("get", asked))["process_id"]
        while True:
            channel = await self._link.channel()
            try:
                if self._channel is not channel:
                    await self._attach(channel)
                    self._link.succeed()
                    self._channel = channel
                message = await channel.next_message()
            except ConnectionLost:
                await self._link.lose(channel)
            except OutliveError as error:
                if not is_passing(error):
                    raise
                await self._link.rest(error)
            else:
                # The excluded ones come only after `events`, or an attach beside others: neither is sent
                # here.
                if message is not None and not isinstance(message, Attached | ProcessEvent | Begun):
                    return message
                self._channel = None  # messages were dropped: attach again, at the cursor

    async def _attach(self, channel: ClientConnection) -> None:
        is_raw = self._raw is not False
        try:
            await channel.attach(self.process_id, self.cursor, answer_s=ANSWER_S, raw=is_raw)
        except AccessDenied:
            if self._raw is not None:
                raise
            self._raw = False
            await channel.attach(self.process_id, self.cursor, answer_s=ANSWER_S)


class Follow(Blocking[AsyncFollow]):
    """`AsyncFollow` for programs without an event loop: an iterator over a process's output, for one
    thread.
    """

    @property
    def process_id(self) -> str:
        """The followed process."""
        return self._twin.process_id

    @property
    def completion(self) -> Completion | None:
        """How the process ended, once the iteration has."""
        return self._twin.completion

    @property
    def cursor(self) -> Cursor:
        """Everything before it was returned."""
        return self._twin.cursor

    @property
    def redacted(self) -> int:
        """How many secrets were replaced by stars in what was returned."""
        return self._twin.redacted

    def __iter__(self) -> Self:
        """Go on."""
        return self

    def __enter__(self) -> Self:
        """Nothing is opened before the first item is asked for."""
        return self

    __next__ = blocking(AsyncFollow.__anext__)
    close = blocking(AsyncFollow.close)
    __exit__ = blocking(AsyncFollow.__aexit__)


class AsyncEvents:
    """An asynchronous iterator over events from now on, for one consumer. It does not end by itself.

    Events have no history. Those that happened while the server was away, or that were dropped because too
    many waited to be taken, do not come; an event `missed` comes in their place, and `list` returns the
    present state.
    Cancellation: safe at any point.
    """

    def __init__(self, links: Links, params: Mapping[str, object]) -> None:
        """Listen over a link of its own."""
        self._links = links
        self._link = links.new()
        self._params = params
        self._channel: ClientConnection | None = None
        self._has_listened = self._is_back = self._is_closed = False

    def __aiter__(self) -> Self:
        """Go on."""
        return self

    async def __anext__(self) -> ProcessEvent:
        """Return the next event.

        Raises:
            BackendUnavailable: `server_unavailable`: there is no server, or it did not come back in time.
        """
        while not self._is_closed:
            channel = await self._link.channel()
            try:
                if self._channel is not channel:
                    await self._listen(channel)
                    if self._is_back:
                        return ProcessEvent.missing()
                message = await channel.next_message()
            except ConnectionLost:
                await self._link.lose(channel)
            except OutliveError as error:
                if not is_passing(error):
                    raise
                await self._link.rest(error)
            else:
                if isinstance(message, ProcessEvent):
                    return message
                self._channel = None  # events were dropped on this side: ask again
        raise StopAsyncIteration

    async def close(self) -> None:
        """Stop listening. Safe to repeat."""
        if not self._is_closed:
            self._is_closed = True
            self._channel = None
            await self._links.drop(self._link)

    async def __aenter__(self) -> Self:
        """Listen from now on; without `async with` listening begins at the first item."""
        while self._channel is None:
            channel = await self._link.channel()
            try:
                await self._listen(channel)
            except ConnectionLost:
                await self._link.lose(channel)
        return self

    async def __aexit__(self, *_exception: object) -> None:
        """Close."""
        await self.close()

    async def _listen(self, channel: ClientConnection) -> None:
        await channel.listen(self._params, answer_s=ANSWER_S)
        self._link.succeed()
        self._is_back = self._has_listened
        self._channel, self._has_listened = channel, True


class Events(Blocking[AsyncEvents]):
    """`AsyncEvents` for programs without an event loop: an iterator over what happens, for one thread."""

    def __iter__(self) -> Self:
        """Go on."""
        return self

    def __enter__(self) -> Self:
        """Listen from now on; without `with` listening begins at the first item."""
        run(self._twin.__aenter__())
        return self

    __next__ = blocking(AsyncEvents.__anext__)
    close = blocking(AsyncEvents.close)
    __exit__ = blocking(AsyncEvents.__aexit__)
