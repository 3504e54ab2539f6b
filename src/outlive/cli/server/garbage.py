"""Looks for garbage while nobody waits. Each connection leaves some that only a look finds, and a look takes milliseconds."""

import asyncio
import contextlib
import gc
import time
from collections.abc import Iterator

# Reference counts free nearly everything here; at the usual thresholds (700, 10, 10) looking for cycles takes 4 % of
# a busy server. So many objects that wait for the next look are some megabytes at most, and the look is 10 ms.
_THRESHOLDS = (25_000, 10, 5)
_WORTH_A_LOOK = 1_000  # objects since the last one: a dozen connections
_EACH_S = 0.25
_QUIET = 0.1  # of one core, in the time since


def collect_sometimes() -> None:
    """Spare what is there now, and look among what comes seldom enough that a busy server does not notice."""
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
    gc.enable()


@contextlib.contextmanager
def collecting_when_quiet() -> Iterator[None]:
    """Look earlier than that whenever the event loop has had little to do for a moment, while the block runs.

    Of a burst the garbage is gone before the next one comes, which then need not wait for the look.
    """
    loop = asyncio.get_running_loop()
    worked_s = time.thread_time()
    timer: asyncio.TimerHandle

    def look() -> None:
        nonlocal timer, worked_s
        before_s, worked_s = worked_s, time.thread_time()
        if worked_s - before_s < _QUIET * _EACH_S and gc.get_count()[0] >= _WORTH_A_LOOK:
            gc.collect(1)  # with what was in use at the last look
            worked_s = time.thread_time()
        timer = loop.call_later(_EACH_S, look)

    timer = loop.call_later(_EACH_S, look)
    try:
        yield
    finally:
        timer.cancel()
