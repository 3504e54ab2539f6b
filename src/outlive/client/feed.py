"""Events as they happen: `AsyncEvents` over any number of connections, `AsyncFeed` with many processes' output over one.

`AsyncFeed` is for a server that mirrors a node's processes. It never connects again by itself: it reports the loss, and
`backends.remote` opens another feed and attaches at its own cursors. Messages that are not taken are kept up to `conversation`'s
bound. `AsyncEvents` is for users: it connects again through `link`. Output of one process alone belongs to `follow`.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol, Self, TypeVar

from outlive.client.channel import ClientConnection
from outlive.client.link import ANSWER_S, Link, is_passing
from outlive.client.messages import Attached, Ended, FollowedMessage, OutputMissing, OutputPiece, read_info
from outlive.client.results import Completion, ProcessEvent, ProcessInfo
from outlive.client.runtime import ConnectionLost
from outlive.core.cursor import Cursor
from outlive.core.errors import AccessDenied, BackendUnavailable, OutliveError

_T = TypeVar("_T")

_ANSWER_S = 20.0
_BATCH_BYTES = 2 * 1024 * 1024


class FeedListener(Protocol):
    """Takes a feed's messages; called in the order in which they came, and must be quick."""

    def piece(self, process_id: str, stream: int, data: bytes, end: int) -> None:
        """Take bytes of a stream (0 stdout, 1 stderr) up to offset `end`."""

    def missing(self, process_id: str, stream: int, start: int, end: int) -> None:
        """Record that the node's log no longer holds these bytes."""

    def ended(self, process_id: str, cursor: Cursor) -> None:
        """Record that a process has ended, and that its output is whole up to `cursor`."""

    def attached(self, process_id: str, info: ProcessInfo) -> None:
        """Record that a process's output follows from now on, and its state at this moment."""

    def happened(self, event: str, process_id: str | None, info: ProcessInfo | None) -> None:
        """Record an event (`ProcessEvent.event`), and the process's state at that moment."""


class AsyncFeed:
    """The messages of one connection. `hear` is for one task; other tasks may call `attach` and `beat` meanwhile.

    Attributes:
        is_raw: Whether output comes with its secrets; False once the node has refused that.
    """

    def __init__(self, channel: ClientConnection) -> None:
        """Take over a connection that has just been greeted."""
        self._channel = channel
        self.is_raw = True

    async def listen(self) -> None:
        """Receive all events from now on.

        Raises:
            BackendUnavailable: `server_lost`, `timeout`.
        """
        await self._passing(self._channel.listen({}, answer_s=_ANSWER_S))

    async def attach(self, process_id: str, cursor: Cursor) -> None:
        """Receive a process's output from `cursor` on, beside everything else; `FeedListener.attached` comes first.

        The process's state goes to the listener and is not returned: a caller that wakes late would take it for newer than the
        events that came meanwhile.

        Raises:
            BackendUnavailable: `server_lost`, `timeout`.
            ProcessNotFound: The node does not know it, or does not show it to this caller.
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
        """Return when the node has answered a small request (a heartbeat).

        Raises:
            BackendUnavailable: No answer came in time.
        """
        await self._passing(self._channel.request("nodes", {}, answer_s=answer_s))

    async def hear(self, listener: FeedListener) -> bool:
        """Wait for messages, then pass them to `listener`, at most some 2 MiB; False: messages were dropped.

        Then the caller has to attach every process again, at its cursor.

        Raises:
            BackendUnavailable: `server_lost`: the connection has ended.

        Cancellation: safe; nothing is lost.
        """
        try:
            message = await self._channel.next_message()
            size = 0
            while message is not None:
                size += _pass_on(listener, message)
                if size >= _BATCH_BYTES or not self._channel.has_message:
                    return True
                message = await self._channel.next_message()
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


def _pass_on(listener: FeedListener, message: FollowedMessage) -> int:
    """Pass one message on; return how many bytes it carried."""
    match message:
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
            listener.happened(message.event, message.process_id, message.info)
    return 0


class AsyncEvents:
    """An asynchronous iterator over events from now on, for one consumer. It does not end by itself.

    Events have no history. Those that happened while the server was away, or that were dropped because too many waited to be
    taken, do not come; an event `missed` comes in their place, and `list` returns the present state.
    Cancellation: safe at any point.
    """

    def __init__(
        self, link: Link, params: Mapping[str, object], *, release: Callable[[], Awaitable[None]]
    ) -> None:
        """Listen over `link`; `release` is awaited once the link is no longer needed."""
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
            await self._release()

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
