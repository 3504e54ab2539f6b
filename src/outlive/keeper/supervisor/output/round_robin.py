"""When a stream is moved: as soon as it brings something, or in turns with others that often bring little:
`RoundRobin`.

Streams that take turns are not watched meanwhile. A few are moved at a time, one batch after the other. So
the loop never sleeps, other events are seen at once, and servers get the doorbells of a few streams often,
instead of those of all streams together (decision 129). Moving itself is the pump's.
"""

import select
import time
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from itertools import islice

from outlive.keeper.supervisor.loop import Loop
from outlive.keeper.supervisor.managed_process import Stream

# How long a round through all streams takes, and the time between two batches, for a few streams and for many
# of them (chosen with the benchmark of many streams).
_ROUND_S = 0.001
_LONG_ROUND_S = 0.006
_MANY = 8
_TICK_S = 0.001
_LONG_TICK_S = 0.002
_CHATTY_AFTER = 16  # short reads in a row: then a stream takes turns
_CHATTY_GAP_NS = 20_000_000  # a stream that was silent for so long is not chatty any more
_EMPTY_TURNS = 4  # turns in a row without bytes: then a stream is watched again


class RoundRobin:
    """Calls `move` with each stream when it is time, in the loop's thread; `move` returns whether there was
    anything.

    When the last writer of a watched stream has closed, `hung_up` is called instead. A stream is watched, or
    in the ring, or neither. A chatty stream without others stays watched: there is none to take turns with.
    """

    def __init__(self, loop: Loop, move: Callable[[Stream], bool], hung_up: Callable[[Stream], None]) -> None:
        self._loop = loop
        self._move = move
        self._hung_up = hung_up
        self._ring: OrderedDict[Stream, None] = OrderedDict()
        self._lone: Stream | None = None  # the chatty stream that is watched, since it is the only one
        self._is_timed = False
        self._turned_at = 0.0
        self._share = 0.0  # the fraction of a stream that was due at the last turn and has not been moved

    def __len__(self) -> int:
        """Return how many streams take turns."""
        return len(self._ring)

    def __contains__(self, stream: Stream) -> bool:
        """Return whether a stream takes turns."""
        return stream in self._ring

    def moves(self, stream: Stream) -> bool:
        """Return whether a stream is moved at all, watched or in turns."""
        return stream in self._ring or self._loop.is_watched(stream.source)

    def watch(self, stream: Stream) -> None:
        """Move the stream from now on as soon as it brings something."""
        if stream in self._ring or stream is self._lone:
            self.leave(stream)
        stream.short_reads = 0
        self._loop.watch(stream.source, partial(self._readable, stream))

    def leave(self, stream: Stream) -> None:
        """Stop moving the stream. If one stream is left in the ring it is alone, and is watched again."""
        self._loop.unwatch(stream.source)
        stream.short_reads = 0
        ring = self._ring
        if stream is self._lone:
            self._lone = None
        elif stream in ring:
            del ring[stream]
            if len(ring) == 1:
                lone, _ = ring.popitem()
                self.watch(lone)
                self._lone = lone

    def note_little(self, stream: Stream, now_ns: int) -> None:
        """Record that a stream brought little; one that does so all the time takes turns with the others."""
        stream.short_reads = stream.short_reads + 1 if now_ns - stream.last_ns < _CHATTY_GAP_NS else 0
        stream.last_ns = now_ns
        if stream.short_reads == _CHATTY_AFTER:
            self._enter(stream)

    def note_much(self, stream: Stream) -> None:
        """Record that a stream brought much: it takes no turns any more."""
        stream.short_reads = 0
        if stream in self._ring:
            self.watch(stream)

    def _readable(self, stream: Stream, events: int) -> None:
        if events & select.EPOLLHUP:
            self._hung_up(stream)
        else:
            self._move(stream)

    def _enter(self, stream: Stream) -> None:
        lone, ring = self._lone, self._ring
        if stream is lone or stream in ring or not self._loop.is_watched(stream.source):
            return  # a stream that is held is moved when its process ends, and not before
        # Turns need at least two: the first chatty stream stays watched until a second one comes.
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
        """Move as many streams as are due for the time since the last turn, each once at most."""
        self._is_timed = False
        ring = self._ring
        count = len(ring)
        if not count:
            return
        self._turn_later()  # first, so that an error about one stream does not stop the others
        now = time.monotonic()
        round_s = _LONG_ROUND_S if count >= _MANY else _ROUND_S
        due = self._share + count * (now - self._turned_at) / round_s
        self._turned_at = now
        whole = int(due)
        self._share = due - whole
        for stream in list(islice(ring, min(whole, count))):
            if stream in ring:  # it may have left the ring because of a stream that was moved before it
                ring.move_to_end(stream)
                self._take(stream)

    def _take(self, stream: Stream) -> None:
        if self._move(stream):
            stream.empty_turns = 0
            return
        stream.empty_turns += 1
        if stream.empty_turns >= _EMPTY_TURNS and stream in self._ring:
            self.watch(stream)
