"""What restricts a command: the profiles in the order of their strength, and limits of resources. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

from outlive.core.errors import InvalidRequest

# The variables that a guarded command inherits from the server's environment.
_LISTED = frozenset(
    {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TERM", "COLORTERM", "NO_COLOR", "TZ"}
)
_LISTED_PREFIX = "LC_"
# The kernel grants at least a millisecond of each tenth of a second (Documentation/scheduler/sched-bwc.rst).
MIN_CPUS = 0.01


class Profile(StrEnum):
    """How strongly a command is restricted, weakest first; each profile does what the one before it does, and more."""

    OPEN = "open"
    GUARDED = "guarded"  # no new privileges, limits, an environment of listed names
    WORKSPACE = "workspace"  # writes below its folder and the temporary folders only
    OFFLINE = "offline"  # and no network
    SEALED = "sealed"  # and no processes and files but its own

    @property
    def strength(self) -> int:
        """The position in the order, from 0."""
        return _STRENGTHS[self]


_STRENGTHS = {profile: place for place, profile in enumerate(Profile)}


def parse_profile(text: str) -> Profile:
    """Return the profile of a name.

    Raises:
        InvalidRequest: There is none of that name.
    """
    try:
        return Profile(text)
    except ValueError:
        known = ", ".join(Profile)
        raise InvalidRequest(
            "invalid_params", f"profile: {text[:40]!r} is not known; there are {known}."
        ) from None


def listed_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a guarded command inherits, besides those that it was given by name."""
    return {
        name: value
        for name, value in environment.items()
        if name in _LISTED or name.startswith(_LISTED_PREFIX)
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of what a command may use; None leaves the system's.

    `cpu_s` is processor time of each process in seconds. `cpus` is how many processors the whole tree may keep busy, 1.5 for one
    and a half; it needs a control group. With a control group `memory_bytes` and `processes` apply to the whole tree; without
    one `memory_bytes` applies to each process, `processes` to the user. `files` are the open files of each process.
    """

    cpu_s: int | None = None
    cpus: float | None = None
    memory_bytes: int | None = None
    files: int | None = None
    processes: int | None = None

    def __bool__(self) -> bool:
        """Return whether anything is limited."""
        return self is not NO_LIMITS and self != NO_LIMITS

    def within(self, most: "Limits") -> "Limits":
        """Return these limits where they are set, and those of `most` elsewhere.

        Raises:
            InvalidRequest: One of these is higher than `most` allows.
        """
        if self is NO_LIMITS:  # as nearly always
            return most
        found: dict[str, Any] = {}
        for entry in fields(self):
            wanted, bound = getattr(self, entry.name), getattr(most, entry.name)
            if wanted is not None and bound is not None and wanted > bound:
                name = entry.name.removesuffix("_s").removesuffix("_bytes")
                text = f"limits: {name} may be {bound} at most here, not {wanted}."
                hint = f"The operator has set --limit-{name}: ask for {bound} or less, or for nothing."
                raise InvalidRequest("invalid_params", text, hint=hint)
            found[entry.name] = bound if wanted is None else wanted
        return Limits(**found)


NO_LIMITS = Limits()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sandbox:
    """What a process runs in: the profile, and the names of the features that took effect."""

    profile: Profile = Profile.OPEN
    features: tuple[str, ...] = ()

    def view(self) -> dict[str, object]:
        """Return it as every frontend shows it."""
        return {"profile": self.profile.value, "features": list(self.features)}
