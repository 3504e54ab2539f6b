"""What keeps a command within bounds: the profiles in order of their strength, and the limits of resources. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

from outlive.core.errors import InvalidRequest

# What a guarded command finds of an environment that nobody chose for it.
_LISTED = frozenset(
    {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TERM", "COLORTERM", "NO_COLOR", "TZ"}
)
_LISTED_PREFIX = "LC_"
# The kernel takes a millisecond at least of each tenth of a second (Documentation/scheduler/sched-bwc.rst).
MIN_CPUS = 0.01


class Profile(StrEnum):
    """How much a command is kept from, weakest first; each does what the one before it does, and more."""

    OPEN = "open"
    GUARDED = "guarded"  # no new privileges, limits, an environment of listed names
    WORKSPACE = "workspace"  # writes below its folder and the temporary folders only
    OFFLINE = "offline"  # and no network
    SEALED = "sealed"  # and nobody else's processes and files

    @property
    def strength(self) -> int:
        """The place in the order, from 0."""
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
    """Return what a guarded command finds of an environment, besides what it was given by name."""
    return {
        name: value
        for name, value in environment.items()
        if name in _LISTED or name.startswith(_LISTED_PREFIX)
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of what a command may take; None leaves the system's.

    `cpu_s` is processor time of each process, seconds. `cpus` is how many processors the whole tree may keep busy, 1.5 for
    one and a half; there must be a control group for it. `memory_bytes` and `processes` hold for the whole tree where there
    is a control group, else for each process and for the user. `files` are open files of each process.
    """

    cpu_s: int | None = None
    cpus: float | None = None
    memory_bytes: int | None = None
    files: int | None = None
    processes: int | None = None

    def __bool__(self) -> bool:
        """Tell whether anything is limited."""
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
    """What a process runs in: the profile, and by name what took effect of it."""

    profile: Profile = Profile.OPEN
    features: tuple[str, ...] = ()

    def view(self) -> dict[str, object]:
        """Return it as every door shows it."""
        return {"profile": self.profile.value, "features": list(self.features)}
