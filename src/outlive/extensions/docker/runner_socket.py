"""The socket on which a container's runner listens: `SocketHandover` gives it to the runner, `RunnerHandle`
finds out whether it answers.

The socket's name lies in the container's folder, which is not mounted: no command inside can delete or
replace it. The container sees only `hand`, read-only, where the server listens during the handover. The
container's first process connects there by itself (native/runner/server.c). It gets the socket, and
the supervisor's lock read-only: by that it recognizes a supervisor (decisions 137 and 151).

A handle asks the kernel and the runner, never the daemon. It starts, repairs and removes nothing:
`runner_access` and `maker` do.
"""

import asyncio
import contextlib
import fcntl
import os
import select
import socket
import struct
import time
from collections.abc import AsyncIterator, Callable

from outlive.core.layout import Layout
from outlive.extensions.docker import folders
from outlive.extensions.docker.recipe import HAND_NAME

Connect = Callable[[str], socket.socket]

_UCRED = struct.Struct("3i")
_FOR_ALL = 0o666  # the container's user may be any; the folder above keeps all other users out
_OURS = 0o600
_KIND = socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
_BACKLOG = 64
# After a greeting the runner is not asked again for so long: each connection costs it a fork.
_TRUSTED_S = 1.0
_PAUSE_S = 0.002
_LONGEST_PAUSE_S = 0.1
_GREETING_BYTES = 64


def mark_of(lock: str) -> str:
    """Return the lock's device and inode, by which the runner recognizes it: they are in its command line.

    Blocks.

    Raises:
        OSError: The lock is missing, and cannot be made.
    """
    fd = os.open(lock, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, _OURS)
    try:
        about = os.fstat(fd)
    finally:
        os.close(fd)
    return f"{about.st_dev}:{about.st_ino}"


class SocketHandover:
    """One server's side of the handover; only one of several servers listens at a time. Blocks: use a thread.

    `close` it.
    """

    def __init__(self, layout: Layout, name: str, *, lock: str) -> None:
        """Listen for the container of a name, whose folders exist, unless another server listens for it.

        `lock`: the supervisor's.
        """
        self._lock_path = lock
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
        """Give the runner its socket, if it has connected; `pid` is the container's first process, no other
        one gets it.

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
        """Send a new socket that is bound but not listening: no client can connect before the runner listens
        on it.
        """
        partial = f"{self._socket_name}.new"
        with _bound(self._folder, partial, _OURS) as given:
            os.rename(partial, self._socket_name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
            lock = os.open(self._lock_path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, _OURS)
            try:
                socket.send_fds(link, [b"listen asking"], [given.fileno()])
                socket.send_fds(link, [b"lock"], [lock])
            finally:
                os.close(lock)


@contextlib.asynccontextmanager
async def offered_socket(layout: Layout, name: str) -> AsyncIterator[SocketHandover]:
    """Listen for a container's first process while the block runs: from before its start until its runner
    answers.
    """
    handover = await asyncio.to_thread(SocketHandover, layout, name, lock=layout.supervisor_lock)
    try:
        yield handover
    finally:
        await asyncio.to_thread(handover.close)


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


class RunnerHandle:
    """The runner of one running container; `close` it. Asks only the kernel and the runner."""

    def __init__(self, path: str, pid: int, *, connect: Connect) -> None:
        """Take the runner's socket, the pid of the container's first process, and how to connect.

        Raises:
            ProcessLookupError: There is no such process.
        """
        self.pid = pid
        self._path = path
        self._connect = connect
        self._pidfd = os.pidfd_open(pid)
        self._poll = select.poll()
        self._poll.register(self._pidfd, select.POLLIN)
        self._heard_at = float("-inf")
        self._asking = asyncio.Lock()
        self._asked = 0
        self._is_closed = False

    @property
    def is_alive(self) -> bool:
        """Whether the first process runs; its number cannot have been given to another one."""
        return not self._is_closed and not self._poll.poll(0)

    @property
    def is_trusted(self) -> bool:
        """Whether the runner has greeted a moment ago, and lives."""
        return time.monotonic() - self._heard_at < _TRUSTED_S and self.is_alive

    def is_open(self) -> bool:
        """Tell whether the runner lives and listens, as far as that is known without waiting."""
        if not self.is_alive:
            return False
        try:
            link = self._dial()
        except BlockingIOError:
            return True  # its backlog is full: it listens
        if link is None:
            return False
        with link:
            _say_goodbye(link)
        return True

    async def answers(self, within_s: float) -> bool:
        """Tell whether the runner works: it has to greet a new connection, by a process that it forks for it.

        A runner that listens may still be unable to do that: a command inside can lower its limit of
        descriptors (prlimit(2)), or stop it. Callers at the same time share one attempt. Cancellation: safe.
        """
        asked = self._asked
        async with self._asking:
            if self.is_trusted:
                return True
            if self._asked != asked:  # another caller has asked while this one waited, and got no answer
                return False
            deadline, pause_s = time.monotonic() + within_s, _PAUSE_S
            self._asked += 1
            while self.is_alive and (left_s := deadline - time.monotonic()) > 0:
                with contextlib.suppress(BlockingIOError):  # its backlog is full: try again
                    if not (link := self._dial()):
                        return False
                    with link:
                        if await _is_greeted(link, left_s):
                            self._heard_at = time.monotonic()
                            return self.is_alive
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
            return False

    def close(self) -> None:
        """Close the pidfd."""
        if not self._is_closed:
            self._is_closed = True
            os.close(self._pidfd)

    def _dial(self) -> socket.socket | None:
        """Connect; None when no process listens, or another one than the container's first (listen(2),
        SO_PEERCRED).

        Raises:
            BlockingIOError: A process listens, and its backlog is full.
        """
        try:
            link = self._connect(self._path)
        except BlockingIOError:
            raise
        except OSError:
            return None
        credentials = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
        if _UCRED.unpack(credentials)[0] == self.pid:
            return link
        link.close()  # another process has taken the socket's place: it gets no byte
        return None


async def _is_greeted(link: socket.socket, within_s: float) -> bool:
    try:
        async with asyncio.timeout(within_s):
            greeting = await asyncio.get_running_loop().sock_recv(link, _GREETING_BYTES)
    except (TimeoutError, ConnectionError):
        return False
    _say_goodbye(link)
    # "prove": the runner asks for a proof that a supervisor speaks (decision 151). None is needed here: it
    # has answered.
    return greeting.startswith((b"hello", b"prove "))


def _say_goodbye(link: socket.socket) -> None:
    with contextlib.suppress(OSError):
        link.send(b"quit")  # so that the process that the runner has forked for this connection ends at once
