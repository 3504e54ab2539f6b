"""Whether the process behind a connection is the supervisor: the one that holds the supervisor's record lock (`pid_lock`).

The uid proves nothing: commands have it, too, and a sandbox does not keep them from connecting to a Unix socket. No file proves
anything either: an `open` or `guarded` command writes every file of its user. Both the peer and the lock's holder are named by the
kernel.

A peer that may gain no privileges (NoNewPrivs) is refused by a process that may: what a `guarded` command cannot do itself it must not
have done by a shim, also when it has killed the supervisor and taken the lock.

Before Linux 6.5 the peer's pid, as it was when it connected, is all there is: one whose process died before we looked,
and which the lock's holder has now, passes. Where /proc hides NoNewPrivs (hidepid), the lock alone counts.

The supervisor's second lock, whose holder the kernel names: a record lock of the classic kind (fcntl(2) F_SETLK).

The pid in a lock file can be written by every process of our user. The pid of a record lock cannot: `F_GETLK` returns it from
the kernel's own table. Such a lock belongs to one process; no fork and no copy of the descriptor has it.

It lies on a file of its own, which holds nothing: a process loses its record locks on a file when it closes any descriptor of that
file. So the supervisor opens the file before it takes the lock, and never again.
"""

import errno
import fcntl
import os
import socket
import struct
import time

from outlive.keeper.common.files import read_small
from outlive.keeper.common.sockets import has_exited, peer_of, peer_pidfd

_FLOCK = struct.Struct("hhqqi")
_WHOLE_FILE = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
_GET, _SET, _FREE = fcntl.F_GETLK, fcntl.F_SETLK, fcntl.F_UNLCK


def open_pid_lock(path: str) -> int:
    """Return a descriptor of the lock's file, to take the lock or to ask about it; the file is made if need be.

    Raises:
        OSError: It cannot be opened.
    """
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def take_pid_lock(lock: int) -> bool:
    """Take the lock until this process ends or closes any descriptor of the file; False when another process holds it.

    Raises:
        OSError: The file system has no locks (ENOLCK).
    """
    try:
        fcntl.fcntl(lock, _SET, _WHOLE_FILE)
    except (BlockingIOError, PermissionError):
        return False
    return True


def pid_of_holder(lock: int) -> int:
    """Return the pid of the process that holds the lock: 0 when none does, -1 for one that the kernel does not name."""
    kind, _, _, _, pid = _FLOCK.unpack(fcntl.fcntl(lock, _GET, _WHOLE_FILE))
    return 0 if kind == _FREE else pid or -1


_MARK = b"\nNoNewPrivs:\t"
_READ_BYTES = 4096
_WANTS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})


def is_lock_holder(connection: socket.SocketType, lock: int, *, may_be_bound: bool = False) -> bool:
    """Tell whether the process that connected is ours, holds the lock of the open file `lock`, and lives.

    Args:
        connection: An accepted connection.
        lock: A descriptor by `open_pid_lock`.
        may_be_bound: Also serve a process that may gain no privileges.

    Raises:
        OSError: We are out of descriptors or memory (EMFILE, ENFILE, ENOMEM), but nothing else speaks against it.
    """
    pid, uid = peer_of(connection)
    # First what needs no descriptor: a process that has exhausted them must not make the holder's proof wait for others'.
    if uid != os.getuid() or pid <= 0 or pid_of_holder(lock) != pid:
        return False
    try:
        pidfd = peer_pidfd(connection)
    except ProcessLookupError:
        return False
    try:
        if not may_be_bound and is_bound(pid):
            return False
        # Last and once more: what was asked by number was about the process that connected, if it lives and holds the lock still.
        is_there = _is_there(pid) if pidfd is None else not has_exited(pidfd)
        return is_there and pid_of_holder(lock) == pid
    finally:
        if pidfd is not None:
            os.close(pidfd)


def is_bound(pid: int) -> bool:
    """Tell whether a process may gain no privileges (NoNewPrivs, proc_pid_status(5)); False where /proc hides it.

    Raises:
        OSError: As above.
    """
    try:
        status = os.open(f"/proc/{pid}/status", os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in _WANTS:
            raise
        return False
    try:
        tail = b""
        # A process with many groups has a long line before the one that is looked for.
        while chunk := os.read(status, _READ_BYTES):
            tail = tail[-len(_MARK) :] + chunk
            value = tail.find(_MARK) + len(_MARK)
            if len(_MARK) <= value < len(tail):
                return tail[value : value + 1] == b"1"
    except ProcessLookupError:
        return True  # it has ended
    finally:
        os.close(status)
    return True


class WatchedLock:
    """The supervisor's record lock, to be asked about again and again: the one that was there at first, wherever its folder lies.

    What lies in its place counts only while no process holds the first one, and as long as the folder there is the same one: by its
    inode, and by its identity.
    """

    __slots__ = ("_fd", "_folder", "_is_bound", "_path")

    def __init__(self, path: str, *, held: int = -1) -> None:
        """Take the open file `held`, which is closed with us; without it open the one at `path`.

        Raises:
            OSError: It cannot be opened.
        """
        self._path = path
        self._fd = open_pid_lock(path) if held < 0 else held
        self._folder = _folder_of(path)
        self._is_bound = is_bound(os.getpid())

    def is_held_by(self, connection: socket.SocketType) -> bool:
        """Tell whether the peer holds it. Waits while we are out of descriptors; only the lock's holder gets that far."""
        while True:
            try:
                return self.asks(connection)
            except OSError:
                time.sleep(0.05)

    def asks(self, connection: socket.SocketType) -> bool:
        """Tell the same without waiting.

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
        """Tell whether any process holds the lock that was there at first."""
        return pid_of_holder(self._fd) != 0

    def is_deleted(self) -> bool:
        """Tell whether the lock was deleted, as with its folder: one that was moved has it still."""
        return os.fstat(self._fd).st_nlink == 0

    def fileno(self) -> int:
        """Return the descriptor, for a process that is to have it, too."""
        return self._fd

    def close(self) -> None:
        """Ask no more."""
        os.close(self._fd)


def _folder_of(lock: str) -> tuple[int, int, bytes | None] | None:
    """Return what a state folder is known by, None when it is not there."""
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
