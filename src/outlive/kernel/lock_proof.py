"""Whether the process behind a connection is the supervisor: the one that holds the supervisor's record lock.

A state folder has a second lock for this, a record lock of the classic kind (fcntl(2) F_SETLK) on
`supervisor.pid`. The pid in a lock file proves nothing, because every process of our user can write it. The
pid of a record lock does: `F_GETLK` returns it from the kernel's own table. Such a lock belongs to one
process; neither a fork nor a copy of the descriptor has it.

The lock is on a file of its own, which is empty: a process loses its record locks on a file when it closes
any descriptor of that file. So the supervisor opens the file before it takes the lock, and never again.

Neither the uid nor a file would be enough. Commands have the same uid, and a sandbox does not keep them from
connecting to a Unix socket; an `open` or `guarded` command can write every file of its user. The kernel names
both the peer of the connection and the holder of the lock.

A peer that may gain no privileges (NoNewPrivs) is refused by a process that may: a `guarded` command must not
have a shim do what it cannot do itself, not even after it has killed the supervisor and taken the lock.

Two gaps remain. Before Linux 6.5 only the peer's pid at the time of connecting is known: if that process has
died since, and the lock's holder has got its pid, the peer passes. Where /proc hides NoNewPrivs (hidepid),
the lock alone decides.

`kernel.locks` holds the lock that makes sure there is only one supervisor; this module only proves which
process it is.
"""

import contextlib
import errno
import fcntl
import os
import socket
import struct

from outlive.core.layout import Layout
from outlive.kernel.files import read_small
from outlive.kernel.locks import holder_of
from outlive.kernel.processes import has_exited, wake
from outlive.kernel.sockets import connect_unix, peer_of, peer_pidfd

_FLOCK = struct.Struct("hhqqi")  # struct flock of fcntl(2): kind, whence, start, length, pid
_WHOLE_FILE = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
_GET, _SET, _FREE = fcntl.F_GETLK, fcntl.F_SETLK, fcntl.F_UNLCK


def open_pid_lock(path: str) -> int:
    """Return a descriptor of the lock's file, for taking the lock or asking about it; a missing file is made.

    Raises:
        OSError: The file cannot be opened.
    """
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def take_pid_lock(lock: int) -> bool:
    """Take the lock until this process ends or closes any descriptor of the file; False when another process
    holds it.

    Raises:
        OSError: The file system has no locks (ENOLCK).
    """
    try:
        fcntl.fcntl(lock, _SET, _WHOLE_FILE)
    except (BlockingIOError, PermissionError):
        return False
    return True


def pid_of_holder(lock: int) -> int:
    """Return the pid of the process that holds the lock: 0 when none does, -1 when the kernel does not name
    it.
    """
    kind, _, _, _, pid = _FLOCK.unpack(fcntl.fcntl(lock, _GET, _WHOLE_FILE))
    return 0 if kind == _FREE else pid or -1


def rouse_keeper(layout: Layout) -> None:
    """Continue supervisor and guardian if a command has stopped them, and have the guardian look at the
    supervisor now.

    For a process whose request was not answered for a second. The guardian pings the supervisor when a
    process connects that is not the supervisor, and replaces it if it hangs.
    """
    with contextlib.suppress(OSError):  # no keeper, or a file system without locks
        lock = os.open(layout.supervisor_pid, os.O_RDONLY | os.O_CLOEXEC)
        try:
            wake(pid_of_holder(lock))
        finally:
            os.close(lock)
    wake(holder_of(layout.guardian_lock) or 0)
    with contextlib.suppress(OSError):
        connect_unix(layout.guardian_socket).close()


_MARK = b"\nNoNewPrivs:\t"  # the beginning of its line in /proc/PID/status
_READ_BYTES = 4096
# Errors that say something about us, and nothing about the peer.
_WANTS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})


def is_lock_holder(connection: socket.SocketType, lock: int, *, may_be_bound: bool = False) -> bool:
    """Return whether the process that connected is of our user, holds the lock of the open file `lock`, and
    lives.

    Args:
        connection: An accepted connection.
        lock: A descriptor by `open_pid_lock`.
        may_be_bound: Also accept a process that may gain no privileges.

    Raises:
        OSError: We are out of descriptors or memory (EMFILE, ENFILE, ENOMEM), but everything checked so far
        holds.
    """
    pid, uid = peer_of(connection)
    # First the checks that need no descriptor: while ours are exhausted, strangers are refused at once, and
    # only the holder's proof has to wait.
    if uid != os.getuid() or pid <= 0 or pid_of_holder(lock) != pid:
        return False
    try:
        pidfd = peer_pidfd(connection)
    except ProcessLookupError:
        return False
    try:
        if not may_be_bound and is_bound(pid):
            return False
        # Asked again at the end: everything above was asked by pid. It was about this peer if the peer still
        # lives, and it still holds if the lock is still the peer's.
        is_there = _is_there(pid) if pidfd is None else not has_exited(pidfd)
        return is_there and pid_of_holder(lock) == pid
    finally:
        if pidfd is not None:
            os.close(pidfd)


def is_bound(pid: int) -> bool:
    """Return whether a process may gain no privileges (NoNewPrivs, proc_pid_status(5)); False where /proc
    hides it.

    Raises:
        OSError: We are out of descriptors or memory (EMFILE, ENFILE, ENOMEM).
    """
    try:
        status = os.open(f"/proc/{pid}/status", os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in _WANTS:
            raise
        return False
    try:
        tail = b""
        # A process in many groups has a long line before this one, so one read may not be enough.
        while chunk := os.read(status, _READ_BYTES):
            tail = tail[-len(_MARK) :] + chunk
            value = tail.find(_MARK) + len(_MARK)
            if len(_MARK) <= value < len(tail):
                return tail[value : value + 1] == b"1"
    except ProcessLookupError:
        return True  # the process has ended: it must not pass
    finally:
        os.close(status)
    return True  # a kernel without the line: refuse rather than let a bound process pass


class WatchedLock:
    """The supervisor's record lock, kept open to be asked about again, wherever its folder is moved to.

    The file that was there at first decides. Another file in its place counts only while no process holds the
    first one, and only as long as the folder there is the same one, by its inode and by its identity.
    """

    __slots__ = ("_fd", "_folder", "_is_bound", "_path")

    def __init__(self, path: str, *, held: int = -1) -> None:
        """Own the open file `held`, which `close` closes; without it open the file at `path`.

        Raises:
            OSError: The file cannot be opened.
        """
        self._path = path
        self._fd = open_pid_lock(path) if held < 0 else held
        self._folder = _folder_of(path)
        self._is_bound = is_bound(os.getpid())

    def is_held_by(self, connection: socket.SocketType) -> bool:
        """Return whether the peer holds it.

        Raises:
            OSError: We are out of descriptors or memory.
        """
        if is_lock_holder(connection, self._fd, may_be_bound=self._is_bound):
            return True
        if self.is_held() or self._folder is None or _folder_of(self._path) != self._folder:
            return False
        try:
            lock = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            return is_lock_holder(connection, lock, may_be_bound=self._is_bound)
        finally:
            os.close(lock)

    def is_held(self) -> bool:
        """Return whether any process holds the lock that was there at first."""
        return pid_of_holder(self._fd) != 0

    def fileno(self) -> int:
        """Return the descriptor, to hand it on to another process."""
        return self._fd

    def close(self) -> None:
        """Close the file; ask no more afterwards."""
        os.close(self._fd)


def _folder_of(lock: str) -> tuple[int, int, bytes | None] | None:
    """Return what identifies a state folder, None when it is not there."""
    folder = lock.rpartition("/")[0]
    try:
        about = os.stat(folder)
    except OSError:
        return None
    return about.st_dev, about.st_ino, read_small(f"{folder}/identity")


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
