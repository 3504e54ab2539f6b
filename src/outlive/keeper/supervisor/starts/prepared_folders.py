"""Prepared process folders: made ahead of time, renamed into place at a start: `PreparedFolders`.

Creating files is what slows a start (10 to 200 us each on ext4); renaming a prepared folder costs 14 us. What
goes into a folder is written by `launcher` and the shim.
"""

import contextlib
import errno
import os
import resource
import socket
import time
from collections import deque

from outlive.core.layout import Layout
from outlive.keeper.supervisor.loop import Loop
from outlive.kernel.calls import spread_folders
from outlive.kernel.files import remove_folder
from outlive.kernel.sockets import listen_unix

# Written during a start or an end, when there is no time to make a file; as long as they are empty they are
# no records.
_LATER_FILES = ("spec", "pid", "done")
_SHELF_FOLDERS = 512  # on one shelf; then another one is begun
# A shelf is left when making folders there is slow: so many in a row took so long. But not before it has a
# few.
_SLOW_S = 0.0005
_SLOW_FOLDERS = 3
_FEWEST_ON_SHELF = 8
_WANTED = 48  # at first; later as many as the largest burst took
_MOST_WANTED = 256  # however large a burst was
_DESCRIPTORS_SHARE = 64  # folders: one for so many descriptors that may be open; each holds three
_DESCRIPTORS_EACH = 3
_FEW = 16  # fewer are refilled at each end of a process, more only when no start has come for a moment
_TOO_FEW = 4  # fewer are refilled at once
_QUIET_S = 0.02  # without a start: the moment for refilling
_BURST_GAP_S = 0.2  # starts with a longer gap between them belong to two bursts
_SLICE = 2  # folders made in a turn: refilling must not delay starts
_REFILL_S = 0.002  # between two slices
_CLEAR_AFTER_S = 1.0  # until leftovers are removed: a new supervisor has more urgent work


def descriptors_of_folders(limit: int) -> int:
    """Return how many descriptors prepared folders may hold together, given the limit of open ones."""
    return _DESCRIPTORS_EACH * _most_folders(limit)


def _most_folders(limit: int) -> int:
    return max(_FEW, min(_MOST_WANTED, limit // _DESCRIPTORS_SHARE))


class PreparedFolder:
    """An empty folder with an open log of stdout and a bound, listening socket."""

    __slots__ = ("idx", "listener", "out", "path")

    def __init__(self, path: str) -> None:
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
            # A partial folder would keep inodes and descriptors that the next attempt needs.
            for fd in (self.out, self.idx):
                if fd >= 0:
                    os.close(fd)
            remove_folder(path)
            raise


class PreparedFolders:
    """Keeps some prepared folders, on shelves (parent folders); refilled in slices by the loop.

    Each shelf is in a part of the disk of its own. Before ext4 gives out an inode it looks at every inode
    nearby that was freed in the last minutes: 20 times slower after some thousand removals (decision 24). If
    a shelf happens to be in such a part, the next folders go to another one.
    """

    def __init__(self, loop: Loop, layout: Layout) -> None:
        self._loop = loop
        self._layout = layout
        self._ready: deque[PreparedFolder] = deque()
        self._shelf = ""
        self._old_shelves: list[str] = []  # shelves of this process; some of their folders may still be ready
        self._on_shelf = 0
        self._slow = 0  # folders in a row that took long
        self._most = _most_folders(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        self._wanted = min(_WANTED, self._most)
        self._is_refilling = False
        self._taken_at = 0.0
        self._burst = 0  # how many were taken without a gap in between
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
                # On a read-only file system it would be looked into for ever: the next supervisor removes it.
                if error.errno != errno.EROFS:
                    self._look_into(path)
        if self._leftovers:
            self._loop.later(_REFILL_S, self._clear_leftover)

    def _look_into(self, path: str) -> None:
        """Put a folder's content before the folder itself."""
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
        if self._shelf and not os.path.exists(self._ready[0].path if self._ready else self._shelf):
            self._forget()  # they were removed by hand
        return self._ready.popleft() if self._ready else self._make()

    def replace_one(self) -> None:
        """Make one if there are few; to be called at a good moment, for example after an end was reported."""
        if len(self._ready) < _FEW:
            with contextlib.suppress(OSError):  # a start will report what is wrong
                self._ready.append(self._make())

    def give_back(self, folder: PreparedFolder) -> None:
        """Throw away a folder whose start failed before the rename."""
        for fd in (folder.out, folder.idx):
            with contextlib.suppress(OSError):
                os.close(fd)
        folder.listener.close()
        remove_folder(folder.path)

    def _forget(self) -> None:
        while self._ready:
            self.give_back(self._ready.popleft())
        self._shelf = ""

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
        # A random name: one of an earlier supervisor may still exist, and in a container each has the same
        # pid.
        shelf = f"{self._layout.prepared}/{os.urandom(6).hex()}"
        self._shelf = ""  # until it exists: after a failure the next attempt makes another one
        os.makedirs(shelf, mode=0o700)
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
            return  # a start will report what is wrong
        self._refill_later(_REFILL_S)


def _is_removed(shelf: str) -> bool:
    """Remove a shelf; as long as there are folders on it, it stays."""
    try:
        os.rmdir(shelf)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
