"""The outermost ASGI layer, on every route and upgrade: `Guard`.

Refuses foreign Hosts (421: DNS rebinding) and foreign pages (403: a web page must not start commands), asks
`authenticator` which principal the caller is, and hands that to the frontends (`access_of`). Decides by the
parsed value of a header, never by a prefix: `localhost.evil.example` begins with `localhost`. The format of a
refusal is decided by `error_formats`.
"""

import asyncio
import contextlib

from starlette.types import ASGIApp, Receive, Scope, Send

from outlive.core.errors import SLUGS
from outlive.core.values import dataclass
from outlive.policy.access import PROGRAM_HINT, Access
from outlive.policy.access import Scope as AccessScope
from outlive.server.access.authenticator import AccessRefusal, Admission, Authenticator, without_tokens
from outlive.server.access.peers import PEER
from outlive.server.access.web_pages import (
    AUTHORITY,
    LOCAL,
    is_code_form,
    is_cross_site,
    is_from_page,
    is_local,
    is_navigation,
    is_preflight,
    is_public_page,
    preflight_headers,
    readable_by_page,
    values_of,
)
from outlive.server.error_formats import CLOSE, STATUS, Headers, SendError, send_error

ACCESS = "outlive.access"  # in scope["state"]: the caller's rights, as the guard found them

_LATER: Headers = (*CLOSE, (b"retry-after", b"1"))  # RFC 9110, section 10.2.3
# How much of a refused request's body is still read, and for how long: enough for a usual call.
_MAX_DRAINED = 64 * 1024
_DRAIN_S = 1.0
_CHALLENGE: Headers = (*CLOSE, (b"www-authenticate", b"Bearer"))  # RFC 9110, section 11.6.1
_ORIGIN_HINT = (
    "Pages of another origin are let in by the user that starts the server, with --allow-origin ORIGIN."
)
_DEFAULT_PORTS = {"http": 80, "https": 443}  # RFC 9110, sections 4.2.1 and 4.2.2


@dataclass(frozen=True, slots=True)
class Names:
    """The server's names beyond this machine: DNS names, `*.example.org` for all of one level, and [IPv6] or
    IPv4.

    A name without a port counts at every port, since a forwarding may use any; `name:port` counts at that
    port only.
    """

    public: frozenset[str] = frozenset()

    def include(self, host: str, port: int) -> bool:
        """Tell whether a host, in lower case, is one of the names at the port that the caller has used."""
        _, _, domain = host.partition(".")
        known = (host, f"*.{domain}")
        return any(name in self.public or f"{name}:{port}" in self.public for name in known)


@dataclass(eq=False, slots=True)
class Guard:
    """Lets a request pass to `app`, or answers it with the refusal.

    Attributes:
        app: The guarded application.
        entry: Decides which callers are let in.
        names: The server's names beyond this machine.
        origins: Origins of other servers whose pages may send requests, as `scheme://host[:port]` in lower
            case.
        open_paths: Paths whose GET is answered for every caller, with facts that are public; so are the
            page's own files.
        answer: Gives a refusal its format.
    """

    app: ASGIApp
    entry: Authenticator
    names: Names = Names()
    origins: frozenset[str] = frozenset()
    open_paths: frozenset[str] = frozenset()
    answer: SendError = send_error

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, upgrade or lifespan."""
        if scope["type"] not in {"http", "websocket"}:
            await self.app(scope, receive, send)
            return
        refusal = judge(scope, names=self.names, origins=self.origins)
        if refusal is None:
            send = readable_by_page(scope, send)
            if is_preflight(scope):  # it cannot carry a credential, and changes nothing
                await _answer_preflight(send)
                return
            found = await self.entry.admit(scope)
            if isinstance(found, AccessRefusal) and self._is_open(scope):
                found = Admission(Access(principal="", scope=AccessScope.HELLO))
            if not isinstance(found, AccessRefusal):
                state = {**scope["state"], ACCESS: found.access}
                if scope["type"] == "websocket":
                    scope = without_tokens(scope)
                with self.entry.watching(found, scope["state"][PEER]):
                    await self.app({**scope, "state": state}, receive, send)
                return
            refusal = found
        await _drain(scope, receive)
        await self._refuse(scope, send, refusal)

    def _is_open(self, scope: Scope) -> bool:
        if scope["type"] != "http":
            return False
        is_known = scope["method"] in {"GET", "HEAD"} and scope["path"] in self.open_paths
        return is_known or is_public_page(scope)

    async def _refuse(self, scope: Scope, send: Send, refusal: AccessRefusal) -> None:
        status = STATUS[refusal.error]
        await self.answer(
            scope,
            send,
            status=status,
            error=refusal.error,
            message=refusal.message,
            hint=refusal.hint or SLUGS[refusal.error][1],
            headers=_CHALLENGE if status == 401 else _LATER if status == 503 else CLOSE,
        )


async def _drain(scope: Scope, receive: Receive) -> None:
    """Read a small rest of the request: closing with unread bytes resets the connection, and the caller loses
    the answer.
    """
    if scope["type"] != "http" or not values_of(scope, b"content-length"):
        return
    left = _MAX_DRAINED
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_DRAIN_S):
            while left > 0:
                message = await receive()
                left -= len(message.get("body", b""))
                if not message.get("more_body"):
                    return


def access_of(scope: Scope) -> Access:
    """Return the caller's rights, which the guard has found; every frontend is behind the guard."""
    access: Access = scope["state"][ACCESS]
    return access


def judge(
    scope: Scope, *, names: Names = Names(), origins: frozenset[str] = frozenset()
) -> AccessRefusal | None:
    """Return what is wrong with the Host or the Origin of a request, None when nothing is. Pure."""
    shown = values_of(scope, b"origin")
    if (scope.get("server") or (None, None))[1] is None:
        # No port: a Unix socket. No browser connects to one, so a program forwards requests of a web page.
        if is_from_page(scope):
            return _foreign_page(scope)
        return None
    is_secure = scope.get("scheme") in {"https", "wss"}
    scheme = "https" if is_secure else "http"
    hosts = values_of(scope, b"host")
    if len(hosts) != 1 or not _is_own(hosts[0], names, default_port=_DEFAULT_PORTS[scheme]):
        found = ", ".join(map(repr, hosts))[:100] or "none"
        return AccessRefusal("foreign_host", f"This server does not answer for that Host ({found}).")
    if is_code_form(scope):
        return None
    if len(shown) > 1 or (shown and not _is_welcome(shown[0], scheme, names, origins)):
        return _foreign_page(scope)
    if not shown and is_cross_site(scope) and not is_navigation(scope):
        return _foreign_page(scope)
    return None


def _foreign_page(scope: Scope) -> AccessRefusal:
    origins = values_of(scope, b"origin")
    found = ", ".join(map(repr, origins))[:100] or "Sec-Fetch-Site tells of one that is not named"
    text = f"Requests of that Origin are refused ({found})."
    return AccessRefusal("foreign_origin", text, hint=f"{PROGRAM_HINT} {_ORIGIN_HINT}")


async def _answer_preflight(send: Send) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": list(preflight_headers())})
    await send({"type": "http.response.body", "body": b""})


def _is_own(authority: str, names: Names, *, default_port: int) -> bool:
    """Tell whether an authority names this server.

    The port does not count for local names: a forwarding may change it.
    """
    match = AUTHORITY.fullmatch(authority)
    if match is None:
        return False
    host = match["host"].lower()
    return host in LOCAL or names.include(host, int(match["port"] or default_port))


def _is_welcome(origin: str, scheme: str, names: Names, origins: frozenset[str]) -> bool:
    """Tell whether a page of that origin may ask at all: of this machine, of our names, or one that was
    allowed.
    """
    if origin.lower() in origins:
        return True
    said, separator, authority = origin.partition("://")
    said = said.lower()
    if not separator or said not in _DEFAULT_PORTS:
        return False
    if is_local(authority):
        return True  # a page of any server on this machine may ask (promise S4.10); it still needs a token
    return said == scheme and _is_own(authority, names, default_port=_DEFAULT_PORTS[said])
