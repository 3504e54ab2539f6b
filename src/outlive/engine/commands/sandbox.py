"""From a `Command` to the bounds it runs in: which profile, whether that may be, and the steps that make it.

What the machine offers is tried out once, by a process of the keeper's, when it is first needed. The steps are the keeper's
(`keeper.sandbox.confine`); one that fails there keeps the command from running.
"""

import asyncio
import contextlib
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from outlive.core.command import NO_LIMITS, Command, Limits, Profile, Sandbox, parse_profile
from outlive.core.errors import CommandRefused, InvalidRequest, StartFailed
from outlive.core.process import Owner, ProcessRecord
from outlive.engine.commands.resolver import Resolved
from outlive.keeper.sandbox.capabilities import Capabilities, ask_offers, read_offers
from outlive.keeper.sandbox.steps import SandboxPlace, bounds_of

_TEMPORARY = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108 - folders that commands may write to, not ours
_HOMES = ("/root", "/home")
_PRIVATE = (*_HOMES, "/run/user")
_NOT_READ = ("/dev",)  # a few devices are opened by name
_BELIEVED_S = 1.0
_NO_CPUS = "Leave out --limit-cpus or `cpus`; `cpu` bounds each process's processor time without a group."
# In a home, and yet to be read: git refuses to work when it may not.
_HARMLESS = (".gitconfig", ".config/git")


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxSettings:
    """What the operator has decided: the profile of callers that ask for none, bounds, and folders that are opened.

    `readable` and `writable` are opened for the profiles from workspace on; in these a command's folder must lie below
    one of `folders`, where there are any.
    """

    profile: Profile = Profile.OPEN
    limits: Limits = NO_LIMITS
    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Surroundings:
    """What does not depend on the command, absolute and without symbolic links, asked at most once a second.

    `opened` are by hidden places what stands beside them on the ways to them: one workspace may lie in a place that is
    hidden from others.
    """

    read_at: float
    state: str
    folders: Sequence[str]
    temporary: Sequence[str]
    writable: Sequence[str]
    private: Sequence[str]
    named: Sequence[str]
    opened: dict[tuple[str, ...], tuple[str, ...]] = field(default_factory=dict)


class Sandboxes:
    """Chooses and prepares the bounds of commands."""

    def __init__(
        self,
        settings: SandboxSettings,
        *,
        state_dir: str,
        environment: Mapping[str, str],
        ask: Callable[[], Awaitable[str]] | None = None,
    ) -> None:
        """Take the settings; nothing is tried out yet.

        Args:
            settings: What the operator has decided.
            state_dir: The state folder, which no command of a stronger profile may read.
            environment: The server's.
            ask: Has it tried out where commands run (`Backend.offers`); without it, it is tried out from here.
        """
        self._settings = settings
        self._limits = settings.limits or NO_LIMITS
        self._state_dir = state_dir
        self._environment = environment
        self._offers: Capabilities | None = None
        self._asking = asyncio.Lock()
        self._ask = ask
        self._surroundings: _Surroundings | None = None

    @property
    def default(self) -> Profile:
        """The profile of a command that asks for none."""
        return self._settings.profile

    def choose(self, command: Command, owner: Owner, inside: ProcessRecord | None) -> Profile:
        """Return the profile a command gets; `inside` is the process in whose tree the caller lives.

        Raises:
            InvalidRequest: There is none of that name.
            CommandRefused: `profile_too_weak`: weaker than the default, and the caller is no administrator; or weaker
                than that of the process in whose tree the caller lives.
        """
        least = self._settings.profile
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
        if not _is_within(folder, own):
            text = f"The caller runs in the profile {inside.sandbox.profile.value!r}: it may start in its own folder only."
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
            place = await asyncio.to_thread(self._place, profile, resolved.cwd, script)
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
                self._offers = await self._find_out()
        return self._offers

    async def _find_out(self) -> Capabilities:
        if self._ask is not None:
            with contextlib.suppress(InvalidRequest):  # a keeper of an earlier version, which does not know
                return read_offers(await self._ask())
        return await asyncio.to_thread(ask_offers, self._state_dir)

    def assume(self, offers: Capabilities) -> None:
        """Take over what the machine offers from a caller that has tried it out already."""
        self._offers = offers

    def _place(self, profile: Profile, cwd: str, script: str | None) -> SandboxPlace:
        around, workspace = self._look_around(), os.path.realpath(cwd)
        state = around.state
        if _is_within(state, workspace) or _is_within(workspace, state):
            text = f"the working folder {cwd!r} holds outlive's state folder, which no command of this profile may read"
            raise _unavailable(profile, text, hint="Run it in a folder of its own.")
        if around.folders and not _is_in_any(workspace, around.folders):
            text = f"the working folder {cwd!r} lies in none that the operator has named for it"
            raise _unavailable(profile, text, hint="Run it below one of --sandbox-folders.")
        writable = [workspace, *around.writable]
        hidden = [place for place in around.private if not _is_within(place, workspace)]
        if profile is Profile.SEALED:
            hidden += [*around.temporary, "/run"]
        shown = [path for path in around.named if _is_in_any(path, hidden)]
        for path in (*shown, *writable):
            if _is_within(state, path) or _is_within(path, state):
                text = f"{path!r} is to be opened for it, and outlive's state folder lies there"
                raise _unavailable(profile, text, hint="See --sandbox-read, --sandbox-write and PATH.")
        if script is not None:
            shown.append(script)
        if profile is Profile.SEALED:
            return SandboxPlace(writable=tuple(writable), hidden=_outermost(hidden), shown=tuple(shown))
        return SandboxPlace(
            writable=(*writable, *around.temporary),
            readable=_readable(around, hidden),
            shown=tuple(dict.fromkeys(shown)),
        )

    def _look_around(self) -> _Surroundings:
        found, now = self._surroundings, time.monotonic()
        if found is not None and now - found.read_at <= _BELIEVED_S:
            return found
        state = os.path.realpath(self._state_dir)
        home = self._environment.get("HOME") or "/root"
        # Of the server's own PATH: the caller's would open whatever it names.
        named = [*self._environment.get("PATH", "").split(":"), *self._settings.readable]
        named += [f"{home}/{name}" for name in _HARMLESS]
        private = [os.path.realpath(place) for place in (*_PRIVATE, self._state_dir, home)]
        found = self._surroundings = _Surroundings(
            read_at=now,
            state=state,
            folders=[os.path.realpath(folder) for folder in self._settings.folders],
            temporary=[folder for folder in _TEMPORARY if not _is_within(state, folder)],
            writable=[os.path.realpath(folder) for folder in self._settings.writable],
            private=[place for place in private if place != "/"],
            named=[os.path.realpath(path) for path in named if path],
        )
        return found


def _readable(around: _Surroundings, hidden: list[str]) -> tuple[str, ...]:
    """Return what stands beside the hidden places on the ways to them."""
    opened = around.opened.get(tuple(hidden))
    if opened is None:
        opened = around.opened[tuple(hidden)] = tuple(_beside("/", [*hidden, *_NOT_READ]))
    return opened


def _beside(folder: str, hidden: list[str]) -> Iterable[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            # Where a link leads has a name of its own, which is decided about; by the link's it would be opened always.
            if entry.path in hidden or entry.is_symlink():
                continue
            if any(place.startswith(entry.path + "/") for place in hidden):
                if entry.is_dir(follow_symlinks=False):
                    yield from _beside(entry.path, hidden)
                continue
            yield entry.path


def _is_within(path: str, folder: str) -> bool:
    return folder in {path, "/"} or path.startswith(folder + "/")


def _is_in_any(path: str, folders: Iterable[str]) -> bool:
    return any(_is_within(path, folder) for folder in folders)


def _outermost(folders: list[str]) -> tuple[str, ...]:
    return tuple(
        folder
        for folder in dict.fromkeys(folders)
        if not any(folder != other and _is_within(folder, other) for other in folders)
    )


def _unavailable(profile: Profile, obstacle: str, *, hint: str = "") -> StartFailed:
    return StartFailed(
        "sandbox_unavailable",
        f"The profile {profile.value!r} cannot be had here: {obstacle}.",
        hint=hint,
        details={"profile": profile.value},
    )
