"""How many HTTP connections there may be, and how long one may take to say what it wants: `ConnectionLimiter`.

Thousands of connections that ask nothing, or ask a byte a minute, must not keep anybody else out: when it is crowded,
whoever has been idle for the longest time makes room, and nobody is waited for longer than a deadline. Once a request
is there it may take as long as it likes; WebSocket connections are counted elsewhere.

Time in which the loop did not turn is nobody's idleness: what a connection has sent lay in the kernel meanwhile (decision 146).
"""

from collections.abc import Callable
from enum import Enum, auto
from typing import Protocol

from outlive.keeper.common.callers import AcceptTurns

SWEEP_S = 1.0  # between two sweeps of a loop that is not late

_HEAD_S = 10.0  # from the connection, or a request's first byte, to the end of its head
_BODY_S = 120.0  # from there to the end of its body: 16 MiB at 140 KB/s
# A connection that has just come makes no room yet: its request is on its way, or not read yet. As many again as there may be get in
# beside such ones; in a greater crowd it keeps its place until the loop has had turns enough to read what lay there.
_CHANCE_S = 3.0
_CHANCE_TURNS = 8


class ConnectionPhase(Enum):
    """What a connection is waited for."""

    HEAD = auto()  # a request line and headers (or the first byte of them)
    BODY = auto()
    ANSWER = auto()  # from us
    REST = auto()  # answered; kept alive for another request


class LimitedConnection(Protocol):
    """A connection as the turnstile sees it; `since` is when its phase began, in seconds that were served."""

    phase: ConnectionPhase
    since: float

    @property
    def is_answered(self) -> bool:
        """Whether no answer is being made or sent."""

    def turn_away(self, status: int) -> None:
        """End the connection, telling why if it can be told."""

    def drop(self) -> None:
        """End the connection without a word."""


class ConnectionLimiter:
    """All HTTP connections of a server, the longest in their phase first. On the event loop only."""

    def __init__(
        self, most: int, clock: Callable[[], float], soon: Callable[[Callable[[], None]], object]
    ) -> None:
        """Let at most `most` in at a time; `soon` calls what it is given in the loop's next turn."""
        self._most = most
        self._soon = soon
        self._turn = self._last_turn = 0  # counted in a crowd only
        self.turns = AcceptTurns()  # of Unix sockets
        self._clock = clock
        self._swept = clock()
        self._lost_s = 0.0  # in which the loop did not turn
        self._guests: dict[LimitedConnection, int] = {}  # and the turn in which each came

    def __len__(self) -> int:
        """Return how many are in."""
        return len(self._guests)

    def enter(self, guest: LimitedConnection) -> None:
        """Let a connection in; somebody idle makes room when it is crowded, else the newcomer leaves."""
        if len(self._guests) >= self._most:
            self._count_turns()
            idle = self._who_goes()
            if idle is not None:
                del self._guests[idle]
                idle.drop()
            elif not any(map(_is_new, self._guests)):
                guest.drop()
                return
        self._guests[guest] = self._turn
        self.begin(guest, ConnectionPhase.HEAD)

    def _who_goes(self) -> LimitedConnection | None:
        idle = next((one for one in self._guests if self._may_go(one)), None)
        if idle is None and len(self._guests) >= 2 * self._most:
            ripe = self._turn - _CHANCE_TURNS
            return next((one for one, turn in self._guests.items() if turn <= ripe and _is_new(one)), None)
        return idle

    def _count_turns(self) -> None:
        if self._last_turn <= self._turn:
            self._soon(self._tick)
        self._last_turn = self._turn + _CHANCE_TURNS + 1

    def _tick(self) -> None:
        self._turn += 1
        if self._turn < self._last_turn:
            self._soon(self._tick)

    def begin(self, guest: LimitedConnection, phase: ConnectionPhase) -> None:
        """Note that a connection's phase begins."""
        guest.phase = phase
        guest.since = self._now()
        if phase is ConnectionPhase.REST and guest in self._guests:
            self._guests[guest] = self._guests.pop(guest)

    def leave(self, guest: LimitedConnection) -> None:
        """Forget a connection; idempotent."""
        self._guests.pop(guest, None)

    def sweep(self) -> None:
        """Turn away whoever takes too long; called when `SWEEP_S` have passed, or as soon after that as the loop comes to it."""
        late_s = self._clock() - self._swept - SWEEP_S
        self._swept = self._clock()
        self._lost_s += max(0.0, late_s)
        now = self._now()
        for guest in list(self._guests):
            patience_s = {ConnectionPhase.HEAD: _HEAD_S, ConnectionPhase.BODY: _BODY_S}.get(guest.phase)
            if patience_s is not None and now - guest.since > patience_s and guest.is_answered:
                self.leave(guest)
                guest.turn_away(408)

    def _now(self) -> float:
        return self._clock() - self._lost_s

    def _may_go(self, guest: LimitedConnection) -> bool:
        is_idle = guest.phase is ConnectionPhase.REST or (
            _is_new(guest) and self._now() - guest.since >= _CHANCE_S
        )
        return is_idle and guest.is_answered


def _is_new(guest: LimitedConnection) -> bool:
    """Tell whether a connection has not said yet what it wants."""
    return guest.phase is ConnectionPhase.HEAD and guest.is_answered
