"""The outermost ASGI layer, on every route and upgrade: `Guard`.

Refuses foreign Hosts (421: DNS rebinding) and foreign Origins (403: a web page must not start commands), asks `entry`
who the caller is, and tells the doors (`access_of`). Decides by the parsed value, never by a prefix. In which shape a
refusal is told, `dialects` knows.
"""

import asyncio
import contextlib
import re
from dataclasses import dataclass

from starlette.types import ASGIApp, Receive, Scope, Send

from outlive.core.errors import SLUGS
from outlive.frontends.answers import CLOSE, STATUS, Headers, send_error
from outlive.frontends.dialects import SendError
from outlive.frontends.entry import Entry, Refusal, values_of, without_tokens
from outlive.frontends.peers import PEER
from outlive.policy.access import Access

__all__ = ["ACCESS", "Guard", "Names", "access_of", "is_preflight", "judge"]

ACCESS = "outlive.access"  # in scope["state"]: who asks, as the guard found out

# uri-host [":" port] of RFC 9110, section 7.2.
_AUTHORITY = re.compile(
    r"(?P<host>[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])(?::(?P<port>[0-9]{1,5}))?",
    re.IGNORECASE | re.ASCII,
)
_LOCAL = frozenset({"localhost", "127.0.0.1", "[::1]"})  # the only three hosts that always mean this machine
_MAX_DRAINED = 64 * 1024
_DRAIN_S = 1.0
_DEFAULT_PORTS = {"http": 80, "https": 443}  # RFC 9110, sections 4.2.1 and 4.2.2


@dataclass(frozen=True, slots=True)
class Names:
    """What the server is called by others: DNS names, `*.example.org` for all of one level, and [IPv6] or IPv4."""

    public: frozenset[str] = frozenset()

    def include(self, host: str) -> bool:
        """Tell whether a host, in lower case, is one of them."""
        _, _, domain = host.partition(".")
        return host in self.public or f"*.{domain}" in self.public


class Guard:
    """Lets a request pass to `app`, or answers it with the refusal."""

    def __init__(
        self,
        app: ASGIApp,
        entry: Entry,
        *,
        names: Names = Names(),
        page_paths: frozenset[str] = frozenset(),
        answer: SendError = send_error,
    ) -> None:
        """Stand before `app`.

        Args:
            app: What is guarded.
            entry: Decides who comes in.
            names: What the server is called beyond this machine.
            page_paths: Where pages of any server on this machine may ask, with a token or the key.
            answer: Gives a refusal its shape.
        """
        self._app = app
        self._entry = entry
        self._names = names
        self._page_paths = page_paths
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, upgrade or lifespan."""
        if scope["type"] not in {"http", "websocket"}:
            await self._app(scope, receive, send)
            return
        refusal = judge(scope, names=self._names, page_paths=self._page_paths)
        if refusal is None:
            if is_preflight(scope) and scope["path"] in self._page_paths:
                await self._app(scope, receive, send)  # it cannot show anything, and does nothing
                return
            found = await self._entry.admit(scope)
            if not isinstance(found, Refusal):
                state = {**scope["state"], ACCESS: found.access}
                if scope["type"] == "websocket":
                    scope = without_tokens(scope)
                with self._entry.watching(found, scope["state"][PEER]):
                    await self._app({**scope, "state": state}, receive, send)
                return
            refusal = found
        await _drain(scope, receive)
        await self._refuse(scope, send, refusal)

    async def _refuse(self, scope: Scope, send: Send, refusal: Refusal) -> None:
        status = STATUS[refusal.error]
        await self._answer(
            scope,
            send,
            status=status,
            error=refusal.error,
            message=refusal.message,
            hint=SLUGS[refusal.error][1],
            headers=_challenge(scope) if status == 401 else CLOSE,
        )


async def _drain(scope: Scope, receive: Receive) -> None:
    """Let a caller finish what it sends, if that is little: it would else meet a closed connection, and no answer."""
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
    """Return who asks; every door is behind the guard, which has found out."""
    access: Access = scope["state"][ACCESS]
    return access


def judge(
    scope: Scope,
    *,
    names: Names = Names(),
    page_paths: frozenset[str] = frozenset(),
) -> Refusal | None:
    """Return what is wrong with the Host or the Origin of a request, None when nothing is. Pure."""
    origins = values_of(scope, b"origin")
    port = (scope.get("server") or (None, None))[1]
    if port is None:
        if origins:  # no browser dials a Unix socket: somebody forwards for a web page
            return Refusal("foreign_origin", f"Requests of that Origin are refused ({origins[0][:100]!r}).")
        return None
    hosts = values_of(scope, b"host")
    if len(hosts) != 1 or not _is_own(hosts[0], port, names):
        shown = ", ".join(map(repr, hosts))[:100] or "none"
        return Refusal("foreign_host", f"This server does not answer for that Host ({shown}).")
    if len(origins) > 1 or (origins and not _is_welcome(origins[0], port, scope, names, page_paths)):
        shown = ", ".join(map(repr, origins))[:100]
        return Refusal("foreign_origin", f"Requests of that Origin are refused ({shown}).")
    return None


def is_preflight(scope: Scope) -> bool:
    """Tell whether a browser asks what it may send: it cannot show a key (Fetch standard, "CORS-preflight request")."""
    return scope.get("method") == "OPTIONS" and bool(values_of(scope, b"access-control-request-method"))


def _challenge(scope: Scope) -> Headers:
    """Return the headers of a 401 (RFC 9110, section 11.6.1), which the page that asked may read."""
    readable = [
        (b"access-control-allow-origin", one.encode("latin-1")) for one in values_of(scope, b"origin")
    ]
    return (*CLOSE, (b"www-authenticate", b"Bearer"), *readable, (b"vary", b"origin"))


def _is_own(authority: str, port: int, names: Names, *, default: int | None = None) -> bool:
    """Tell whether an authority is ours; our public names may have any port: others forward those."""
    match = _AUTHORITY.fullmatch(authority)
    if match is None:
        return False
    host, named = match["host"].lower(), match["port"]
    if host not in _LOCAL:
        return names.include(host)
    meant = int(named) if named else default
    return meant is None or meant == port


def _is_welcome(origin: str, port: int, scope: Scope, names: Names, page_paths: frozenset[str]) -> bool:
    scheme, separator, authority = origin.partition("://")
    scheme = scheme.lower()
    if not separator or scheme not in _DEFAULT_PORTS:
        return False
    if scope.get("path") in page_paths and _is_local(authority):
        return True  # whatever server of this machine the page is from (promise S4.10)
    is_secure = scope.get("scheme") in {"https", "wss"}
    return scheme == ("https" if is_secure else "http") and _is_own(
        authority, port, names, default=_DEFAULT_PORTS[scheme]
    )


def _is_local(authority: str) -> bool:
    match = _AUTHORITY.fullmatch(authority)
    return match is not None and match["host"].lower() in _LOCAL
