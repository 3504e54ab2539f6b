"""What Linux says of processes: /proc/PID, pidfds, and which processes lie below others. Nothing is decided.

A pid is another process's as soon as its own has ended. So what was read of a pid is about one process only
together with its start time, or with a pidfd that was open meanwhile. Reading /proc waits for no process, but
for its environment and command line, which lie in its memory. Each function returns nothing for a process
that is gone or hidden: a look races with what it looks at.
"""

import contextlib
import functools
import os
import select
import signal
import sys
import time
from collections.abc import Iterator

from outlive.core.identity import PROCESS_VARIABLE

_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
_PTY_MAJOR = 136  # Unix98 pseudo-terminals (Documentation/admin-guide/devices.txt)
_SOCKET = "socket:["
DEAD = frozenset({b"Z", b"X"})
STOPPED = frozenset({b"T", b"t"})


@functools.cache
def this_boot() -> str:
    """Return which boot of this machine it is (random(4))."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def boottime_ns() -> int:
    """Return nanoseconds since boot, suspend included."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def python_words() -> list[str]:
    """Return the words that start our Python again: it looks for no module in the working folder, and heeds
    the environment's variables for Python only if this process does (`cli.main`).
    """
    return [sys.executable, *(["-E"] if sys.flags.ignore_environment else []), "-P"]


def read_proc(path: str, most: int) -> bytes | None:
    """Return the first bytes of a file of /proc in one read; None where its process is gone or hidden."""
    try:
        fd = os.open(path, _READ)
    except OSError:
        return None
    try:
        return os.read(fd, most)
    except OSError:
        return None
    finally:
        os.close(fd)


def stat_fields(pid: int) -> list[bytes]:
    """Return the fields of /proc/PID/stat from the third on (index 0 = state), or [] when there is no such
    pid.

    Index 1 ppid, 2 pgrp, 3 POSIX session, 4 terminal, 5 its foreground group, 19 start ticks, 49 exit status
    (proc(5) numbers minus 3).
    """
    raw = read_proc(f"/proc/{pid}/stat", 1024)
    # The name may contain blanks and parentheses: fields are counted from the last closing one.
    return [] if raw is None else raw[raw.rindex(b")") + 2 :].split()


def status_words(pid: int | str, name: bytes) -> list[bytes]:
    """Return the words behind a name of /proc/PID/status (proc_pid_status(5)), none without it."""
    raw = read_proc(f"/proc/{pid}/status", 8192)
    _, found, rest = (raw or b"").partition(b"\n%s:\t" % name)
    return rest.partition(b"\n")[0].split() if found else []


def status_number(pid: int, name: bytes) -> int | None:
    """Return the first number behind a name of /proc/PID/status, None without it."""
    words = status_words(pid, name)
    return int(words[0]) if words else None


def has_in_mask(pid: int, name: bytes, number: int) -> bool:
    """Return whether a signal is in a mask of /proc/PID/status, as SigIgn."""
    mask = status_words(pid, name)
    return bool(mask and int(mask[0], 16) & 1 << (number - 1))


def command_line(pid: int) -> list[str]:
    """Return the words of a process's command line (proc_pid_cmdline(5)), as the process shows them."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
        return os.fsdecode(file.read()).split("\0")[:-1]
    return []


def environment_of(pid: int, most: int = -1) -> bytes | None:
    """Return the environment that a process began with (proc_pid_environ(5)), or so many bytes of it."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
        return file.read(most)
    return None


def all_pids() -> list[int]:
    """Return the pids of all processes, in no order."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def carriers_of(process_id: str) -> list[int]:
    """Return the pids whose initial environment holds the id of a command.

    Only for commands that lost their shim.
    """
    marker = f"{PROCESS_VARIABLE}={process_id}".encode()
    return [pid for pid in all_pids() if marker in (environment_of(pid, 1 << 18) or b"").split(b"\0")]


def is_dead(pid: int) -> bool:
    """Return whether a process is gone or a zombie."""
    fields = stat_fields(pid)
    return not fields or fields[0] in DEAD


def start_ticks(pid: int) -> int:
    """Return the start time of a pid in clock ticks since boot, 0 when there is no such pid."""
    fields = stat_fields(pid)
    return int(fields[19]) if fields else 0


def children(pid: int) -> list[int]:
    """Return the children of all threads of `pid`.

    Reads /proc/PID/task/TID/children, which may miss a child while the tree changes (proc(5)). Every walk
    passes here.

    Raises:
        ValueError: `pid` is no process: 0 stands for one that is not known, and nothing would be found below.
    """
    if pid < 1:
        raise ValueError(f"no tree begins at pid {pid}")
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError):
                fd = os.open(f"/proc/{pid}/task/{thread}/children", os.O_RDONLY | os.O_CLOEXEC)
                try:
                    while chunk := os.read(fd, 65536):
                        found += map(int, chunk.split())
                finally:
                    os.close(fd)
    return found


def descendants(roots: list[int]) -> list[int]:
    """Return the pids below `roots`, parents first, zombies included; the roots themselves are not listed.

    It may miss one while the tree changes: callers that act on it repeat.
    """
    found: list[int] = []
    seen = set(roots)
    pending = list(roots)
    for parent in pending:
        new = [child for child in children(parent) if child not in seen]
        seen.update(new)
        found += new
        pending += new
    return found


def descriptor(pid: int, fd: int) -> str:
    """Return what a descriptor of a process is, as /proc calls it; "" where that cannot be told."""
    with contextlib.suppress(OSError):
        return os.readlink(f"/proc/{pid}/fd/{fd}")
    return ""


def sockets_of(pid: int) -> Iterator[int]:
    """Yield for each descriptor of a process its socket's inode, 0 for what is no socket (proc_pid_fd(5)): 2
    us each.
    """
    try:
        with os.scandir(f"/proc/{pid}/fd") as entries:
            for entry in entries:
                yield _socket_inode(entry.path)
    except OSError:  # another user's process, or one that is gone
        return


def _socket_inode(path: str) -> int:
    try:
        target = os.readlink(path)
    except OSError:
        return 0
    return int(target[len(_SOCKET) : -1]) if target.startswith(_SOCKET) else 0


@contextlib.contextmanager
def terminal_of(pid: int) -> Iterator[int]:
    """Open a process's controlling terminal: its input may be a pipe, and /dev/tty would be ours.

    Raises:
        OSError: It has none.
    """
    fields = stat_fields(pid)
    device = int(fields[4]) if fields else 0
    number = (os.major(device) - _PTY_MAJOR) * 256 + os.minor(device)
    flags = os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        fd = os.open(os.path.join(f"/proc/{pid}/root", "dev", "pts", str(number)), flags)
    except (
        PermissionError
    ):  # a program of another user (sudo): its root is closed to us, its terminal is ours
        fd = os.open(f"/dev/pts/{number}", flags)
    try:
        yield fd
    finally:
        os.close(fd)


def open_pidfd(pid: int, ticks: int) -> int:
    """Return a pidfd of the process that started at `ticks`; -1 when it is gone, even if another process has
    its pid.
    """
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return -1
    # Checked after the pidfd was opened: from then on the pidfd stands for one process only.
    if start_ticks(pid) != ticks:
        os.close(pidfd)
        return -1
    return pidfd


def pid_behind(pidfd: int) -> int:
    """Return the pid that a pidfd stands for, as numbered in this process's namespace; 0 when it has ended or
    is not in it.
    """
    with open(f"/proc/self/fdinfo/{pidfd}", "rb") as file:
        for line in file:
            if line.startswith(b"Pid:"):
                return max(0, int(line[4:]))
    return 0  # the descriptor is no pidfd


def has_exited(pidfd: int) -> bool:
    """Return whether the process that a pidfd stands for has exited, reaped or not (pidfd_open(2))."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(0))


def exit_status_of_zombie(pid: int, ticks: int) -> int | None:
    """Return the wait status of a zombie that started at `ticks`; None when it is no zombie, or its status is
    hidden from us.
    """
    fields = stat_fields(pid)
    if not fields or fields[0] != b"Z" or int(fields[19]) != ticks or len(fields) < 50:
        return None
    return int(fields[49])


def wake(pid: int) -> bool:
    """Continue a process that is stopped (state T); return whether it was.

    Any command of our user may stop one of the keeper's processes (kill(2)), and a stopped one heeds nothing
    until it is continued. Of a process that waits for a disk or a processor it says False.
    """
    fields = stat_fields(pid)
    if not fields or fields[0] not in STOPPED:
        return False
    # Lets a test stop the keeper's processes for longer, as a frozen disk would: OUTLIVE_DEGRADE=wake.
    may_wake = "wake" not in os.environ.get("OUTLIVE_DEGRADE", "").split(",")
    pidfd = open_pidfd(pid, int(fields[19])) if may_wake else -1
    if pidfd >= 0:
        try:
            signal.pidfd_send_signal(pidfd, signal.SIGCONT)
        except OSError:  # it has ended meanwhile, or runs as another user in a container
            pass
        finally:
            os.close(pidfd)
    return True
