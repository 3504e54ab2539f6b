"""The last resort of every request: an exception that nobody expected becomes a log entry and a reference id."""

import logging
import secrets

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocketDisconnect

from outlive.server.errors.answers import CLOSE, send_error
from outlive.server.errors.error_formats import SendError
from outlive.server.http.uvicorn_parts import ClientDisconnected

_logger = logging.getLogger(__name__)
_INTERNAL_ERROR = 1011  # WebSocket close code (RFC 6455, section 7.4.1)


class ErrorBoundary:
    """Runs `app`; the peer of an unexpected failure gets a reference, the log has the traceback."""

    def __init__(self, app: ASGIApp, answer: SendError = send_error) -> None:
        """Stand around `app`; `answer` gives the answer its shape."""
        self._app = app
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, upgrade or lifespan."""
        has_begun = False

        async def watch(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self._app(scope, receive, watch)
        except ClientDisconnected:
            raise  # the server's own way to end a request whose peer is gone
        except WebSocketDisconnect:
            pass  # Starlette's way: there is nobody left to tell
        except Exception:
            reference = secrets.token_hex(4)
            _logger.exception("a request failed", extra={"reference": reference, "path": scope.get("path")})
            if not has_begun:
                await self._answer(
                    scope,
                    send,
                    status=500,
                    error="internal_error",
                    message=f"Something went wrong (reference {reference}).",
                    hint="Report it with the reference; the server's log has the details.",
                    headers=CLOSE,
                )
            elif scope["type"] == "websocket":
                await send(
                    {
                        "type": "websocket.close",
                        "code": _INTERNAL_ERROR,
                        "reason": f"internal error, reference {reference}",
                    }
                )
