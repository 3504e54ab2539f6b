"""The runtime without an event loop: every await blocks the thread, and nothing here ever suspends.

Its twin with an event loop is `asyncio_runtime`; what both promise stands in `runtime`.
"""

import contextlib
import socket
import threading
import time
from collections.abc import Callable
from typing import Self, TypeVar

from outlive.client.local_wire import open_local
from outlive.client.runtime import Transport

_T = TypeVar("_T")


class _Turns:
    """A lock that coroutines hold; a thread that waits for it blocks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    async def __aenter__(self) -> Self:
        self._lock.acquire()
        return self

    async def __aexit__(self, *_exception: object) -> None:
        self._lock.release()


class _ThreadEvent:
    """Wakes one thread."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        self._event.set()

    def clear(self) -> None:
        self._event.clear()

    async def wait(self, timeout_s: float | None) -> None:
        self._event.wait(timeout_s)


class ThreadRuntime:
    """Blocks. See `Runtime` for what the methods promise."""

    def now(self) -> float:
        """Return monotonic seconds."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)  # noqa: ASYNC251 -- there is no event loop here

    def lock(self) -> contextlib.AbstractContextManager[object]:
        """Return a lock for threads."""
        return threading.Lock()

    def turns(self) -> contextlib.AbstractAsyncContextManager[object]:
        """Return a lock for threads that coroutines can hold."""
        return _Turns()

    def wake_event(self) -> _ThreadEvent:
        """Return a wake event for a thread."""
        return _ThreadEvent()

    async def aside(self, work: Callable[[], _T]) -> _T:
        """Call `work` here."""
        return work()

    async def reach(self, find: Callable[[Callable[[], bool]], socket.socket]) -> socket.socket:
        """Call `find` here."""
        return find(lambda: False)

    async def open(
        self,
        url: str,
        connection: socket.socket | None,
        headers: dict[str, str],
        *,
        ca_file: str | None = None,
    ) -> Transport:
        """Open a WebSocket."""
        if connection is not None:
            return open_local(url, connection, headers)
        # Imported here: it takes half of the client's import time, and a program on the server's machine does not need it.
        from outlive.client.thread_wire import open_wire  # noqa: PLC0415

        return open_wire(url, headers, ca_file=ca_file)
