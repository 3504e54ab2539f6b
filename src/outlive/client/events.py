"""What happens to processes, as it happens: `AsyncEvents`, over any number of connections."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Self

from outlive.client.channel import ClientConnection
from outlive.client.link import ANSWER_S, Link
from outlive.client.patience import is_passing
from outlive.client.results import ProcessEvent
from outlive.client.runtime import ConnectionLost
from outlive.core.errors import OutliveError


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
