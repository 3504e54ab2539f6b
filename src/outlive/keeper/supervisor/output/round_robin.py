"""When a stream is moved: `RoundRobin`. As soon as it brings something; or, of several that bring little all the time, each in its turn.

Those are not watched meanwhile. A few are moved at a time, one batch after the other: nobody sleeps, whatever else happens
is seen at once, and servers get the doorbells of a few streams often instead of those of all streams together (decision 129).
"""

import select
import time
from collections import OrderedDict
from collections.abc import Callable
from itertools import islice

from outlive.keeper.supervisor.loop import Loop
from outlive.keeper.supervisor.managed_process import Stream

# A round of several streams, of many, and how often some are taken (bench: many streams).
_ROUND_S = 0.001
_LONG_ROUND_S = 0.006
_MANY = 8
_TICK_S = 0.001
_LONG_TICK_S = 0.002
_CHATTY_AFTER = 16  # short reads in a row
_CHATTY_GAP_NS = 20_000_000  # a stream that was silent for so long is not chatty any more
_EMPTY_TURNS = 4  # in a row: one that was silent for so long in the wheel is watched again


class RoundRobin:
    """Calls `move` with each stream when it is time, in the loop's thread; `move` tells whether there was anything.

    Where nobody can write to a watched stream any more `hung_up` is called instead.
    A stream is watched, or in the ring, or neither. One that is chatty alone stays watched: there is nobody to take turns with.
    """

    def __init__(self, loop: Loop, move: Callable[[Stream], bool], hung_up: Callable[[Stream], None]) -> None:
        """Begin with no stream: an empty ring does not turn."""
        self._loop = loop
        self._move = move
        self._hung_up = hung_up
        self._ring: OrderedDict[Stream, None] = OrderedDict()
        self._lone: Stream | None = None  # the chatty stream that is watched
        self._is_timed = False
        self._turned_at = 0.0
        self._share = 0.0  # of a stream, due since the last turn

    def __len__(self) -> int:
        """Return how many streams take turns."""
        return len(self._ring)

    def __contains__(self, stream: Stream) -> bool:
        """Tell whether a stream takes turns."""
        return stream in self._ring

    def moves(self, stream: Stream) -> bool:
        """Tell whether a stream is moved, whichever way."""
        return stream in self._ring or self._loop.is_watched(stream.source)

    def watch(self, stream: Stream) -> None:
        """From now on move it as soon as it brings something."""
        self.leave(stream)
        self._listen(stream)

    def leave(self, stream: Stream) -> None:
        """From now on do not move it. The last one in the ring is alone then, and is watched again."""
        self._loop.unwatch(stream.source)
        stream.short_reads = 0
        ring = self._ring
        if stream is self._lone:
            self._lone = None
        elif stream in ring:
            del ring[stream]
            if len(ring) == 1:
                self._lone, _ = ring.popitem()
                self._listen(self._lone)

    def note_little(self, stream: Stream, now_ns: int) -> None:
        """Take note that a stream has brought little; one that does so all the time takes turns with the others."""
        stream.short_reads = stream.short_reads + 1 if now_ns - stream.last_ns < _CHATTY_GAP_NS else 0
        stream.last_ns = now_ns
        if stream.short_reads == _CHATTY_AFTER:
            self._enter(stream)

    def note_much(self, stream: Stream) -> None:
        """Take note that a stream has brought much: it takes no turns."""
        stream.short_reads = 0
        if stream in self._ring:
            self.watch(stream)

    def _listen(self, stream: Stream) -> None:
        def readable(events: int) -> None:
            if events & select.EPOLLHUP:
                self._hung_up(stream)
            else:
                self._move(stream)

        self._loop.watch(stream.source, readable)

    def _enter(self, stream: Stream) -> None:
        lone, ring = self._lone, self._ring
        if stream is lone or stream in ring or not self._loop.is_watched(stream.source):
            return  # what is held is moved when its process ends, and then only
        if not ring:
            if lone is None or stream.last_ns - lone.last_ns > _CHATTY_GAP_NS:
                self._lone = stream
                return
            self._lone = None
            self._add(lone)
        self._add(stream)

    def _add(self, stream: Stream) -> None:
        self._loop.unwatch(stream.source)
        stream.empty_turns = 0
        self._ring[stream] = None
        if not self._is_timed:
            self._turned_at, self._share = time.monotonic(), 0.0
            self._turn_later()

    def _turn_later(self) -> None:
        self._is_timed = True
        self._loop.later(_LONG_TICK_S if len(self._ring) >= _MANY else _TICK_S, self._turn)

    def _turn(self) -> None:
        """Move as many as the time since the last turn is worth, and all of them at most."""
        self._is_timed = False
        ring = self._ring
        count = len(ring)
        if not count:
            return
        self._turn_later()  # first: who raises must not stop the others
        now = time.monotonic()
        round_s = _LONG_ROUND_S if count >= _MANY else _ROUND_S
        due = self._share + count * (now - self._turned_at) / round_s
        self._turned_at = now
        whole = int(due)
        self._share = due - whole
        for stream in list(islice(ring, min(whole, count))):
            if stream in ring:  # else one that was moved before it has ended it
                ring.move_to_end(stream)
                self._take(stream)

    def _take(self, stream: Stream) -> None:
        if self._move(stream):
            stream.empty_turns = 0
            return
        stream.empty_turns += 1
        if stream.empty_turns >= _EMPTY_TURNS and stream in self._ring:
            self.watch(stream)
