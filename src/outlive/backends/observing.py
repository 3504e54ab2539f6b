"""Looking at a process tree of this machine through /proc. Blocking, some milliseconds: run it in a thread.

The tree is what the shim holds: the command, what it started, and what of that became a daemon. Reads only.
"""

import contextlib
import os
import termios

from outlive.core.observation import NOTHING, Observation, Waiting
from outlive.protocols.frames import PidRecord, decode_pid

__all__ = ["observe_tree", "window_size"]

# The number of read(2) by machine: /proc/PID/syscall shows it with the descriptor behind it.
_READ = {"x86_64": "0", "aarch64": "63"}.get(os.uname().machine)
_PTY_MAJOR = 136  # Unix98 pseudo-terminals (Documentation/admin-guide/devices.txt)
_KEEPER = b"outlive/keeper/__main__.py"


def observe_tree(folder: str, *, has_stdin: bool) -> Observation:
    """Return what the process of a folder and its tree look like now; nothing for one that has ended.

    Args:
        folder: The process's folder.
        has_stdin: Whether it has an input that it could wait for.
    """
    import psutil  # noqa: PLC0415 -- start-up time: 51 ms that only who asks has to pay (decision 6)

    record = _pid_record(folder)
    if record is None or record.boot_id != _boot_id():
        return NOTHING
    pids = _tree(record)
    seen: list[int] = []
    ports: set[int] = set()
    threads, cpu_s, memory_bytes = 0, 0.0, 0
    waiting: Waiting = "no"
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
            waiting = _waits(pid)
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
    with contextlib.suppress(OSError, termios.error):
        number = _terminal_number(record.pid)
        if number is None:
            return None
        fd = os.open(f"/dev/pts/{number}", os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            return termios.tcgetwinsize(fd)
        finally:
            os.close(fd)
    return None


def _terminal_number(pid: int) -> int | None:
    """Return the number below /dev/pts of a process's controlling terminal, the minor of `tty_nr` in /proc/PID/stat (proc(5))."""
    device = int(_stat_words(pid)[4])
    if device >> 8 & 0xFFF != _PTY_MAJOR:
        return None
    return device & 0xFF | (device >> 12) & 0xFFF00


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
    try:
        return int(_stat_words(pid)[19])
    except OSError:
        return 0


def _stat_words(pid: int) -> list[bytes]:
    """Return the fields of /proc/PID/stat from the third on: the second one, the name, may hold anything."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()


def _is_keeper(pid: int) -> bool:
    """Tell whether a pid is (still) one of the keeper's: a shim lives at least as long as what it holds."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return _KEEPER in file.read()
    except OSError:
        return False


def _boot_id() -> str:
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def _waits(pid: int) -> Waiting:
    """Tell whether a process is inside read(0, ...), and whether what is typed there would be shown."""
    try:
        with open(f"/proc/{pid}/syscall", encoding="ascii") as file:
            words = file.read().split()
    except OSError:
        return "no"
    if _READ is None or words[:2] != [_READ, "0x0"]:
        return "no"
    return "password" if _hides_typing(pid) else "input"


def _hides_typing(pid: int) -> bool:
    """Tell whether the input is a terminal that takes lines but does not echo them (termios(3))."""
    with contextlib.suppress(OSError, termios.error):
        fd = os.open(f"/proc/{pid}/fd/0", os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            local = termios.tcgetattr(fd)[3]
            return bool(local & termios.ICANON) and not local & termios.ECHO
        finally:
            os.close(fd)
    return False
