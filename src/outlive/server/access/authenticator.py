"""Which caller is let in, and as which principal: `Authenticator` decides for each request and upgrade (decision 70).

It tries in this order: a token, which counts everywhere; the API key, over TCP; else the caller's uid, if it is the server's own,
over the Unix socket or loopback TCP. The uid alone is not enough for a request that a proxy has forwarded, or for a process that
this server has started. A web page acts as the user only if its origin was allowed; a page served by this machine gets the scope
hello (decision 72).

The facts come from `peers` and `token_book`. Host and Origin are checked before, by `guard`; scopes are enforced later, by the
frontends.
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

# A web page can show a token as a WebSocket subprotocol: this prefix, then the token (names: RFC 6455, section 4.1).
_OFFERED = "outlive.token."

# Headers of forwarded requests: RFC 7239, RFC 9110 section 7.6.3, and what older proxies set.
_PROXY_HEADERS = frozenset({b"forwarded", b"via", b"x-real-ip"})
_PROXY_PREFIX = b"x-forwarded-"

_DECISION_S = 60.0  # as long as clients commonly wait; a busy machine is no reason to refuse a caller


@dataclass(frozen=True, slots=True)
class AccessRefusal:
    """Why a caller is not let in: the error's slug, a sentence, and a hint where the slug's own hint does not fit."""

    error: str
    message: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Admission:
    """A caller that was let in, and the token it showed, if any."""

    access: Access
    token: Token | None = None


class Authenticator:
    """Decides from the headers, the kernel's facts about the peer, and the tokens."""

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
        """Take the sources of facts, and the operator's settings.

        Args:
            peers: Finds which process is at the other end.
            tokens: Finds the tokens that count.
            own_uid: The user that runs this server.
            api_key: The key that every caller over TCP without a token must send; empty asks for none.
            bridge_paths: Paths of upgrades at which tokens of the scope bridge count, also in the query: a browser extension
                may have no other place for one (promise S3.1).
            offering_paths: Prefixes of the WebSocket paths at which a token may be one of the subprotocols: web pages
                connect there, and cannot send a header.
            origins: The origins whose pages act as the user, as `scheme://host[:port]` in lower case.
            hello_paths: Paths at which pages of this machine without a token get the scope hello (promise S4.10).
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
        """Decide about one request or upgrade, whose Host and Origin were checked before.

        Cancellation: safe.
        """
        peer: Peer = scope["state"][PEER]
        try:
            async with asyncio.timeout(_DECISION_S):
                standing = await self._peers.standing(peer)
        except TimeoutError:
            return AccessRefusal("caller_undetermined", "Whose connection this is could not be told in time.")
        except LimitExceeded as error:
            return AccessRefusal(error.code, error.message)
        if peer.is_unix and standing.uid != self._own_uid:
            return AccessRefusal("foreign_user", "This socket belongs to another user.")
        # A started process without a name cannot be held to its sandbox: what it starts might be confined less than itself.
        if standing.inside == "":
            return AccessRefusal("inside_process", "Which of our own processes asks here cannot be told.")
        is_bridge = scope["type"] == "websocket" and scope["path"] in self._bridge_paths
        shown = [*credentials(scope), *self._offered(scope), *(_query_tokens(scope) if is_bridge else [])]
        secrets = [one for one in shown if one.startswith(PREFIX)]
        # A token that is shown has to be valid: an invalid one never falls back to the rights of the uid.
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
        # A process that can open the Unix socket can read the state folder, too: it gets all rights. A TCP connection may be
        # forwarded by another program (ssh, a container's port), so it gets fewer.
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
        """Return why the uid alone is not enough to let this caller in; None when it is."""
        if standing.place is PeerPlace.INSIDE:
            return AccessRefusal(
                "inside_process", "A process that outlive has started is not let in by its user alone."
            )
        if is_forwarded(scope):
            return AccessRefusal("token_missing", "A request that a proxy forwards has to show a token.")
        if standing.uid != self._own_uid:
            return AccessRefusal("token_missing", "Only the user who started the server needs no token.")
        if standing.place is not PeerPlace.OUTSIDE:
            return AccessRefusal(
                "token_missing", "Whose connection this is cannot be told: it has to show a token."
            )
        return None

    def _page(self, scope: Scope, peer: Peer, standing: PeerCredentials) -> Admission | AccessRefusal:
        """Decide about a page in the user's own browser that shows no token (decision 72)."""
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
    """Return the credentials in a request's headers: `Authorization: Bearer k`, `Authorization: k` or `X-API-Key: k`."""
    shown = values_of(scope, b"x-api-key")
    for value in values_of(scope, b"authorization"):
        scheme, _, word = value.partition(" ")
        shown.append(word if scheme.lower() == "bearer" else value)
    return [one.strip(" \t") for one in shown]


def _query_tokens(scope: Scope) -> list[str]:
    """Return the values of `token` in the query; they are secrets and must not be logged."""
    query = scope.get("query_string", b"").decode("latin-1")
    try:
        return parse_qs(query, max_num_fields=100).get("token", [])
    except ValueError:  # more than 100 members: no client of ours sends that
        return []


def without_tokens(scope: Scope) -> Scope:
    """Return the scope of an upgrade without the subprotocols that are tokens, so that no frontend echoes or logs one."""
    if not any(map(_is_token, scope["subprotocols"])):
        return scope
    left = [one for one in scope["subprotocols"] if not _is_token(one)]
    headers = [(name, value) for name, value in scope["headers"] if name != b"sec-websocket-protocol"]
    headers += [(b"sec-websocket-protocol", ", ".join(left).encode("latin-1"))] if left else []
    return {**scope, "subprotocols": left, "headers": headers}


def _is_token(subprotocol: str) -> bool:
    return subprotocol.startswith(_OFFERED)


def is_forwarded(scope: Scope) -> bool:
    """Tell whether a header shows that a proxy has forwarded the request."""
    return any(name in _PROXY_HEADERS or name.startswith(_PROXY_PREFIX) for name, _ in scope["headers"])


def _has_key(shown: list[str], api_key: str) -> bool:
    wanted = api_key.encode()
    # Every value is compared, in constant time each: the duration must not reveal which one was right.
    return any([hmac.compare_digest(one.encode("latin-1"), wanted) for one in shown])  # noqa: C419
