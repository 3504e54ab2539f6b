"""What a caller wants to run: `Command`, before anything was resolved or decided. Pure.

With it: `ApprovalState`, what a command waits for that policy makes a person decide about; `Grant`, what a
command may do with the server that runs it; and the umask as callers write it, three octal digits ("022").

What restricts a command: the profiles in the order of their strength, and limits of resources. Pure.
"""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, get_args

from outlive.core.errors import InvalidRequest
from outlive.core.location import Isolation
from outlive.core.needs import Needs
from outlive.core.terminal import TerminalNote
from outlive.core.values import dataclass, field, fields

_CALLERS_NAMES = {"timeout_s": "timeout", "grace_s": "grace"}
# The variables that a guarded command inherits from the server's environment.
_LISTED = frozenset(
    {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TERM", "COLORTERM", "NO_COLOR", "TZ"}
)
_LISTED_PREFIX = "LC_"
# The kernel grants at least a millisecond of each tenth of a second (Documentation/scheduler/sched-bwc.rst).
MIN_CPUS = 0.01


class Profile(StrEnum):
    """How strongly a command is restricted, weakest first.

    Each profile does what the one before it does, and more.
    """

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

    `cpu_s` is processor time of each process in seconds. `cpus` is how many processors the whole tree may
    keep busy, 1.5 for one and a half; it needs a control group. With a control group `memory_bytes` and
    `processes` apply to the whole tree; without one `memory_bytes` applies to each process, `processes` to
    the user. `files` are the open files of each process.
    """

    cpu_s: int | None = None
    cpus: float | None = None
    memory_bytes: int | None = None
    files: int | None = None
    processes: int | None = None

    def __bool__(self) -> bool:
        """Return whether anything is limited."""
        return self is not NO_LIMITS and self != NO_LIMITS

    @classmethod
    def named(cls, values: Mapping[str, Any]) -> "Limits":
        """Return limits by the names that callers have for them."""
        return cls(**{one.name: values.get(_called(one.name)) for one in fields(cls)})

    def view(self) -> dict[str, float]:
        """Return those that are set, by the same names."""
        found = {_called(one.name): getattr(self, one.name) for one in fields(self)}
        return {name: value for name, value in found.items() if value is not None}

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
                name = _called(entry.name)
                text = f"limits: {name} may be {bound} at most here, not {wanted}."
                hint = f"The operator has set --limit-{name}: ask for {bound} or less, or for nothing."
                raise InvalidRequest("invalid_params", text, hint=hint)
            found[entry.name] = bound if wanted is None else wanted
        return Limits(**found)


def _called(name: str) -> str:
    """Return what callers call a limit: without its unit."""
    return name.removesuffix("_s").removesuffix("_bytes")


NO_LIMITS = Limits()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sandbox:
    """What a process runs in: the profile, and the names of the features that took effect."""

    profile: Profile = Profile.OPEN
    features: tuple[str, ...] = ()

    def view(self) -> dict[str, object]:
        """Return it as every frontend shows it."""
        return {"profile": self.profile.value, "features": list(self.features)}

    @classmethod
    def decode(cls, view: object) -> "Sandbox":
        """Return the one that `view` described; anything else stands for none."""
        if not isinstance(view, dict):
            return cls()
        return cls(profile=Profile(str(view["profile"])), features=tuple(map(str, view["features"])))


UNBOUND = Sandbox()


@dataclass(frozen=True, slots=True, kw_only=True)
class StandingApproval:
    """An approval for always: of exactly these `commands` (the words of each), below the folder `project` (a
    real path).

    `digest` stands for everything else that decides what runs (`policy.standing_approvals`). `by` gave it, at
    `at` (ISO 8601, UTC); both are empty while it is only proposed, and no part of what is approved.
    """

    project: str
    commands: tuple[tuple[str, ...], ...]
    digest: str
    by: str = field(default="", compare=False)
    at: str = field(default="", compare=False)

    def encode(self) -> dict[str, object]:
        """Return it as JSON has it."""
        return {
            "project": self.project,
            "commands": [list(words) for words in self.commands],
            "digest": self.digest,
            **({"by": self.by, "at": self.at} if self.by else {}),
        }

    @classmethod
    def decode(cls, members: object) -> "StandingApproval | None":
        """Return what `encode` made; None for anything else."""
        match members:
            case {"project": str(project), "commands": [*commands], "digest": str(digest), **rest} if all(
                isinstance(words, list) and all(isinstance(word, str) for word in words) for words in commands
            ):
                by, at = (str(rest.get(name, "")) for name in ("by", "at"))
                return cls(project=project, commands=tuple(map(tuple, commands)), digest=digest, by=by, at=at)
        return None


@dataclass(frozen=True, slots=True)
class BootTime:
    """A moment: nanoseconds since the boot with this id (CLOCK_BOOTTIME, suspend included)."""

    boot_id: str
    boottime_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalState:
    """An approval that a start needs: why, until when, and by which principal it was given (None: not yet).

    `variables` are the names that the caller set in the environment; they are shown to the person that
    decides. `files` are the states of the files that the command names, when it was asked about. `standing`
    is what an approval for always would be about; without it, `only_once` says in one sentence why there is
    none. It expires `timeout_s` after `asked`, whatever the wall clock says; `expires_at` is that by the wall
    clock.
    """

    reason: str
    expires_at: datetime
    asked: BootTime | None = None
    timeout_s: float = 0.0
    variables: tuple[str, ...] = ()
    approved_by: str | None = None
    files: Mapping[str, str] = field(default_factory=dict)
    standing: StandingApproval | None = None
    only_once: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """A token that is valid in one process while that process runs; `digest` is the SHA-256 of its secret, in
    hex.

    `scope` is a scope's name in lower case. After `expires` it is not valid any more (None: until the process
    ends, which a boot ends as well).
    """

    scope: str
    digest: str
    expires: BootTime | None = None


Stdio = Literal["pipes", "merge", "pty"]
Stdin = Literal["none", "pipe", "lent"]
OnLimit = Literal["truncate", "block", "kill"]
AfterExit = Literal["keep", "kill", "wait"]
# What a process may ask to be notified of: its end, an end that is a failure, a wait for input.
NotifyEvent = Literal["end", "failure", "question", "silence"]
NOTIFY_EVENTS: tuple[NotifyEvent, ...] = get_args(NotifyEvent)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command: either a shell `line` or an `argv`, never both.

    `script` is the content of a file (mode 0700, kept as long as the process's record) whose path becomes the
    last word of `argv`. `title` is what people read instead of the words. `group_limit` sets how many
    processes of `group` run at once from now on (None: unchanged); one more waits for its turn.

    `prelude` is a file of outlive's own that bash runs before the line; `start_file` is one that the program
    itself reads (or a folder of such files); no caller names either. `terminal`: the command is the shell of
    a terminal.

    `env` is added to the server's clean environment (without `inherits_env` it is the whole environment); a
    None value removes a name. `caller_cwd` and `caller_env` take the place of the server's folder and
    environment on this machine: they are the caller's own, and that environment is written to no disk.
    `env_secrets` are added last and never written to disk. `profile` and `limits` restrict what the command
    may do (None: as the server's default). `backend` says where it runs ("local", "docker", or the name of a
    node), `image` and `isolation` in what container. `needs` is what the machine must have that runs it
    (None: nothing is counted). `umask` and `nice` (-20 to 19) are the caller's; None: those with which the
    server was started. With stdin "lent" the caller has passed a descriptor to the keeper beforehand, under
    the process id. Times are seconds, sizes bytes; None takes the server's default.

    `project` is the folder within which, for each principal, short ids and keys are unique; it is no wall.
    `key` names the process there: a command with the key of an earlier one is not started again. `name` is
    what it is called while it lives and afterwards; where one that lives has it, the start is refused, or
    with `replaces` that one is ended first.

    `keeps_unfiltered`: where a line ends in `| tail`, `| head` or `| grep`, keep what enters that filter, and
    the exit code of what stands before it (`engine.commands.unfiltered`); a wish, heeded where nothing else
    changes by it.

    `grant` asks for a token of the command's own ("run", "read:1h"); `granted` is what the engine made of it,
    and no caller sets it. `notify` names the events that the operator's webhook and program are notified of.
    """

    line: str | None = None
    argv: tuple[str, ...] | None = None
    script: str | None = None
    prelude: str | None = None
    start_file: str | None = None
    terminal: TerminalNote | None = None
    title: str | None = None
    cwd: str | None = None
    env: Mapping[str, str | None] = field(default_factory=dict)
    inherits_env: bool = True
    caller_cwd: str | None = None
    caller_env: Mapping[str, str] | None = field(default=None, repr=False)
    env_secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    stdio: Stdio = "pipes"
    stdin: Stdin = "none"
    rows: int = 24
    cols: int = 80
    timeout_s: float | None = None
    grace_s: float | None = None
    output_limit: int | None = None
    on_limit: OnLimit = "truncate"
    after_exit: AfterExit = "keep"
    keeps_unfiltered: bool = False
    detached: bool = False
    tags: Mapping[str, str] = field(default_factory=dict)
    project: str | None = None
    key: str | None = None
    name: str | None = None
    replaces: bool = False
    group: str | None = None
    group_limit: int | None = None
    profile: str | None = None
    limits: Limits = NO_LIMITS
    backend: str | None = None
    image: str | None = None
    isolation: Isolation | None = None
    needs: Needs | None = None
    grant: str | None = None
    granted: Grant | None = None
    umask: int | None = None
    nice: int | None = None
    notify: tuple[NotifyEvent, ...] = ()

    @property
    def text(self) -> str:
        """The command as people read it: the title, the line, or the words joined by spaces."""
        if self.title is not None:
            return self.title
        return self.line if self.line is not None else " ".join(self.argv or ())

    @property
    def asked_again(self) -> dict[str, object]:
        """What a start that repeats this one asks for, and no record has a place for, by the names of
        `execute`.
        """
        asked = {
            "grant": self.grant,
            "isolation": self.isolation,
            "notify": list(self.notify) or None,
            "needs": None if self.needs is None else self.needs.view(),
        }
        return {name: value for name, value in asked.items() if value is not None}


UMASK_PATTERN = r"^0?[0-7]{3}$"  # for schemas, in the dialect of JSON Schema


def as_callers_write(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options by the names of `client.options.StartOptions` as `execute` takes them: by its own names,
    the umask as text.
    """
    members = {_CALLERS_NAMES.get(name, name): value for name, value in options.items()}
    if (umask := members.get("umask")) is not None:
        members["umask"] = f"{umask:03o}"
    return members


def parse_umask(text: str | None) -> int | None:
    """Return the number that a text matching the pattern stands for; None stays None."""
    return None if text is None else int(text, 8)
