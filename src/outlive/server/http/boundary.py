"""The outermost handling of errors: unexpected exceptions (`ErrorBoundary`), refused callers in the audit log
(`AuditedErrors`).

An unexpected exception becomes a log entry with a reference id; the peer receives only that id, never a
traceback, path or secret. Expected errors are answered where they occur: by the frontends, or by the guard
through `AuditedErrors`.
"""

import logging
import secrets

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocketDisconnect

from outlive.core.errors import OutliveError
from outlive.core.events import AuditEvent
from outlive.core.process import Owner
from outlive.engine.processes.event_publisher import EventPublisher
from outlive.server.error_formats import CLOSE, Headers, SendError, send_error
from outlive.server.http.uvicorn_parts import ClientDisconnected

_logger = logging.getLogger(__name__)
_INTERNAL_ERROR = 1011  # WebSocket close code (RFC 6455, section 7.4.1)


class ErrorBoundary:
    """Runs `app`; after an unexpected failure the peer gets a reference, and the log has the traceback."""

    def __init__(self, app: ASGIApp, answer: SendError = send_error) -> None:
        """Stand around `app`; `answer` gives the answer its format."""
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
            pass  # Starlette's way to report a closed connection: no peer is left to answer
        except Exception as error:
            if isinstance(error, OutliveError) and has_begun and scope["type"] == "http":
                # Part of a body was sent, and the rest is not there any more: no fault of the server's. The
                # connection ends in the middle of the body, so that the peer sees that it has not all.
                path = scope.get("path")
                _logger.info("an answer was cut short", extra={"reason": error.code, "path": path})
                return
            reference = secrets.token_hex(4)
            _logger.exception("a request failed", extra={"reference": reference, "path": scope.get("path")})
            # Once the headers were sent, HTTP has no place left for an error: the connection ends in the
            # middle of the body.
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


_MOST_SHOWN = 200  # characters of a path


class AuditedErrors:
    """A `SendError` that publishes each refused caller, then answers as `answer` does."""

    def __init__(self, answer: SendError, events: EventPublisher) -> None:
        """Stand before `answer`."""
        self._answer = answer
        self._events = events

    async def __call__(
        self,
        scope: Scope,
        send: Send,
        *,
        status: int,
        error: str,
        message: str,
        hint: str,
        headers: Headers = (),
    ) -> None:
        """Publish the refusal, and answer once it is recorded."""
        path = str(scope.get("path", ""))[:_MOST_SHOWN]  # without the query: it may hold a token
        by = Owner(principal="", door="guard", address=_address_of(scope))
        self._events.publish(
            AuditEvent(what="access", by=by, decision="denied", reason=error, details={"path": path})
        )
        await self._events.recorded()
        await self._answer(
            scope, send, status=status, error=error, message=message, hint=hint, headers=headers
        )


def _address_of(scope: Scope) -> str:
    """Return a caller's address: "127.0.0.1:50124", or "unix" for the Unix socket."""
    client = scope.get("client")
    return f"{client[0]}:{client[1]}" if client and client[0] else "unix"
