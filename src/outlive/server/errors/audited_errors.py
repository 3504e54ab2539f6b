"""Refusals at the door, told to somebody else before they are answered: `AuditedErrors`, around a `SendError`."""

from collections.abc import Callable

from starlette.types import Scope, Send

from outlive.core.events import AuditEvent
from outlive.core.process import Owner
from outlive.server.errors.answers import Headers
from outlive.server.errors.error_formats import SendError

_MOST_SHOWN = 200  # characters of a path


class AuditedErrors:
    """A `SendError` that tells `announce` whom the guard did not let in, then answers as `answer` does."""

    def __init__(self, answer: SendError, announce: Callable[[AuditEvent], None]) -> None:
        """Stand before `answer`."""
        self._answer = answer
        self._announce = announce

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
        """Tell, and answer."""
        path = str(scope.get("path", ""))[:_MOST_SHOWN]  # without the query: it may hold a token
        by = Owner(principal="", door="guard", address=_address_of(scope))
        self._announce(
            AuditEvent(what="access", by=by, decision="denied", reason=error, details={"path": path})
        )
        await self._answer(
            scope, send, status=status, error=error, message=message, hint=hint, headers=headers
        )


def _address_of(scope: Scope) -> str:
    """Return where a caller is: "127.0.0.1:50124", or that it came over the Unix socket."""
    client = scope.get("client")
    return f"{client[0]}:{client[1]}" if client and client[0] else "unix"
