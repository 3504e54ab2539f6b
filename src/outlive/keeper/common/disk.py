"""The state folder's disk: what it takes now (`look_at`), and a `Reserve` that is given up when it takes nothing more.

The reserve is many small files, so that it holds inodes as well as space: whoever must write a record (why a command was
stopped, how it ended) gives up one file, and tries again. Any process may; the supervisor makes them anew when there is
space (decision 136).
"""

import contextlib
import errno
import os
from collections.abc import Callable
from typing import TypeVar

from outlive.core.layout import Degraded

_Result = TypeVar("_Result")

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_NO_SUCH_FILES = frozenset(
    {errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL}
)  # this file system knows no O_TMPFILE
# Less than this is full: a start takes 7 inodes and some blocks of 4 KiB, an answer from SQLite's log a few more.
_LEAST_BYTES = 256 << 10
_LEAST_INODES = 16

_PIECE_BYTES = 16 << 10  # four records of a block each
_MOST_PIECES = 256  # 4 MiB: the last words of some hundred commands that all end on a full disk
_SHARE = 16  # of a small file system no more than this part
_SLICE = 16  # pieces made in one turn: about 0.5 ms
_MOST_FOR_ONE = 16  # a record takes a block and an inode; others may be faster to take what was given up


def look_at(root: str) -> Degraded | None:
    """Return what keeps the state folder from being written, by what its file system says of itself; None: nothing.

    One system call, and no writing: a quota is not seen, nor a file system that went read-only by an error (`probe`).
    """
    try:
        found = os.statvfs(root)
    except (FileNotFoundError, NotADirectoryError):
        return "folder_gone"
    except OSError:
        return None  # it says nothing: the attempt to write has to
    if found.f_flag & os.ST_RDONLY:
        return "read_only"
    return None if _has_room(found, bytes_=_LEAST_BYTES, inodes=_LEAST_INODES) else "disk_full"


def probe(root: str) -> Degraded | None:
    """Return the same by trying: a file without a name is written."""
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
    """Tell whether so much is free; a size of 0 means that there is no limit (btrfs for inodes, tmpfs for both)."""
    is_enough = not found.f_blocks or found.f_bavail * found.f_frsize >= min(
        bytes_, found.f_blocks * found.f_frsize // _SHARE
    )
    return is_enough and (not found.f_files or found.f_favail >= inodes)


class Reserve:
    """The reserve of one state folder. Holds nothing in memory but when it was whole: every process sees the same files."""

    def __init__(self, root: str) -> None:
        """Name the state folder; nothing is made yet."""
        self._root = root
        self._folder = f"{root}/reserve"
        self._whole_at_ns = -1

    def give_up(self, *, keep: int = 0) -> bool:
        """Remove one piece, unless only `keep` of them are left; tell whether there was one."""
        while True:
            names = self._names()
            if len(names) <= keep:
                return False
            try:
                os.unlink(f"{self._folder}/{names[-1]}")
            except FileNotFoundError:
                continue  # somebody else needed it at the same moment
            except OSError:
                return False
            return True

    def fit(self, write: Callable[[], _Result]) -> _Result:
        """Return what `write` returns; where the disk is full it is called again with a piece given up, some times.

        Raises:
            OSError: What `write` raises for another reason, or still.
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
        """A quarter of the pieces: what the output of ended commands (2 MiB of each at most) must leave for records."""
        return self._wanted() // 4

    def refill(self) -> bool:
        """Make some of the missing pieces, where there is much more space than they take; tell whether to go on."""
        with contextlib.suppress(OSError):
            if os.stat(self._folder).st_mtime_ns == self._whole_at_ns:
                return False
        try:
            found = os.statvfs(self._root)
            wanted = self._wanted(found)
            missing = wanted - len(names := self._names())
            if missing <= 0:
                self._whole_at_ns = os.stat(self._folder).st_mtime_ns
                return False
            if not _has_room(found, bytes_=missing * _PIECE_BYTES + 2 * _LEAST_BYTES, inodes=2 * missing):
                return False
            self._make(set(names), min(missing, _SLICE))
        except OSError:
            return False  # it is tried again from time to time
        return True

    def _make(self, names: set[str], count: int) -> None:
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
                os.posix_fallocate(fd, 0, _PIECE_BYTES)
            except OSError:
                os.unlink(path)  # an empty one would be no piece
                raise
            finally:
                os.close(fd)
            count -= 1

    def _wanted(self, found: os.statvfs_result | None = None) -> int:
        """Return how many pieces the reserve has when it is whole: fewer on a small file system."""
        if found is None:
            try:
                found = os.statvfs(self._root)
            except OSError:
                return 0
        by_size = (
            found.f_blocks * found.f_frsize // _SHARE // _PIECE_BYTES if found.f_blocks else _MOST_PIECES
        )
        by_inodes = found.f_files // _SHARE if found.f_files else _MOST_PIECES
        return min(_MOST_PIECES, by_size, by_inodes)

    def _names(self) -> list[str]:
        try:
            return sorted(os.listdir(self._folder))
        except OSError:
            return []
