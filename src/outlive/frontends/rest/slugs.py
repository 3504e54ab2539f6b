"""The body of a problem (RFC 9457) and the slugs that only HTTP has. Needs no web framework: the probes use it, too.

Problems without the web framework: for the probes, and for who is answered before the door (`frontends.dialects`).
"""

from collections.abc import Mapping
from types import MappingProxyType

from starlette.types import Scope, Send

from outlive.core.errors import SLUGS
from outlive.core.hints import worded
from outlive.server.error_formats import STATUS, Headers, send_json

DOCS_PATH = "/docs"
MEDIA_TYPE = "application/problem+json"
_DOCUMENTED = "/api/"  # promise S4.7

# What only HTTP can get wrong: slug -> (status, hint). The engine's own slugs are in `answers.STATUS`.
HTTP_SLUGS: Mapping[str, tuple[int, str]] = MappingProxyType(
    {
        "unknown_path": (404, f"{DOCS_PATH} lists every path."),
        "http_method_not_allowed": (405, "The Allow header names the methods of this path."),
        "not_json": (415, "Send Content-Type: application/json."),
        "body_too_large": (413, "Send less at a time, or raise --max-message-bytes."),
        "key_reused": (422, "Use a fresh Idempotency-Key for another command."),
    }
)


def known_problems() -> list[tuple[str, int, str]]:
    """Return (slug, status, hint) of everything that a caller may meet here, sorted."""
    ours = [(slug, status, hint) for slug, (status, hint) in HTTP_SLUGS.items()]
    return sorted(
        [*ours, *((slug, STATUS[slug], worded(slug, hint, "rest")) for slug, (_, hint) in SLUGS.items())]
    )


def problem(
    slug: str,
    detail: str,
    *,
    status: int | None = None,
    hint: str = "",
    details: Mapping[str, object] | None = None,
) -> dict[str, object]:
    """Return the body of a problem; status and hint are the slug's own unless a better one is known."""
    own_status, own_hint = HTTP_SLUGS[slug] if slug in HTTP_SLUGS else (STATUS[slug], SLUGS[slug][1])
    body: dict[str, object] = {
        "type": f"{DOCS_PATH}#problem-{slug}",
        "title": slug.replace("_", " ").capitalize(),
        "status": status or own_status,
        "detail": detail,
        "slug": slug,
        "hint": worded(slug, hint or own_hint, "rest"),
    }
    if details:
        body["details"] = dict(details)
    return body


def as_shown_at(path: str, body: Mapping[str, object]) -> dict[str, object]:
    """Return a problem as a path shows it: the documented ones have `success` and `message` on top."""
    shown = dict(body)
    if path.startswith(_DOCUMENTED):
        shown |= {"success": False, "message": body["detail"]}
    return shown


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
