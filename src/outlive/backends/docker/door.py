"""The way into one running container: `Door`, which finds out without the daemon whether the runner answers.

It looks at the first process's pidfd, at the process that listens on the socket, and at its greeting. A `Door` starts, repairs
and removes nothing: `entrance` and `maker` do.
"""

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
_TRUSTED_S = (
    1.0  # after a greeting the runner is not asked again for so long: each connection costs it a fork
)
_PAUSE_S = 0.002
_LONGEST_PAUSE_S = 0.1
_GREETING_BYTES = 64


class Door:
    """The way into one running container; `close` it. Asks only the kernel and the runner."""

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

        A runner that listens may still be unable to do that: a command inside can lower its limit of descriptors (prlimit(2)), or
        stop it. Callers at the same time share one attempt. Cancellation: safe.
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
        """Connect; None when no process listens, or another one than the container's first (listen(2), SO_PEERCRED).

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
    # "prove": the runner asks for a proof that a supervisor speaks (decision 151). None is needed here: it has answered.
    return greeting.startswith((b"hello", b"prove "))


def _say_goodbye(link: socket.socket) -> None:
    with contextlib.suppress(OSError):
        link.send(b"quit")  # so that the process that the runner has forked for this connection ends at once
