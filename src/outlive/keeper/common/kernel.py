"""Calls that the standard library does not wrap, and facts read from /proc. Nothing is decided here."""

import ctypes
import fcntl
import os
import select
import signal
import struct
import time
from collections.abc import Iterator

_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_DUMPABLE = 4
_PTRACE_DETACH = 17
_PR_SET_CHILD_SUBREAPER = 36
_FALLOC_FL_KEEP_SIZE_PUNCH_HOLE = 0x01 | 0x02
_FIONREAD = 0x541B
_FS_IOC_GETFLAGS, _FS_IOC_SETFLAGS, _FS_TOPDIR_FL = 0x80086601, 0x40086602, 0x00020000  # linux/fs.h
_PIDFD_GET_INFO = 0xC040FF0B  # _IOWR(0xFF, 11, struct pidfd_info), linux/pidfd.h, kernel >= 6.13
_PIDFD_INFO_EXIT = 1 << 3  # kernel >= 6.15
_PIDFD_INFO_BYTES = 64
_AT_FDCWD, _STATX_BTIME, _STATX_BYTES, _BTIME_OFFSET = -100, 0x800, 256, 80  # struct statx, linux/stat.h
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
_LIBC.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
_LIBC.ptrace.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
_ENDS = frozenset({os.CLD_EXITED, os.CLD_KILLED, os.CLD_DUMPED})
_MOST_TRACED = 256  # children that are let go of in one call: one may make us its tracer again at once
_STOPPED = frozenset({b"T", b"t"})


def _read_boot_id() -> str:
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


BOOT_ID = _read_boot_id()


def become_subreaper() -> None:
    """Make orphaned descendants children of this process (prctl(2) PR_SET_CHILD_SUBREAPER; not inherited by
    fork).
    """
    if _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "PR_SET_CHILD_SUBREAPER")


def set_dumpable(*, is_dumpable: bool) -> None:
    """Open or close our memory, environment and descriptors to other processes of our user (prctl(2)
    PR_SET_DUMPABLE).

    Forks inherit the setting, execve(2) opens them again.
    """
    _LIBC.prctl(_PR_SET_DUMPABLE, int(is_dumpable), 0, 0, 0)


def find_ended() -> os.waitid_result | None:
    """Return a child that has ended, and leave it a zombie; None while none has.

    Its pid cannot be reused before it was looked up in /proc. A child that only stands at a signal because it
    has made us its tracer (ptrace(2) PTRACE_TRACEME) goes on with that signal, untraced.

    Raises:
        ChildProcessError: There is no child.
    """
    for _ in range(_MOST_TRACED):
        child = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if child is None or child.si_code in _ENDS:
            return child
        _stop_tracing(child)
    return None


def _stop_tracing(child: os.waitid_result) -> None:
    _LIBC.ptrace(_PTRACE_DETACH, child.si_pid, None, child.si_status & 0x7F)


def stopped_children() -> Iterator[int]:
    """Yield the pids of children that were stopped by a signal, each once for each time."""
    for _ in range(_MOST_TRACED):
        try:
            child = os.waitid(os.P_ALL, 0, os.WSTOPPED | os.WNOHANG)
        except ChildProcessError:
            return
        if child is None:
            return
        if child.si_code == os.CLD_TRAPPED:
            _stop_tracing(child)
        else:
            yield child.si_pid


def wake(pid: int) -> bool:
    """Continue a process that is stopped (state T); return whether it was.

    Any command of our user may stop one of the keeper's processes (kill(2)), and a stopped one heeds nothing
    until it is continued. Of a process that waits for a disk or a processor it says False.
    """
    fields = stat_fields(pid)
    if not fields or fields[0] not in _STOPPED:
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


def birth_ns(path: str) -> int:
    """Return when a file or folder was made, in nanoseconds since the epoch; 0 where its file system does not
    know it (statx(2), STATX_BTIME). No call changes it, and no inode number is used again with the same one.

    Raises:
        OSError: It is not there.
    """
    found = ctypes.create_string_buffer(_STATX_BYTES)
    if _LIBC.statx(_AT_FDCWD, os.fsencode(path), 0, _STATX_BTIME, found) != 0:
        raise OSError(ctypes.get_errno(), "statx", path)
    (known,) = struct.unpack_from("=I", found)
    seconds, nanoseconds = struct.unpack_from("=qI", found, _BTIME_OFFSET)
    return int(seconds * 1_000_000_000 + nanoseconds) if known & _STATX_BTIME else 0


def boottime_ns() -> int:
    """Return nanoseconds since boot, suspend included."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def read_proc(path: str, most: int) -> bytes | None:
    """Return the first bytes of a file of /proc in one read; None where its process is gone or hidden.

    Reading procfs waits for no process, which O_NONBLOCK documents.
    """
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

    Index 1 ppid, 2 pgrp, 3 POSIX session, 19 start ticks, 49 exit status (proc(5) numbers minus 3).
    """
    raw = read_proc(f"/proc/{pid}/stat", 1024)
    # The name may contain blanks and parentheses: fields are counted from the last closing one.
    return [] if raw is None else raw[raw.rindex(b")") + 2 :].split()


def status_value(pid: int, name: bytes) -> int | None:
    """Return the first number behind a name of /proc/PID/status (proc_pid_status(5)), None without one."""
    raw = read_proc(f"/proc/{pid}/status", 8192)
    _, found, rest = (raw or b"").partition(b"\n%s:\t" % name)
    return int(rest.split(None, 1)[0]) if found else None


def start_ticks(pid: int) -> int:
    """Return the start time of a pid in clock ticks since boot, 0 when there is no such pid."""
    fields = stat_fields(pid)
    return int(fields[19]) if fields else 0


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


def exit_status_of_zombie(pid: int, ticks: int) -> int | None:
    """Return the wait status of a zombie that started at `ticks`; None when it is no zombie, or its status is
    hidden from us.
    """
    fields = stat_fields(pid)
    if not fields or fields[0] != b"Z" or int(fields[19]) != ticks or len(fields) < 50:
        return None
    return int(fields[49])


def pidfd_exit_status(pidfd: int) -> int | None:
    """Return the wait status of a reaped process through its pidfd (kernel >= 6.15), else None."""
    buffer = bytearray(_PIDFD_INFO_BYTES)
    buffer[0:8] = _PIDFD_INFO_EXIT.to_bytes(8, "little")
    try:
        fcntl.ioctl(pidfd, _PIDFD_GET_INFO, buffer)
    except OSError:
        return None
    if not int.from_bytes(buffer[0:8], "little") & _PIDFD_INFO_EXIT:
        return None
    return int.from_bytes(buffer[60:64], "little", signed=True)


def spread_folders(path: str) -> None:
    """Ask ext4 to put each folder made in `path` far from the others (chattr(1) attribute T).

    Elsewhere do nothing.
    """
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        flags = bytearray(8)
        fcntl.ioctl(fd, _FS_IOC_GETFLAGS, flags)
        wanted = int.from_bytes(flags, "little") | _FS_TOPDIR_FL
        fcntl.ioctl(fd, _FS_IOC_SETFLAGS, wanted.to_bytes(8, "little"))
    except OSError:
        return  # another file system: it spreads folders in its own way
    finally:
        os.close(fd)


def unread_bytes(fd: int) -> int:
    """Return how many unread bytes are in a pipe or terminal (FIONREAD)."""
    return int.from_bytes(fcntl.ioctl(fd, _FIONREAD, b"\0\0\0\0"), "little")


def has_no_writer(fd: int) -> bool:
    """Return whether every write end of a pipe is closed; what was written before may still be unread."""
    poll = select.poll()
    poll.register(fd, 0)  # POLLHUP is always reported, without being asked for (poll(2))
    return bool(poll.poll(0))


def punch_hole(fd: int, offset: int, length: int) -> None:
    """Release a range of a file; offsets and size stay as they are (fallocate(2) PUNCH_HOLE).

    Raises:
        OSError: EOPNOTSUPP where the file system has no holes.
    """
    if _LIBC.fallocate(fd, _FALLOC_FL_KEEP_SIZE_PUNCH_HOLE, offset, length) != 0:
        raise OSError(ctypes.get_errno(), "fallocate PUNCH_HOLE")
