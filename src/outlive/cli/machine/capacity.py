"""How many commands this machine can keep at a time, from its limits as they are now: `probe_capacity`.

The lowest binds.
"""

import contextlib
import os
import resource
from collections.abc import Iterator

from outlive.keeper.sandbox.cgroups import group_of, mount_point
from outlive.keeper.supervisor.starts.launcher import most_processes
from outlive.keeper.supervisor.starts.prepared_folders import descriptors_of_folders

_TASKS_EACH = 2  # the command and its shim
# The keeper's own memory for a live command: its shim and its part of the supervisor (decision 126). The
# command's own comes on top.
_BYTES_EACH = 86 << 10


def probe_capacity(supervisor: int | None, *, live: int) -> tuple[int, str, str]:
    """Return how many commands may live at a time, those that do included, the limit that binds, and all of
    it in words.

    Args:
        supervisor: Its pid where a keeper runs; else what we may have ourselves stands for it.
        live: How many commands it keeps.
    """
    pid = supervisor or os.getpid()
    rooms = {name: max(live, room) for name, room in _rooms(pid, live)}
    binding = min(rooms, key=lambda name: rooms[name])
    others = ", ".join(f"{name} {room}" for name, room in sorted(rooms.items(), key=lambda one: one[1])[1:4])
    words = f"{rooms[binding]} commands at a time, by {binding}"
    return rooms[binding], binding, f"{words} (then {others})" if others else words


def _rooms(pid: int, live: int) -> Iterator[tuple[str, int]]:
    """Yield each limit's name and how many commands have room within it."""
    files = _limit_of(pid, "Max open files")
    if files is not None:
        yield "open files of the supervisor", most_processes(files, descriptors_of_folders(files))
    tasks = _tasks()
    for name in ("pid_max", "threads-max"):
        if (most := _number(f"/proc/sys/kernel/{name}")) is not None:
            yield name, live + (most - tasks) // _TASKS_EACH
    processes = _limit_of(pid, "Max processes")
    if processes is not None and os.geteuid():  # root is not bound by it (setrlimit(2), CAP_SYS_RESOURCE)
        yield "processes of this user (ulimit -u)", live + (processes - _tasks(os.geteuid())) // _TASKS_EACH
    for group, most, now in _groups(pid):
        yield f"pids.max of {group}", live + (most - now) // _TASKS_EACH
    if (free := _free_memory()) is not None:
        yield "memory of the keeper", live + free // _BYTES_EACH


def _limit_of(pid: int, name: str) -> int | None:
    """Return a process's hard limit (proc_pid_limits(5)); None: it has none, or is not to be seen."""
    try:
        with open(f"/proc/{pid}/limits", encoding="ascii") as file:
            words = next(line[len(name) :].split() for line in file if line.startswith(name))
    except (OSError, StopIteration):
        which = resource.RLIMIT_NOFILE if "files" in name else resource.RLIMIT_NPROC
        hard = resource.getrlimit(which)[1]
        return None if hard == resource.RLIM_INFINITY else hard
    return int(words[1]) if words[1].isdigit() else None


def _tasks(uid: int | None = None) -> int:
    """Return how many threads there are, of one user or of all."""
    count = 0
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if uid is None or os.stat(f"/proc/{name}").st_uid == uid:
                count += len(os.listdir(f"/proc/{name}/task"))
    return count


def _groups(pid: int) -> Iterator[tuple[str, int, int]]:
    """Yield the control groups above a process that bound its tasks: path, limit, tasks now (cgroups(7),
    pids).
    """
    for kind, controller in (("cgroup2", ""), ("cgroup", "pids")):
        root, path = mount_point(kind, controller), group_of(controller, pid)
        while root and path:
            folder = f"{root}{path}".rstrip("/")
            most, now = _number(f"{folder}/pids.max"), _number(f"{folder}/pids.current")
            if most is not None and now is not None:
                yield path, most, now
            path = os.path.dirname(path) if path != "/" else ""


def _number(path: str) -> int | None:
    """Return the number in a file; None: "max", or no such file."""
    try:
        with open(path, encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):
        return None


def _free_memory() -> int | None:
    with contextlib.suppress(OSError), open("/proc/meminfo", encoding="ascii") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    return None
