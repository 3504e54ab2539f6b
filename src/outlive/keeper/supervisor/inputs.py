"""Bytes to a command's standard input or terminal: in order, answered when written, bounded.

Descriptors that were lent for the standard input of a command that is about to start: `PassedStdin`.

Whoever starts a command from a terminal or a pipeline hands its own standard input over, and the command reads it
itself: nobody in between takes a byte more than the command does. It is offered here before the start, and stays with its
lender until the server asks for that start: for a process id that the server has not announced so nothing is taken. An offer
is forgotten when whoever made it goes away before that.

How many offers wait is bounded: outside for each process that lends, inside of commands for each command's whole tree, and
for all of both kinds. The first offer of each tree always has its place. So a command takes neither the room of the people
outside, nor that of another command, however many children it has.
"""

import contextlib
import fcntl
import os
import select
import socket
from collections.abc import Callable

from outlive.keeper.common import sockets
from outlive.keeper.supervisor.loop import Loop
from outlive.keeper.supervisor.managed_process import Answer, ManagedProcess

_MAX_WAITING_BYTES = 4 << 20
# An input in full flow gets a larger pipe: one of the usual 64 KiB would wake us for each piece.
_BUSY_BYTES = 256 * 1024
_BUSY_PIPE_BYTES = 1024 * 1024
_END_OF_FILE = b"\x04"  # VEOF: what closes the input of a program at a terminal


class Inputs:
    """Writes to the keeper's end "i" (a pipe) or "m" (a terminal)."""

    def __init__(self, loop: Loop) -> None:
        """Nothing waits yet."""
        self._loop = loop

    def write(self, kept: ManagedProcess, data: bytes, answer: Answer) -> None:
        """Write all of `data` after what waits already; answers when the last byte is in the pipe."""
        if self._letter(kept) is None:
            answer({"error": "stdin_closed", "message": "The process has no open standard input."})
            return
        if sum(len(view) for view, _ in kept.inputs) + len(data) > _MAX_WAITING_BYTES:
            answer({"error": "stdin_full", "message": "The process does not read its input."})
            return
        kept.inputs.append((memoryview(data), answer))
        if len(kept.inputs) == 1:
            self._push(kept)

    def give(self, kept: ManagedProcess, receiver: int, answer: Answer) -> None:
        """Give the server the pipe itself, over a Unix socket of its own: then it need not ask for each piece.

        Not while something waits here, which is older than what the server would write.
        """
        pipe = kept.fds.get("i")
        is_given = False
        if pipe is not None and not kept.inputs:
            with contextlib.suppress(OSError), socket.socket(fileno=os.dup(receiver)) as connection:
                is_given = sockets.send(connection, b"i", [pipe])
        answer({"given": is_given})

    def close(self, kept: ManagedProcess, answer: Answer) -> None:
        """Close standard input after what waits was written; at a terminal, type end-of-file."""
        letter = self._letter(kept)
        if letter is None:
            answer({})
        elif letter == "m":
            self.write(kept, _END_OF_FILE, answer)
        elif kept.inputs:
            kept.inputs.append((memoryview(b""), lambda _reply: self.close(kept, answer)))
        else:
            kept.close_fd("i")
            if kept.shim is not None:
                with contextlib.suppress(OSError):
                    sockets.send(kept.shim.socket, b"close i")
            answer({})

    def abandon(self, kept: ManagedProcess) -> None:
        """Answer what waits: the process has ended."""
        waiting, kept.inputs = kept.inputs, []
        for _, answer in waiting:
            answer({"error": "stdin_closed", "message": "The process ended before it read its input."})

    @staticmethod
    def _letter(kept: ManagedProcess) -> str | None:
        return next((letter for letter in "im" if letter in kept.fds), None)

    def _push(self, kept: ManagedProcess) -> None:
        letter = self._letter(kept)
        while kept.inputs and letter is not None:
            view, answer = kept.inputs[0]
            fd = kept.fds[letter]
            try:
                written = os.write(fd, view) if view else 0
            except BlockingIOError:
                self._wait(kept, letter)
                return
            except OSError:  # EPIPE: nobody reads any more
                self.abandon(kept)
                return
            if written < len(view):
                kept.inputs[0] = (view[written:], answer)
                continue
            kept.inputs.pop(0)
            answer({})

    def _wait(self, kept: ManagedProcess, letter: str) -> None:
        """Go on when there is room; a terminal's descriptor is watched for output already, so look again soon."""
        if letter == "m":
            self._loop.later(0.005, lambda: self._push(kept))
            return
        fd = kept.fds[letter]
        if sum(len(view) for view, _ in kept.inputs) > _BUSY_BYTES:
            with contextlib.suppress(OSError):  # pipe-user-pages-soft (pipe(7)): it stays as it is
                fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, _BUSY_PIPE_BYTES)

        def ready(_events: int) -> None:
            self._loop.unwatch(fd)
            if kept.fds.get(letter) == fd:
                self._push(kept)

        self._loop.watch(fd, ready, select.EPOLLOUT)


_MAX_LENT = 256  # more starts than that are not on their way at once
_MAX_INSIDE = 64
_MAX_EACH = 16  # of a process outside, and of a tree


class _Offer:
    """One descriptor that is to be had, and what is known of its lender."""

    __slots__ = ("fetch", "lender", "pid", "tree")

    def __init__(self, lender: object, fetch: Callable[[], int], *, pid: int, tree: bytes | None) -> None:
        """Keep all four."""
        self.lender = lender
        self.fetch = fetch
        self.pid = pid
        self.tree = tree


class PassedStdin:
    """Offers by process id, each with its lender."""

    def __init__(self) -> None:
        """Begin with none."""
        self._offers: dict[str, _Offer] = {}

    def lend(
        self, lender: object, process_id: str, fetch: Callable[[], int], *, pid: int, tree: bytes | None
    ) -> bool:
        """Note an offer for the start of a process; False where there is no room.

        Args:
            lender: The connection; what it offers is forgotten with it.
            process_id: What it is for. What the same process offered for it before is forgotten.
            fetch: Returns the descriptor, which is its caller's then; -1 where there is none after all.
            pid: The process that lends.
            tree: Of which process of ours it is a descendant (`Client.tree`); None outside.
        """
        before = self._offers.get(process_id)
        if before is not None and (before.pid, before.tree) != (pid, tree):
            return False  # somebody else's, which is waited for
        others = [one for one in self._offers.values() if one is not before]
        if tree is None:
            alike = [one for one in others if one.tree is None]
            has_room = len(alike) < _MAX_LENT and sum(one.pid == pid for one in alike) < _MAX_EACH
        else:
            alike = [one for one in others if one.tree is not None]
            of_tree = sum(one.tree == tree for one in alike)
            has_room = not of_tree or (of_tree < _MAX_EACH and len(alike) < _MAX_INSIDE)
        if has_room:
            self._offers[process_id] = _Offer(lender, fetch, pid=pid, tree=tree)
        return has_room

    def take(self, process_id: str) -> int | None:
        """Return the descriptor that is lent for a process which the server starts; None without one."""
        offer = self._offers.pop(process_id, None)
        fd = -1 if offer is None else offer.fetch()
        return fd if fd >= 0 else None

    def forget(self, lender: object) -> None:
        """Forget what `lender` offered and nobody took: it closes it itself."""
        for process_id in [name for name, one in self._offers.items() if one.lender is lender]:
            del self._offers[process_id]
