"""Who may come in, and as whom: `Authenticator`, which decides for each request and upgrade (decision 70).

In this order: a token counts everywhere; the API key over TCP; else our own uid, over the Unix socket or loopback
TCP, where nobody forwards and the process is none that we have started. A web page there acts as the user only where its
origin was allowed; of this machine it gets the scope hello (decision 72).
"""

import asyncio
import hmac
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from urllib.parse import parse_qs

from starlette.types import Scope

from outlive.core.errors import LimitExceeded
from outlive.policy.access import PAGE_HINT, Access
from outlive.policy.access import Scope as AccessScope
from outlive.policy.tokens import PREFIX, Token
from outlive.server.access.peers import PEER, Peer, PeerCredentials, PeerPlace, Peers
from outlive.server.access.token_book import TokenBook
from outlive.server.access.web_pages import is_from_page, is_navigation, local_origin, values_of

# A subprotocol that is a token: this, and the token behind it (any HTTP token is a name, RFC 6455, section 4.1).
_OFFERED = "outlive.token."

# RFC 7239, RFC 9110 section 7.6.3, and what proxies set that are older than both.
_PROXY_HEADERS = frozenset({b"forwarded", b"via", b"x-real-ip"})
_PROXY_PREFIX = b"x-forwarded-"

_PATIENCE_S = 60.0  # as long as clients commonly wait; a busy machine is no reason to refuse a caller


@dataclass(frozen=True, slots=True)
class AccessRefusal:
    """Why a caller is not let in: the error's slug, a sentence, and what to do where the slug's own hint does not fit."""

    error: str
    message: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Admission:
    """A caller that was let in, and the token it showed, if any."""

    access: Access
    token: Token | None = None


class Authenticator:
    """Decides from the headers, the kernel's word and the tokens."""

    def __init__(
        self,
        peers: Peers,
        tokens: TokenBook,
        *,
        own_uid: int,
        api_key: str = "",
        bridge_paths: frozenset[str] = frozenset(),
        offering_paths: tuple[str, ...] = (),
        origins: frozenset[str] = frozenset(),
        hello_paths: frozenset[str] = frozenset(),
    ) -> None:
        """Take what finds out about callers.

        Args:
            peers: Who is at the other end.
            tokens: Which tokens count.
            own_uid: The user whose server this is.
            api_key: What every caller over TCP must send that shows no token; empty asks for none.
            bridge_paths: Upgrades at which tokens of the scope bridge count, and those in the address: whoever dials
                there may have no other place for one (promise S3.1).
            offering_paths: What the paths of WebSockets begin with that may show a token as one of their subprotocols:
                web pages dial them, and cannot send a header.
            origins: Whose pages act as the user, as `scheme://host[:port]` in lower case.
            hello_paths: Where pages of this machine without a token get the scope hello (promise S4.10).
        """
        self._peers = peers
        self._tokens = tokens
        self._own_uid = own_uid
        self._api_key = api_key
        self._bridge_paths = bridge_paths
        self._offering_paths = offering_paths
        self._origins = origins
        self._hello_paths = hello_paths

    async def admit(self, scope: Scope) -> Admission | AccessRefusal:
        """Decide about one request or upgrade, whose Host and Origin were looked at before.

        Cancellation: safe.
        """
        peer: Peer = scope["state"][PEER]
        try:
            async with asyncio.timeout(_PATIENCE_S):
                standing = await self._peers.standing(peer)
        except TimeoutError:
            return AccessRefusal("caller_undetermined", "Whose connection this is could not be told in time.")
        except LimitExceeded as error:
            return AccessRefusal(error.code, error.message)
        if peer.is_unix and standing.uid != self._own_uid:
            return AccessRefusal("foreign_user", "This socket belongs to another user.")
        if standing.inside == "":  # and what it starts might be bound less than it is itself
            return AccessRefusal("inside_process", "Which of our own processes asks here cannot be told.")
        is_bridge = scope["type"] == "websocket" and scope["path"] in self._bridge_paths
        shown = [*credentials(scope), *self._offered(scope), *(_query_tokens(scope) if is_bridge else [])]
        secrets = [one for one in shown if one.startswith(PREFIX)]
        if secrets:
            return await self._by_token(secrets, peer, standing, is_bridge=is_bridge)
        if self._api_key and not peer.is_unix:
            if not _has_key(shown, self._api_key):
                return AccessRefusal("key_missing", "The API key is missing or wrong.")
            return Admission(self._own(peer, standing, AccessScope.RUN))
        refusal = self._distrust(scope, standing)
        if refusal is not None:
            return refusal
        if is_from_page(scope):
            return self._page(scope, peer, standing)
        # Whoever is on the Unix socket could read the state folder as well; over TCP comes what others may forward.
        return Admission(self._own(peer, standing, AccessScope.ADMIN if peer.is_unix else AccessScope.RUN))

    def watching(self, found: Admission, peer: Peer) -> AbstractContextManager[None]:
        """Cut the connection of `peer` if its token is revoked, or expires, while the block runs."""
        return nullcontext() if found.token is None else self._tokens.using(found.token, peer.hang_up)

    async def _by_token(
        self, secrets: list[str], peer: Peer, standing: PeerCredentials, *, is_bridge: bool
    ) -> Admission | AccessRefusal:
        for secret in secrets:
            token = await self._tokens.find(secret)
            if token is None:
                continue
            if token.process_id not in {None, standing.inside}:
                return AccessRefusal(
                    "token_invalid", "This token counts only in the process that it was made for."
                )
            if token.scope is AccessScope.BRIDGE and not is_bridge:
                return AccessRefusal(
                    "scope_missing", "A token of the scope bridge is for the terminal bridge only."
                )
            access = Access(
                principal=token.principal(self._own_uid),
                scope=token.scope,
                address=str(peer),
                inside=standing.inside,
            )
            return Admission(access, token)
        return AccessRefusal("token_invalid", "The token is unknown, has expired or was revoked.")

    def _offered(self, scope: Scope) -> list[str]:
        if scope["type"] != "websocket" or not scope["path"].startswith(self._offering_paths):
            return []
        return [one.removeprefix(_OFFERED) for one in scope["subprotocols"] if _is_token(one)]

    def _distrust(self, scope: Scope, standing: PeerCredentials) -> AccessRefusal | None:
        """Return why the uid alone is no reason to let somebody in; None when it is."""
        if standing.place is PeerPlace.INSIDE:
            return AccessRefusal(
                "inside_process", "A process that outlive has started is not let in by its user alone."
            )
        if is_forwarded(scope):
            return AccessRefusal("token_missing", "A request that somebody forwards has to show a token.")
        if standing.uid != self._own_uid:
            return AccessRefusal("token_missing", "Only the user who started the server needs no token.")
        if standing.place is not PeerPlace.OUTSIDE:
            return AccessRefusal(
                "token_missing", "Whose connection this is cannot be told: it has to show a token."
            )
        return None

    def _page(self, scope: Scope, peer: Peer, standing: PeerCredentials) -> Admission | AccessRefusal:
        """Decide about a page in the user's own browser that shows no token."""
        origin = next((one.lower() for one in values_of(scope, b"origin")), "")
        if origin in self._origins:
            return Admission(self._own(peer, standing, AccessScope.RUN))
        local = local_origin(scope) if self._greets(scope) else None
        if local is None and not is_navigation(scope):
            return AccessRefusal("token_missing", "A web page has to show a token.", hint=PAGE_HINT)
        named = f"page:{local}" if local else "page"
        return Admission(Access(principal=named, scope=AccessScope.HELLO, address=str(peer)))

    def _greets(self, scope: Scope) -> bool:
        return scope["type"] == "http" and scope["path"] in self._hello_paths

    def _own(self, peer: Peer, standing: PeerCredentials, scope: AccessScope) -> Access:
        return Access(
            principal=f"uid:{self._own_uid}", scope=scope, address=str(peer), inside=standing.inside
        )


def credentials(scope: Scope) -> list[str]:
    """Return what a request shows: `Authorization: Bearer k`, `Authorization: k` or `X-API-Key: k`; never its address."""
    shown = values_of(scope, b"x-api-key")
    for value in values_of(scope, b"authorization"):
        scheme, _, word = value.partition(" ")
        shown.append(word if scheme.lower() == "bearer" else value)
    return [one.strip(" \t") for one in shown]


def _query_tokens(scope: Scope) -> list[str]:
    """Return what an address shows as `token`; nobody may log it."""
    query = scope.get("query_string", b"").decode("latin-1")
    try:
        return parse_qs(query, max_num_fields=100).get("token", [])
    except ValueError:  # more members than an address of ours can have
        return []


def without_tokens(scope: Scope) -> Scope:
    """Return the scope of an upgrade as its door may know it: no subprotocol that is a token could be echoed or logged."""
    if not any(map(_is_token, scope["subprotocols"])):
        return scope
    left = [one for one in scope["subprotocols"] if not _is_token(one)]
    headers = [(name, value) for name, value in scope["headers"] if name != b"sec-websocket-protocol"]
    headers += [(b"sec-websocket-protocol", ", ".join(left).encode("latin-1"))] if left else []
    return {**scope, "subprotocols": left, "headers": headers}


def _is_token(subprotocol: str) -> bool:
    return subprotocol.startswith(_OFFERED)


def is_forwarded(scope: Scope) -> bool:
    """Tell whether a proxy says that it stands between."""
    return any(name in _PROXY_HEADERS or name.startswith(_PROXY_PREFIX) for name, _ in scope["headers"])


def _has_key(shown: list[str], api_key: str) -> bool:
    wanted = api_key.encode()
    # A list: how long this takes tells nothing about which one was right.
    return any([hmac.compare_digest(one.encode("latin-1"), wanted) for one in shown])  # noqa: C419
