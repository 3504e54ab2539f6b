"""Proving that the supervisor's lock is ours to runners and shims in containers, which cannot see our
process.

In their PID namespace every process outside has number 0, and every program of outlive has our uid. So they
ask for something that only the lock's holder can do: release one byte of the lock, which they choose, for a
moment (decision 151).

  from the runner  prove OFFSET
  to the runner    proved         the byte is free until the next packet, or the end of the link

On one machine `kernel.lock_proof` proves the same without a question.
"""

import contextlib
import fcntl
import os
import socket
import struct
from collections.abc import Callable

from outlive.core.values import dataclass
from outlive.keeper.supervisor.loop import Loop, Timer
from outlive.kernel import sockets

# Is called with the first packet that is no question, its descriptors, which it owns then, and the pid of the
# peer, which the kernel vouches for: it has sent the first packet of all. b"": the end of the link.
Heard = Callable[[bytes, list[int], int], None]

_FLOCK = struct.Struct("hhqqi")
_FIRST_BYTE, _END = 1 << 40, 1 << 62  # the range from which a runner chooses (peers.c)
# A peer that was stopped (SIGSTOP) before it looked asks again when it finds the byte locked.
_FREE_S = 5.0
_RETRY_S = 0.5  # until the next attempt to lock a byte that another process holds


@dataclass(eq=False, slots=True)
class LockChallenge:
    """Receives from peers that we connected to: answers one question of each, frees one byte for it, waits
    for nothing.

    A question is answered only on a connection that we opened ourselves, and never if its sender lives in one
    of our own trees: such a process would pass on the question of another peer. `lock` is the descriptor that
    holds the lock; `is_ours` returns whether a process lives in a tree of ours, or is gone.
    """

    loop: Loop
    lock: int
    is_ours: Callable[[int], bool]
    log: Callable[[str], None]

    def meet(self, link: socket.SocketType, heard: Heard, *, answers: bool) -> None:
        """Call `heard` once, with a peer's first packet that is no question.

        Args:
            link: Connected with `names_senders`; it is not watched any more when `heard` is called.
            heard: See `Heard`.
            answers: Whether questions of this peer are answered at all.
        """
        freed: list[tuple[int, Timer]] = []

        peer = 0

        def hear(_events: int) -> None:
            nonlocal peer
            packet = sockets.receive_named(link)
            if packet is None:
                return
            message, fds, pid = packet
            peer = peer or pid
            offset = _offset_of(message) if answers and not fds and not freed else 0
            if offset and self.is_ours(pid):
                self.log(f"process {pid} lives in a tree of ours, or is gone: it is proved nothing")
            elif offset:
                freed.append((offset, self._free(offset)))
                with contextlib.suppress(OSError):  # the peer is gone; the end of the link is read next
                    sockets.send(link, b"proved")
                return
            # No question (any more): the byte is locked again before the peer's packet is handled.
            self.loop.unwatch(link.fileno())
            for byte, timer in freed:
                timer.cancel()
                self._take_back(byte)
            heard(message if not message.startswith(b"prove ") else b"", fds, peer)

        self.loop.watch(link.fileno(), hear)

    def _free(self, offset: int) -> Timer:
        """Release a byte; return the timer that takes it back at the latest."""
        fcntl.fcntl(self.lock, fcntl.F_OFD_SETLK, _one_byte(fcntl.F_UNLCK, offset))
        return self.loop.later(_FREE_S, lambda: self._take_back(offset))

    def _take_back(self, offset: int) -> None:
        """Lock a byte again; a byte that is still ours stays so."""
        try:
            fcntl.fcntl(self.lock, fcntl.F_OFD_SETLK, _one_byte(fcntl.F_WRLCK, offset))
        except OSError:  # guessed by another process, or no memory: a free byte would obstruct our successor
            self.loop.later(_RETRY_S, lambda: self._take_back(offset))


def _one_byte(kind: int, offset: int) -> bytes:
    return _FLOCK.pack(kind, os.SEEK_SET, offset, 1, 0)


def _offset_of(message: bytes) -> int:
    """Return the byte that a question is about; 0 when it is no question that is answered."""
    verb, _, rest = message.partition(b" ")
    offset = int(rest) if verb == b"prove" and rest.isdigit() and len(rest) < 20 else 0
    return offset if _FIRST_BYTE <= offset < _END else 0
