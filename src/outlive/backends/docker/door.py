"""Whether a container's runner answers, told without the daemon: its pidfd, its socket, and who listens there."""

import contextlib
import os
import select
import socket
import struct
import time
from collections.abc import Callable

__all__ = ["Connect", "Door"]

Connect = Callable[[str], socket.socket]

_UCRED = struct.Struct("3i")
_TRUSTED_S = 1.0  # for so long a live first process is enough; each connection costs the runner a fork


class Door:
    """The way into one running container; `close` it. Never blocks, and asks nobody but the kernel."""

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

    @property
    def is_alive(self) -> bool:
        """Whether the first process runs; its number cannot have been given to another one."""
        return not self._poll.poll(0)

    def is_open(self) -> bool:
        """Tell whether the runner lives and listens, as far as can be known without waiting."""
        if not self.is_alive:
            return False
        now = time.monotonic()
        if now - self._heard_at < _TRUSTED_S:
            return True
        try:
            is_ours = _is_listener(self._path, self.pid, self._connect)
        except BlockingIOError:
            return self._heard_at > float("-inf")  # more connections wait than it takes: it is busy, not gone
        if is_ours:
            self._heard_at = now
        return is_ours

    def close(self) -> None:
        """Let go of the process."""
        os.close(self._pidfd)


def _is_listener(path: str, pid: int, connect: Connect) -> bool:
    """Tell whether that process has called listen(2) on a Unix socket (SO_PEERCRED, unix(7)).

    The path belongs to the container's user, who may have put anything there: nothing is said to anybody else.

    Raises:
        BlockingIOError: Somebody listens, and as many wait already as may.
    """
    try:
        link = connect(path)
    except BlockingIOError:
        raise
    except OSError:
        return False
    with link:
        credentials = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
        if _UCRED.unpack(credentials)[0] != pid:
            return False
        with contextlib.suppress(OSError):
            link.send(b"quit")  # the runner's answer to us, a process of its own, has nothing to wait for
    return True
