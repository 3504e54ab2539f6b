"""Calls that the standard library does not wrap, and facts read from /proc. Nothing is decided here.

ctypes is set up once, at import, in the clean process image from which the shims are forked.
"""

import ctypes
import errno
import fcntl
import os
import select
import time

_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
_FALLOC_FL_KEEP_SIZE_PUNCH_HOLE = 0x01 | 0x02
_FIONREAD = 0x541B
_FS_IOC_GETFLAGS, _FS_IOC_SETFLAGS, _FS_TOPDIR_FL = 0x80086601, 0x40086602, 0x00020000  # linux/fs.h
_PIDFD_GET_INFO = 0xC040FF0B  # _IOWR(0xFF, 11, struct pidfd_info), linux/pidfd.h, kernel >= 6.13
_PIDFD_INFO_EXIT = 1 << 3  # kernel >= 6.15
_PIDFD_INFO_BYTES = 64
# Looked up once, and without ctypes' errno: a lookup after the fork costs each shim memory pages (decision 23).
_PRCTL = ctypes.CDLL(None).prctl
# O_NONBLOCK documents a fact: reading procfs does not wait here.
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
_LIBC.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)


def _read_boot_id() -> str:
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


BOOT_ID = _read_boot_id()


def become_subreaper() -> None:
    """Make orphaned descendants children of this process (prctl(2) PR_SET_CHILD_SUBREAPER; not inherited by fork)."""
    if _PRCTL(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(errno.EINVAL, "PR_SET_CHILD_SUBREAPER")  # the only error that prctl(2) documents for it


def set_dumpable(*, is_dumpable: bool) -> None:
    """Open or close our memory, environment and descriptors to other processes of our user (prctl(2) PR_SET_DUMPABLE).

    Forks inherit the setting, execve(2) opens them again. While they are closed, root owns our files in /proc, so the process
    of an ordinary user cannot write its own id maps.
    """
    _PRCTL(_PR_SET_DUMPABLE, int(is_dumpable), 0, 0, 0)


def boottime_ns() -> int:
    """Return nanoseconds since boot, suspend included."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def stat_fields(pid: int) -> list[bytes]:
    """Return the fields of /proc/PID/stat from the third on (index 0 = state), or [] when there is no such pid.

    Index 1 ppid, 2 pgrp, 3 POSIX session, 19 start ticks, 49 exit status (proc(5) numbers minus 3).
    """
    try:
        fd = os.open(f"/proc/{pid}/stat", _READ)
    except OSError:
        return []
    try:
        raw = os.read(fd, 1024)
    except OSError:
        return []
    finally:
        os.close(fd)
    # The name may contain blanks and parentheses: fields are counted from the last closing one.
    return raw[raw.rindex(b")") + 2 :].split()


def start_ticks(pid: int) -> int:
    """Return the start time of a pid in clock ticks since boot, 0 when there is no such pid."""
    fields = stat_fields(pid)
    return int(fields[19]) if fields else 0


def open_pidfd(pid: int, ticks: int) -> int:
    """Return a pidfd of the process that started at `ticks`; -1 when it is gone, even if another process has its pid."""
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
    """Return the pid that a pidfd stands for, as numbered in this process's namespace; 0 when it has ended or is not in it."""
    with open(f"/proc/self/fdinfo/{pidfd}", "rb") as file:
        for line in file:
            if line.startswith(b"Pid:"):
                return max(0, int(line[4:]))
    return 0  # the descriptor is no pidfd


def exit_status_of_zombie(pid: int, ticks: int) -> int | None:
    """Return the wait status of a zombie that started at `ticks`; None when it is no zombie, or its status is hidden from us."""
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
    """Ask ext4 to put each folder made in `path` far from the others (chattr(1) attribute T); elsewhere do nothing."""
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
