"""Looking at a process tree of this machine through /proc. Blocking, some milliseconds: run it in a thread.

The tree is what the shim holds: the command, what it started, and what of that became a daemon. Reads only.
"""

import contextlib
import os
import termios
from collections.abc import Iterator

from outlive.core.process import NOTHING, Observation, Waiting
from outlive.protocols.frames import PidRecord, decode_pid

# The number of read(2) by machine: /proc/PID/syscall shows it with the descriptor behind it.
_READ = {"x86_64": "0", "aarch64": "63"}.get(os.uname().machine)
# poll, select, epoll_wait and their variants.
_POLLS = {
    "x86_64": frozenset({"7", "23", "232", "270", "271", "281", "441"}),
    "aarch64": frozenset({"22", "72", "73", "441"}),
}.get(os.uname().machine, frozenset())
_PTY_MAJOR = 136  # Unix98 pseudo-terminals (Documentation/admin-guide/devices.txt)
# How the command line of a shim looks: a fork of the guardian has the guardian's, a program its own (decision 126).
_KEEPER = b"outlive/keeper/__main__.py"
_SHIM = b"outlive-shim\0shim\0"


def observe_tree(folder: str, *, has_stdin: bool) -> Observation:
    """Return what the process of a folder and its tree look like now; nothing for one that has ended.

    Args:
        folder: The process's folder.
        has_stdin: Whether it has an input that it could wait for.
    """
    import psutil  # noqa: PLC0415 -- start-up time: 51 ms, paid only by a caller that asks (decision 6)

    record = _pid_record(folder)
    if record is None or record.boot_id != _boot_id():
        return NOTHING
    pids = _tree(record)
    seen: list[int] = []
    ports: set[int] = set()
    threads, cpu_s, memory_bytes = 0, 0.0, 0
    waiting: Waiting = "no"
    stdin = _opened(record.pid, 0)
    for pid in pids:
        with contextlib.suppress(psutil.Error):
            one = psutil.Process(pid)
            with one.oneshot():
                if one.status() == psutil.STATUS_ZOMBIE:
                    continue
                seen.append(pid)
                times = one.cpu_times()
                cpu_s += times.user + times.system + times.children_user + times.children_system
                memory_bytes += one.memory_info().rss
                threads += one.num_threads()
            ports.update(
                connection.laddr.port
                for connection in one.net_connections(kind="tcp")
                if connection.status == psutil.CONN_LISTEN
            )
        if has_stdin and waiting == "no":
            waiting = _waits(pid, stdin)
    return Observation(
        pids=tuple(seen),
        threads=threads,
        cpu_s=round(cpu_s, 2),  # the kernel counts in ticks of 10 ms
        memory_bytes=memory_bytes,
        ports=tuple(sorted(ports)),
        waiting=waiting,
    )


def window_size(folder: str) -> tuple[int, int] | None:
    """Return rows and columns of the terminal that the process of a folder was started in; None where there is none."""
    record = _pid_record(folder)
    if record is None or record.boot_id != _boot_id() or _start_ticks(record.pid) != record.start_ticks:
        return None
    with contextlib.suppress(OSError, termios.error), _terminal_of(record.pid) as fd:
        return termios.tcgetwinsize(fd)
    return None


def _pid_record(folder: str) -> PidRecord | None:
    with contextlib.suppress(OSError, ValueError, IndexError), open(f"{folder}/pid", "rb") as file:
        return decode_pid(file.read())
    return None


def _tree(record: PidRecord) -> list[int]:
    """Return the pids of the tree, parents first.

    The shim's children are all of it, daemons included. A shim that died has left the command to others; then it is
    what lies below the command.
    """
    is_main_there = _start_ticks(record.pid) == record.start_ticks
    if record.shim_pid and _is_keeper(record.shim_pid):
        below = _below(record.shim_pid)
        if record.pid in below or not is_main_there:
            return below
    return [record.pid, *_below(record.pid)] if is_main_there else []


def _below(pid: int) -> list[int]:
    found: list[int] = []
    pending = [pid]
    while pending:
        parent = pending.pop(0)
        children: list[int] = []
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"/proc/{parent}/task"):
                with open(f"/proc/{parent}/task/{thread}/children", encoding="ascii") as file:
                    children += map(int, file.read().split())
        found += children
        pending += children
    return found


def _start_ticks(pid: int) -> int:
    """Return the 22nd field of /proc/PID/stat (proc(5)), 0 when there is no such pid."""
    fields = _stat_fields(pid)
    return int(fields[19]) if fields else 0


def _is_keeper(pid: int) -> bool:
    """Tell whether a pid is (still) one of the keeper's: a shim lives at least as long as what it holds."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            line = file.read()
    except OSError:
        return False
    return line.startswith(_SHIM) or _KEEPER in line


def _boot_id() -> str:
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def _waits(pid: int, stdin: str) -> Waiting:
    """Tell whether a process waits for what is typed, and whether that would be shown.

    It is inside a read of `stdin` (what /proc calls the command's input) or of its terminal; or, having taken every key for
    itself (line editors, pagers), inside
    poll(2) or a sister of it. What such a process waits for beside keys cannot be seen from outside.
    """
    try:
        with open(f"/proc/{pid}/syscall", encoding="ascii") as file:
            words = file.read().split()
    except OSError:
        return "no"
    if words[:1] == [_READ] and len(words) > 1:
        fd = int(words[1], 16)
        file_name = _opened(pid, fd)
        if not file_name.startswith(("/dev/pts/", "/dev/tty")) and (fd if not stdin else file_name != stdin):
            return "no"
        local = _local_modes(pid)
        return "password" if local & termios.ICANON and not local & termios.ECHO else "input"
    if words[:1] and words[0] in _POLLS and _is_in_foreground(pid):
        local = _local_modes(pid)
        return "input" if local and not local & termios.ICANON else "no"
    return "no"


def _opened(pid: int, fd: int) -> str:
    """Return what a descriptor of a process is, as /proc calls it; empty where that cannot be told."""
    try:
        return os.readlink(f"/proc/{pid}/fd/{fd}")
    except OSError:
        return ""


def _stat_fields(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat (proc(5)) from the third on; none when there is no such pid."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].decode().split()
    except OSError:
        return []


def _is_in_foreground(pid: int) -> bool:
    """Tell whether a process belongs to the process group that its terminal listens to."""
    fields = _stat_fields(pid)
    return len(fields) > 5 and fields[2] == fields[5]


def _local_modes(pid: int) -> int:
    """Return how the terminal of a process treats what is typed (termios(3), c_lflag); 0 where it has none."""
    with contextlib.suppress(OSError, termios.error), _terminal_of(pid) as fd:
        return int(termios.tcgetattr(fd)[3])
    return 0


@contextlib.contextmanager
def _terminal_of(pid: int) -> Iterator[int]:
    """Open a process's controlling terminal: its input may be a pipe, and /dev/tty would be ours.

    Raises:
        OSError: It has none.
    """
    fields = _stat_fields(pid)
    device = int(fields[4]) if len(fields) > 4 else 0  # `tty_nr` of /proc/PID/stat (proc(5))
    number = (os.major(device) - _PTY_MAJOR) * 256 + os.minor(device)
    path = os.path.join(f"/proc/{pid}/root", "dev", "pts", str(number))
    fd = os.open(path, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)
