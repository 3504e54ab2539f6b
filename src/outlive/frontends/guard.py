"""Who may speak to the server at all, on every route and upgrade: `Guard`, the outermost ASGI layer.

Refuses foreign Origins (403: a web page must not start commands), foreign Hosts (421: DNS rebinding), callers over
TCP without the API key where there is one (401, promise S4.9.key) and, on the Unix socket, peers of another uid (403).
Decides by the parsed value, never by a prefix. What a caller that came in may do is decided by policy, not here; in
which shape a refusal is told, by `dialects`.
"""

import hmac
import re
from collections.abc import Sequence
from dataclasses import dataclass

from starlette.types import ASGIApp, Receive, Scope, Send

from outlive.core.errors import SLUGS
from outlive.frontends.answers import CLOSE, STATUS, Headers, send_error
from outlive.frontends.dialects import SendError
from outlive.policy.access import Access
from outlive.policy.access import Scope as AccessScope

__all__ = ["ACCESS", "PEER_UID", "Guard", "Refusal", "access_of", "judge"]

ACCESS = "outlive.access"  # in scope["state"]: who asks, as the guard found out
PEER_UID = "outlive.peer_uid"  # in scope["state"]; set by `http_server` for connections over a Unix socket

# uri-host [":" port] of RFC 9110, section 7.2, for the only three hosts that mean this machine.
_AUTHORITY = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(?::([0-9]{1,5}))?", re.IGNORECASE | re.ASCII)
_HTTP_PORT = 80  # what an authority without a port means for http (RFC 9110, section 4.2.1)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a caller is not let in: the error's slug and a sentence."""

    error: str
    message: str


class Guard:
    """Lets a request pass to `app`, or answers it with the refusal."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        own_uid: int,
        api_key: str = "",
        page_paths: frozenset[str] = frozenset(),
        answer: SendError = send_error,
    ) -> None:
        """Stand before `app`.

        Args:
            app: What is guarded.
            own_uid: The only user welcome on the Unix socket.
            api_key: What callers over TCP must send; empty asks for none.
            page_paths: Where pages of any server on this machine may ask, once there is a key to show.
            answer: Gives a refusal its shape.
        """
        self._app = app
        self._own_uid = own_uid
        self._api_key = api_key
        self._page_paths = page_paths
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, upgrade or lifespan."""
        if scope["type"] in {"http", "websocket"}:
            refusal = judge(scope, own_uid=self._own_uid, api_key=self._api_key, page_paths=self._page_paths)
            if refusal is not None:
                await self._answer(
                    scope,
                    send,
                    status=STATUS[refusal.error],
                    error=refusal.error,
                    message=refusal.message,
                    hint=SLUGS[refusal.error][1],
                    headers=_challenge(scope) if refusal.error == "key_missing" else CLOSE,
                )
                return
            scope = {**scope, "state": {**(scope.get("state") or {}), ACCESS: self._access(scope)}}
        await self._app(scope, receive, send)

    def _access(self, scope: Scope) -> Access:
        is_local = (scope.get("server") or (None, None))[1] is None
        client = scope.get("client")
        return Access(
            principal=f"uid:{self._own_uid}",
            scope=AccessScope.ADMIN if is_local else AccessScope.RUN,
            address="unix" if is_local or not client else f"{client[0]}:{client[1]}",
        )


def access_of(scope: Scope) -> Access:
    """Return who asks; every door is behind the guard, which has found out."""
    access: Access = scope["state"][ACCESS]
    return access


def judge(
    scope: Scope, *, own_uid: int, api_key: str = "", page_paths: frozenset[str] = frozenset()
) -> Refusal | None:
    """Return why this request is refused, None when it may pass. Pure."""
    origins = _values(scope, b"origin")
    port = (scope.get("server") or (None, None))[1]
    if port is None:
        return _judge_unix(scope, origins, own_uid)
    hosts = _values(scope, b"host")
    if len(hosts) != 1 or not _is_own_host(hosts[0], port):
        shown = ", ".join(map(repr, hosts))[:100] or "none"
        return Refusal("foreign_host", f"This server does not answer for that Host ({shown}).")
    is_welcome = _is_local_origin if api_key and scope.get("path") in page_paths else _is_own_origin
    if len(origins) > 1 or (origins and not is_welcome(origins[0], port)):
        shown = ", ".join(map(repr, origins))[:100]
        return Refusal("foreign_origin", f"Requests of that Origin are refused ({shown}).")
    if api_key and not _has_key(scope, api_key) and not _is_preflight(scope):
        return Refusal("key_missing", "The API key is missing or wrong.")
    return None


def _has_key(scope: Scope, api_key: str) -> bool:
    """Tell whether a request carries the key: `Authorization: Bearer k`, `Authorization: k` or `X-API-Key: k`."""
    sent = _values(scope, b"x-api-key")
    for value in _values(scope, b"authorization"):
        scheme, _, word = value.partition(" ")
        sent.append(word if scheme.lower() == "bearer" else value)
    wanted = api_key.encode()
    # A list: how long this takes tells nothing about which one was right.
    return any([hmac.compare_digest(one.strip(" \t").encode("latin-1"), wanted) for one in sent])  # noqa: C419


def _is_preflight(scope: Scope) -> bool:
    """Tell whether a browser asks what it may send: it cannot show a key (Fetch standard, "CORS-preflight request")."""
    return scope.get("method") == "OPTIONS" and bool(_values(scope, b"access-control-request-method"))


def _challenge(scope: Scope) -> Headers:
    """Return the headers of a 401 (RFC 9110, section 11.6.1), which the page that asked may read."""
    readable = [(b"access-control-allow-origin", one.encode("latin-1")) for one in _values(scope, b"origin")]
    return (*CLOSE, (b"www-authenticate", b"Bearer"), *readable, (b"vary", b"origin"))


def _judge_unix(scope: Scope, origins: Sequence[str], own_uid: int) -> Refusal | None:
    if scope.get("state", {}).get(PEER_UID) != own_uid:
        return Refusal("foreign_user", "This socket belongs to another user.")
    if origins:  # no browser dials a Unix socket: somebody forwards for a web page
        return Refusal("foreign_origin", f"Requests of that Origin are refused ({origins[0][:100]!r}).")
    return None


def _values(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]


def _is_own_host(host: str, port: int) -> bool:
    match = _AUTHORITY.fullmatch(host)
    return match is not None and (match[2] is None or int(match[2]) == port)


def _is_own_origin(origin: str, port: int) -> bool:
    scheme, separator, authority = origin.partition("://")
    match = _AUTHORITY.fullmatch(authority)
    if scheme.lower() != "http" or not separator or match is None:
        return False
    return int(match[2] or _HTTP_PORT) == port


def _is_local_origin(origin: str, _port: int) -> bool:
    """Tell whether a page was served by this machine, on whatever port (promise S4.10)."""
    scheme, separator, authority = origin.partition("://")
    return (
        scheme.lower() in {"http", "https"}
        and bool(separator)
        and _AUTHORITY.fullmatch(authority) is not None
    )
