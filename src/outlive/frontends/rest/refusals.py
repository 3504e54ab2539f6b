"""Problems without the web framework: for the probes, and for who is answered before the door (`frontends.dialects`)."""

from collections.abc import Mapping
from types import MappingProxyType

from starlette.types import Scope, Send

from outlive.frontends.rest.slugs import MEDIA_TYPE, as_shown_at, problem
from outlive.server.errors.answers import Headers, send_json


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
    degraded: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Answer with a problem, and with `degraded` as one more member where there is one."""
    told = problem(error, message, status=status, hint=hint, details=details)
    body = as_shown_at(scope["path"], {**told, **degraded})
    await send_json(scope, send, status=status, body=body, headers=headers, media_type=MEDIA_TYPE)
