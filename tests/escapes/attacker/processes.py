"""Ways to reach other processes: signals, tracing, limits, priorities, the scheduler, and what /proc tells
and takes.
"""

import ctypes
import fcntl
import os
import resource
import signal
import struct
from collections.abc import Callable
from functools import partial
from typing import Any

from tests.escapes.attacker.calling import Kept, Told, call, reach

_HARMLESS = int(signal.SIGURG)  # ignored by whoever does not ask for it
_PTRACE_ATTACH, _PTRACE_DETACH, _PTRACE_SEIZE = 16, 17, 0x4206
_NO_USER = 987_654_321
_RESOURCES = {
    name: getattr(resource, f"RLIMIT_{name}")
    for name in (
        "CPU",
        "FSIZE",
        "DATA",
        "STACK",
        "CORE",
        "RSS",
        "NPROC",
        "NOFILE",
        "MEMLOCK",
        "AS",
        "MSGQUEUE",
    )
} | {"LOCKS": 10, "SIGPENDING": 11, "NICE": 13, "RTPRIO": 14, "RTTIME": 15}
_READ = (
    "mem", "environ", "maps", "smaps", "smaps_rollup", "numa_maps", "auxv", "stack", "syscall", "personality", "io",  # noqa: E501 -- cut nowhere better: a table, or another program's text
    "pagemap", "clear_refs", "mountinfo", "timers", "patch_state", "cmdline", "status", "stat", "comm", "cgroup",  # noqa: E501 -- cut nowhere better: a table, or another program's text
)  # fmt: skip
_LINKS = ("cwd", "exe", "root", "ns/net", "ns/user", "ns/mnt", "ns/pid")
_WRITE = (
    "oom_score_adj", "oom_adj", "coredump_filter", "timerslack_ns", "comm", "autogroup", "clear_refs", "sched", "make-it-fail",  # noqa: E501 -- cut nowhere better: a table, or another program's text
    "loginuid", "uid_map", "setgroups", "mem", "attr/current", "timens_offsets",
)  # fmt: skip


def _pid_fd(pid: int) -> int:
    return os.pidfd_open(pid)


def _kill_all(_told: Told) -> None:
    """Signal everything at once: the call is a success when it reached us alone, so the victim counts."""
    call("kill", -1, 0)
    raise Kept("the victim would have said so")


def _siginfo() -> ctypes.Array[ctypes.c_char]:
    return ctypes.create_string_buffer(struct.pack("<iii", _HARMLESS, 0, -1), 128)


def _by_owner(pid: int) -> None:
    """Have the kernel send a signal: that of a pipe which belongs to another process."""
    reading, writing = os.pipe()
    fcntl.fcntl(reading, fcntl.F_SETSIG, _HARMLESS)
    fcntl.fcntl(reading, fcntl.F_SETOWN, pid)
    fcntl.fcntl(reading, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    os.write(writing, b"x")
    raise Kept("the victim counts the signals that it got")


def _ptrace(pid: int, *, request: int) -> None:
    call("ptrace", request, pid, 0, 0)
    if request == _PTRACE_ATTACH:
        os.waitpid(pid, 0x40000000)
    call("ptrace", _PTRACE_DETACH, pid, 0, 0)


def _memory(pid: int, told: dict[str, Any], *, name: str) -> None:
    """Read the victim's memory, or write what is there already.

    Of others, what no process has can be asked for.
    """
    own = ctypes.create_string_buffer(b"secret", 6)
    theirs = told["secret_at"] if pid == told["pids"]["victim"] else 0
    mine = struct.pack("<QQ", ctypes.addressof(own), 6)
    try:
        call(name, pid, mine, 1, struct.pack("<QQ", theirs, 6), 1, 0)
    except OSError as error:
        if error.errno != 14:  # EFAULT: we may, and it is not there
            raise


def _limit(pid: int, *, number: int, asked: int | None = None) -> None:
    held = ctypes.create_string_buffer(16)
    target = pid if asked is None else asked
    call("prlimit64", pid, number, 0, held)
    call("prlimit64", target, number, held, 0)  # what it has already


def _cpu_limit(pid: int) -> None:
    """As an attacker would: whoever has used a second of processor time ends.

    Of the victim only, which has used none.
    """
    held = ctypes.create_string_buffer(16)
    call("prlimit64", pid, _RESOURCES["CPU"], 0, held)
    hard = struct.unpack("<QQ", held.raw)[1]
    call("prlimit64", pid, _RESOURCES["CPU"], struct.pack("<QQ", 3600, hard), 0)


def _affinity(pid: int) -> None:
    call("sched_setaffinity", pid, 8, struct.pack("<Q", 1))


def _attributes(pid: int) -> None:
    call("sched_setattr", pid, struct.pack("<IIQiIQQQ", 48, 3, 0, 0, 0, 0, 0, 0), 0)


def _ioprio(which: int, who: int) -> None:
    call("ioprio_set", which, who, 2 << 13 | 7)


def _of_a_user(name: str, *arguments: int) -> None:
    """Every process of a user. One who has none, for the machine that this is tried on."""
    reach(name, *arguments)


def _move_pages(pid: int) -> None:
    status = ctypes.create_string_buffer(8)
    call("move_pages", pid, 1, struct.pack("<Q", 4096), 0, status, 0)


def _migrate(pid: int) -> None:
    mask = struct.pack("<Q", 1)
    call("migrate_pages", pid, 64, mask, mask)


def _by_pid_fd(pid: int, *, name: str) -> None:
    fd = _pid_fd(pid)
    if name == "pidfd_send_signal":
        call(name, fd, _HARMLESS, 0, 0)
    elif name == "pidfd_getfd":
        call(name, fd, 0, 0)
    elif name == "setns":
        call(name, fd, 0x08000000)
    elif name == "process_mrelease":
        try:
            call(name, fd, 0)
        except OSError as error:
            if error.errno != 22:  # EINVAL: it does not end just now
                raise
    else:
        try:
            call(name, fd, struct.pack("<QQ", 4096, 4096), 1, 20, 0)
        except OSError as error:
            if error.errno not in {12, 14, 22}:  # nothing is mapped there
                raise


def _perf(pid: int) -> None:
    attributes = ctypes.create_string_buffer(128)
    struct.pack_into("<IIQ", attributes, 0, 1, 128, 1)  # PERF_TYPE_SOFTWARE, task clock
    struct.pack_into("<Q", attributes, 40, 0b1100001)  # disabled, not the kernel, not the hypervisor
    call("perf_event_open", attributes, pid, -1, -1, 0)


def _robust(pid: int) -> None:
    call("get_robust_list", pid, ctypes.create_string_buffer(8), ctypes.create_string_buffer(8))


def _read(pid: int, *, name: str) -> None:
    with open(f"/proc/{pid}/{name}", "rb", buffering=0) as file:
        if name == "mem":
            file.seek(1 << 12)
        try:
            file.read(64)
        except OSError as error:
            if error.errno != 5:  # EIO: nothing is mapped there, and we could have read it
                raise


def _write(pid: int, *, name: str) -> None:
    os.close(os.open(f"/proc/{pid}/{name}", os.O_WRONLY))


def _descriptors(pid: int) -> None:
    os.readlink(f"/proc/{pid}/fd/0")


def _open_descriptor(pid: int) -> None:
    os.close(os.open(f"/proc/{pid}/fd/0", os.O_RDONLY | os.O_NONBLOCK))


def _through_root(pid: int) -> None:
    os.close(os.open(f"/proc/{pid}/root" + "/etc/passwd", os.O_RDONLY))


def _map_files(pid: int) -> None:
    os.listdir(f"/proc/{pid}/map_files")


def _enter_group(pid: int) -> None:
    # Of a name only blanks, tabs, line ends and backslashes are escaped: others' may hold anything else.
    with open("/proc/self/mounts", encoding="utf-8", errors="surrogateescape", newline="\n") as file:
        places = [line.split(" ")[1] for line in file if line.split(" ")[2].startswith("cgroup")]
    for place in places:
        os.close(os.open(f"{place}/cgroup.procs", os.O_WRONLY))
    if not places:
        raise PermissionError(1, "no control groups to be seen")


def _on(pid: int) -> dict[str, Callable[[], object]]:
    """Return all ways to reach one process."""
    found: dict[str, Callable[[], object]] = {
        "kill": partial(call, "kill", pid, _HARMLESS),
        "kill_0": partial(call, "kill", pid, 0),
        "kill_cont": partial(call, "kill", pid, int(signal.SIGCONT)),
        "tkill": partial(call, "tkill", pid, _HARMLESS),
        "tgkill": partial(call, "tgkill", pid, pid, _HARMLESS),
        "sigqueue": partial(call, "rt_sigqueueinfo", pid, _HARMLESS, _siginfo()),
        "tgsigqueue": partial(call, "rt_tgsigqueueinfo", pid, pid, _HARMLESS, _siginfo()),
        "kill_group": lambda: call("kill", -os.getpgid(pid), _HARMLESS),
        "sigio": partial(_by_owner, pid),
        "ptrace_attach": partial(_ptrace, pid, request=_PTRACE_ATTACH),
        "ptrace_seize": partial(_ptrace, pid, request=_PTRACE_SEIZE),
        "kcmp_vm": partial(call, "kcmp", os.getpid(), pid, 1, 0, 0),
        "kcmp_file": partial(call, "kcmp", os.getpid(), pid, 0, 0, 0),
        "prlimit_high_bits": partial(_limit, pid, number=0, asked=pid | 1 << 32),
        "setpriority": partial(call, "setpriority", 0, pid, 1),
        "setpriority_group": lambda: call("setpriority", 1, os.getpgid(pid), 1),
        "setpriority_high_bits": partial(call, "setpriority", 1 << 32, pid, 1),
        "ioprio": partial(_ioprio, 1, pid),
        "ioprio_group": lambda: _ioprio(2, os.getpgid(pid)),
        "affinity": partial(_affinity, pid),
        "affinity_high_bits": lambda: _affinity(pid | 1 << 33),
        "scheduler": partial(call, "sched_setscheduler", pid, 3, struct.pack("<i", 0)),
        "scheduler_parameters": partial(call, "sched_setparam", pid, struct.pack("<i", 0)),
        "scheduler_attributes": partial(_attributes, pid),
        "move_pages": partial(_move_pages, pid),
        "migrate_pages": partial(_migrate, pid),
        "perf_events": partial(_perf, pid),
        "robust_list": partial(_robust, pid),
        "setpgid": lambda: os.setpgid(pid, pid),
        "descriptor_names": partial(_descriptors, pid),
        "open_descriptor": partial(_open_descriptor, pid),
        "through_its_root": partial(_through_root, pid),
        "map_files": partial(_map_files, pid),
    }
    for name in ("pidfd_send_signal", "pidfd_getfd", "setns", "process_mrelease", "process_madvise"):
        found[name if name != "setns" else "setns_pidfd"] = partial(_by_pid_fd, pid, name=name)
    found |= {f"prlimit_{name.lower()}": partial(_limit, pid, number=one) for name, one in _RESOURCES.items()}
    found |= {f"read_{name}": partial(_read, pid, name=name) for name in _READ}
    found |= {
        f"link_{name.replace('/', '_')}": partial(os.readlink, f"/proc/{pid}/{name}") for name in _LINKS
    }
    found |= {f"write_{name.replace('/', '_')}": partial(_write, pid, name=name) for name in _WRITE}
    return found


def _others(told: dict[str, Any]) -> list[int]:
    """Return the pids; in a PID namespace of ours such a number may be our own."""
    return [pid for pid in told["pids"].values() if pid not in {os.getpid(), os.getppid()}]


def _every(name: str, told: dict[str, Any]) -> None:
    """Do something to each of the processes: one that it works on is an escape, else what kept the last one
    is said.
    """
    last: Exception = Kept("there are none")
    for pid in _others(told):
        try:
            _on(pid)[name]()
        except (OSError, Kept) as error:
            last = error
        else:
            return
    raise last


def _memory_of_all(name: str, told: dict[str, Any]) -> None:
    last: OSError = ProcessLookupError(3, "there are none")
    for pid in _others(told):
        try:
            _memory(pid, told, name=name)
        except OSError as error:
            last = error
        else:
            return
    raise last


def attempts(told: dict[str, Any]) -> dict[str, Callable[[Told], None]]:
    """Return all ways by name."""
    found: dict[str, Callable[[Told], None]] = {
        name: partial(_every, name) for name in _on(told["pids"]["victim"])
    }
    found["cpu_limit_of_the_victim"] = lambda _told: _cpu_limit(told["pids"]["victim"])
    found["kill_all"] = _kill_all
    found["setpriority_user"] = lambda _told: _of_a_user("setpriority", 2, _NO_USER, 0)
    found["ioprio_user"] = lambda _told: _of_a_user("ioprio_set", 3, _NO_USER, 2 << 13 | 7)
    found["enter_group"] = lambda _told: _enter_group(told["pids"]["victim"])
    for name in ("process_vm_readv", "process_vm_writev"):
        found[name] = partial(_memory_of_all, name)
    return found
