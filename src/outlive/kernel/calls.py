"""Calls that the standard library does not wrap: it loads ctypes. Nothing is decided here."""

import ctypes
import fcntl
import os
import select
import struct
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
_STATFS_BYTES = 256  # struct statfs has 120 on 64-bit machines; its first member, a long, is f_type
_LIBC.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
_LIBC.ptrace.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
_ENDS = frozenset({os.CLD_EXITED, os.CLD_KILLED, os.CLD_DUMPED})
_MOST_TRACED = 256  # children that are let go of in one call: one may make us its tracer again at once


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


def file_system_type(fd: int) -> int:
    """Return the type of the file system that an opened file is on (statfs(2), f_type), 0 where the kernel
    does not say.
    """
    found = ctypes.create_string_buffer(_STATFS_BYTES)
    if _LIBC.fstatfs(fd, found) != 0:
        return 0
    # Of the long the lower 32 bits count: the numbers are so large, and some architectures extend their sign.
    return int(struct.unpack_from("@l", found)[0]) & 0xFFFFFFFF


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
