"""What to install or to set for a line of `outlive doctor` that is not well: `CURES`, and those that depend
on what was found.

Pure. What was found, and what follows from it, is `probes`' business. A line without a cure here is always
well, or names a thing that nothing depends on.
"""

from collections.abc import Mapping

from outlive.core.command import Profile
from outlive.keeper.common.spawn import SHIM_VARIABLE

_OTHER_FOLDER = "choose another folder: --state-dir FOLDER, or OUTLIVE_STATE_DIR"
_SECCOMP = "in a container, a seccomp profile that allows it (Docker 20.10 or newer)"

# By the line's name. The versions are those of Linux's manual pages.
CURES: Mapping[str, str] = {
    "splice": f"a kernel that has splice (gVisor has none), and a file system that takes it: {_OTHER_FOLDER}",
    "pidfd": f"Linux 5.3 or newer; {_SECCOMP}",
    "subreaper": "Linux itself: emulators of a process (qemu-user) make no subreaper",
    "posix_spawn setsid": "a C library with POSIX_SPAWN_SETSID: glibc 2.26 or newer, or musl",
    "PIDFD_GET_INFO": "Linux 6.15 or newer",
    "memfd": f"Linux 3.17 or newer; {_SECCOMP}",
    "pty splice": "Linux 5.12 or newer",
    "hole punching": f"ext4, XFS, Btrfs or tmpfs under the state folder: {_OTHER_FOLDER}",
    "/proc children": (
        "/proc mounted, and a kernel with CONFIG_PROC_CHILDREN (those of distributions have it)"
    ),
    "limits by group": (
        "a control group for the keeper: docs/sandbox.md has the two lines for its unit (Delegate=)"
    ),
    "IPv6 loopback": "sysctl net.ipv6.conf.lo.disable_ipv6=0, or nothing: 127.0.0.1 does the same",
    "shell": "install bash (Debian: apt-get install bash; Alpine: apk add bash)",
}

_NAMESPACES = (
    "let users make namespaces: sysctl kernel.unprivileged_userns_clone=1 (Debian), "
    "kernel.apparmor_restrict_unprivileged_userns=0 (Ubuntu), user.max_user_namespaces above 0; "
    "in a container --security-opt seccomp=unconfined"
)
_LANDLOCK = "Linux 6.2 or newer, with `landlock` among the kernel's security modules (boot parameter lsm=)"

# By the limit that binds, as `capacity` names it.
_ROOM: Mapping[str, str] = {
    "open files": (
        "a higher hard limit for the keeper: LimitNOFILE= in its unit, `ulimit -Hn` or "
        "limits.conf(5) without one"
    ),
    "pid_max": "sysctl kernel.pid_max=4194304",
    "threads-max": "a higher kernel.threads-max (sysctl)",
    "processes of": "a higher `ulimit -u` (limits.conf(5)), or LimitNPROC= in the keeper's unit",
    "pids.max of": "a higher limit of that group: TasksMax= in the unit, --pids-limit of a container",
    "memory": "more memory, or fewer commands at a time: groups with a limit (docs/cli.md)",
}


def cure_of_profile(profile: Profile, obstacle: str) -> str:
    """Return what makes a sandbox profile possible, by what prevents it."""
    if "Landlock" in obstacle:
        return _LANDLOCK
    if profile is Profile.GUARDED or "system calls" in obstacle or "keyring" in obstacle:
        return f"a kernel with seccomp filters and keyrings; {_SECCOMP}"
    return _NAMESPACES


def cure_of_capacity(limit: str) -> str:
    """Return how the limit that binds is raised; `limit` is its name in the line."""
    return next((cure for start, cure in _ROOM.items() if limit.startswith(start)), "")


def cure_of_state_folder(degraded: str | None, trouble: str) -> str:
    """Return how the state folder can be written again, by what its file system reports and by what trying to
    write said.
    """
    match degraded:
        case "disk_full":
            return f"free space (`outlive prune`), or {_OTHER_FOLDER}"
        case "read_only":
            return f"mount it writable (mount -o remount,rw), or {_OTHER_FOLDER}"
        case _:
            return _OTHER_FOLDER if trouble else f"make it again, or {_OTHER_FOLDER}"


PROGRAM_MISSING = (
    "install a wheel that holds the program (pip install --force-reinstall --only-binary outlive "
    "outlive), or a C compiler (Debian: gcc libc6-dev, or musl-tools; ziglang from PyPI) that the first "
    "start compiles it with, in a checkout `make setup`"
)
PROGRAM_NAMED = f"unset {SHIM_VARIABLE} where the keeper is started"
PROGRAM_NOT_EXECUTED = "install outlive anew, on a file system that is not mounted noexec"
