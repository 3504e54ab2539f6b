"""Prepared process folders: made ahead, renamed into place at a start.

Creating files is what slows a start (10 to 200 us each on ext4); renaming a prepared folder costs 14 us.
"""

import contextlib
import os
import shutil
import socket
from collections import deque

from outlive.core.layout import STREAM_FILES, Layout
from outlive.keeper.kernel import spread_folders
from outlive.keeper.loop import Loop
from outlive.keeper.sockets import listen_unix

__all__ = ["PreparedFolder", "PreparedFolders"]

# Written during a start or an end, when a rename is all there is time for: "x.new" becomes "x".
_LATER_FILES = ("spec", "pid.new", "exit.new", "done.new")
_SHELF_FOLDERS = 512
_WANTED = 48
_SLICE = 2  # folders a turn: refilling must not delay starts
_REFILL_S = 0.002
_CLEAR_AFTER_S = 1.0


class PreparedFolder:
    """An empty folder with open logs and a bound, listening socket."""

    __slots__ = ("err", "idx", "listener", "out", "path")

    def __init__(self, path: str) -> None:
        """Create everything; raises OSError when the disk is full or descriptors run out."""
        self.path = path
        os.mkdir(path, 0o700)
        self.listener: socket.socket = listen_unix(f"{path}/sock", backlog=4)
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
        self.out, self.err = (os.open(f"{path}/{name}", flags, 0o600) for name in STREAM_FILES)
        self.idx = os.open(f"{path}/idx", flags | os.O_APPEND, 0o600)
        for name in _LATER_FILES:
            os.close(os.open(f"{path}/{name}", flags, 0o600))


class PreparedFolders:
    """Keeps some prepared folders, on shelves; refilled in slices by the loop.

    A shelf lies in a part of the disk of its own: ext4 looks at every inode that was freed in the last minutes
    nearby before it gives out one, 20 times slower after some thousand removals (decision 24).
    """

    def __init__(self, loop: Loop, layout: Layout) -> None:
        """Begin to fill; what an earlier supervisor left is cleared when there is time."""
        self._loop = loop
        self._layout = layout
        self._ready: deque[PreparedFolder] = deque()
        self._count = 0
        self._shelf = ""
        self._is_refilling = False
        os.makedirs(layout.prepared, mode=0o700, exist_ok=True)
        self._leftovers = os.listdir(layout.prepared)
        spread_folders(layout.prepared)
        self._refill_later()
        loop.later(_CLEAR_AFTER_S, self._clear_leftover)

    def _clear_leftover(self) -> None:
        """Remove what an earlier supervisor left, one shelf at a time; own shelves when they are empty."""
        self._loop.later(_REFILL_S if self._leftovers else _CLEAR_AFTER_S, self._clear_leftover)
        if self._leftovers:
            shelf = self._leftovers.pop()
            own = shelf.startswith(f"{os.getpid()}.")
            with contextlib.suppress(OSError):  # not empty yet: the next supervisor clears it
                path = f"{self._layout.prepared}/{shelf}"
                os.rmdir(path) if own else shutil.rmtree(path)

    def take(self) -> PreparedFolder:
        """Return a prepared folder, making one now if none is ready.

        Raises:
            OSError: The disk is full or descriptors run out.
        """
        self._refill_later()
        return self._ready.popleft() if self._ready else self._make()

    def give_back(self, folder: PreparedFolder) -> None:
        """Throw away a folder whose start failed before the rename."""
        for fd in (folder.out, folder.err, folder.idx):
            with contextlib.suppress(OSError):
                os.close(fd)
        folder.listener.close()
        shutil.rmtree(folder.path, ignore_errors=True)

    def _make(self) -> PreparedFolder:
        if self._count % _SHELF_FOLDERS == 0:
            if self._shelf:
                self._leftovers.append(os.path.basename(self._shelf))
            self._shelf = f"{self._layout.prepared}/{os.getpid()}.{self._count}"
            os.mkdir(self._shelf, 0o700)
        self._count += 1
        return PreparedFolder(f"{self._shelf}/{self._count}")

    def _refill_later(self) -> None:
        if not self._is_refilling and len(self._ready) < _WANTED:
            self._is_refilling = True
            self._loop.later(_REFILL_S, self._refill)

    def _refill(self) -> None:
        self._is_refilling = False
        try:
            for _ in range(_SLICE):
                self._ready.append(self._make())
        except OSError:
            return  # a start will say what is wrong
        self._refill_later()
