"""The runtime with an event loop: asyncio, and the asyncio side of the `websockets` package.

Its twin without an event loop is `thread_runtime`; what both promise stands in `runtime`.
"""

import asyncio
import contextlib
import socket
import time
from collections.abc import Callable
from typing import TypeVar

from websockets.asyncio.client import ClientConnection, connect, unix_connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from outlive.client.runtime import ConnectionLost
from outlive.client.thread_runtime import widen
from outlive.client.wire import OPTIONS, keep_alive, refusal, secured

_T = TypeVar("_T")


class _AsyncioTransport:
    """A WebSocket of one event loop."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection

    async def send(self, frame: str | bytes) -> None:
        try:
            await self._connection.send(frame)
        except ConnectionClosed as error:
            raise ConnectionLost(was_sent=False) from error

    async def receive(self, timeout_s: float | None) -> str | bytes:
        try:
            if timeout_s is None:
                return await self._connection.recv()
            async with asyncio.timeout(timeout_s):
                return await self._connection.recv()
        except ConnectionClosed as error:
            raise ConnectionLost from error

    async def close(self) -> None:
        # Without the closing handshake: behind a slow consumer megabytes may lie before the server's answer
        # to it.
        self._connection.transport.abort()
        await self._connection.wait_closed()


class _AsyncioEvent:
    """Wakes one task."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def set(self) -> None:
        self._event.set()

    def clear(self) -> None:
        self._event.clear()

    async def wait(self, timeout_s: float | None) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._event.wait()


class AsyncioRuntime:
    """Waits as coroutines do. See `Runtime` for what the methods promise."""

    def now(self) -> float:
        """Return monotonic seconds."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)

    def lock(self) -> contextlib.AbstractContextManager[object]:
        """Return a lock that does nothing: between two awaits no other task runs."""
        return contextlib.nullcontext()

    def turns(self) -> contextlib.AbstractAsyncContextManager[object]:
        """Return a lock for tasks."""
        return asyncio.Lock()

    def wake_event(self) -> _AsyncioEvent:
        """Return a wake event for a task."""
        return _AsyncioEvent()

    async def aside(self, work: Callable[[], _T]) -> _T:
        """Run `work` in a thread."""
        return await asyncio.to_thread(work)

    async def reach(self, find: Callable[[Callable[[], bool]], socket.socket]) -> socket.socket:
        """Run `find` in a thread; after a cancellation the thread stops waiting and closes its connection."""
        is_abandoned = False

        def look() -> socket.socket:
            connection = find(lambda: is_abandoned)
            if is_abandoned:
                connection.close()
            return connection

        try:
            return await asyncio.to_thread(look)
        except asyncio.CancelledError:
            is_abandoned = True
            raise

    async def open(
        self,
        url: str,
        connection: socket.socket | None,
        headers: dict[str, str],
        *,
        ca_file: str | None = None,
    ) -> _AsyncioTransport:
        """Open a WebSocket."""
        try:
            if connection is None:
                tls = secured(url, ca_file)
                opened = await connect(url, additional_headers=headers, ssl=tls, **OPTIONS)
            else:
                connection.settimeout(0.0)
                widen(connection)
                opened = await unix_connect(uri=url, sock=connection, additional_headers=headers, **OPTIONS)
        # ConnectionClosed: the server was killed during the handshake.
        except (InvalidHandshake, ConnectionClosed, OSError, TimeoutError) as error:
            raise refusal(error) from error
        keep_alive(opened.transport.get_extra_info("socket"))
        return _AsyncioTransport(opened)
