"""Problems without the web framework: for the probes, and for who is answered before the door (`frontends.dialects`)."""

from collections.abc import Mapping

from starlette.types import Scope, Send

from outlive.frontends.answers import Headers, send_json
from outlive.frontends.rest.slugs import MEDIA_TYPE, as_shown_at, problem

__all__ = ["send_problem"]


async def send_problem(
    scope: Scope,
    send: Send,
    *,
    status: int,
    error: str,
    message: str,
    hint: str,
    headers: Headers = (),
    details: Mapping[str, object] | None = None,
) -> None:
    """Answer with a problem."""
    body = as_shown_at(scope["path"], problem(error, message, status=status, hint=hint, details=details))
    await send_json(scope, send, status=status, body=body, headers=headers, media_type=MEDIA_TYPE)
