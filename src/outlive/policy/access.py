"""What a caller may do: `Access`, the scopes, approvals (`approver_of`) and the grant of a start (`parse_grant`). Pure.

The server's authentication makes an `Access` once for a request or a connection. Frontends pass it on, and never look at
headers or peers themselves.

An approval needs the scope `admin`, and a caller outside of our processes: a command cannot approve itself, whatever its token
allows. A grant is what a start asks for its command, as text: a scope, and a time.
"""

import re
from dataclasses import dataclass
from enum import IntEnum

from outlive.core.errors import AccessDenied, InvalidRequest

PAGE_HINT = (
    "Let the page show a token (`outlive token create`), or start the server with --allow-origin ORIGIN, "
    "which lets pages of that origin act as you."
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

    `principal` owns what is started: "uid:1000" for this user on this machine, "token:<name>" for a token, "page:<origin>" for a
    page without one. `address` says where the caller is, for the audit log ("unix pid 4711", "127.0.0.1:50124"). `inside` is
    the process of ours in whose tree the caller lives, None for every other caller: what a caller inside starts never has a
    weaker profile than that process.
    """

    principal: str
    scope: Scope
    address: str = ""
    inside: str | None = None

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
        AccessDenied: `scope_missing`: the scope `admin` is needed, and a caller outside of what we have started.
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
_UNIT_S = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
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
    duration_s = float(found[2]) * _UNIT_S[found[3] or "s"]
    if not 0 < duration_s <= _MAX_S:
        raise InvalidRequest(
            "invalid_params", f"grant: a time of more than nothing is needed, not {text[:40]!r}."
        )
    return WantedGrant(scope=GRANTED_SCOPES[found[1]], duration_s=duration_s)
