"""What one caller of copies can take from the others, bounded: `FileThreads`, and `EarlyBytes` of pieces that
came before their turn.

Both on the engine's loop only. What blocks is done in threads; a disk that stands still keeps them as long as
it does, and no thread can be ended from outside.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import TypeVar
from weakref import WeakValueDictionary

from outlive.core.errors import LimitExceeded
from outlive.core.file_words import PIECE_BYTES

_T = TypeVar("_T")

_THREADS = 4  # slow disks keep no other work of the server waiting, which has threads of its own
_OF_ONE_PRINCIPAL = (
    2  # at once: one disk that stands still (NFS, FUSE) leaves the other threads to other principals
)
_EARLY_OF_COPY = 24 * PIECE_BYTES  # our own client has no more under way (`client.files.stream`)
_EARLY_OF_ALL = 128 * PIECE_BYTES  # of this server's memory


class FileThreads:
    """Threads for what blocks."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="files")
        # Of each principal that has work here; it is forgotten with its last work.
        self._turns: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    async def run(
        self, principal: str, work: Callable[[], _T], *, unwanted: Callable[[_T], object] | None = None
    ) -> _T:
        """Return what `work` returns, done in a thread when it is this principal's turn.

        Cancelled, it is not begun; what is under way goes on, and counts as the principal's until it has
        ended. Then `unwanted` is called with what it returns, since no caller has that: in its thread, or
        here.
        """
        turns = self._turns.get(principal)
        if turns is None:
            turns = self._turns[principal] = asyncio.Semaphore(_OF_ONE_PRINCIPAL)
        loop = asyncio.get_running_loop()
        await turns.acquire()
        try:
            running = self._threads.submit(work)
        except RuntimeError:
            turns.release()
            raise

        def release(_: object) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed, and no one waits
                loop.call_soon_threadsafe(turns.release)

        running.add_done_callback(release)
        try:
            return await asyncio.wrap_future(running)
        except asyncio.CancelledError:
            if unwanted is not None:
                running.add_done_callback(partial(_let_go, unwanted))
            raise

    def close(self) -> None:
        """Begin nothing more. What is under way is not waited for: a disk may stand still for ever."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _let_go(unwanted: Callable[[_T], object], done: Future[_T]) -> None:
    if not done.cancelled() and done.exception() is None:
        unwanted(done.result())


class EarlyBytes:
    """Counts the bytes of pieces that wait in memory for those before them."""

    def __init__(self) -> None:
        self._of: Counter[str] = Counter()

    @contextmanager
    def held(self, copy: str, size: int) -> Iterator[None]:
        """Count a piece of an open copy while the block runs.

        Raises:
            LimitExceeded: `copy_limit`: the copy or the server has as many as it may.
        """
        if self._of[copy] + size > _EARLY_OF_COPY or self._of.total() + size > _EARLY_OF_ALL:
            text = "Too many pieces came before those that lie before them."
            raise LimitExceeded("copy_limit", text, hint="Send the pieces in their order.")
        self._of[copy] += size
        try:
            yield
        finally:
            self._of[copy] -= size
            if not self._of[copy]:
                del self._of[copy]
