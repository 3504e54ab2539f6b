"""Which steps make a sandbox profile on this machine, and what they give: `bounds_of`.

Pure: `confine` carries the steps out, `capabilities` finds out what the machine can do, `engine` chooses the paths.
"""

import resource
from dataclasses import dataclass

from outlive.core.command import NO_LIMITS, Limits, Profile

_NEWNS, _NEWCGROUP, _NEWUTS, _NEWIPC = 0x20000, 0x02000000, 0x04000000, 0x08000000
_NEWUSER, _NEWPID, _NEWNET = 0x10000000, 0x20000000, 0x40000000  # clone(2)
# The period in which a group may use its quota, the default of both versions of control groups (cgroups(7)).
_PERIOD_US = 100_000
# What root keeps: changing owners and modes of files, and becoming a user with less power (capabilities(7)). Nothing that
# reaches the kernel, other processes, devices or the network's configuration.
_ROOT_KEEPS = sum(1 << number for number in (0, 1, 3, 4, 6, 7))
# Landlock before ABI 3 (Linux 6.2) does not prevent truncating files anywhere.
MIN_LANDLOCK = 3
DEVICES = (
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What `capabilities` found out: Landlock's version (0: none), whether we are root, which namespaces can be made.

    `own_ipc`: an IPC namespace is available, by a user namespace if need be; `own_proc`: a /proc that hides processes is.
    """

    landlock: int = 0
    is_root: bool = False
    can_unshare: bool = False  # without a user namespace of its own
    own_ipc: bool = False
    own_proc: bool = False
    # Path of a group's limit file, {} for the group's name; empty where there is none.
    cpu_file: str = ""
    memory_file: str = ""
    pids_file: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxPlace:
    """What of the file system a command may use; absolute paths without symbolic links.

    `writable` begins with the command's own folder; temporary folders and the operator's additions follow. `readable` is
    everything that Landlock opens for reading, `hidden` what a sealed command finds empty; `shown` are exceptions to that.
    """

    writable: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxSteps:
    """Steps for `confine`, the names of what they give, and the control groups that they make."""

    steps: tuple[str, ...]
    features: tuple[str, ...]
    groups: tuple[str, ...] = ()


def bounds_of(
    profile: Profile, machine: Machine, place: SandboxPlace, *, limits: Limits = NO_LIMITS, name: str = ""
) -> SandboxSteps | None:
    """Return what makes a profile; None when there is nothing to do (the profile is open, and there are no limits).

    `name` is part of the names of this command's control groups.
    """
    steps, features, groups, limits = _groups(limits, machine, f"outlive-{name}")
    last, limited = _limits(limits, profile)  # last: they bind the child that carries out the steps, too
    features += limited
    if profile is Profile.OPEN:
        steps += last
        return SandboxSteps(steps=tuple(steps), features=tuple(features), groups=groups) if steps else None
    features += ["no_new_privileges", "clean_environment"]
    if profile is Profile.GUARDED:
        return SandboxSteps(
            steps=(*steps, "no_new_privileges", *last), features=tuple(features), groups=groups
        )
    steps.append("keyring")  # before a user namespace: inside one the shared keyring could not be found
    if profile is Profile.SEALED:
        steps += _sealed(machine, place)
        features += ["files", "secrets_hidden", "no_network", "no_foreign_processes", "own_tmp", "own_ipc"]
    else:
        steps += _shared(profile, machine, place)
        features += ["files", "secrets_hidden", "no_foreign_trace"]
        features += ["no_network"] if profile is Profile.OFFLINE else []
        features += ["own_ipc" if machine.own_ipc else "no_ipc"]
        features += ["processes_hidden"] if machine.own_proc else []
        features += ["no_foreign_signals"] if machine.landlock >= 6 else []
    # A new user namespace gives all capabilities inside it: they are given up again.
    if machine.is_root or any(step.startswith("unshare") for step in steps):
        steps.append(f"capabilities {_ROOT_KEEPS if machine.is_root else 0}")
        features.append("capabilities")
    steps.append("no_new_privileges")
    if profile is not Profile.SEALED:
        steps.append(f"landlock {machine.landlock}")
        features.append(f"landlock_{machine.landlock}")
    steps.append("seccomp own" if "own_ipc" in features else "seccomp none")
    features += ["seccomp", "keyring"]
    return SandboxSteps(steps=(*steps, *last), features=tuple(features), groups=groups)


def _groups(
    limits: Limits, machine: Machine, name: str
) -> tuple[list[str], list[str], tuple[str, ...], Limits]:
    """Return steps, features and folders of control groups, and the limits that remain for setrlimit(2)."""
    steps: list[str] = []
    features: list[str] = []
    groups: list[str] = []
    for feature, template, value in (
        ("cpus", machine.cpu_file, None if limits.cpus is None else round(limits.cpus * _PERIOD_US)),
        ("memory", machine.memory_file, limits.memory_bytes),
        ("processes", machine.pids_file, limits.processes),
    ):
        if not template or value is None:
            continue
        file = template.format(name)
        folder = file.rpartition("/")[0]
        if folder not in groups:
            groups.append(folder)
            steps.append(f"group {folder}")
        steps.append(f"set {value} {file}")
        features.append(f"cgroup_{feature}")
    left = Limits(
        cpu_s=limits.cpu_s,
        cpus=None if "cgroup_cpus" in features else limits.cpus,
        files=limits.files,
        memory_bytes=None if "cgroup_memory" in features else limits.memory_bytes,
        processes=None if "cgroup_processes" in features else limits.processes,
    )
    return [*steps, *(f"cgroup {folder}" for folder in groups)], features, tuple(groups), left


def _limits(limits: Limits, profile: Profile) -> tuple[list[str], list[str]]:
    wanted = (
        ("cpu", resource.RLIMIT_CPU, limits.cpu_s),
        ("memory", resource.RLIMIT_AS, limits.memory_bytes),
        ("files", resource.RLIMIT_NOFILE, limits.files),
        ("processes", resource.RLIMIT_NPROC, limits.processes),
        # A core file may hold secrets.
        ("core", resource.RLIMIT_CORE, None if profile is Profile.OPEN else 0),
    )
    steps = [f"limit {number} {value}" for _, number, value in wanted if value is not None]
    return steps, [f"rlimit_{name}" for name, _, value in wanted if value is not None]


def _shared(profile: Profile, machine: Machine, place: SandboxPlace) -> list[str]:
    """Return the steps of a profile that sees the machine's own files; Landlock decides about each of them."""
    own_ipc, own_proc = (_NEWIPC if machine.own_ipc else 0), (_NEWNS if machine.own_proc else 0)
    network = _NEWNET if profile is Profile.OFFLINE else 0
    return [
        *_namespaces(machine, own_ipc | own_proc | network),
        *(["processes"] if own_proc else []),
        *(f"read {path}" for path in (*place.readable, *place.shown)),
        *(f"write {path}" for path in place.writable),
        *(f"device {path}" for path in DEVICES),
    ]


def _namespaces(machine: Machine, flags: int) -> list[str]:
    if not flags:
        return []
    user = 0 if machine.can_unshare else _NEWUSER
    return [f"unshare {flags | user}", *(["loopback"] if flags & _NEWNET else [])]


def _sealed(machine: Machine, place: SandboxPlace) -> list[str]:
    return [
        *_namespaces(machine, _NEWNS | _NEWCGROUP | _NEWUTS | _NEWIPC | _NEWPID | _NEWNET),
        *(f"hide {path}" for path in place.hidden),
        *(f"show {path}" for path in place.shown),
        *(f"keep {path}" for path in place.writable),
        "seal",
    ]
