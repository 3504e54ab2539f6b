"""Which caller is let in, and as which principal: `Authenticator` decides for each request and upgrade
(decision 70).

It tries in this order: a token, which counts everywhere; the API key, over TCP; else the caller's uid, if it
is the server's own, over the Unix socket or loopback TCP. The uid alone is not enough for a request that a
proxy has forwarded, for a process that a server of this user has started, or for one that is bounded more
than this server (decision 219). A web page acts as the user only if its
origin was allowed; a page served by this machine gets the scope hello (decision 72).

The facts come from `peers`, the tokens from `TokenBook`. Host and Origin are checked before, by `guard`;
scopes are enforced later, by the frontends.

`TokenBook` has the tokens as a running server knows them; it is never older than the file.

A token that is revoked, or expires, is refused from that moment on, and the connections opened with it end
within a second. This module never writes the file: `store.token_file` does. What a token allows is decided by
`Authenticator`.
"""

import asyncio
import contextlib
import hmac
import logging
import os
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from types import TracebackType
from typing import Protocol, Self
from urllib.parse import parse_qs

from starlette.types import Scope

from outlive.core.errors import LimitExceeded, StoreCorrupt
from outlive.core.identity import is_process_id
from outlive.core.values import dataclass, field, replace
from outlive.policy.access import PAGE_HINT, PREFIX, Access, Token, digest_of, find_token
from outlive.policy.access import Scope as AccessScope
from outlive.server.access.peers import PEER, Peer, PeerCredentials, PeerPlace, Peers
from outlive.server.access.web_pages import (
    is_code_form,
    is_from_page,
    is_navigation,
    local_origin,
    values_of,
)
from outlive.store.token_file import TokenFile

_logger = logging.getLogger(__name__)
_LOOK_S = 0.25  # four fstat calls a second, only while a connection with a token is open
# Inode, links, time of change in ns and size: what tells one content of the file from another.
_Mark = tuple[int, int, int, int]


@dataclass(eq=False, slots=True)
class TokenBook:
    """Finds tokens, and ends connections whose token no longer counts.

    `async with` keeps it up to date; for one event loop.

    Attributes:
        file: The tokens that the operator has made.
        granted: Finds the token of a running command by its hash.
        known: Returns once it is known which commands run; before that `granted` may miss one.
    """

    file: TokenFile
    granted: Callable[[str], Token | None] = lambda _digest: None
    known: Callable[[], Awaitable[None]] | None = None
    _fd: int = field(default=-1, init=False)
    _mark: _Mark = field(default=(0, 0, 0, 0), init=False)
    _tokens: tuple[Token, ...] = field(default=(), init=False)
    _uses: dict[object, tuple[Token, Callable[[], None]]] = field(default_factory=dict, init=False)
    _is_used: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _reading: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    _stack: contextlib.AsyncExitStack = field(default_factory=contextlib.AsyncExitStack, init=False)

    async def __aenter__(self) -> Self:
        """Read the file, and begin to watch the tokens in use."""
        await self._read()
        group = await self._stack.enter_async_context(asyncio.TaskGroup())
        self._stack.callback(group.create_task(self._watch(), name="tokens").cancel)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop watching."""
        await self._stack.aclose()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    async def find(self, secret: str) -> Token | None:
        """Return the token of this secret; None when it is unknown, revoked or expired, or its command has
        ended.

        Cancellation: safe.
        """
        await self._refresh()
        if (token := find_token(self._tokens, secret, now=_now())) is not None:
            return token
        if self.known is not None:
            await self.known()
        return self.granted(digest_of(secret))

    @contextlib.contextmanager
    def using(self, token: Token, hang_up: Callable[[], None]) -> Iterator[None]:
        """Call `hang_up` if the token is revoked, or expires, while the block runs."""
        key = object()
        self._uses[key] = (token, hang_up)
        self._is_used.set()
        try:
            yield
        finally:
            self._uses.pop(key, None)

    async def _watch(self) -> None:
        """Cut the connections of tokens that no longer count, four times a second while any token is in
        use.
        """
        while True:
            await self._is_used.wait()
            await asyncio.sleep(_LOOK_S)
            await self._refresh()
            now = _now()
            valid = {token.digest for token in self._tokens if not token.is_over(now)}
            for key, (token, hang_up) in list(self._uses.items()):
                if token.digest not in valid and self.granted(token.digest) is None:
                    self._uses.pop(key, None)
                    hang_up()
            if not self._uses:
                self._is_used.clear()

    async def _refresh(self) -> None:
        """Read the file again if it was replaced or edited."""
        if self._is_stale():
            async with self._reading:
                if self._is_stale():  # else another caller has read it while this one waited
                    await self._read()

    def _is_stale(self) -> bool:
        if self._fd < 0:
            return True
        # The open descriptor shows a replacement without a look at the path: the old file has one link less,
        # and that is none unless a backup has linked it, too.
        return _mark_of(os.fstat(self._fd)) != self._mark

    async def _read(self) -> None:
        try:
            self._tokens, fd, self._mark = await asyncio.to_thread(self._load)
        except (OSError, StoreCorrupt) as error:
            # Fail closed: while the file cannot be read, no token of it counts.
            _logger.error("the file of the tokens cannot be read: %s", error)  # noqa: TRY400 -- the sentence says it all
            self._tokens = ()
            return
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = fd

    def _load(self) -> tuple[tuple[Token, ...], int, _Mark]:
        fd = self.file.ensure()
        try:
            # Before the content is read: a file that replaces this one meanwhile is then noticed by its mark.
            mark = _mark_of(os.fstat(fd))
            return self.file.read(), fd, mark
        except BaseException:
            os.close(fd)
            raise


def _mark_of(found: os.stat_result) -> _Mark:
    return found.st_ino, found.st_nlink, found.st_mtime_ns, found.st_size


def _now() -> datetime:
    return datetime.now(UTC)


# A web page can show a token as a WebSocket subprotocol: this prefix, then the token (names: RFC 6455,
# section 4.1).
_OFFERED = "outlive.token."

# Headers of forwarded requests: RFC 7239, RFC 9110 section 7.6.3, and what older proxies set.
_PROXY_HEADERS = frozenset({b"forwarded", b"via", b"x-real-ip"})
_PROXY_PREFIX = b"x-forwarded-"

_OTHERS_HINT = (
    "Hand the command a token of this server: `outlive token create`, then OUTLIVE_TOKEN. `outlive run "
    "--grant run` gives one to a command of its own server."
)

_DECISION_S = 60.0  # as long as clients commonly wait; a busy machine is no reason to refuse a caller


@dataclass(frozen=True, slots=True)
class AccessRefusal:
    """Why a caller is not let in: the error's slug, a sentence, and a hint where the slug's own hint does not
    fit.
    """

    error: str
    message: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Admission:
    """A caller that was let in, and the token it showed, if any."""

    access: Access
    token: Token | None = None


class Entrance(Protocol):
    """Judges what callers show at one path, where nothing else counts."""

    @property
    def path(self) -> str:
        """The path."""

    def judge(self, shown: Sequence[str], address: str) -> str | tuple[str, str, str]:
        """Return the caller's name, or the slug, the sentence and the hint of a refusal."""


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
        entrances: Sequence[Entrance] = (),
    ) -> None:
        """Take the sources of facts, and the operator's settings.

        Args:
            peers: Finds which process is at the other end.
            tokens: Finds the tokens that count.
            own_uid: The user that runs this server.
            api_key: The key that every caller over TCP without a token must send; empty asks for none.
            bridge_paths: Paths of upgrades at which tokens of the scope bridge count, also in the query: a
                browser extension may have no other place for one (promise S3.1).
            offering_paths: Prefixes of the WebSocket paths at which a token may be one of the subprotocols:
                web pages connect there, and cannot send a header.
            origins: The origins whose pages act as the user, as `scheme://host[:port]` in lower case.
            hello_paths: Paths at which pages of this machine without a token get the scope hello (promise
                S4.10).
            entrances: Decide each about one path.
        """
        self._entrances = {one.path: one for one in entrances}
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
        if (entrance := self._entrances.get(scope["path"])) is not None:
            return self._node(entrance, scope, peer)
        return await self._by_what_it_shows(scope, peer, standing)

    async def _by_what_it_shows(
        self, scope: Scope, peer: Peer, standing: PeerCredentials
    ) -> Admission | AccessRefusal:
        # A started process without a name cannot be held to its sandbox: what it starts might be confined
        # less than itself.
        if standing.inside == "":
            return AccessRefusal("inside_process", "Which of our own processes asks here cannot be told.")
        if is_code_form(scope):
            # What it shows is in its body, and `frontends.web` checks it. A command gets no page with it; a
            # browser may be bounded (snap, Flatpak).
            refusal = None if standing.bounds else self._distrust(scope, standing)
            return refusal or Admission(_a_page(peer))
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
        # A process that can open the Unix socket can read the state folder, too: it gets all rights. A TCP
        # connection may be forwarded by another program (ssh, a container's port), so it gets fewer.
        if peer.is_unix:
            return Admission(replace(self._own(peer, standing, AccessScope.ADMIN), is_socket_user=True))
        return Admission(self._own(peer, standing, AccessScope.RUN))

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

    @staticmethod
    def _node(entrance: Entrance, scope: Scope, peer: Peer) -> Admission | AccessRefusal:
        """Decide about a node that dials in: nothing counts there but what the node shows."""
        found = entrance.judge(credentials(scope), peer.remote[0] if peer.remote is not None else "")
        if isinstance(found, str):
            # The route takes the connection over; no other path is reached with this.
            access = Access(principal=f"node:{found}", scope=AccessScope.BRIDGE, address=str(peer))
            return Admission(access)
        return AccessRefusal(*found)

    def _offered(self, scope: Scope) -> list[str]:
        if scope["type"] != "websocket" or not scope["path"].startswith(self._offering_paths):
            return []
        return [one.removeprefix(_OFFERED) for one in scope["subprotocols"] if _is_token(one)]

    def _distrust(self, scope: Scope, standing: PeerCredentials) -> AccessRefusal | None:
        """Return why the uid alone is not enough to let this caller in; None when it is."""
        if standing.place is PeerPlace.INSIDE:
            return _enclosed(standing.inside or "")
        if is_forwarded(scope):
            return AccessRefusal("token_missing", "A request that a proxy forwards has to show a token.")
        if standing.uid != self._own_uid:
            return AccessRefusal("token_missing", "Only the user who started the server needs no token.")
        if standing.bounds:
            text = f"A process {standing.bounds} has to show a token."
            return AccessRefusal("token_missing", text)
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
        return Admission(_a_page(peer, local))

    def _greets(self, scope: Scope) -> bool:
        return scope["type"] == "http" and scope["path"] in self._hello_paths

    def _own(self, peer: Peer, standing: PeerCredentials, scope: AccessScope) -> Access:
        return Access(
            principal=f"uid:{self._own_uid}", scope=scope, address=str(peer), inside=standing.inside
        )


def _enclosed(process_id: str) -> AccessRefusal:
    """Refuse a caller that lives in a process, whose id (of another server's process: its end) is named."""
    text = f"A process that outlive has started is not let in by its user alone. It lives in {process_id}"
    if is_process_id(process_id):
        return AccessRefusal("inside_process", f"{text}.")
    return AccessRefusal("inside_process", f"{text}, which another server has started.", hint=_OTHERS_HINT)


def _a_page(peer: Peer, origin: str | None = None) -> Access:
    return Access(
        principal=f"page:{origin}" if origin else "page", scope=AccessScope.HELLO, address=str(peer)
    )


def credentials(scope: Scope) -> list[str]:
    """Return the credentials in a request's headers: `Authorization: Bearer k`, `Authorization: k` or
    `X-API-Key: k`.
    """
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
    """Return the scope of an upgrade without the subprotocols that are tokens, so that no frontend echoes or
    logs one.
    """
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
