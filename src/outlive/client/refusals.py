"""What an HTTP answer means that opens no WebSocket. Pure."""

import json

from outlive.client.runtime import Unreachable
from outlive.core.errors import SLUGS, OutliveError, error_from_slug

CONNECTING_S = 30.0  # a server that has just started lets its callers wait until it has recovered

_STATUS_SLUGS = {401: "key_missing", 403: "foreign_origin", 421: "foreign_host"}


def refused(status: int, answer: bytes) -> Exception:
    """Return the error that an answer's status and body tell; `Unreachable` where another moment may bring better."""
    try:
        body = json.loads(answer)
        slug, message, hint = str(body["error"]), str(body["message"]), str(body["hint"])
    except (ValueError, KeyError, TypeError):
        slug, message, hint = (
            _STATUS_SLUGS.get(status, ""),
            f"The server refused the connection (HTTP {status}).",
            "",
        )
    if slug not in SLUGS and status >= 500:
        return Unreachable(message)
    found = error_from_slug(slug, message, hint=hint)
    return found if slug in SLUGS else OutliveError("internal_error", message, hint=hint)
