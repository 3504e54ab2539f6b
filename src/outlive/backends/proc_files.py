"""What /proc says of a process and of its tree: small blocking reads, for `tree_inspection` and
`input_inspection`.

Each returns nothing for what is not there (any more): a look races with what it looks at.
"""

import contextlib
import os
from collections.abc import Iterator

from outlive.kernel.files import read_small
from outlive.protocols.frames import PidRecord, decode_pid

_PTY_MAJOR = 136  # Unix98 pseudo-terminals (Documentation/admin-guide/devices.txt)
# How the command line of a shim begins (decision 126).
_SHIM = b"outlive-shim\0shim\0"


def living_tree(folder: str) -> tuple[PidRecord, list[int]] | None:
    """Return the main process of a folder and the pids of its tree, parents first; None when nothing of it
    can live.

    The shim's children are all of the tree, daemons included. A shim that died has left the command to
    others; then it is what lies below the command.
    """
    record = _pid_record(folder)
    if record is None or record.boot_id != _boot_id():
        return None
    is_main_there = start_ticks(record.pid) == record.start_ticks
    if record.shim_pid and is_shim(record.shim_pid):
        below = _below(record.shim_pid)
        if record.pid in below or not is_main_there:
            return record, below
    return record, [record.pid, *_below(record.pid)] if is_main_there else []


def living_main(folder: str) -> PidRecord | None:
    """Return the main process of a folder; None when it does not live any more."""
    record = _pid_record(folder)
    if record is None or record.boot_id != _boot_id() or start_ticks(record.pid) != record.start_ticks:
        return None
    return record


def _pid_record(folder: str) -> PidRecord | None:
    """Return what a shim has noted of the process of a folder; None where there is no such note."""
    return decode_pid(read_small(f"{folder}/pid"))


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


def start_ticks(pid: int) -> int:
    """Return the 22nd field of /proc/PID/stat (proc(5)), 0 when there is no such pid."""
    fields = stat_fields(pid)
    return int(fields[19]) if fields else 0


def is_shim(pid: int) -> bool:
    """Tell whether a pid is (still) a shim's: it lives at least as long as what it holds."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            line = file.read()
    except OSError:
        return False
    return line.startswith(_SHIM)


def _boot_id() -> str:
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def opened(pid: int, fd: int) -> str:
    """Return what a descriptor of a process is, as /proc calls it; empty where that cannot be told."""
    try:
        return os.readlink(f"/proc/{pid}/fd/{fd}")
    except OSError:
        return ""


def stat_fields(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat (proc(5)) from the third on; none when there is no such pid."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].decode().split()
    except OSError:
        return []


@contextlib.contextmanager
def terminal_of(pid: int) -> Iterator[int]:
    """Open a process's controlling terminal: its input may be a pipe, and /dev/tty would be ours.

    Raises:
        OSError: It has none.
    """
    fields = stat_fields(pid)
    device = int(fields[4]) if len(fields) > 4 else 0  # `tty_nr` of /proc/PID/stat (proc(5))
    number = (os.major(device) - _PTY_MAJOR) * 256 + os.minor(device)
    flags = os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        fd = os.open(os.path.join(f"/proc/{pid}/root", "dev", "pts", str(number)), flags)
    except (
        PermissionError
    ):  # a program of another user (sudo): its root is closed to us, and its terminal is ours
        fd = os.open(f"/dev/pts/{number}", flags)
    try:
        yield fd
    finally:
        os.close(fd)
