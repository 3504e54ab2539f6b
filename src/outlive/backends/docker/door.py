"""Whether a container's runner answers, told without the daemon: its pidfd, its socket, who listens there, and its greeting."""

import asyncio
import contextlib
import os
import select
import socket
import struct
import time
from collections.abc import Callable

Connect = Callable[[str], socket.socket]

_UCRED = struct.Struct("3i")
_TRUSTED_S = 1.0  # for so long a greeting is enough; each connection costs the runner a fork
_PAUSE_S = 0.002
_LONGEST_PAUSE_S = 0.1
_GREETING_BYTES = 64


class Door:
    """The way into one running container; `close` it. Asks nobody but the kernel and the runner."""

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
        """Tell whether the runner lives and listens, as far as can be known without waiting."""
        if not self.is_alive:
            return False
        try:
            link = self._dial()
        except BlockingIOError:
            return True  # more connections wait than it takes
        if link is None:
            return False
        with link:
            _say_goodbye(link)
        return True

    async def answers(self, within_s: float) -> bool:
        """Tell whether the runner does what it is there for: whoever connects is greeted by a process made for that.

        One that listens may be unable to (a command inside can take its descriptors away, prlimit(2)), or be stopped.
        Callers at the same time ask once. Cancellation: safe.
        """
        asked = self._asked
        async with self._asking:
            if self.is_trusted:
                return True
            if self._asked != asked:  # while we waited: it does not answer
                return False
            deadline, pause_s = time.monotonic() + within_s, _PAUSE_S
            self._asked += 1
            while self.is_alive and (left_s := deadline - time.monotonic()) > 0:
                with contextlib.suppress(BlockingIOError):  # more connections wait than it takes
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
        """Let go of the process."""
        if not self._is_closed:
            self._is_closed = True
            os.close(self._pidfd)

    def _dial(self) -> socket.socket | None:
        """Connect; None when nobody listens, or another process than the first one (listen(2), SO_PEERCRED).

        Raises:
            BlockingIOError: Somebody listens, and as many wait already as may.
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
        link.close()  # nothing is said to anybody else
        return None


async def _is_greeted(link: socket.socket, within_s: float) -> bool:
    try:
        async with asyncio.timeout(within_s):
            greeting = await asyncio.get_running_loop().sock_recv(link, _GREETING_BYTES)
    except (TimeoutError, ConnectionError):
        return False
    _say_goodbye(link)
    # To prove that the supervisor's lock is ours is asked of us (decision 151): we are no supervisor, and know enough.
    return greeting.startswith((b"hello", b"prove "))


def _say_goodbye(link: socket.socket) -> None:
    with contextlib.suppress(OSError):
        link.send(b"quit")  # the runner's answer to us, a process of its own, has nothing to wait for
