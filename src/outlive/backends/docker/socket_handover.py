"""How the runner of a container gets the socket that it listens on: `Handing` binds it and hands it over (decision 137).

The socket's name lies in the container's folder, which is not mounted: no command inside can delete or replace it. The container
sees only `hand`, read-only, where the server listens during the handover. The container's first process connects there by itself
(native/handing.c). It gets the socket, and the supervisor's lock read-only: by that it recognizes a supervisor (decision 151).

Waiting for the runner afterwards belongs to `entrance`.
"""

import asyncio
import contextlib
import fcntl
import os
import socket
import struct
from collections.abc import AsyncIterator, Callable

from outlive.backends.docker import folders
from outlive.backends.docker.recipe import HAND_NAME
from outlive.core.layout import Layout

# Returns the path of the supervisor's lock; None where the supervisor is too old to prove that it holds it. May block.
LockToHand = Callable[[], str | None]

_UCRED = struct.Struct("3i")
_FOR_ALL = 0o666  # the container's user may be any; the folder above keeps all other users out
_OURS = 0o600
_KIND = socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
_BACKLOG = 64


def mark_of(lock: str) -> str:
    """Return the lock's device and inode, by which the runner recognizes it: they are in its command line. Blocks.

    Raises:
        OSError: The lock is missing, and cannot be made.
    """
    fd = os.open(lock, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, _OURS)
    try:
        about = os.fstat(fd)
    finally:
        os.close(fd)
    return f"{about.st_dev}:{about.st_ino}"


class Handing:
    """One server's side of the handover; only one of several servers listens at a time. Blocks: use a thread. `close` it."""

    def __init__(self, layout: Layout, name: str, *, lock: LockToHand) -> None:
        """Listen for the container of a name, whose folders exist, unless another server listens for it."""
        self._lock_to_hand = lock
        self._socket_name = os.path.basename(layout.runner_socket(name))
        self._folder = os.open(layout.container(name), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self._hand = -1
        self._lock = -1
        self._listener: socket.socket | None = None
        self._path = folders.hand_folder(layout, name)
        try:
            self._listen()
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        """Stop listening, and remove the socket from the mounted folder."""
        if self._listener is not None:
            with contextlib.suppress(OSError):
                os.unlink(HAND_NAME, dir_fd=self._hand)
            self._listener.close()
        for fd in (self._lock, self._hand, self._folder):
            if fd >= 0:
                os.close(fd)

    def turn(self, pid: int) -> None:
        """Give the runner its socket, if it has connected; `pid` is the container's first process, no other one gets it.

        Raises:
            OSError: The folder cannot be written, or no descriptor is left.
        """
        listener = self._listener or self._listen()
        while listener is not None:
            try:
                link, _ = listener.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            with link:
                raw = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
                if _UCRED.unpack(raw)[0] == pid:
                    with contextlib.suppress(ConnectionError):  # the container has ended
                        self._give(link)

    def _listen(self) -> socket.socket | None:
        """Listen in the mounted folder; None while another server does."""
        if self._lock < 0:
            self._lock = os.open(
                f"/proc/self/fd/{self._folder}/hand.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _OURS
            )
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return None
        if self._hand < 0:
            self._hand = os.open(self._path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self._listener = _bound(self._hand, HAND_NAME, _FOR_ALL)
        self._listener.listen(_BACKLOG)
        return self._listener

    def _give(self, link: socket.socket) -> None:
        """Send a new socket that is bound but not listening: no client can connect before the runner listens on it."""
        partial = f"{self._socket_name}.new"
        with _bound(self._folder, partial, _OURS) as given:
            os.rename(partial, self._socket_name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
            if (path := self._lock_to_hand()) is None:
                socket.send_fds(link, [b"listen"], [given.fileno()])
            else:  # in two packets: an older runner takes one descriptor and asks for no proof
                lock = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, _OURS)
                try:
                    socket.send_fds(link, [b"listen asking"], [given.fileno()])
                    socket.send_fds(link, [b"lock"], [lock])
                finally:
                    os.close(lock)
        # A keeper of an older version looks for the socket where runners used to listen: a link leads it here.
        with contextlib.suppress(OSError):
            with contextlib.suppress(FileExistsError):
                os.mkdir("run", mode=0o700, dir_fd=self._folder)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"run/{self._socket_name}", dir_fd=self._folder)
            os.symlink(f"../{self._socket_name}", f"run/{self._socket_name}", dir_fd=self._folder)


@contextlib.asynccontextmanager
async def ready_to_hand(layout: Layout, name: str, *, lock: LockToHand) -> AsyncIterator[Handing]:
    """Listen for a container's first process while the block runs: from before its start until its runner answers."""
    handing = await asyncio.to_thread(Handing, layout, name, lock=lock)
    try:
        yield handing
    finally:
        await asyncio.to_thread(handing.close)


def _bound(folder: int, name: str, mode: int) -> socket.socket:
    """Return a socket that is bound to this name in a folder; an older file of that name is removed."""
    path = f"/proc/self/fd/{folder}/{name}"  # the whole path may be longer than sockets take
    made = socket.socket(socket.AF_UNIX, _KIND)
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        made.bind(path)
        os.chmod(path, mode)
    except OSError:
        made.close()
        raise
    return made
