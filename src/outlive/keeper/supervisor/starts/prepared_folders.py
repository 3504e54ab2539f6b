"""Prepared process folders: made ahead, renamed into place at a start.

Creating files is what slows a start (10 to 200 us each on ext4); renaming a prepared folder costs 14 us.
"""

import contextlib
import errno
import os
import resource
import socket
import time
from collections import deque

from outlive.core.layout import Layout
from outlive.keeper.common.files import remove_folder
from outlive.keeper.common.kernel import spread_folders
from outlive.keeper.common.sockets import listen_unix
from outlive.keeper.supervisor.loop import Loop

# Written during a start or an end, when there is no time to make a file; empty ones are no records yet.
_LATER_FILES = ("spec", "pid", "done")
_SHELF_FOLDERS = 512
# A shelf on which making folders is slow is left: so many in a row that took so long, but not before it has a few.
_SLOW_S = 0.0005
_SLOW_FOLDERS = 3
_FEWEST_ON_SHELF = 8
_WANTED = 48  # at first; afterwards as many as the largest burst took
_MOST_WANTED = 256
_DESCRIPTORS_SHARE = 64  # of the descriptors that may be open one in so many folders; each holds three
_DESCRIPTORS_EACH = 3
_FEW = 16  # fewer are filled up with each end of a process, others when no start has come for a moment
_TOO_FEW = 4  # fewer are filled up at once
_QUIET_S = 0.02
_BURST_GAP_S = 0.2
_SLICE = 2  # folders a turn: refilling must not delay starts
_REFILL_S = 0.002
_CLEAR_AFTER_S = 1.0


def descriptors_of_folders(limit: int) -> int:
    """Return how many descriptors prepared folders may hold together where so many may be open."""
    return _DESCRIPTORS_EACH * _most_folders(limit)


def _most_folders(limit: int) -> int:
    return max(_FEW, min(_MOST_WANTED, limit // _DESCRIPTORS_SHARE))


class PreparedFolder:
    """An empty folder with an open log of stdout and a bound, listening socket."""

    __slots__ = ("idx", "listener", "out", "path")

    def __init__(self, path: str) -> None:
        """Create everything, or nothing: raises OSError when the disk is full or descriptors run out."""
        self.path = path
        os.mkdir(path, 0o700)
        self.out = self.idx = -1
        try:
            self.listener: socket.socket = listen_unix(f"{path}/sock", backlog=4, is_new=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
            self.out = os.open(f"{path}/out", flags, 0o600)
            self.idx = os.open(f"{path}/idx", flags | os.O_APPEND, 0o600)
            for name in _LATER_FILES:
                os.mknod(f"{path}/{name}", 0o600)  # a regular file, with one system call instead of two
        except OSError:
            # A part of a folder would keep inodes and descriptors that the next attempt needs.
            for fd in (self.out, self.idx):
                if fd >= 0:
                    os.close(fd)
            remove_folder(path)
            raise


class PreparedFolders:
    """Keeps some prepared folders, on shelves; refilled in slices by the loop.

    A shelf lies in a part of the disk of its own: ext4 looks at every inode that was freed in the last minutes
    nearby before it gives out one, 20 times slower after some thousand removals (decision 24). Where that has happened
    by chance, the next folders go elsewhere.
    """

    def __init__(self, loop: Loop, layout: Layout) -> None:
        """Begin to fill; what an earlier supervisor left is cleared when there is time."""
        self._loop = loop
        self._layout = layout
        self._ready: deque[PreparedFolder] = deque()
        self._shelf = ""
        self._old_shelves: list[str] = []  # own ones, of which some folders may still be ready
        self._on_shelf = 0
        self._slow = 0  # folders in a row that took long
        self._most = _most_folders(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        self._wanted = min(_WANTED, self._most)
        self._is_refilling = False
        self._taken_at = 0.0
        self._burst = 0  # how many were taken with no gap in between
        os.makedirs(layout.prepared, mode=0o700, exist_ok=True)
        self._leftovers = [f"{layout.prepared}/{name}" for name in os.listdir(layout.prepared)]
        spread_folders(layout.prepared)
        self._refill_later(_REFILL_S)
        loop.later(_CLEAR_AFTER_S, self._clear_leftover)

    def _clear_leftover(self) -> None:
        """Remove what an earlier supervisor left, one folder at a time."""
        if self._leftovers:
            path = self._leftovers.pop()
            try:
                os.rmdir(path)
            except NotADirectoryError:
                with contextlib.suppress(OSError):
                    os.unlink(path)
            except OSError as error:
                if (
                    error.errno != errno.EROFS
                ):  # there it would be looked into for ever: the next supervisor clears it
                    self._look_into(path)
        self._loop.later(_REFILL_S if self._leftovers else _CLEAR_AFTER_S, self._clear_leftover)

    def _look_into(self, path: str) -> None:
        """Clear the inside of a folder first."""
        with contextlib.suppress(OSError):
            if os.path.dirname(path) == self._layout.prepared:
                self._leftovers += [path, *(f"{path}/{name}" for name in os.listdir(path))]
            else:
                remove_folder(path)

    @property
    def descriptors(self) -> int:
        """How many descriptors the prepared folders may hold together."""
        return _DESCRIPTORS_EACH * self._most

    def take(self) -> PreparedFolder:
        """Return a prepared folder, making one now if none is ready.

        Raises:
            OSError: The disk is full or descriptors run out.
        """
        now = time.monotonic()
        self._burst = self._burst + 1 if now - self._taken_at < _BURST_GAP_S else 1
        self._taken_at = now
        if self._burst > self._wanted:
            self._wanted = min(self._burst, self._most)
        self._refill_later(_REFILL_S)
        return self._ready.popleft() if self._ready else self._make()

    def replace_one(self) -> None:
        """Make one if there are few: a good moment, for example when an end was told."""
        if len(self._ready) < _FEW:
            with contextlib.suppress(OSError):  # a start will say what is wrong
                self._ready.append(self._make())

    def give_back(self, folder: PreparedFolder) -> None:
        """Throw away a folder whose start failed before the rename."""
        for fd in (folder.out, folder.idx):
            with contextlib.suppress(OSError):
                os.close(fd)
        folder.listener.close()
        remove_folder(folder.path)

    def _make(self) -> PreparedFolder:
        is_slow = self._slow >= _SLOW_FOLDERS and self._on_shelf >= _FEWEST_ON_SHELF
        if not self._shelf or self._on_shelf == _SHELF_FOLDERS or is_slow:
            self._change_shelf()
        self._on_shelf += 1
        began = time.monotonic()
        folder = PreparedFolder(f"{self._shelf}/{self._on_shelf}")
        self._slow = self._slow + 1 if time.monotonic() - began > _SLOW_S else 0
        return folder

    def _change_shelf(self) -> None:
        if self._shelf:
            self._old_shelves.append(self._shelf)
        self._old_shelves = [shelf for shelf in self._old_shelves if not _is_removed(shelf)]
        # No name that an earlier supervisor may have left: in a container each has the same pid.
        shelf = f"{self._layout.prepared}/{os.urandom(6).hex()}"
        self._shelf = ""  # a shelf that could not be made is none: the next attempt makes another one
        os.mkdir(shelf, 0o700)
        self._shelf = shelf
        self._on_shelf = self._slow = 0

    def _refill_later(self, delay_s: float) -> None:
        if not self._is_refilling and len(self._ready) < self._wanted:
            self._is_refilling = True
            self._loop.later(delay_s, self._refill)

    def _refill(self) -> None:
        self._is_refilling = False
        if len(self._ready) >= _TOO_FEW and time.monotonic() - self._taken_at < _QUIET_S:
            self._refill_later(_QUIET_S)
            return
        try:
            for _ in range(_SLICE):
                self._ready.append(self._make())
        except OSError:
            return  # a start will say what is wrong
        self._refill_later(_REFILL_S)


def _is_removed(shelf: str) -> bool:
    """Remove a shelf; it stays as long as there are folders on it."""
    try:
        os.rmdir(shelf)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
