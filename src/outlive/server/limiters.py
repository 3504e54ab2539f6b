"""How many HTTP connections there may be, and how long one may take to send a request: `ConnectionLimiter`.

Thousands of connections that send nothing, or one byte a minute, must not keep other callers out. When the
limit is reached, the connection that has been idle for the longest time is closed, and an incomplete request
is refused after a deadline. A complete request may take as long as it likes. WebSocket connections are not
counted here: `http_server` hands them over and they leave this limiter.

Time in which the event loop did not run is not counted as idle time: the client's bytes lay in the kernel
meanwhile (decision 146).

How often a principal may send requests over HTTP (`RateLimiter`), and in which order they are served
(`FairQueue`).

`RateLimiter` is the ASGI layer behind the guard, which has found the principal. A principal above its rate
gets 429 (RFC 6585, section 4) with the seconds to wait (Retry-After, RFC 9110, section 10.2.3). On a
WebSocket no request is refused: the frontend reads the next message later, by the same count.

`FairQueue` keeps the event loop responsive. A hundred requests that become runnable in one turn of the loop
would all be served before any other event. So only a few begin in each turn, one principal's after another's:
the principal with most requests waits most.
"""

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable
from enum import Enum, auto
from typing import Protocol

from starlette.types import ASGIApp, Receive, Scope, Send

from outlive.core.errors import SLUGS
from outlive.kernel.callers import AcceptTurns
from outlive.policy.access import Access, Rates
from outlive.server.access.guard import ACCESS
from outlive.server.error_formats import STATUS, SendError, send_error

SWEEP_S = 0.25  # between two sweeps of a loop that is not late

_HEAD_S = 10.0  # from the connection, or a request's first byte, to the end of its head
_BODY_S = 120.0  # from the end of the head to the end of the body: 16 MiB at 140 KB/s
# A new connection is not closed to make room at once: its request may be on its way, or may lie unread in the
# kernel. Up to twice the limit may therefore be open. Above that, a new connection is safe only until the
# loop has had enough turns to read its bytes.
_CHANCE_S = 3.0
_CHANCE_TURNS = 8


class ConnectionPhase(Enum):
    """What has to come next on a connection."""

    HEAD = auto()  # a request line and headers, from the client
    BODY = auto()  # the rest of the request, from the client
    ANSWER = auto()  # the response, from this server
    REST = auto()  # nothing: the request was answered, and the connection is kept alive for another one


class LimitedConnection(Protocol):
    """A connection as the limiter sees it; `since` is when its phase began, in seconds during which the loop
    ran.
    """

    phase: ConnectionPhase
    since: float

    @property
    def is_answered(self) -> bool:
        """Whether no answer is being made or sent."""

    def turn_away(self, status: int) -> None:
        """End the connection, with a status line where the client can still read one."""

    def drop(self) -> None:
        """End the connection without an answer."""


class ConnectionLimiter:
    """All HTTP connections of a server, the one that has waited longest first.

    Used on the event loop only.
    """

    def __init__(
        self, most: int, clock: Callable[[], float], soon: Callable[[Callable[[], None]], object]
    ) -> None:
        """Allow `most` connections at a time; `soon` calls its argument in the loop's next turn
        (`loop.call_soon`).
        """
        self._most = most
        self._soon = soon
        # Turns of the loop are counted only while the limit is reached: counting costs a callback in each
        # turn.
        self._turn = self._last_turn = 0
        self.turns = AcceptTurns()  # of Unix sockets
        self._clock = clock
        self._swept = clock()
        self._lost_s = 0.0  # seconds in which the loop did not run
        # Each connection and the turn in which it was accepted. Idle ones move to the end, so the first idle
        # one is the oldest.
        self._connections: dict[LimitedConnection, int] = {}

    def __len__(self) -> int:
        """Return how many connections are open."""
        return len(self._connections)

    def enter(self, connection: LimitedConnection) -> None:
        """Count a new connection; at the limit an idle one is closed for it, or else the new one is."""
        if len(self._connections) >= self._most:
            self._count_turns()
            idle = self._evictable()
            if idle is not None:
                del self._connections[idle]
                idle.drop()
            elif not any(map(_is_new, self._connections)):
                connection.drop()
                return
        self._connections[connection] = self._turn
        self.begin(connection, ConnectionPhase.HEAD)

    def _evictable(self) -> LimitedConnection | None:
        """Return the connection to close for a new one; None when there is none."""
        idle = next((one for one in self._connections if self._is_evictable(one)), None)
        if idle is None and len(self._connections) >= 2 * self._most:
            # Twice the limit: new connections are closed too, if the loop has had turns enough to read their
            # requests.
            ripe = self._turn - _CHANCE_TURNS
            return next(
                (one for one, turn in self._connections.items() if turn <= ripe and _is_new(one)), None
            )
        return idle

    def _count_turns(self) -> None:
        """Count the loop's turns for a while; each further call prolongs it."""
        if self._last_turn <= self._turn:
            self._soon(self._tick)
        self._last_turn = self._turn + _CHANCE_TURNS + 1

    def _tick(self) -> None:
        self._turn += 1
        if self._turn < self._last_turn:
            self._soon(self._tick)

    def begin(self, connection: LimitedConnection, phase: ConnectionPhase) -> None:
        """Record that a connection's phase begins."""
        connection.phase = phase
        connection.since = self._now()
        # Idle since now: behind all that have been idle for longer.
        if phase is ConnectionPhase.REST and connection in self._connections:
            self._connections[connection] = self._connections.pop(connection)

    def leave(self, connection: LimitedConnection) -> None:
        """Forget a connection; idempotent."""
        self._connections.pop(connection, None)

    def sweep(self) -> bool:
        """Refuse the requests that take too long (408); return whether others may come to take too long.

        Called every `SWEEP_S`, later when the loop is late, as long as it returns True.
        """
        # A late call means that the loop stood still, and could not read what the clients had sent.
        late_s = self._clock() - self._swept - SWEEP_S
        self._swept = self._clock()
        self._lost_s += max(0.0, late_s)
        now = self._now()
        is_waiting = False
        for connection in list(self._connections):
            limit_s = {ConnectionPhase.HEAD: _HEAD_S, ConnectionPhase.BODY: _BODY_S}.get(connection.phase)
            if limit_s is None:
                continue
            if now - connection.since > limit_s and connection.is_answered:
                self.leave(connection)
                connection.turn_away(408)
            else:
                is_waiting = True
        return is_waiting

    def _now(self) -> float:
        return self._clock() - self._lost_s

    def _is_evictable(self, connection: LimitedConnection) -> bool:
        is_idle = connection.phase is ConnectionPhase.REST or (
            _is_new(connection) and self._now() - connection.since >= _CHANCE_S
        )
        return is_idle and connection.is_answered


def _is_new(connection: LimitedConnection) -> bool:
    """Tell whether a connection has not sent a whole request yet."""
    return connection.phase is ConnectionPhase.HEAD and connection.is_answered


# Requests of a millisecond of work each: between them the loop serves everything else some hundred times a
# second.
_EACH_TURN = 2


class FairQueue:
    """Lets a few requests begin in each turn of the loop, the others in later turns.

    Used on one event loop only.
    """

    def __init__(self) -> None:
        self._left = _EACH_TURN
        self._is_due = False
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    async def wait(self, name: str) -> None:
        """Return when it is the turn of one more request of `name`.

        Cancellation: safe; the next request takes the place.
        """
        loop = asyncio.get_running_loop()
        if not self._is_due:
            self._is_due = True
            loop.call_soon(self._begin_turn, loop)
        if self._left and not self._waiting:
            self._left -= 1
            return
        place: asyncio.Future[None] = loop.create_future()
        self._waiting.setdefault(name, deque()).append(place)
        await place

    def _begin_turn(self, loop: asyncio.AbstractEventLoop) -> None:
        self._left = _EACH_TURN
        while self._left and self._waiting:
            # Round-robin: the principal at the front gets one place, then goes to the end.
            name = next(iter(self._waiting))
            line = self._waiting.pop(name)
            place = line.popleft()
            if line:
                self._waiting[name] = line
            if not place.done():  # else its caller has given up
                place.set_result(None)
                self._left -= 1
        self._is_due = bool(self._waiting)
        if self._is_due:
            loop.call_soon(self._begin_turn, loop)


# Counts a principal's requests: 0.0, or the seconds that they are too early.
Take = Callable[[str, int], float]
_SLUG = "rate_limited"
_NO_PRINCIPAL = ""  # a browser's preflight cannot show a credential: all preflights share one rate


def counting(rate: float | None) -> Take:
    """Return what counts the requests of every principal together; `rate` a second of each, None: any
    number.
    """
    rates = Rates(rate)

    def take(principal: str, count: int) -> float:
        return rates.take(principal, time.monotonic(), count=count)

    return take


class RateLimiter:
    """Lets a request pass to `app`, or answers that it comes too early."""

    def __init__(
        self,
        app: ASGIApp,
        take: Take,
        *,
        free_paths: frozenset[str] = frozenset(),
        answer: SendError = send_error,
    ) -> None:
        """Stand before `app`.

        Args:
            app: What is asked.
            take: Counts a request.
            free_paths: Paths that are never counted: health and metrics matter most when the server is
                overloaded.
            answer: Gives a refusal its format.
        """
        self._app = app
        self._take = take
        self._turns = FairQueue()
        self._free_paths = free_paths
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, upgrade or lifespan."""
        if scope["type"] == "http" and scope["path"] not in self._free_paths:
            known: Access | None = scope["state"].get(ACCESS)
            principal = known.principal if known else _NO_PRINCIPAL
            wait_s = self._take(principal, 1)
            if wait_s:
                await self._answer(
                    scope,
                    send,
                    status=STATUS[_SLUG],
                    error=_SLUG,
                    message="Too many requests of this principal.",
                    hint=SLUGS[_SLUG][1],
                    headers=((b"retry-after", b"%d" % math.ceil(wait_s)),),
                )
                return
            await self._turns.wait(principal)
        await self._app(scope, receive, send)
