"""What a request's headers reveal about the web page behind it, and which answers a page may read. Pure.

`Origin` names the page's server. Where a browser leaves it out (images, scripts, links), Fetch metadata still
shows that a page sends the request (W3C, "Fetch Metadata Request Headers"). `guard` decides about foreign
pages, `authenticator` about the others.
"""

import re
from collections.abc import Mapping, Sequence

from starlette.types import Message, Scope, Send

from outlive.core.values import dataclass

# uri-host [":" port] of RFC 9110, section 7.2.
AUTHORITY = re.compile(
    r"(?P<host>[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])(?::(?P<port>[0-9]{1,5}))?",
    re.IGNORECASE | re.ASCII,
)
_WEIGHT = re.compile(r"0(\.[0-9]{0,3})?|1(\.0{0,3})?", re.ASCII)  # qvalue of RFC 9110, section 12.4.2
LOCAL = frozenset({"localhost", "127.0.0.1", "[::1]"})  # the only three hosts that always mean this machine

_Headers = Sequence[tuple[bytes, bytes]]

# The page of outlive's own, `frontends.web`: below this lie its files, which are the same for every caller
# and hold no data.
PAGE_FILES = "/ui/"
CODE_FORM = "/ui/session"  # takes the code that a file of the state folder sends

# Paths that a link on any page may open: they are the same for every caller, hold no data, and never load
# inside a frame.
STATIC_PAGES = frozenset({"/", "/docs", "/openapi.json"})

_UNFRAMED: _Headers = (
    (b"content-security-policy", b"frame-ancestors 'none'"),
    (b"x-frame-options", b"DENY"),
)
# Methods and headers that a page may send, and headers of the answer that it may read (Fetch standard, "CORS
# protocol"). A test compares them with the table of REST's routes, which is loaded at the first request only.
_METHODS = b"GET, POST, PUT, PATCH, DELETE"
_SENT = (
    b"accept, authorization, content-type, idempotency-key, if-range, last-event-id, mcp-method, mcp-name, "
    b"mcp-protocol-version, mcp-session-id, range, x-api-key"
)
_READ = (
    b"accept-ranges, content-range, etag, location, mcp-session-id, outlive-cursor, outlive-gaps, "
    b"outlive-redacted, retry-after"
)


def values_of(scope: Scope, name: bytes) -> list[str]:
    """Return the values of a header, one for each time it was sent."""
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]


def is_local(authority: str) -> bool:
    """Tell whether an authority names this machine, whichever port."""
    match = AUTHORITY.fullmatch(authority)
    return match is not None and match["host"].lower() in LOCAL


def local_origin(scope: Scope) -> str | None:
    """Return the Origin, in lower case, of a page that a server of this machine has served; None for every
    other one.
    """
    origins = values_of(scope, b"origin")
    if len(origins) != 1:
        return None
    scheme, _, authority = origins[0].lower().partition("://")
    return f"{scheme}://{authority}" if scheme in {"http", "https"} and is_local(authority) else None


def is_from_page(scope: Scope) -> bool:
    """Tell whether a web page sends the request, of any server."""
    return bool(values_of(scope, b"origin") or _sites(scope) - {"none"})


def is_cross_site(scope: Scope) -> bool:
    """Tell whether a page of another origin sends the request, by Fetch metadata alone."""
    return bool(_sites(scope) - {"none", "same-origin"})


def is_navigation(scope: Scope) -> bool:
    """Tell whether a person opens one of the static pages in a window of its own: no frame, no image, no
    script.
    """
    return (
        scope.get("method") == "GET"
        and scope.get("path") in STATIC_PAGES
        and not values_of(scope, b"origin")
        and values_of(scope, b"sec-fetch-mode") == ["navigate"]
        and values_of(scope, b"sec-fetch-dest") == ["document"]
    )


@dataclass(frozen=True, slots=True)
class Accept:
    """The media ranges of a request's Accept headers, all of them together, and how much each is wanted (RFC
    9110, section 12.5.1).
    """

    weights: Mapping[str, float]

    @classmethod
    def of(cls, scope: Scope) -> "Accept":
        """Read them; without any, everything is wanted."""
        values = [one for one in values_of(scope, b"accept") if one.strip()]
        return cls(_weights(values) if values else {"*/*": 1.0})

    def named(self, media_type: str) -> float:
        """Return how much a type is wanted by its own name; 0 where only a range has it."""
        return self.weights.get(media_type, 0.0)

    def weight(self, media_type: str) -> float:
        """Return how much a type is wanted: the most specific range that has it counts."""
        ranges = (media_type, f"{media_type.partition('/')[0]}/*", "*/*")
        return next((self.weights[one] for one in ranges if one in self.weights), 0.0)


def wants_html(scope: Scope) -> bool:
    """Tell whether a caller prefers text/html to JSON, as a browser's address line does."""
    accept = Accept.of(scope)
    return accept.weight("text/html") > accept.weight("application/json")


def is_public_page(scope: Scope) -> bool:
    """Tell whether a request asks for what everybody may see of the page of outlive's own: it holds no
    data.
    """
    path = str(scope.get("path"))
    is_shell = path == "/" and wants_html(scope)
    return scope.get("method") in {"GET", "HEAD"} and (is_shell or path.startswith(PAGE_FILES))


def is_code_form(scope: Scope) -> bool:
    """Tell whether a file on this machine sends its code, in a window of its own: a form of a file has the
    Origin null.

    Pages in sandboxed frames have that, too; what lets the caller in is the code, which no page knows.
    """
    return (
        scope.get("method") == "POST"
        and scope.get("path") == CODE_FORM
        and values_of(scope, b"origin") == ["null"]
        and values_of(scope, b"sec-fetch-mode") in ([], ["navigate"])
        and values_of(scope, b"sec-fetch-dest") in ([], ["document"])
    )


def is_preflight(scope: Scope) -> bool:
    """Tell whether a browser asks what it may send: it cannot show a key (Fetch standard, "CORS-preflight
    request").
    """
    return scope.get("method") == "OPTIONS" and bool(values_of(scope, b"access-control-request-method"))


def preflight_headers() -> _Headers:
    """Return which methods and headers a page may send.

    That it may read the answer is added by `readable_by_page`.
    """
    return (
        (b"access-control-allow-methods", _METHODS),
        (b"access-control-allow-headers", _SENT),
    )


def readable_by_page(scope: Scope, send: Send) -> Send:
    """Return a `send` that adds headers to the answer: the asking page may read it, and no page may show it
    in a frame.

    Only for requests whose Origin, if they have one, was found welcome.
    """
    origins = values_of(scope, b"origin")
    extra: list[tuple[bytes, bytes]] = []
    if origins and not is_code_form(scope):  # its answer is shown, and no script may read it
        extra += [
            (b"access-control-allow-origin", origins[0].encode("latin-1")),
            (b"access-control-expose-headers", _READ),
            (b"vary", b"origin"),
        ]
    if scope.get("path") in STATIC_PAGES:
        extra += _UNFRAMED
    if scope["type"] != "http" or not extra:
        return send

    async def add(message: Message) -> None:
        if message["type"] == "http.response.start":
            known = {name.lower() for name, _ in message.get("headers", ())}
            added = [one for one in extra if one[0] not in known or one[0] == b"vary"]
            message = {**message, "headers": [*message.get("headers", ()), *added]}
        await send(message)

    return add


def _sites(scope: Scope) -> set[str]:
    return {one.strip().lower() for one in values_of(scope, b"sec-fetch-site")}


def _weights(values: Sequence[str]) -> dict[str, float]:
    """Return the ranges of Accept headers in lower case, and how much each is wanted.

    What cannot be read is not wanted.
    """
    found: dict[str, float] = {}
    for entry in ",".join(values).split(","):
        name, *parameters = (word.strip().lower() for word in entry.split(";"))
        weight = 1.0
        for one in parameters:
            if one.startswith("q="):
                weight = float(one[2:]) if _WEIGHT.fullmatch(one[2:]) else 0.0
        found[name] = max(weight, found.get(name, 0.0))
    return found
