"""In which shape a caller is told an error that no door has answered: `ErrorFormats`, the one place that decides.

Guard, boundary and front page answer before or beside the doors. What they say belongs to the path: problems on REST's,
JSON-RPC on MCP's, plain JSON everywhere else. The doors bring their shapes; they do not know each other.
"""

from collections.abc import Mapping
from typing import Protocol

from starlette.types import Scope, Send

from outlive.server.errors.answers import Headers, send_error


class SendError(Protocol):
    """Answers a request or an upgrade with an error, as `answers.send_error` does."""

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
        """Send it."""


class ErrorFormats:
    """A `SendError` that speaks as the path demands."""

    def __init__(self, by_path: Mapping[str, SendError]) -> None:
        """Take the shapes by path; one that ends in "/" counts for everything below it."""
        self._exact = {path: shape for path, shape in by_path.items() if not path.endswith("/")}
        self._below = {path: shape for path, shape in by_path.items() if path.endswith("/")}

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
        """Answer in the path's own shape."""
        shape = self._shape(str(scope.get("path", "")))
        await shape(scope, send, status=status, error=error, message=message, hint=hint, headers=headers)

    def _shape(self, path: str) -> SendError:
        found = self._exact.get(path)
        if found is not None:
            return found
        return next((shape for prefix, shape in self._below.items() if path.startswith(prefix)), send_error)
