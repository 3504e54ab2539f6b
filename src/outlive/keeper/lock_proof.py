"""Whether the process behind a connection is the one that holds a lock.

The uid proves nothing: commands have it, too, and a sandbox does not keep them from connecting to a Unix socket. The lock
lies where no confined command may open a file, and the kernel keeps it for one process at a time.

Before Linux 6.5 the peer's pid, as it was when it connected, is all there is: one whose process died before we looked,
and which the lock's holder has now, passes. Where /proc hides the start time (hidepid), the pid alone counts.
"""

import os
import socket
import time

from outlive.keeper.files import read_small
from outlive.keeper.kernel import start_ticks
from outlive.keeper.locks import holder_behind, open_lock
from outlive.keeper.sockets import has_exited, peer_of, peer_pidfd

__all__ = ["WatchedLock", "holds_lock_at", "is_lock_holder"]


def is_lock_holder(connection: socket.SocketType, lock: int) -> bool:
    """Tell whether the process that connected is ours, holds the lock of the open file `lock`, and lives.

    Raises:
        OSError: We are out of descriptors or memory (EMFILE, ENFILE, ENOMEM), but nothing else speaks against it.
    """
    pid, uid = peer_of(connection)
    holder = holder_behind(lock)
    # First what needs no descriptor: whoever has exhausted them must not make the holder's proof wait for others'.
    if uid != os.getuid() or not pid or holder is None or holder[0] != pid:
        return False
    try:
        pidfd = peer_pidfd(connection)
    except ProcessLookupError:
        return False
    if pidfd is None:
        return _began_at(pid, holder[1]) and _is_there(pid)
    try:
        # The start time also where the kernel knows the process: a holder of before may have left its pid behind.
        return _began_at(pid, holder[1]) and not has_exited(pidfd)
    finally:
        os.close(pidfd)


def holds_lock_at(connection: socket.SocketType, path: str) -> bool:
    """Tell the same for the lock that lies at `path` now, if one does.

    Raises:
        OSError: As above.
    """
    try:
        lock = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return is_lock_holder(connection, lock)
    finally:
        os.close(lock)


class WatchedLock:
    """A lock that is asked about again and again: as it was at first, wherever its folder lies now, or what lies in its place.

    What lies in its place counts only as long as the folder there is the same one: by its inode, and by its identity.
    """

    __slots__ = ("_fd", "_folder", "_path")

    def __init__(self, path: str) -> None:
        """Open the file, which is made if need be.

        Raises:
            OSError: It cannot be opened.
        """
        self._path = path
        self._fd = open_lock(path)
        self._folder = _folder_of(path)

    def is_held_by(self, connection: socket.SocketType) -> bool:
        """Tell whether the peer holds it. Waits while we are out of descriptors; only the lock's holder gets that far."""
        while True:
            try:
                return is_lock_holder(connection, self._fd) or (
                    self._folder is not None
                    and _folder_of(self._path) == self._folder
                    and holds_lock_at(connection, self._path)
                )
            except OSError:
                time.sleep(0.05)

    def is_deleted(self) -> bool:
        """Tell whether the lock was deleted, as with its folder: one that was moved has it still."""
        return os.fstat(self._fd).st_nlink == 0

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


def _began_at(pid: int, ticks: int) -> bool:
    """Tell whether nothing speaks against a process having started then (0: an older version did not write it down)."""
    return ticks == 0 or start_ticks(pid) in {0, ticks}


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
