"""How often a principal may ask over HTTP, and whose turn it is: `RateLimiter`, the layer behind the guard.

Who asks too often over HTTP hears so (429, RFC 6585, section 4) and when to come back (Retry-After, RFC 9110, section
10.2.3). On a WebSocket, where nobody needs to be told to repeat anything, the next message is read that much later.
"""

import math
import time
from collections.abc import Callable

from starlette.types import ASGIApp, Receive, Scope, Send

from outlive.core.errors import SLUGS
from outlive.policy.access import Access
from outlive.policy.limits import Rates
from outlive.server.access.guard import ACCESS
from outlive.server.errors.answers import STATUS, send_error
from outlive.server.errors.error_formats import SendError
from outlive.server.limits.fair_queue import FairQueue

Take = Callable[
    [str, int], float
]  # counts a principal's requests: 0.0, or the seconds that they are too early
_SLUG = "rate_limited"
_NOBODY = ""  # a browser that asks what it may send cannot say who it is: all of them share a rate


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
            free_paths: What is never counted: how the server feels must be seen most of all when it is crowded.
            answer: Gives a refusal its shape.
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
            principal = known.principal if known else _NOBODY
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
