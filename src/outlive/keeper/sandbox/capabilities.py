"""Which sandbox profiles this machine offers, found out by starting a program in each: `ask_offers`.

The program starts it, as it does for a shim (`outlive-runner try`). The attempts run in a process of their
own, which the keeper starts on behalf of servers (`supervisor.capability_probe`). What makes a profile is
decided in `steps`.
"""

import ctypes
import json
import os
import subprocess
from collections.abc import Mapping

from outlive.core.command import Profile
from outlive.core.documents import decode_json
from outlive.core.layout import Layout
from outlive.core.values import dataclass
from outlive.keeper.common.spawn import PROGRAM_FLAG, keeper_argv, keeper_environment
from outlive.keeper.sandbox.cgroups import find_limits
from outlive.keeper.sandbox.steps import MIN_LANDLOCK, Machine, SandboxPlace, bounds_of
from outlive.kernel.locks import holder_of
from outlive.kernel.own_code import PACKAGE, own_code
from outlive.protocols.frames import SPEC_VERSION, encode_exec

# Seconds for all attempts together; they usually take 0.06 s, a loaded machine takes longer.
_DEADLINE_S = 20.0
# Flags of clone(2).
_NEWNS, _NEWIPC, _NEWUSER, _NEWNET = 0x20000, 0x08000000, 0x10000000, 0x40000000
_LANDLOCK_CREATE, _ASK_FOR_VERSION = 444, 1
_TRUE = next((path for path in ("/bin/true", "/usr/bin/true") if os.path.exists(path)), "/bin/true")


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What was found: the machine, why a profile is not available ("" where it is), and the keeper's code."""

    machine: Machine
    obstacles: Mapping[Profile, str]
    code: tuple[str, ...] = ()


def ask_offers(state_dir: str, *, program: str) -> Capabilities:
    """Try all profiles in a child process of the caller (some 60 ms). Blocking: run it in a thread.

    `program` is the path of the program of shims.
    """
    opened = -1
    try:
        opened = os.open(program, os.O_RDONLY | os.O_CLOEXEC)
        ran = subprocess.run(
            keeper_argv("offers", state_dir, f"{PROGRAM_FLAG}{opened}"),
            env=keeper_environment(),
            pass_fds=(opened,),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_DEADLINE_S,
            check=True,
            start_new_session=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return _none(error)
    finally:
        if opened >= 0:
            os.close(opened)
    return read_offers(ran.stdout)


def read_offers(printed: str | bytes) -> Capabilities:
    """Return what `main` has printed; anything else counts as a machine that offers nothing but `open`."""
    try:
        found = decode_json(printed)
        return Capabilities(
            machine=Machine(**found["machine"]),
            obstacles={profile: str(found["obstacles"][profile.value]) for profile in Profile},
            code=tuple(map(str, found["code"])),
        )
    except (ValueError, LookupError, TypeError) as error:
        return _none(error)


def _none(error: Exception) -> Capabilities:
    text = f"trying it out failed ({type(error).__name__})"
    return Capabilities(
        machine=Machine(),
        obstacles={profile: "" if profile is Profile.OPEN else text for profile in Profile},
    )


def main(state_dir: str, program: int) -> None:
    """Print as JSON what was found; `program` is the open program of shims."""
    is_root = os.geteuid() == 0
    # Root can mostly make namespaces directly; in a container it may not, and then needs a user namespace, as
    # users do.
    can_unshare = is_root and not _attempt((f"unshare {_NEWNET}",), program)
    machine = Machine(
        architecture=os.uname().machine,
        landlock=_landlock_version(),
        is_root=is_root,
        can_unshare=can_unshare,
        own_ipc=not _attempt((f"unshare {_NEWIPC if can_unshare else _NEWIPC | _NEWUSER}",), program),
        own_mounts=not _attempt(
            (f"unshare {_NEWNS if can_unshare else _NEWNS | _NEWUSER}", f"protect {PACKAGE}"), program
        ),
        own_proc=can_unshare
        and not _has_masks()
        and not _attempt((f"unshare {_NEWNS}", "processes"), program),
    )
    obstacles = {profile.value: _obstacle(profile, machine, program) for profile in Profile}
    limits = find_limits(holder_of(Layout(state_dir).supervisor_lock) or os.getpid())
    facts = {
        "cpu_file": limits.get("cpu", ""),
        "memory_file": limits.get("memory", ""),
        "pids_file": limits.get("pids", ""),
        "architecture": machine.architecture,
        "landlock": machine.landlock,
        "is_root": machine.is_root,
        "can_unshare": machine.can_unshare,
        "own_ipc": machine.own_ipc,
        "own_mounts": machine.own_mounts,
        "own_proc": machine.own_proc,
    }
    print(json.dumps({"machine": facts, "obstacles": obstacles, "code": own_code()}))  # noqa: T201 - this is its answer


def _landlock_version() -> int:
    """Return the version of the kernel's Landlock; 0 where it has none (landlock_create_ruleset(2))."""
    if "landlock" in os.environ.get("OUTLIVE_DEGRADE", ""):  # a test pretends
        return 0
    version: int = ctypes.CDLL(None).syscall(_LANDLOCK_CREATE, None, ctypes.c_size_t(0), _ASK_FOR_VERSION)
    return max(0, version)


def _has_masks() -> bool:
    """Return whether something is mounted below /proc, as in a container, that a new /proc would uncover."""
    with open("/proc/self/mountinfo", "rb") as file:
        places = [line.split(b" ")[4] for line in file]
    return any(place.startswith(b"/proc/") and place != b"/proc/sys/fs/binfmt_misc" for place in places)


def _obstacle(profile: Profile, machine: Machine, program: int) -> str:
    if profile in {Profile.WORKSPACE, Profile.OFFLINE} and machine.landlock < MIN_LANDLOCK:
        if not machine.landlock:
            return "the kernel has no Landlock"
        return (
            f"the kernel's Landlock is version {machine.landlock}, and {MIN_LANDLOCK} (Linux 6.2) is needed"
        )
    place = SandboxPlace(readable=("/usr", "/bin", "/lib", "/lib64"), hidden=("/tmp",))  # noqa: S108 - hidden, not used
    bounds = bounds_of(profile, machine, place)
    return "" if bounds is None else _attempt(bounds.steps, program)


def _attempt(steps: tuple[str, ...], program: int) -> str:
    """Return why these steps cannot be carried out; "" when they can."""
    spec = os.memfd_create("outlive-try")
    try:
        os.write(spec, b"%s 0\n%s" % (SPEC_VERSION, encode_exec(_TRUE, "/", ("true",), {}, steps=steps)))
        tried = subprocess.run(
            [f"/proc/self/fd/{program}", "try"],
            pass_fds=(program,),
            stdin=spec,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            cwd="/",
            check=False,
        )
    except OSError as error:
        return f"the program of shims cannot be executed ({error.strerror})"
    finally:
        os.close(spec)
    verb, *words = tried.stderr.decode(errors="replace").split()[:3] or [""]
    if verb != "failed" or len(words) != 2:
        return "" if tried.returncode == 0 else f"a program ends with status {tried.returncode}"
    place = words[1].removeprefix("sandbox:")
    words_of = {
        "unshare": "namespaces cannot be made",
        "seal": "mounts cannot be made",
        "keyring": "no session keyring can be joined",
        "seccomp": "no system calls can be denied",
    }
    return f"{words_of.get(place, place)} ({os.strerror(int(words[0]))})"
