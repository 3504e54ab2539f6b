"""Which steps make a sandbox profile on this machine, and what they give: `bounds_of`.

Pure: the shim carries the steps out (`native/shim/confine.h` lists them), `capabilities` finds out what the
machine can do, `engine` chooses the paths. What a step needs to know of the kernel's interfaces is in its
words: rights, masks, a filter.
"""

import os.path
import resource

from outlive.core.command import NO_LIMITS, Limits, Profile
from outlive.core.values import dataclass
from outlive.keeper.sandbox.syscalls import ARCHITECTURES, filter_program

_NEWNS, _NEWCGROUP, _NEWUTS, _NEWIPC = 0x20000, 0x02000000, 0x04000000, 0x08000000
_NEWUSER, _NEWPID, _NEWNET = 0x10000000, 0x20000000, 0x40000000  # clone(2)
# The period in which a group may use its quota, the default of both versions of control groups (cgroups(7)).
_PERIOD_US = 100_000
# What root keeps: changing owners and modes of files, and becoming a user with less power (capabilities(7)).
# Nothing that reaches the kernel, other processes, devices or the network's configuration.
_ROOT_KEEPS = sum(1 << number for number in (0, 1, 3, 4, 6, 7))
# Landlock before ABI 3 (Linux 6.2) does not prevent truncating files anywhere.
MIN_LANDLOCK = 3
# linux/landlock.h, bit by bit: execute 0, write file 1, read file 2, read dir 3, remove dir 4, remove file 5,
# make char 6, dir 7, reg 8, sock 9, fifo 10, block 11, sym 12, refer 13 (ABI 2), truncate 14 (3), ioctl on
# devices 15 (5).
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_MAKE_CHAR, _MAKE_BLOCK, _TRUNCATE, _IOCTL_DEV = 1 << 6, 1 << 11, 1 << 14, 1 << 15
_SCOPES = 0b11  # abstract Unix sockets, signals (ABI 6)
# Listing folders is not restricted: a rule for / would open everything below it, and without one `ls /` would
# fail.
_RESTRICTED = (1 << 16) - 1 & ~_READ_DIR
_READ = _EXECUTE | _READ_FILE
# Device nodes may be made nowhere: the node of a disk would lead around every other rule.
_WRITE = _RESTRICTED & ~(_MAKE_CHAR | _MAKE_BLOCK | _IOCTL_DEV)
_DEVICE = _READ_FILE | _WRITE_FILE | _TRUNCATE | _IOCTL_DEV
TEMPORARY = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108 - folders that commands may write to, not ours
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
    """What `capabilities` found out: Landlock's version (0: none), whether we are root, which namespaces can
    be made.

    `architecture` is what uname(2) calls it. `own_ipc`: an IPC namespace is available, by a user namespace if
    need be; `own_mounts`: so is a mount namespace; `own_proc`: a /proc that hides processes is.
    """

    architecture: str = ""
    landlock: int = 0
    is_root: bool = False
    can_unshare: bool = False  # without a user namespace of its own
    own_ipc: bool = False
    own_mounts: bool = False
    own_proc: bool = False
    # Path of a group's limit file, {} for the group's name; empty where there is none.
    cpu_file: str = ""
    memory_file: str = ""
    pids_file: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxPlace:
    """What of the file system a command may use; absolute paths without symbolic links.

    `writable` begins with the command's own folder; temporary folders and the operator's additions follow.
    `readable` is everything that Landlock opens for reading, `hidden` what a sealed command finds empty;
    `shown` are exceptions to that. Inside of what is writable, `protected` is read-only. `closed` folders are
    empty and cannot be entered, wherever they are. `pinned` are the folders on the ways to both, which keep
    their names.
    """

    writable: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    pinned: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxSteps:
    """Steps for the shim, the names of what they give, and the control groups that they make."""

    steps: tuple[str, ...]
    features: tuple[str, ...]
    groups: tuple[str, ...] = ()


def bounds_of(
    profile: Profile, machine: Machine, place: SandboxPlace, *, limits: Limits = NO_LIMITS, name: str = ""
) -> SandboxSteps | None:
    """Return what makes a profile; None when there is nothing to do (the profile is open, and there are no
    limits).

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
        features += ["files", "secrets_hidden", "no_network", "no_foreign_processes", "own_ipc"]
        features += ["own_tmp"] if all(_is_own(folder, place) for folder in TEMPORARY) else []
    else:
        steps += _shared(profile, machine, place)
        features += ["files", "secrets_hidden", "no_foreign_trace"]
        features += ["no_network"] if profile is Profile.OFFLINE else []
        features += ["own_ipc" if machine.own_ipc else "no_ipc"]
        features += ["processes_hidden"] if machine.own_proc else []
        features += ["no_foreign_signals"] if machine.landlock >= 6 else []
    features += ["outlive_read_only"] if place.protected else []
    # A new user namespace gives all capabilities inside it: they are given up again.
    if machine.is_root or any(step.startswith("unshare") for step in steps):
        steps.append(f"capabilities {_ROOT_KEEPS if machine.is_root else 0}")
        features.append("capabilities")
    steps.append("no_new_privileges")
    if profile is not Profile.SEALED:
        steps.append(f"landlock {_known(machine, _RESTRICTED)} {_SCOPES if machine.landlock >= 6 else 0}")
        features.append(f"landlock_{machine.landlock}")
    steps.append(f"seccomp {_filter(profile, machine, has_own_ipc='own_ipc' in features)}")
    features += ["seccomp", "keyring"]
    return SandboxSteps(steps=(*steps, *last), features=tuple(features), groups=groups)


def _filter(profile: Profile, machine: Machine, *, has_own_ipc: bool) -> str:
    """Return the filter of system calls in hexadecimal.

    The kernel refuses the empty one of a machine that has none.
    """
    if machine.architecture not in ARCHITECTURES:
        return ""
    is_sealed = profile is Profile.SEALED
    return filter_program(machine.architecture, has_own_ipc=has_own_ipc, has_own_pids=is_sealed).hex()


def _known(machine: Machine, rights: int) -> int:
    """Return those of Landlock's rights that its version knows."""
    return rights if machine.landlock >= 5 else rights & ~_IOCTL_DEV


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
        if file.endswith("/memory.max"):  # version 2: a tree of which one process was killed is of no use
            steps.append(f"set 1 {folder}/memory.oom.group")
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
    """Return the steps of a profile that sees the machine's own files; Landlock decides about each of
    them.
    """
    own_ipc = _NEWIPC if machine.own_ipc else 0
    own_mounts = _NEWNS if machine.own_proc or place.protected or place.closed else 0
    network = _NEWNET if profile is Profile.OFFLINE else 0
    return [
        *_namespaces(machine, own_ipc | own_mounts | network),
        *_protection(place),
        *(["processes"] if machine.own_proc else []),
        *(f"allow {_READ} {path}" for path in (*place.readable, *place.shown)),
        *(f"allow {_READ | _WRITE} {path}" for path in place.writable),
        *(f"allow {_known(machine, _DEVICE)} {path}" for path in DEVICES),
    ]


def _is_own(folder: str, place: SandboxPlace) -> bool:
    """Return whether a sealed command finds a folder of its own there: hidden, and not opened again as a
    whole. `seal` makes a /dev of its own always.
    """
    above = {folder, os.path.dirname(folder), "/"}  # none lies deeper
    return bool(above & {"/dev", *place.hidden}) and not above & {*place.shown, *place.writable}


def _namespaces(machine: Machine, flags: int) -> list[str]:
    if not flags:
        return []
    user = 0 if machine.can_unshare else _NEWUSER
    return [f"unshare {flags | user}", *(["loopback"] if flags & _NEWNET else [])]


def _protection(place: SandboxPlace) -> list[str]:
    # The outermost first: what is mounted over a folder hides mounts that were made in it before.
    return [
        *(f"pin {path}" for path in sorted(place.pinned)),
        *(f"protect {path}" for path in place.protected),
        *(f"close {path}" for path in place.closed),
    ]


def _sealed(machine: Machine, place: SandboxPlace) -> list[str]:
    return [
        *_namespaces(machine, _NEWNS | _NEWCGROUP | _NEWUTS | _NEWIPC | _NEWPID | _NEWNET),
        *_protection(place),
        *(f"hide {path}" for path in place.hidden),
        *(f"show {path}" for path in place.shown),
        *(f"keep {path}" for path in place.writable),
        "seal",
    ]
