"""From a `Command` to the bounds it runs in: which profile, whether that may be, and the steps that make it.

What the machine offers is tried out once, by a process of the keeper's, when it is first needed. The steps
are the keeper's (`native/shim/confine.c`); one that fails there keeps the command from running.
"""

import asyncio
import os
import shutil
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from outlive.config import Settings
from outlive.core.command import NO_LIMITS, Command, Limits, Profile, Sandbox, parse_profile
from outlive.core.errors import CommandRefused, StartFailed
from outlive.core.mounts import PathIdentity, is_within
from outlive.core.process import Owner, ProcessRecord
from outlive.core.values import dataclass, field, fields, replace
from outlive.engine.commands.resolver import Resolved
from outlive.keeper.sandbox.capabilities import Capabilities, read_offers
from outlive.keeper.sandbox.steps import TEMPORARY, Machine, SandboxPlace, bounds_of
from outlive.kernel.own_code import own_code
from outlive.kernel.own_places import (
    OwnPlace,
    Protection,
    close_folders,
    other_state_folders,
    outermost,
    own_places,
    protection_of,
    unshare_code,
)

_HOMES = ("/root", "/home")
_PRIVATE = (*_HOMES, "/run/user")
_NOT_READ = ("/dev",)  # a few devices are opened by name
_BELIEVED_S = 1.0
_NO_CPUS = "Leave out --limit-cpus or `cpus`; `cpu` bounds each process's processor time without a group."
# In a home, and yet to be read: git refuses to work when it may not.
_HARMLESS = (".gitconfig", ".config/git")


def operator_limits(settings: Settings) -> Limits:
    """Return the bounds of every command."""
    return Limits(**{one.name: getattr(settings, f"limit_{one.name}") for one in fields(Limits)})


@dataclass(frozen=True, slots=True)
class _Surroundings:
    """What does not depend on the command, absolute and without symbolic links, asked at most once a second.

    `opened` are by hidden places what stands beside them on the ways to them: one workspace may lie in a
    place that is hidden from others. `protections` are by writable places how `own` is kept from the command.
    """

    read_at: float
    state: str
    folders: Sequence[str]
    temporary: Sequence[str]
    writable: Sequence[str]
    private: Sequence[str]
    named: Sequence[str]
    own: Sequence[OwnPlace]
    mounts: PathIdentity
    opened: dict[tuple[str, ...], tuple[str, ...]] = field(default_factory=dict)
    protections: dict[tuple[str, ...], Protection] = field(default_factory=dict)


class Sandboxes:
    """Chooses and prepares the bounds of commands."""

    def __init__(
        self,
        settings: Settings,
        *,
        state_dir: str,
        environment: Mapping[str, str],
        own_files: Sequence[str] = (),
        ask: Callable[[], Awaitable[str]] | None = None,
    ) -> None:
        """Take the settings; nothing is tried out yet.

        Args:
            settings: What the operator has decided.
            state_dir: The state folder, which no command of a stronger profile may read.
            environment: The server's.
            own_files: Outlive's settings, tokens and keys outside of the state folder.
            ask: Has it tried out where commands run (`Backend.offers`); `assume` makes it needless.
        """
        self._settings = settings
        self.default = Profile(settings.profile)
        self._limits = operator_limits(settings) or NO_LIMITS
        self._state_dir = state_dir
        self._environment = environment
        self._own_files = own_files
        self._offers: Capabilities | None = None
        self._asking = asyncio.Lock()
        self._ask = ask
        self._surroundings: _Surroundings | None = None
        self._unshares_at = 0.0

    def choose(self, command: Command, owner: Owner, inside: ProcessRecord | None) -> Profile:
        """Return the profile a command gets; `inside` is the process in whose tree the caller lives.

        Raises:
            InvalidRequest: There is none of that name.
            CommandRefused: `profile_too_weak`: weaker than the default, and the caller is no administrator;
                or weaker than that of the process in whose tree the caller lives.
        """
        least = self.default
        if inside is not None:
            least = max(least, inside.sandbox.profile, key=lambda one: one.strength)
        if command.profile is None:
            return least
        if owner.is_admin and inside is None:
            least = Profile.OPEN
        wanted = parse_profile(command.profile)
        if wanted.strength < least.strength:
            text = f"The profile {wanted.value!r} is weaker than {least.value!r}, the least for this caller."
            raise CommandRefused("profile_too_weak", text, details={"least": least.value})
        return wanted

    async def check_folder(self, cwd: str, inside: ProcessRecord | None) -> None:
        """Keep a caller that may write to one folder only from opening another one.

        Raises:
            CommandRefused: `profile_too_weak`.
        """
        if inside is None or inside.sandbox.profile.strength < Profile.WORKSPACE.strength:
            return
        folder, own = await asyncio.to_thread(lambda: (os.path.realpath(cwd), os.path.realpath(inside.cwd)))
        if not is_within(folder, own):
            text = (
                f"The caller runs in the profile {inside.sandbox.profile.value!r}: it may start in "
                "its own folder only."
            )
            raise CommandRefused("profile_too_weak", text)

    async def confine(
        self, resolved: Resolved, command: Command, profile: Profile, *, name: str, script: str | None
    ) -> Resolved:
        """Return what was resolved of a command with the bounds of a profile.

        Args:
            resolved: What will run, and in which folder.
            command: What is asked for; its limits may lower the operator's.
            profile: As `choose` returned it.
            name: The process's id, after which its control groups are called.
            script: The file of ours that it must be able to read.

        Raises:
            InvalidRequest: A limit is higher than the operator's.
            StartFailed: `sandbox_unavailable`: this machine cannot keep what the profile promises.
        """
        if profile is Profile.OPEN and command.limits is NO_LIMITS and self._limits is NO_LIMITS:
            return resolved  # as nearly always
        limits = command.limits.within(self._limits)
        if profile is Profile.OPEN and not limits:
            return resolved
        offers = await self.offers()
        if obstacle := offers.obstacles[profile]:
            raise _unavailable(profile, obstacle)
        machine = offers.machine
        if limits.processes is not None and machine.is_root and not machine.pids_file:
            raise _unavailable(
                profile, "a limit of processes binds root in a control group only, and none can be made"
            )
        if limits.cpus is not None and not machine.cpu_file:
            raise _unavailable(
                profile, "a limit of processors needs a control group, and none can be made", hint=_NO_CPUS
            )
        place = SandboxPlace()
        if profile.strength >= Profile.WORKSPACE.strength:
            place = await asyncio.to_thread(self._place, profile, resolved.cwd, script, offers)
        bounds = bounds_of(profile, machine, place, limits=limits, name=name)
        if bounds is None:
            return replace(resolved, sandbox=Sandbox(profile=profile))
        sandbox = Sandbox(profile=profile, features=bounds.features)
        return replace(resolved, sandbox=sandbox, steps=bounds.steps, groups=bounds.groups)

    async def offers(self) -> Capabilities:
        """Return what this machine offers to the keeper's commands; tried out at the first call.

        Raises:
            BackendUnavailable: The keeper does not answer.
        """
        async with self._asking:
            if self._offers is None:
                if self._ask is None:
                    raise AssertionError(
                        "It was neither assumed nor can it be asked what the machine offers."
                    )
                self._offers = read_offers(await self._ask())
        return self._offers

    def assume(self, offers: Capabilities) -> None:
        """Take over what the machine offers from a caller that has tried it out already."""
        self._offers = offers

    def _place(self, profile: Profile, cwd: str, script: str | None, offers: Capabilities) -> SandboxPlace:
        around, workspace = self._look_around(offers), os.path.realpath(cwd)
        state = around.state
        if is_within(state, workspace) or is_within(workspace, state):
            text = (
                f"the working folder {cwd!r} holds outlive's state folder, which no command of this "
                "profile may read"
            )
            raise _unavailable(profile, text, hint="Run it in a folder of its own.")
        if around.folders and not _is_in_any(workspace, around.folders):
            text = f"the working folder {cwd!r} lies in none that the operator has named for it"
            raise _unavailable(profile, text, hint="Run it below one of --sandbox-folders.")
        writable = [workspace, *around.writable]
        hidden = [place for place in around.private if not is_within(place, workspace)]
        if profile is Profile.SEALED:
            hidden += [*TEMPORARY, "/run"]  # also where the state folder lies below one
        shown = [path for path in around.named if _is_in_any(path, hidden)]
        for path in (*shown, *writable):
            if is_within(state, path) or is_within(path, state):
                text = f"{path!r} is to be opened for it, and outlive's state folder lies there"
                raise _unavailable(profile, text, hint="See --sandbox-read, --sandbox-write and PATH.")
        temporary = [] if profile is Profile.SEALED else around.temporary
        others = _others(profile, workspace, around, hidden=hidden, opened=[*writable, *shown, *temporary])
        if not offers.machine.own_mounts:
            # They are hidden as our own one is: by not opening what holds them.
            if any(_holds_any(folder, others) for folder in writable):
                text = "it may write to a folder with another server's state, and no mounts can be made"
                raise _unavailable(profile, text, hint="Run it in a folder of its own.")
            temporary = [folder for folder in temporary if not _holds_any(folder, others)]
            hidden, others = [*hidden, *others], {}
        if script is not None:
            shown.append(script)
        writable += temporary
        protection = _protection(around, profile, tuple(writable), machine=offers.machine)
        if others:
            protection = close_folders(protection, others, writable, around.mounts)
        place = SandboxPlace(
            writable=tuple(writable),
            pinned=protection.pinned,
            protected=protection.protected,
            closed=protection.closed,
        )
        if profile is Profile.SEALED:
            return replace(place, hidden=outermost(hidden), shown=tuple(shown))
        return replace(place, readable=_readable(around, hidden), shown=tuple(dict.fromkeys(shown)))

    def _look_around(self, offers: Capabilities) -> _Surroundings:
        found, now = self._surroundings, time.monotonic()
        if found is not None and now - found.read_at <= _BELIEVED_S:
            return found
        if now >= self._unshares_at:
            unshare_code()
            ended = time.monotonic()
            # An upgrade may have brought links again. It takes a hundredth of the time at most.
            self._unshares_at = ended + 100 * (ended - now)
        state = os.path.realpath(self._state_dir)
        home = self._environment.get("HOME") or "/root"
        # Of the server's own PATH: the caller's would open whatever it names.
        named = [*self._environment.get("PATH", "").split(":"), *self._settings.sandbox_read]
        named += [f"{home}/{name}" for name in _HARMLESS]
        # What a person calls counts as well as what runs now.
        called = filter(None, [shutil.which("outlive", path=self._environment.get("PATH", ""))])
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            mounts = PathIdentity(file.read())
        private = [os.path.realpath(place) for place in (*_PRIVATE, self._state_dir, home)]
        found = self._surroundings = _Surroundings(
            read_at=now,
            state=state,
            folders=[os.path.realpath(folder) for folder in self._settings.sandbox_folders],
            temporary=[folder for folder in TEMPORARY if not is_within(state, folder)],
            writable=[os.path.realpath(folder) for folder in self._settings.sandbox_write],
            private=[place for place in private if place != "/"],
            named=[os.path.realpath(path) for path in named if path],
            own=own_places([*own_code(), *called, *offers.code, *self._own_files, self._state_dir]),
            mounts=mounts,
        )
        return found


def _protection(
    around: _Surroundings, profile: Profile, writable: tuple[str, ...], *, machine: Machine
) -> Protection:
    """Return how outlive's own places are kept from a command.

    Raises:
        StartFailed: `sandbox_unavailable`: they cannot be kept from it.
    """
    found = around.protections.get(writable)
    if found is None:
        found = around.protections[writable] = protection_of(around.own, writable, around.mounts)
    obstacle = found.obstacle
    if found.protected and not machine.own_mounts:
        obstacle = (
            f"{found.protected[0]!r} is outlive's own, and no mounts can be made that keep it from a command "
            "which may write to the folder"
        )
    if obstacle:
        raise _unavailable(
            profile, obstacle, hint="Run it in a folder of its own, or install outlive elsewhere."
        )
    return found


def _others(
    profile: Profile, workspace: str, around: _Surroundings, *, hidden: list[str], opened: list[str]
) -> dict[str, str]:
    """Return the state folders of other servers that a command would reach.

    Raises:
        StartFailed: `sandbox_unavailable`: the command, or our own state folder, lies in one.
    """
    found = {
        other: name
        for other, name in other_state_folders(around.state).items()
        # It may be mounted a second time, where nothing is hidden.
        for seen in around.mounts.paths_of(other, "/")
        if not _is_in_any(seen, hidden) or _is_in_any(seen, opened)
    }
    for inner in (workspace, around.state):
        if _is_in_any(inner, found):
            text = f"{inner!r} lies in another server's state folder"
            raise _unavailable(profile, text, hint="Run it in a folder of its own.")
    return found


def _readable(around: _Surroundings, hidden: list[str]) -> tuple[str, ...]:
    """Return what stands beside the hidden places on the ways to them."""
    opened = around.opened.get(tuple(hidden))
    if opened is None:
        opened = around.opened[tuple(hidden)] = tuple(_beside("/", [*hidden, *_NOT_READ]))
    return opened


def _beside(folder: str, hidden: list[str]) -> Iterable[str]:
    try:
        entries = os.scandir(folder)
    except PermissionError:  # one that may be passed and not listed, as a /home of many users: nothing of it
        return
    with entries:
        for entry in entries:
            # Where a link leads has a name of its own, which is decided about; by the link's it would be
            # opened always.
            if entry.path in hidden or entry.is_symlink():
                continue
            if any(place.startswith(entry.path + "/") for place in hidden):
                if entry.is_dir(follow_symlinks=False):
                    yield from _beside(entry.path, hidden)
                continue
            yield entry.path


def _holds_any(folder: str, places: Iterable[str]) -> bool:
    return any(is_within(place, folder) for place in places)


def _is_in_any(path: str, folders: Iterable[str]) -> bool:
    return any(is_within(path, folder) for folder in folders)


def _unavailable(profile: Profile, obstacle: str, *, hint: str = "") -> StartFailed:
    return StartFailed(
        "sandbox_unavailable",
        f"The profile {profile.value!r} cannot be had here: {obstacle}.",
        hint=hint,
        details={"profile": profile.value},
    )
