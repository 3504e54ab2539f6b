"""Reads that another process can make slow, away from the event loop: `Looks`, a few threads with one queue.

Not asyncio's own thread pool: a read that blocks for ever would take one of its threads from the whole server.
"""

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable
from typing import TypeVar

# A read of another process's memory can block for ever and then keeps one thread; the queue goes on with the others.
_MOST_THREADS = 8

_T = TypeVar("_T")


class Looks:
    """Used on one event loop. The queue holds one entry per waiting caller; the caller sets the deadline, nothing here does."""

    def __init__(self) -> None:
        """Begin without threads: one more starts whenever all are busy, up to eight."""
        self._line: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._threads = 0
        self._waiting = 0  # looks that have not ended yet

    async def look(self, work: Callable[[], _T]) -> _T | None:
        """Return what `work` returns, None when it fails.

        Cancellation: safe; a look that has not begun is left out.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[_T | None] = loop.create_future()

        def settle(result: _T | None) -> None:
            self._waiting -= 1
            if not done.done():
                done.set_result(result)

        def run() -> None:
            result: _T | None = None
            # OSError: a file of /proc has vanished with its process. ValueError: it was cut off in the middle.
            with contextlib.suppress(OSError, ValueError):
                result = None if done.cancelled() else work()
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
                loop.call_soon_threadsafe(settle, result)

        self._waiting += 1
        self._line.put(run)
        if self._threads < min(self._waiting, _MOST_THREADS):
            self._threads += 1
            threading.Thread(target=self._serve, name="looks", daemon=True).start()
        return await done

    def _serve(self) -> None:
        while True:
            self._line.get()()
