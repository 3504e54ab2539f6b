"""How long HTTP requests wait for their answers: `Timed`, an ASGI layer that tells somebody else each duration."""

import time
from collections.abc import Callable, Mapping

from starlette.types import ASGIApp, Message, Receive, Scope, Send

Observe = Callable[[str, str, float], None]  # door, what, seconds
_OTHER = "page"
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Timed:
    """Runs `app`; tells the time from a request to the first byte of its answer.

    A path counts as the door whose prefix it begins with, a method that HTTP does not know as "other": callers
    cannot make names up.
    """

    def __init__(self, app: ASGIApp, observe: Observe, *, doors: Mapping[str, str]) -> None:
        """Stand around `app`; `doors` maps prefixes of paths to the doors' names."""
        self._app = app
        self._observe = observe
        self._doors = tuple(doors.items())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, upgrade or lifespan."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun: float | None = time.monotonic()

        async def watch(message: Message) -> None:
            nonlocal begun
            if begun is not None:
                method = scope["method"] if scope["method"] in _METHODS else "other"
                self._observe(self._door(scope["path"]), method.lower(), time.monotonic() - begun)
                begun = None
            await send(message)

        await self._app(scope, receive, watch)

    def _door(self, path: str) -> str:
        return next((door for prefix, door in self._doors if path.startswith(prefix)), _OTHER)
