"""How large a request may be: `BodyLimit`, a layer around the routes."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from outlive.frontends.rest.problems import HttpRefusal

__all__ = ["BodyLimit"]


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
        if scope["type"] != "http":
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

        await self._app(scope, count, send)

    def _refusal(self) -> HttpRefusal:
        return HttpRefusal("body_too_large", f"The body has more than {self._limit_bytes} bytes.")
