"""The state folder's disk: what it accepts now (`look_at`, `probe`), and a `Reserve` to give up when it is
full.

The reserve consists of many small files, so that it holds inodes as well as space. A process that must write
a record (why a command was stopped, how it ended) removes one of these files, and tries again. Any process
may do so; only the supervisor makes the files anew, once there is space (decision 136).
"""

import contextlib
import errno
import os
from collections.abc import Callable
from typing import TypeVar

from outlive.core.layout import Degraded

_Result = TypeVar("_Result")

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
# Errors of a file system that does not know O_TMPFILE (open(2)).
_NO_SUCH_FILES = frozenset({errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL})
# Less free space than this counts as full: a start takes 7 inodes and some blocks of 4 KiB, an answer out of
# SQLite's write-ahead log a few more.
_LEAST_BYTES = 256 << 10
_LEAST_INODES = 16

_BLOCK = 4 << 10
_PIECE_BYTES = 16 << 10  # of one file at least: room for four records of one block each
_MOST_PIECES = 256  # 4 MiB: enough for the end records of some hundred commands that all end on a full disk
_SHARE = 16  # on a small file system the reserve takes no more than this part of it
_SLICE = 16  # files made in one turn of the supervisor's loop: about 0.5 ms
# Tries for one record: it takes a block and an inode, but other processes may take what was given up first.
_MOST_FOR_ONE = 16


def look_at(root: str) -> Degraded | None:
    """Return what prevents writing to the state folder, as its file system reports it; None when nothing
    does.

    One system call, nothing is written. It does not see a quota, nor a file system that an error has made
    read-only (`probe` does).
    """
    return look_at_space(root)[0]


def look_at_space(root: str) -> tuple[Degraded | None, int | None]:
    """Return the same, and how many bytes are free for this user; None where that is not known."""
    try:
        found = os.statvfs(root)
    except (FileNotFoundError, NotADirectoryError):
        return "folder_gone", None
    except OSError:
        return None, None  # unknown: the attempt to write will show
    free_bytes = found.f_bavail * found.f_frsize
    if found.f_flag & os.ST_RDONLY:
        return "read_only", free_bytes
    has_room = _has_room(found, bytes_=_LEAST_BYTES, inodes=_LEAST_INODES)
    return None if has_room else "disk_full", free_bytes


def probe(root: str) -> Degraded | None:
    """Return the same by trying: write to a file without a name, which leaves no trace."""
    found = look_at(root)
    if found is not None:
        return found
    try:
        fd = os.open(root, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(fd, 0, _PIECE_BYTES)
        finally:
            os.close(fd)
    except OSError as error:
        if error.errno in FULL:
            return "disk_full"
        if error.errno == errno.EROFS:
            return "read_only"
        if error.errno == errno.ENOENT:
            return "folder_gone"
        if error.errno not in _NO_SUCH_FILES:
            raise
    return None


def _has_room(found: os.statvfs_result, *, bytes_: int, inodes: int) -> bool:
    """Return whether this much is free; a size of 0 means "no limit" (btrfs for inodes, tmpfs for both)."""
    is_enough = not found.f_blocks or found.f_bavail * found.f_frsize >= min(
        bytes_, found.f_blocks * found.f_frsize // _SHARE
    )
    return is_enough and (not found.f_files or found.f_favail >= inodes)


def _plan(found: os.statvfs_result) -> tuple[int, int]:
    """Return how many files the complete reserve has, and the bytes of each: less in all on a small file
    system.

    Where inodes are few the files are larger: the output that a command leaves takes as much room there.
    """
    most = _MOST_PIECES * _PIECE_BYTES
    size = min(most, found.f_blocks * found.f_frsize // _SHARE) if found.f_blocks else most
    by_inodes = found.f_files // _SHARE if found.f_files else _MOST_PIECES
    count = min(size // _PIECE_BYTES, by_inodes)
    return count, max(_PIECE_BYTES, size // count // _BLOCK * _BLOCK) if count else 0


class Reserve:
    """The reserve of one state folder, shared by all processes through its files.

    In memory it only remembers the folder's time stamp of when the reserve was last complete.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self._folder = f"{root}/reserve"
        self._whole_at_ns = -1

    def give_up(self, *, keep: int = 0) -> bool:
        """Remove one file, unless only `keep` of them are left; return whether one was removed."""
        while True:
            names = self._names()
            if len(names) <= keep:
                return False
            try:
                os.unlink(f"{self._folder}/{names[-1]}")
            except FileNotFoundError:
                continue  # another process needed the same one at the same moment
            except OSError:
                return False
            return True

    def fit(self, write: Callable[[], _Result]) -> _Result:
        """Return what `write` returns.

        While the disk is full, give up one file and call it again, some times.

        Raises:
            OSError: `write` failed for another reason, or still fails.
        """
        for _ in range(_MOST_FOR_ONE):
            try:
                return write()
            except OSError as error:
                if error.errno not in FULL or not self.give_up():
                    raise
        return write()

    @property
    def for_records(self) -> int:
        """A quarter of the files: the output of ended commands (at most 2 MiB each) must leave them for end
        records.
        """
        try:
            return _plan(os.statvfs(self._root))[0] // 4
        except OSError:
            return 0

    def refill(self) -> bool:
        """Make some of the missing files, if there is much more space than they take.

        Return whether to go on.
        """
        # Unchanged since it was complete: one stat(2) instead of a listing, on every turn of the loop.
        with contextlib.suppress(OSError):
            if os.stat(self._folder).st_mtime_ns == self._whole_at_ns:
                return False
        try:
            found = os.statvfs(self._root)
            wanted, size = _plan(found)
            missing = wanted - len(names := self._names())
            if missing <= 0:
                self._whole_at_ns = os.stat(self._folder).st_mtime_ns
                return False
            # With a margin, so that the reserve is not what fills the disk again.
            if not _has_room(found, bytes_=missing * size + 2 * _LEAST_BYTES, inodes=2 * missing):
                return False
            self._make(set(names), min(missing, _SLICE), size)
        except OSError:
            return False  # the supervisor tries again from time to time
        return True

    def _make(self, names: set[str], count: int, size: int) -> None:
        with contextlib.suppress(FileExistsError):
            os.mkdir(self._folder, 0o700)
        for name in [f"{number:03}" for number in range(_MOST_PIECES)]:
            if not count:
                return
            if name in names:
                continue
            path = f"{self._folder}/{name}"
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(fd, 0, size)
            except OSError:
                os.unlink(path)  # an empty file reserves no space
                raise
            finally:
                os.close(fd)
            count -= 1

    def _names(self) -> list[str]:
        try:
            return sorted(os.listdir(self._folder))
        except OSError:
            return []
