"""Output as it comes, each byte once: `AsyncFollow`, from a cursor to the end, over any number of connections.

Where a reader stands in a process's output: `Position`, which makes exactly-once out of what is told. Pure.
"""

import contextlib
from collections.abc import Awaitable, Callable
from typing import Self

from outlive.client.channel import ClientConnection
from outlive.client.link import ANSWER_S, Link, is_passing
from outlive.client.messages import Attached, Ended, OutputMissing, OutputPiece, Told
from outlive.client.results import Completion, Gap, Output, ProcessEvent, Stream
from outlive.client.runtime import ConnectionLost
from outlive.core.cursor import Cursor
from outlive.core.errors import AccessDenied, OutliveError, ProtocolViolation


class Position:
    """The cursor behind everything that was passed on.

    Whatever connections came and went: bytes before it are never passed on again, and a hole is never passed over.
    """

    __slots__ = ("cursor",)

    def __init__(self, cursor: Cursor) -> None:
        """Begin at `cursor`."""
        self.cursor = cursor

    def take(self, told: OutputPiece | OutputMissing) -> Output | Gap | None:
        """Return what of this is new, and stand behind it; None when nothing is.

        Raises:
            ProtocolViolation: It begins behind the position: bytes in between were never told.
        """
        here = self.cursor.stdout if told.stream == "stdout" else self.cursor.stderr
        start = told.end - len(told.data) if isinstance(told, OutputPiece) else told.start
        if start > here:
            text = f"The server left out bytes {here} to {start} of {told.stream}."
            raise ProtocolViolation("invalid_request", text, hint="Follow again from the last cursor.")
        if told.end <= here:
            return None
        behind = self._behind(told.stream, told.end)
        self.cursor = behind
        if isinstance(told, OutputPiece):
            return Output(told.stream, told.data[here - start :], behind, told.redacted)
        return Gap(told.stream, here, told.end, behind)

    def _behind(self, stream: Stream, end: int) -> Cursor:
        if stream == "stdout":
            return Cursor(end, self.cursor.stderr)
        return Cursor(self.cursor.stdout, end)


class AsyncFollow:
    """An asynchronous iterator over a process's output, for one consumer. It ends with the process.

    The connection may be lost, the server killed and started again, the keeper too: the iteration goes on behind the
    last byte that it gave out. It reads only while somebody waits for the next item, so that a slow consumer makes the
    server wait, and no output piles up anywhere but in the log.

    Leaving it early (`break`, a cancelled `async for`) leaves the process alone. Cancellation: safe at any point; the
    next `async for` over the same object goes on with the next byte. `close`, or the end of an `async with` block, or
    the end of the iteration frees its connection; the client does at the latest.

    Attributes:
        process_id: Whose output.
        completion: How the process ended, once the iteration has.
    """

    def __init__(
        self,
        link: Link,
        process_id: str,
        cursor: Cursor,
        *,
        raw: bool | None = False,
        release: Callable[[], Awaitable[None]],
    ) -> None:
        """Follow over `link`; `release` is awaited once nothing of it is needed any more.

        `raw` hides no secrets; None: where this caller may see them.
        """
        self.process_id = process_id
        self.completion: Completion | None = None
        self.redacted = 0
        self._link = link
        self._raw = raw
        self._position = Position(cursor)
        self._release = release
        self._channel: ClientConnection | None = None
        self._is_closed = False

    @property
    def cursor(self) -> Cursor:
        """Everything before it was given out: another follow from here repeats nothing and loses nothing."""
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
            told = await self._next_told()
            if isinstance(told, Ended):
                if told.completion.cursor != self.cursor:
                    text = f"The server ended at {told.completion.cursor}, and told up to {self.cursor}."
                    raise ProtocolViolation(
                        "invalid_request", text, hint="Follow again from the last cursor."
                    )
                self.completion = told.completion
            else:
                item = self._position.take(told)
                if item is not None:
                    self.redacted += item.redacted if isinstance(item, Output) else 0
                    return item
        await self.close()
        raise StopAsyncIteration

    async def close(self) -> None:
        """Follow no more. Safe to repeat."""
        if not self._is_closed:
            self._is_closed = True
            self._channel = None
            await self._release()

    async def __aenter__(self) -> Self:
        """Nothing is opened before the first item is asked for."""
        return self

    async def __aexit__(self, *_exception: object) -> None:
        """Close."""
        await self.close()

    async def _next_told(self) -> Told:
        while True:
            channel = await self._link.channel()
            try:
                if self._channel is not channel:
                    await self._attach(channel)
                    self._link.succeed()
                    self._channel = channel
                told = await channel.next_told()
            except ConnectionLost:
                await self._link.lose(channel)
            except OutliveError as error:
                if not is_passing(error):
                    raise
                await self._link.rest(error)
            else:
                if told is not None and not isinstance(
                    told, Attached | ProcessEvent
                ):  # nobody asked for these here
                    return told
                self._channel = None  # something was left out: attach again, at the cursor

    async def _attach(self, channel: ClientConnection) -> None:
        is_raw = self._raw is not False
        try:
            await channel.attach(self.process_id, self.cursor, answer_s=ANSWER_S, raw=is_raw)
        except AccessDenied:
            if self._raw is not None:
                raise
            self._raw = False
            await channel.attach(self.process_id, self.cursor, answer_s=ANSWER_S)


async def silence(link: Link, process_id: str) -> None:
    """End what is told of a process over a link that goes on; a server that is away tells nothing anyhow."""
    with contextlib.suppress(OutliveError):
        await link.request("attach", {"process_id": process_id, "output": "none"})
