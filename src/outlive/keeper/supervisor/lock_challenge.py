"""How we prove that the supervisor's lock is ours to who cannot see our process: runners and minders in containers.

In their PID namespace every process outside is number 0, and all that outlive runs has our uid. So they ask for what the
holder of the lock alone can do: to let go of one byte of it, which they choose, for a moment (decision 151).

  from the runner  prove OFFSET
  to the runner    proved         the byte is free until the next word, or the end of the link
"""

import contextlib
import fcntl
import os
import socket
import struct
from collections.abc import Callable

from outlive.core.layout import Layout
from outlive.keeper.common import sockets
from outlive.keeper.common.launch import ask_status
from outlive.keeper.supervisor.loop import Loop, Timer

PROVES = "proves_lock"  # in a supervisor's status: it does what is here

# Gets the first packet that is no question, and its descriptors, which are the hearer's; b"": the end.
Heard = Callable[[bytes, list[int]], None]

_FLOCK = struct.Struct("hhqqi")
_FIRST_BYTE, _END = 1 << 40, 1 << 62  # what a runner may choose from (runner/challenge.c)
_FREE_S = (
    5.0  # for a peer that was stopped before it has looked; we are asked again when it finds the byte locked
)
_RETRY_S = 0.5
_STATUS_S = 2.0


class LockChallenge:
    """Meets peers that we have connected to: answers one question of each, frees one byte meanwhile, waits for nothing.

    Only questions of connections that we have opened ourselves are answered, and of no process that lives in one of our own
    trees: it would pass on what another peer has asked it.
    """

    def __init__(
        self, loop: Loop, lock: int, *, is_ours: Callable[[int], bool], log: Callable[[str], None]
    ) -> None:
        """Take the descriptor that holds the lock, and what tells whether a process lives in one of our trees, or is gone."""
        self._log = log
        self._loop = loop
        self._lock = lock
        self._is_ours = is_ours

    def meet(self, link: socket.SocketType, heard: Heard, *, answers: bool) -> None:
        """Call `heard` once, with the first words of a peer that are no question.

        Args:
            link: Connected with `names_senders`; it is not watched any more when `heard` is called.
            heard: See `Heard`.
            answers: Whether it may ask at all.
        """
        freed: list[tuple[int, Timer]] = []

        def hear(_events: int) -> None:
            packet = sockets.receive_named(link)
            if packet is None:
                return
            message, fds, pid = packet
            offset = _offset_of(message) if answers and not fds and not freed else 0
            if offset and self._is_ours(pid):
                self._log(f"process {pid} lives in a tree of ours, or is gone: it is proved nothing")
            elif offset:
                freed.append((offset, self._free(offset)))
                with contextlib.suppress(OSError):  # it is gone, which is heard next
                    sockets.send(link, b"proved")
                return
            self._loop.unwatch(link.fileno())
            for byte, timer in freed:
                timer.cancel()
                self._take_back(byte)
            heard(message if not message.startswith(b"prove ") else b"", fds)

        self._loop.watch(link.fileno(), hear)

    def _free(self, offset: int) -> Timer:
        """Let go of a byte; returns what takes it back in the end."""
        fcntl.fcntl(self._lock, fcntl.F_OFD_SETLK, _one_byte(fcntl.F_UNLCK, offset))
        return self._loop.later(_FREE_S, lambda: self._take_back(offset))

    def _take_back(self, offset: int) -> None:
        """Lock a byte again; what is ours already stays so."""
        try:
            fcntl.fcntl(self._lock, fcntl.F_OFD_SETLK, _one_byte(fcntl.F_WRLCK, offset))
        except OSError:  # somebody guessed it, or has no memory left: a hole would be in our successor's way
            self._loop.later(_RETRY_S, lambda: self._take_back(offset))


def lock_to_hand(layout: Layout) -> str | None:
    """Return the path of the supervisor's lock; None while the supervisor is one of before that proves nothing. Blocks."""
    try:
        status = ask_status(layout, within_s=_STATUS_S)
    except OSError:  # none: the one that comes will be of our own version
        return layout.supervisor_lock
    return layout.supervisor_lock if status is None or PROVES in status else None


def _one_byte(kind: int, offset: int) -> bytes:
    return _FLOCK.pack(kind, os.SEEK_SET, offset, 1, 0)


def _offset_of(message: bytes) -> int:
    """Return which byte a question is about; 0 when it is none that we answer."""
    verb, _, rest = message.partition(b" ")
    offset = int(rest) if verb == b"prove" and rest.isdigit() and len(rest) < 20 else 0
    return offset if _FIRST_BYTE <= offset < _END else 0
