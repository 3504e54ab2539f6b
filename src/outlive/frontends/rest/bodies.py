"""How large a request may be: `BodyLimit`, a layer around the routes."""

import re

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from outlive.frontends.rest.problems import HttpRefusal

# What is passed on piece by piece and never held: nothing needs a limit there, and half of an input is worse than none.
_STREAMED = re.compile(r"/v1/processes/[^/]+/stdin")


class BodyLimit:
    """Lets a body of at most `limit_bytes` pass, whether its length was announced or not.

    Raises:
        HttpRefusal: `body_too_large`, out of the reading of the body.
    """

    def __init__(self, app: ASGIApp, *, limit_bytes: int) -> None:
        """Stand before `app`."""
        self._app = app
        self._limit_bytes = limit_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request or WebSocket."""
        if scope["type"] != "http" or _STREAMED.fullmatch(scope["path"]):
            await self._app(scope, receive, send)
            return
        announced = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        if announced.isdigit() and int(announced) > self._limit_bytes:
            raise self._refusal()
        read_bytes = 0

        async def count() -> Message:
            nonlocal read_bytes
            message = await receive()
            read_bytes += len(message.get("body", b""))
            if read_bytes > self._limit_bytes:
                raise self._refusal()
            return message

        async def answer(message: Message) -> None:
            # FastAPI takes whatever the reading of a body raises for broken JSON, and answers 400: that is left out.
            if read_bytes <= self._limit_bytes:
                await send(message)

        await self._app(scope, count, answer)
        if read_bytes > self._limit_bytes:
            raise self._refusal()

    def _refusal(self) -> HttpRefusal:
        return HttpRefusal("body_too_large", f"The body has more than {self._limit_bytes} bytes.")
