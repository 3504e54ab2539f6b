"""The supervisor's event loop: one epoll object, timers, hooks after each turn.

Single-threaded, and nothing blocks in it.

A handler that raises is logged, and the loop goes on. Too many errors end the process: its successor starts
from the files, which is always safe.
"""

import heapq
import math
import os
import select
import time
from collections.abc import Callable

from outlive.core.values import dataclass

_MAX_ERRORS = 200  # in the life of a process: a fault that repeats in every turn reaches it soon
_MAX_EVENTS = 512  # in a turn: the others are reported in the next one
_TIMERS_S = 0.1  # in a turn: thousands that are due at once must not keep descriptors waiting for seconds
_REST_S = 10.0  # between two rounds of looks while there is nothing to do
_SOON_S = 1.0  # from work to the look that follows from it


@dataclass(eq=False, slots=True)
class Timer:
    """A pending call; `cancel` is idempotent."""

    when: float
    _callback: Callable[[], None] | None

    def cancel(self) -> None:
        """Drop the callback: it is never called."""
        self._callback = None

    def fire(self) -> None:
        """Call the callback, once."""
        callback, self._callback = self._callback, None
        if callback is not None:
            callback()


class Loop:
    """Watches descriptors (level-triggered) and runs timers; `now_ns` is the time at which the turn began.

    What nothing reports is looked at in rounds: a second after work, and otherwise every ten seconds. All
    looks have one timer, so that an idle supervisor wakes once for all of them.
    """

    def __init__(self, log: Callable[[str], None]) -> None:
        """Create the epoll object; `log` takes one line of text."""
        self._epoll = select.epoll()
        self._handlers: dict[int, Callable[[int], None]] = {}
        self._timers: list[tuple[float, int, Timer]] = []
        self._sequence = 0
        self._hooks: list[Callable[[], None]] = []
        self._looks: list[Callable[[], bool]] = []
        self._next_look = Timer(math.inf, None)
        self._log = log
        self._errors = 0
        self._stopping = False
        self.now_ns = time.time_ns()

    def watch(self, fd: int, handler: Callable[[int], None], events: int = select.EPOLLIN) -> None:
        """Call `handler(events)` whenever the descriptor is ready; replaces an earlier handler."""
        if fd in self._handlers:
            self._epoll.modify(fd, events)
        else:
            self._epoll.register(fd, events)
        self._handlers[fd] = handler

    def is_watched(self, fd: int) -> bool:
        """Return whether a descriptor is watched."""
        return fd in self._handlers

    def change(self, fd: int, events: int) -> None:
        """Watch for other events on a watched descriptor."""
        self._epoll.modify(fd, events)

    def unwatch(self, fd: int) -> None:
        """Stop watching.

        Must come before the descriptor is closed (a duplicate elsewhere keeps it registered).
        """
        if self._handlers.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        """Call `callback` once after `delay_s` seconds."""
        timer = Timer(time.monotonic() + delay_s, callback)
        # The sequence number keeps the order of timers that are due at the same moment; timers cannot be
        # compared.
        self._sequence += 1
        heapq.heappush(self._timers, (timer.when, self._sequence, timer))
        return timer

    def regularly(self, look: Callable[[], bool]) -> None:
        """Call `look` in each round; while it returns True, there is one each second."""
        self._looks.append(look)
        self.look_soon()

    def look_soon(self) -> None:
        """Have the next round within a second."""
        if self._next_look.when > time.monotonic() + _SOON_S:
            self._next_look.cancel()
            self._next_look = self.later(_SOON_S, self._look)

    def _look(self) -> None:
        self._next_look = self.later(_REST_S, self._look)
        for look in self._looks:
            try:
                if look():
                    self.look_soon()
            except Exception as error:  # noqa: BLE001 - outermost loop, as in `turn`
                self._failed(error)

    def after_turns(self, hook: Callable[[], None]) -> None:
        """Call `hook` at the end of every turn; at most a handful of hooks."""
        self._hooks.append(hook)

    def stop(self) -> None:
        """Leave `run` after this turn."""
        self._stopping = True

    def run(self) -> None:
        """Run turns until stopped."""
        while not self._stopping:
            self.turn()

    def turn(self) -> None:
        """Wait once, handle what is ready, run due timers and the hooks."""
        timers = self._timers
        timeout = max(0.0, timers[0][0] - time.monotonic()) if timers else -1.0
        events = self._epoll.poll(timeout, _MAX_EVENTS)
        now = time.monotonic()
        self.now_ns = time.time_ns()
        handlers = self._handlers
        for fd, event in events:
            handler = handlers.get(fd)
            if handler is None:
                continue  # unwatched by an earlier handler of this turn
            try:
                handler(event)
            except Exception as error:  # noqa: BLE001 - outermost loop: one process's fault must not stop the others
                self._failed(error)
        if timers:
            self._run_timers(now)
        for hook in self._hooks:
            try:
                hook()
            except Exception as error:  # noqa: BLE001 - as above
                self._failed(error)

    def _run_timers(self, now: float) -> None:
        """Fire what was due when the turn began: what a handler put off comes after this turn's hooks.

        The oldest first; what does not fit into this turn's time is left for the next one.
        """
        until = time.monotonic() + _TIMERS_S
        while self._timers and self._timers[0][0] <= now and time.monotonic() < until:
            timer = heapq.heappop(self._timers)[2]
            try:
                timer.fire()
            except Exception as error:  # noqa: BLE001 - as above
                self._failed(error)

    def _failed(self, error: Exception) -> None:
        self._log(f"Traceback: {reason_of(error)} at {places_of(error)}")
        self._errors += 1
        if self._errors >= _MAX_ERRORS:
            self._log("too many errors: ending, the successor starts from the files")
            os._exit(70)


def reason_of(error: Exception) -> str:
    """Return what went wrong, in one line."""
    # Not its repr, which leaves out the name of a file.
    return f"{type(error).__name__}: {error}".replace("\n", " | ")


def places_of(error: Exception) -> str:
    """Return where it was raised, outermost call first; importing `traceback` would cost each keeper 5 ms."""
    places = []
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        places.append(f"{code.co_filename}:{trace.tb_lineno} {code.co_name}")
        trace = trace.tb_next
    return " > ".join(places)
