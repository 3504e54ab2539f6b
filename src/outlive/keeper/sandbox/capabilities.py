"""Which sandbox profiles this machine offers, found out by starting a program in each: `ask_offers`.

It runs in a process of its own: trying means forking, which a server with threads must not do. The keeper starts that
process on behalf of servers (`supervisor.capability_probe`). What makes a profile is decided in `steps`.
"""

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

from outlive.core.command import Profile
from outlive.core.layout import Layout
from outlive.keeper.common.kernel import become_subreaper
from outlive.keeper.common.locks import holder_of
from outlive.keeper.common.spawn import keeper_argv, keeper_environment
from outlive.keeper.sandbox import confine
from outlive.keeper.sandbox import kernel_calls as calls
from outlive.keeper.sandbox.cgroups import find_limits
from outlive.keeper.sandbox.steps import MIN_LANDLOCK, Machine, SandboxPlace, bounds_of

# Seconds for all attempts together; they usually take 0.06 s, a loaded machine takes longer.
_DEADLINE_S = 20.0
# Flags of clone(2).
_NEWNS, _NEWIPC, _NEWUSER, _NEWNET = 0x20000, 0x08000000, 0x10000000, 0x40000000
_TRUE = next((path for path in ("/bin/true", "/usr/bin/true") if os.path.exists(path)), "/bin/true")


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What was found: the machine, and why a profile is not available ("" where it is)."""

    machine: Machine
    obstacles: Mapping[Profile, str]


def ask_offers(state_dir: str) -> Capabilities:
    """Try all profiles in a child process of the caller (some 60 ms). Blocking: run it in a thread."""
    argv = keeper_argv("offers", state_dir)
    try:
        ran = subprocess.run(
            argv,
            env=keeper_environment("offers"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_DEADLINE_S,
            check=True,
            start_new_session=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return _none(error)
    return read_offers(ran.stdout)


def read_offers(printed: str | bytes) -> Capabilities:
    """Return what `main` has printed; anything else counts as a machine that offers nothing but `open`."""
    try:
        found = json.loads(printed)
        return Capabilities(
            machine=Machine(**found["machine"]),
            obstacles={profile: str(found["obstacles"][profile.value]) for profile in Profile},
        )
    except (ValueError, LookupError, TypeError) as error:
        return _none(error)


def _none(error: Exception) -> Capabilities:
    text = f"trying it out failed ({type(error).__name__})"
    return Capabilities(
        machine=Machine(),
        obstacles={profile: "" if profile is Profile.OPEN else text for profile in Profile},
    )


def main(state_dir: str) -> None:
    """Print as JSON what was found."""
    become_subreaper()
    is_root = os.geteuid() == 0
    # Root can mostly make namespaces directly; in a container it may not, and then needs a user namespace, as users do.
    can_unshare = is_root and not _attempt((f"unshare {_NEWNET}",))
    machine = Machine(
        landlock=calls.landlock_version(),
        is_root=is_root,
        can_unshare=can_unshare,
        own_ipc=not _attempt((f"unshare {_NEWIPC if can_unshare else _NEWIPC | _NEWUSER}",)),
        own_proc=can_unshare and not _has_masks() and not _attempt((f"unshare {_NEWNS}", "processes")),
    )
    obstacles = {profile.value: _obstacle(profile, machine) for profile in Profile}
    limits = find_limits(holder_of(Layout(state_dir).supervisor_lock) or os.getpid())
    facts = {
        "cpu_file": limits.get("cpu", ""),
        "memory_file": limits.get("memory", ""),
        "pids_file": limits.get("pids", ""),
        "landlock": machine.landlock,
        "is_root": machine.is_root,
        "can_unshare": machine.can_unshare,
        "own_ipc": machine.own_ipc,
        "own_proc": machine.own_proc,
    }
    print(json.dumps({"machine": facts, "obstacles": obstacles}))  # noqa: T201 - this is its answer


def _has_masks() -> bool:
    """Return whether something is mounted below /proc, as in a container, that a new /proc would uncover."""
    with open("/proc/self/mountinfo", "rb") as file:
        places = [line.split(b" ")[4] for line in file]
    return any(place.startswith(b"/proc/") and place != b"/proc/sys/fs/binfmt_misc" for place in places)


def _obstacle(profile: Profile, machine: Machine) -> str:
    if profile in {Profile.WORKSPACE, Profile.OFFLINE} and machine.landlock < MIN_LANDLOCK:
        if not machine.landlock:
            return "the kernel has no Landlock"
        return (
            f"the kernel's Landlock is version {machine.landlock}, and {MIN_LANDLOCK} (Linux 6.2) is needed"
        )
    place = SandboxPlace(readable=("/usr", "/bin", "/lib", "/lib64"), hidden=("/tmp",))  # noqa: S108 - hidden, not used
    bounds = bounds_of(profile, machine, place)
    return "" if bounds is None else _attempt(bounds.steps)


def _attempt(steps: tuple[str, ...]) -> str:
    """Return why these steps cannot be carried out; "" when they can."""
    null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    os.chdir("/")
    try:
        words = [step.encode() for step in steps]
        ends = {"I": null, "O": null}
        pid, _ = confine.spawn(words, _TRUE.encode(), [b"true"], {}, ends)
    except confine.Refused as error:
        place = error.place.decode().removeprefix("sandbox:")
        words_of = {
            "unshare": "namespaces cannot be made",
            "seal": "mounts cannot be made",
            "keyring": "no session keyring can be joined",
            "seccomp": "no system calls can be denied",
        }
        return f"{words_of.get(place, place)} ({error.strerror})"
    finally:
        os.close(null)
    status = os.waitpid(pid, 0)[1]
    return "" if status == 0 else f"a program ends with status {status}"
