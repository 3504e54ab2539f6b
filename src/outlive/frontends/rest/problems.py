"""Everything that goes wrong at REST's paths as application/problem+json (RFC 9457).

`type` leads to the documentation of the slug. The documented paths get `success` and `message` on top, which
is where their callers look. The probes and what stands before the frontend use this, too; what is unexpected
is the boundary's, as at every frontend.
"""

from collections.abc import Mapping
from types import MappingProxyType

from starlette.types import Scope, Send

from outlive.core.errors import SLUGS, OutliveError
from outlive.core.hints import hint_for, worded
from outlive.server.error_formats import CLOSE, STATUS, Headers, send_json

DOCS_PATH = "/docs"
MEDIA_TYPE = "application/problem+json"
_DOCUMENTED = "/api/"  # promise S4.7

# What only HTTP can get wrong: slug -> (status, hint). The engine's own slugs are in `error_formats.STATUS`.
HTTP_SLUGS: Mapping[str, tuple[int, str]] = MappingProxyType(
    {
        "unknown_path": (404, f"{DOCS_PATH} lists every path."),
        "http_method_not_allowed": (405, "The Allow header names the methods of this path."),
        "not_json": (415, "Send Content-Type: application/json."),
        "body_too_large": (413, "Send less at a time, or raise --max-message-bytes."),
        "file_exists": (409, "Choose another name, or pass replace=true."),
        "upload_failed": (409, "The process of the upload (tag upload=NAME) has what its command said."),
        "key_reused": (422, "Use a fresh Idempotency-Key for another command."),
    }
)
# What was asked for may run, or have been done.
_UNSURE = frozenset({"server_lost", "keeper_restarted", "extension_lost", "timeout"})


class HttpRefusal(Exception):
    """A request is refused for a reason that only HTTP has; `slug` is one of `HTTP_SLUGS`."""

    def __init__(self, slug: str, detail: str) -> None:
        super().__init__(detail)
        self.slug = slug
        self.detail = detail


def known_problems() -> list[tuple[str, int, str]]:
    """Return (slug, status, hint) of everything that a caller may meet here, sorted."""
    ours = [(slug, status, hint) for slug, (status, hint) in HTTP_SLUGS.items()]
    return sorted(
        [*ours, *((slug, STATUS[slug], worded(slug, hint, "rest")) for slug, (_, hint) in SLUGS.items())]
    )


async def send_problem(
    scope: Scope,
    send: Send,
    *,
    error: str,
    message: str,
    status: int | None = None,
    hint: str = "",
    headers: Headers = (),
    details: Mapping[str, object] | None = None,
    degraded: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Answer a request or an upgrade with a problem.

    Status and hint are the slug's own unless a better one is known.

    `degraded` is one more member where there is one.
    """
    own_status, own_hint = HTTP_SLUGS[error] if error in HTTP_SLUGS else (STATUS[error], SLUGS[error][1])
    body: dict[str, object] = {
        "type": f"{DOCS_PATH}#problem-{error}",
        "title": error.replace("_", " ").capitalize(),
        "status": status or own_status,
        "detail": message,
        "slug": error,
        "hint": worded(error, hint or own_hint, "rest"),
    }
    if details:
        body["details"] = dict(details)
    if scope["path"].startswith(_DOCUMENTED):
        body |= {"success": False, "message": message}
    body |= degraded
    await send_json(
        scope, send, status=status or own_status, body=body, headers=headers, media_type=MEDIA_TYPE
    )


async def send_refusal(scope: Scope, send: Send, error: OutliveError | HttpRefusal) -> None:
    """Answer with the problem that an error is."""
    if isinstance(error, HttpRefusal):
        # The rest of a body that is too large is not read, so nothing else can come over its connection.
        headers = CLOSE if error.slug == "body_too_large" else ()
        await send_problem(scope, send, error=error.slug, message=error.detail, headers=headers)
        return
    # Many clients repeat what has a Retry-After unasked: none where what was asked for may have been done.
    is_unsure = error.code in _UNSURE or "process_id" in error.details
    is_repeatable = STATUS[error.code] == 503 and not is_unsure
    await send_problem(
        scope,
        send,
        error=error.code,
        message=error.message,
        hint=hint_for(error, "rest"),
        headers=((b"retry-after", b"1"),) if is_repeatable else (),
        details=error.details,
    )
