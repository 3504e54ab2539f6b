"""What a start asks for its command, as text: `parse_grant`, a scope and a time. Pure."""

import re
from dataclasses import dataclass

from outlive.core.errors import InvalidRequest
from outlive.policy.access import Scope

GRANTED_SCOPES = {scope.name.lower(): scope for scope in (Scope.READ, Scope.RUN, Scope.ADMIN)}
_FORM = re.compile(r"([a-z]+)(?::([0-9]{1,9}(?:\.[0-9]{1,3})?)(s|m|h|d)?)?", re.ASCII)
_UNIT_S = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_MAX_S = 10 * 365 * 86400.0  # beyond it dates overflow, and nobody means it


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedGrant:
    """How much a command may do, and for how long (None: while it runs)."""

    scope: Scope
    duration_s: float | None = None


def parse_grant(text: str) -> WantedGrant:
    """Read "run", "read:10m" or "admin:1h".

    Raises:
        InvalidRequest: It is something else.
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
