"""What a caller may do: `Access`, the scopes, approvals (`approver_of`) and the grant of a start
(`parse_grant`). Pure.

The server's authentication makes an `Access` once for a request or a connection. Frontends pass it on, and
never look at headers or peers themselves.

An approval needs the scope `admin`, and a caller outside of our processes: a command cannot approve itself,
whatever its token allows. A grant is what a start asks for its command, as text: a scope, and a time.

How often a principal may ask: `Rates`, a token bucket for each principal. Pure: the time is an argument.

These thirty lines are our own, because the packages for this cost half a second at start-up and twenty
microseconds a request (decision 90).

Access tokens: what is stored of one (`Token`, with a hash), and how a token that a caller shows is
recognised. Pure.

The file is `store.token_file`'s; what a scope allows is decided in `access`.
"""

import hashlib
import hmac
import json
import re
from collections import OrderedDict
from collections.abc import Sequence
from datetime import UTC, datetime
from enum import IntEnum
from typing import Any

from outlive.core.documents import decode_json
from outlive.core.durations import UNITS_S
from outlive.core.errors import AccessDenied, InvalidRequest, StoreCorrupt
from outlive.core.process import Owner
from outlive.core.values import dataclass

PROGRAM_HINT = "A program that is no page sends no Origin (websocket-client: suppress_origin=True)."
PAGE_HINT = (
    f"{PROGRAM_HINT} Let a page show a token (`outlive token create`), or start the server with "
    "--allow-origin ORIGIN, which lets pages of that origin act as you."
)


class Scope(IntEnum):
    """How much a caller may do; each includes those below it."""

    BRIDGE = 0  # be the other end of the terminal bridge, and nothing else
    HELLO = 1  # learn that the server exists and which tools it has: pages of this machine without a token
    READ = 2  # read lists, states, output
    RUN = 3  # start processes, and control those of the same principal
    ADMIN = 4  # approvals, tokens, unredacted output, other principals' processes in reports


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """One caller.

    `principal` owns what is started: "uid:1000" for this user on this machine, "token:<name>" for a token,
    "page:<origin>" for a page without one. `address` says where the caller is, for the audit log ("unix pid
    4711", "127.0.0.1:50124"). `inside` is the process of ours in whose tree the caller lives, None for every
    other caller: what a caller inside starts never has a weaker profile than that process. Of a process of
    another server it is the end of the id (`short_name`), and no profile follows. `is_socket_user`:
    the kernel's word alone let it in, over the state folder's Unix socket; no token, no key and no page did.
    """

    principal: str
    scope: Scope
    address: str = ""
    inside: str | None = None
    is_socket_user: bool = False

    def owner(
        self,
        door: str,
        *,
        connection_id: str | None = None,
        request_id: str | None = None,
        traceparent: str = "",
        host: str = "",
    ) -> Owner:
        """Return the owner of what it starts by a frontend, and the author of what it does there."""
        return Owner(
            principal=self.principal,
            connection_id=connection_id,
            request_id=request_id,
            inside=self.inside,
            is_admin=self.scope >= Scope.ADMIN,
            door=door,
            address=self.address,
            traceparent=traceparent,
            host=host,
        )

    def require(self, scope: Scope) -> None:
        """Do nothing for a caller that has this scope or a wider one.

        Raises:
            AccessDenied: `scope_missing`.
        """
        if self.scope < scope:
            hint = f"Show a token with that scope: `outlive token create --scope {scope.name.lower()}`."
            raise AccessDenied(
                "scope_missing",
                f"This needs the scope {scope.name.lower()!r}; the caller has {self.scope.name.lower()!r}.",
                hint=PAGE_HINT if self.scope is Scope.HELLO else hint,
                details={"needed": scope.name.lower(), "given": self.scope.name.lower()},
            )


def approver_of(access: Access) -> str:
    """Return the caller that approves or denies, as text for the record.

    Raises:
        AccessDenied: `scope_missing`: the scope `admin` is needed, and a caller outside of what we have
        started.
    """
    access.require(Scope.ADMIN)
    if access.inside is not None:
        raise AccessDenied(
            "scope_missing",
            "What was started here cannot approve anything, nor see the secrets of what waits.",
            hint="A person approves from a terminal of his own: `outlive approve`.",
            details={"inside": access.inside},
        )
    return f"{access.principal} ({access.address})" if access.address else access.principal


GRANTED_SCOPES = {scope.name.lower(): scope for scope in (Scope.READ, Scope.RUN, Scope.ADMIN)}
_FORM = re.compile(r"([a-z]+)(?::([0-9]{1,9}(?:\.[0-9]{1,3})?)(s|m|h|d)?)?", re.ASCII)
_MAX_S = 10 * 365 * 86400.0  # ten years: beyond it dates overflow, and such a time is a mistake


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedGrant:
    """How much a command may do, and for how long (None: as long as it runs)."""

    scope: Scope
    duration_s: float | None = None


def parse_grant(text: str) -> WantedGrant:
    """Read "run", "read:10m" or "admin:1h".

    Raises:
        InvalidRequest: The text is anything else.
    """
    found = _FORM.fullmatch(text)
    if found is None or found[1] not in GRANTED_SCOPES:
        known = ", ".join(GRANTED_SCOPES)
        raise InvalidRequest(
            "invalid_params", f"grant: {text[:40]!r} is not one of {known}, with or without a time (run:1h)."
        )
    if found[2] is None:
        return WantedGrant(scope=GRANTED_SCOPES[found[1]])
    duration_s = float(found[2]) * UNITS_S[found[3] or "s"]
    if not 0 < duration_s <= _MAX_S:
        raise InvalidRequest(
            "invalid_params", f"grant: a time of more than nothing is needed, not {text[:40]!r}."
        )
    return WantedGrant(scope=GRANTED_SCOPES[found[1]], duration_s=duration_s)


_BURST_S = 4.0  # a caller that was quiet for so long may ask for all of that time at once
# Beyond so many names the one that was silent longest is forgotten: at worst its bucket is full again.
_MOST_NAMES = 4096


class TokenBucket:
    """`rate` tokens a second flow in, and at most `burst` are kept; each request takes one."""

    __slots__ = ("_at", "_burst", "_level", "_rate")

    def __init__(self, rate: float, burst: float, now: float) -> None:
        """Begin full. `now` is monotonic seconds, here and later."""
        self._rate = rate
        self._burst = burst
        self._level = burst
        self._at = now

    def take(self, now: float, *, count: int = 1) -> float:
        """Take tokens and return 0.0.

        If none is left, take nothing and return after how many seconds there is one.

        Requests that come together all pass if there is one token; requests after them wait for all of these
        tokens.
        """
        self._level = min(self._burst, self._level + max(0.0, now - self._at) * self._rate)
        self._at = now
        if self._level >= 1.0:
            self._level -= count
            return 0.0
        return (1.0 - self._level) / self._rate


class Rates:
    """A bucket for each name; with a rate of None there is no limit."""

    def __init__(self, rate: float | None) -> None:
        """Allow each name `rate` requests a second, and what it has saved up in four quiet seconds."""
        self._rate = rate
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()

    def take(self, name: str, now: float, *, count: int = 1) -> float:
        """Count requests of `name` that come together: 0.0 if they may pass, else the seconds until one
        may.
        """
        if self._rate is None:
            return 0.0
        bucket = self._buckets.get(name)
        if bucket is None:
            bucket = self._buckets[name] = TokenBucket(self._rate, max(1.0, self._rate * _BURST_S), now)
            if len(self._buckets) > _MOST_NAMES:
                self._buckets.popitem(last=False)
        else:
            self._buckets.move_to_end(name)
        return bucket.take(now, count=count)


PREFIX = "olv_"  # by which people and secret scanners recognise a token
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token without its secret: `digest` is the secret's SHA-256, in hex. `expires_at` None: never.

    A plain hash is enough: 256 random bits leave nothing to guess. `acts_as_user`: a caller that shows it is
    the user whose state folder this is, and sees that user's processes. `process_id`: the token is valid in
    that process only, and such a token is in no file. `acts_for`: the principal as which its caller counts,
    where that is not the token's own: that of the process, or the one that several servers share.
    """

    name: str
    scope: Scope
    digest: str
    created_at: datetime
    expires_at: datetime | None = None
    acts_as_user: bool = False
    process_id: str | None = None
    acts_for: str | None = None

    def principal(self, own_uid: int) -> str:
        """Return the principal of a caller that shows it to the server of that user."""
        if self.acts_for is not None:
            return self.acts_for
        return f"uid:{own_uid}" if self.acts_as_user else f"token:{self.name}"

    def is_over(self, now: datetime) -> bool:
        """Return whether it has expired."""
        return self.expires_at is not None and self.expires_at <= now


def digest_of(secret: str) -> str:
    """Return what is stored of a token's secret."""
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


def find_token(tokens: Sequence[Token], secret: str, *, now: datetime) -> Token | None:
    """Return the token with that secret, unless it has expired.

    The time that this takes does not show which one it is.
    """
    wanted = digest_of(secret)
    found = [token for token in tokens if hmac.compare_digest(token.digest, wanted)]
    return next((token for token in found if not token.is_over(now)), None)


def encode_tokens(tokens: Sequence[Token]) -> bytes:
    """Return the content of the tokens' file."""
    rows: list[dict[str, str | bool | None]] = [
        {
            "name": token.name,
            "scope": token.scope.name.lower(),
            "sha256": token.digest,
            "created_at": token.created_at.isoformat(),
            "expires_at": None if token.expires_at is None else token.expires_at.isoformat(),
            **({"as_user": True} if token.acts_as_user else {}),
            **({"acts_for": token.acts_for} if token.acts_for is not None else {}),
        }
        for token in tokens
    ]
    return json.dumps({"tokens": rows}, indent=1).encode() + b"\n"


def decode_tokens(content: bytes) -> tuple[Token, ...]:
    """Read the file's content; an empty file holds no token.

    Raises:
        StoreCorrupt: The content is anything else.
    """
    if not content:
        return ()
    try:
        document = decode_json(content)
        return tuple(_token(row) for row in document["tokens"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        text = f"The file of the tokens cannot be read: {error}."
        raise StoreCorrupt(
            "store_corrupt",
            text,
            hint="Remove tokens.json from the state folder, and create the tokens anew.",
        ) from None


def _token(row: dict[str, Any]) -> Token:
    expires: str | None = row["expires_at"]
    shared = row.get("acts_for")
    return Token(
        name=row["name"],
        scope=Scope[row["scope"].upper()],
        digest=row["sha256"],
        created_at=_time(row["created_at"]),
        expires_at=None if expires is None else _time(expires),
        acts_as_user=row.get("as_user") is True,
        acts_for=None if shared is None else str(shared),
    )


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)
