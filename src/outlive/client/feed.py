"""Output of many processes and the events of all of them, over one connection: `AsyncFeed`.

Nothing is repeated and nothing asked again here: a lost connection is told, and whoever mirrors processes opens another feed
and attaches at his own cursors. What is told while nobody hears is kept up to the bound of `conversation`.

What happens to processes, as it happens: `AsyncEvents`, over any number of connections.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol, Self, TypeVar

from outlive.client.channel import ClientConnection
from outlive.client.link import ANSWER_S, Link, is_passing
from outlive.client.messages import Attached, Ended, Heard, OutputMissing, OutputPiece, read_info
from outlive.client.results import Completion, ProcessEvent, ProcessInfo
from outlive.client.runtime import ConnectionLost
from outlive.core.cursor import Cursor
from outlive.core.errors import AccessDenied, BackendUnavailable, OutliveError

_T = TypeVar("_T")

_ANSWER_S = 20.0
_BATCH_BYTES = 2 * 1024 * 1024


class FeedListener(Protocol):
    """Who hears a feed; called in the order of the wire, must be quick."""

    def piece(self, process_id: str, stream: int, data: bytes, end: int) -> None:
        """Take bytes of a stream (0 stdout, 1 stderr) up to offset `end`."""

    def missing(self, process_id: str, stream: int, start: int, end: int) -> None:
        """Take note that the log of the other side does not hold these bytes any more."""

    def ended(self, process_id: str, cursor: Cursor) -> None:
        """Take note that a process has ended, and that its output is whole up to `cursor`."""

    def attached(self, process_id: str, info: ProcessInfo) -> None:
        """Take note that a process's output is told from now on, and of what it is like now."""

    def happened(self, event: str, process_id: str | None, info: ProcessInfo | None) -> None:
        """Take note of an event (`ProcessEvent.event`), and of what the process is like then."""


class AsyncFeed:
    """One connection's news. `hear` is for one task; `attach` and `beat` may be called by others meanwhile.

    Attributes:
        is_raw: Whether secrets are shown: where the other side lets this caller see them.
    """

    def __init__(self, channel: ClientConnection) -> None:
        """Take over a connection that has just been greeted."""
        self._channel = channel
        self.is_raw = True

    async def listen(self) -> None:
        """Hear of all events from now on.

        Raises:
            BackendUnavailable: `server_lost`, `timeout`.
        """
        await self._passing(self._channel.listen({}, answer_s=_ANSWER_S))

    async def attach(self, process_id: str, cursor: Cursor) -> None:
        """Hear a process's output from `cursor` on, beside what is heard already; `FeedListener.attached` comes first.

        What it is like is told there and not returned: a caller that wakes late would take it for newer than the events
        that were told meanwhile.

        Raises:
            BackendUnavailable: `server_lost`, `timeout`.
            ProcessNotFound: The other side does not know it, or not for this caller.
        """
        if self.is_raw:
            try:
                await self._attach(process_id, cursor, raw=True)
            except AccessDenied:
                self.is_raw = False
            else:
                return
        await self._attach(process_id, cursor, raw=False)

    async def _attach(self, process_id: str, cursor: Cursor, *, raw: bool) -> None:
        asking = self._channel.attach(process_id, cursor, answer_s=_ANSWER_S, raw=raw, beside=True)
        await self._passing(asking)

    async def beat(self, *, answer_s: float) -> None:
        """Return when the other side has answered something.

        Raises:
            BackendUnavailable: It has not, in time.
        """
        await self._passing(self._channel.request("nodes", {}, answer_s=answer_s))

    async def hear(self, listener: FeedListener) -> bool:
        """Wait for news, then tell `listener` what there is, at most some 2 MiB; False: something was left out.

        Then attach everything again, at its cursor.

        Raises:
            BackendUnavailable: `server_lost`: the connection has ended.

        Cancellation: safe; nothing is lost.
        """
        try:
            told = await self._channel.next_told()
            size = 0
            while told is not None:
                size += _tell(listener, told)
                if size >= _BATCH_BYTES or not self._channel.has_told:
                    return True
                told = await self._channel.next_told()
        except ConnectionLost as lost:
            raise BackendUnavailable("server_lost", str(lost)) from lost
        return False

    async def close(self) -> None:
        """End the connection. Safe to repeat."""
        await self._channel.close()

    @staticmethod
    async def _passing(asking: Awaitable[_T]) -> _T:
        try:
            return await asking
        except ConnectionLost as lost:
            raise BackendUnavailable("server_lost", str(lost)) from lost


def _tell(listener: FeedListener, told: Heard) -> int:
    """Pass one message on; return how many bytes it carried."""
    match told:
        case OutputPiece(process_id=process_id, stream=stream, data=data, end=end):
            listener.piece(process_id, int(stream == "stderr"), data, end)
            return len(data)
        case OutputMissing(process_id, stream, start, end):
            listener.missing(process_id, int(stream == "stderr"), start, end)
        case Ended(process_id, Completion(cursor=cursor)):
            listener.ended(process_id, cursor)
        case Attached(process_id, view):
            listener.attached(process_id, read_info(view))
        case ProcessEvent():
            listener.happened(told.event, told.process_id, told.info)
    return 0


class AsyncEvents:
    """An asynchronous iterator over events from now on, for one consumer. It does not end by itself.

    There is no history of events: what happened while the server was away, or while nobody took them for so long that
    too many waited, is not told. That this was so is told, by an event `missed` in its place; `list` tells what is.
    Cancellation: safe at any point.
    """

    def __init__(
        self, link: Link, params: Mapping[str, object], *, release: Callable[[], Awaitable[None]]
    ) -> None:
        """Listen over `link`; `release` is awaited once nothing of it is needed any more."""
        self._link = link
        self._params = params
        self._release = release
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
                told = await channel.next_told()
            except ConnectionLost:
                await self._link.lose(channel)
            except OutliveError as error:
                if not is_passing(error):
                    raise
                await self._link.rest(error)
            else:
                if isinstance(told, ProcessEvent):
                    return told
                self._channel = None  # some were left out here: ask again
        raise StopAsyncIteration

    async def close(self) -> None:
        """Listen no more. Safe to repeat."""
        if not self._is_closed:
            self._is_closed = True
            self._channel = None
            await self._release()

    async def __aenter__(self) -> Self:
        """Listen from now on; without `async with` that is so from the first item on."""
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
