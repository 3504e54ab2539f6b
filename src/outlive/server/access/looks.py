"""Looks that another process can make slow, away from the event loop: `Looks`, a few threads and a line before them."""

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable
from typing import TypeVar

# What blocks for ever (reading a process's memory can) keeps one of them; the line goes on with the others.
_MOST_THREADS = 8

_T = TypeVar("_T")


class Looks:
    """Used on one event loop. The line is as long as there are callers who wait: they give up, nothing here does."""

    def __init__(self) -> None:
        """Begin without threads: one more starts whenever all are at work, up to eight."""
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
            # A file of /proc, or of a process, that vanishes or is cut.
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
