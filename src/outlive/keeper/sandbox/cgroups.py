"""Control groups that limit a command's whole tree: where they can be made, what happened in them, and their
removal.

The command makes its group and enters it itself (`native/shim/confine.c`). The supervisor checks whether
memory ran out in the group, and removes the group once no process is left in it.
"""

import contextlib
import os
from collections.abc import Iterable

from outlive.kernel.files import read_small

# By controller: the limit's file in version 2, and in version 1, of the kernel's control groups.
_FILES = {
    "cpu": ("cpu.max", "cpu.cfs_quota_us"),  # each accepts a quota alone, and keeps its period
    "memory": ("memory.max", "memory.limit_in_bytes"),
    "pids": ("pids.max", "pids.max"),
}
# A keeper in a group of this name owns the group above it, and makes its commands' groups beside its own.
# Version 2 demands that: a group limits groups below it only while no process is in it (cgroups(7), "no
# internal processes").
LEAF = "outlive-keeper"
_EVENTS = ("memory.events", "memory.oom_control")  # version 2, version 1: both have a line "oom_kill COUNT"


def find_limits(pid: int) -> dict[str, str]:
    """Return by controller the path of its limit file, with {} for a group's name.

    Only controllers that work here.

    Groups are made below the keeper's own group (`pid`): a group below the server's would end with the
    server's unit. A keeper in a group called `LEAF` makes them beside its own.
    """
    found = {}
    for controller, (second, first) in _FILES.items():
        # Version 2 first: where both are mounted it is the one that limits a whole tree.
        for kind, name, file in (("cgroup2", "", second), ("cgroup", controller, first)):
            root, path = mount_point(kind, name), group_of(name, pid)
            if root is None or path is None:
                continue
            parent = f"{root}{path}".rstrip("/")
            if kind == "cgroup2" and parent.endswith(f"/{LEAF}"):
                parent = parent.removesuffix(f"/{LEAF}")
                _hand_down(parent, controller)
            if _can_limit(parent, file):
                found[controller] = f"{parent}/{{}}/{file}"
                break
    return found


def _hand_down(group: str, controller: str) -> None:
    """Let groups below limit something.

    Where this process may not change that, they stay without the controller.
    """
    with contextlib.suppress(OSError), open(f"{group}/cgroup.subtree_control", "w", encoding="ascii") as file:
        file.write(f"+{controller}")


def _can_limit(parent: str, file: str) -> bool:
    # The only reliable test: make a group, and look whether its limit file exists and can be written.
    group = f"{parent}/outlive-probe-{os.getpid()}"
    try:
        os.mkdir(group)
    except OSError:
        return False
    try:
        return os.access(f"{group}/{file}", os.W_OK)
    finally:
        with contextlib.suppress(OSError):
            os.rmdir(group)


def ran_out_of_memory(groups: Iterable[str]) -> bool:
    """Return whether the kernel has killed a process in one of these groups for want of memory."""
    for group in groups:
        for name in _EVENTS:
            for line in read_small(f"{group}/{name}").splitlines():
                word, _, number = line.partition(b" ")
                if word == b"oom_kill" and int(number):
                    return True
    return False


def remove_groups(groups: Iterable[str]) -> None:
    """Remove groups that hold no process any more; a group that is missing is a success."""
    for group in groups:
        with contextlib.suppress(OSError):
            os.rmdir(group)


def mount_point(kind: str, controller: str) -> str | None:
    """Return where a hierarchy is mounted: kind "cgroup2", or "cgroup" with a controller of version 1."""
    with (
        contextlib.suppress(OSError),
        open("/proc/self/mounts", encoding="utf-8", errors="replace") as mounts,
    ):
        for line in mounts:
            _, point, found, options, *_ = line.split(" ")
            if found == kind and (not controller or controller in options.split(",")):
                return point
    return None


def group_of(controller: str, pid: int | str = "self") -> str | None:
    """Return a process's path in the hierarchy of a controller of version 1, or of version 2 ("")."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/cgroup", encoding="utf-8") as groups:
        for line in groups:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            if controllers == controller or (controller and controller in controllers.split(",")):
                return path
    return None
