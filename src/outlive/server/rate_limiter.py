"""How often a principal may send requests over HTTP (`RateLimiter`), and in which order they are served (`FairQueue`).

`RateLimiter` is the ASGI layer behind the guard, which has found the principal. A principal above its rate gets 429 (RFC 6585,
section 4) with the seconds to wait (Retry-After, RFC 9110, section 10.2.3). On a WebSocket no request is refused: the frontend
reads the next message later, by the same count.

`FairQueue` keeps the event loop responsive. A hundred requests that become runnable in one turn of the loop would all be served
before any other event. So only a few begin in each turn, one principal's after another's: the principal with most requests waits
most.
"""

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable

from starlette.types import ASGIApp, Receive, Scope, Send

from outlive.core.errors import SLUGS
from outlive.policy.access import Access
from outlive.policy.limits import Rates
from outlive.server.access.guard import ACCESS
from outlive.server.error_formats import STATUS, SendError, send_error

_EACH_TURN = (
    2  # requests of a millisecond of work each: the loop sees to everything else some hundred times a second
)


class FairQueue:
    """Lets a few requests begin in each turn of the loop, the others in later turns. Used on one event loop only."""

    def __init__(self) -> None:
        """Begin without waiting requests."""
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


Take = Callable[
    [str, int], float
]  # counts a principal's requests: 0.0, or the seconds that they are too early
_SLUG = "rate_limited"
_NO_PRINCIPAL = ""  # a browser's preflight cannot show a credential: all preflights share one rate


def counting(rate: float | None) -> Take:
    """Return what counts the requests of every principal together; `rate` a second of each, None: any number."""
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
            free_paths: Paths that are never counted: health and metrics matter most when the server is overloaded.
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
