"""Bytes for a command's standard input or terminal (`Inputs`), and descriptors lent to a command
(`PassedStdin`).

`Inputs` writes bytes in order, answers each request when its bytes are written, and bounds what waits.

A caller that starts a command from a terminal or a pipeline can lend its own standard input, and the command
reads it itself: no process in between takes a byte more than the command does. The descriptor is offered here
before the start. It stays unread in its lender's connection until the server asks for that start; for a
process id that the server never announces, nothing is taken. When the lender disconnects before that, its
offer is forgotten.

A second descriptor may be lent with it: a socket whose packets hold the descriptors above 2 that the lender
has inherited (`native/shim/shim_loop.h`, letter D). The keeper passes it on and takes nothing out of it.

The number of waiting offers is bounded: for each process outside of commands, for each command's whole tree,
and for all of either kind. The first offer of each tree always has a place. So a command takes neither the
places of callers outside nor those of another command, however many children it has.
"""

import contextlib
import fcntl
import os
import select
import socket
import termios
from collections.abc import Callable

from outlive.core.values import dataclass
from outlive.keeper.supervisor.loop import Loop
from outlive.keeper.supervisor.managed_process import Answer, ManagedProcess
from outlive.kernel import sockets

_MAX_WAITING_BYTES = 4 << 20  # for one process; what would exceed it is refused
# An input with much waiting gets a larger pipe: one of the usual 64 KiB would wake this process for each
# piece.
_BUSY_BYTES = 256 * 1024
_BUSY_PIPE_BYTES = 1024 * 1024
_END_OF_FILE = b"\x04"  # VEOF (termios(3)): the key that ends the input of a program at a terminal
# A terminal that reads whole lines drops in silence what a line has beyond that (termios(3), canonical mode).
_LONGEST_LINE_BYTES = 4095
_LFLAG, _CC = 3, 6  # places in what tcgetattr returns
_ENDS = (
    termios.VEOF, termios.VEOL, termios.VEOL2, termios.VKILL, termios.VINTR, termios.VQUIT, termios.VSUSP
)  # fmt: skip


@dataclass(eq=False, slots=True)
class Inputs:
    """Writes to the keeper's end "i" (a pipe) or "m" (a terminal) of a process."""

    loop: Loop

    def write(self, process: ManagedProcess, data: bytes, answer: Answer) -> None:
        """Write all of `data` after what waits already; answer when the last byte is in the pipe."""
        if self._letter(process) is None:
            answer({"error": "stdin_closed", "message": "The process has no open standard input."})
            return
        if sum(len(view) for view, _ in process.inputs) + len(data) > _MAX_WAITING_BYTES:
            answer({"error": "stdin_full", "message": "The process does not read its input."})
            return
        if "m" in process.fds and not _fits(process, data):
            text = f"The terminal takes {_LONGEST_LINE_BYTES} bytes of a line now: nothing was written."
            answer({"error": "line_too_long", "message": text})
            return
        process.inputs.append((memoryview(data), answer))
        if len(process.inputs) == 1:
            self._push(process)

    def give(self, process: ManagedProcess, receiver: int, answer: Answer) -> None:
        """Pass the pipe itself to the server, over a Unix socket of the server's: it then writes without
        asking.

        Not while something waits here: that is older than what the server would write, and must come first.
        """
        pipe = process.fds.get("i")
        is_given = False
        if pipe is not None and not process.inputs:
            with contextlib.suppress(OSError), socket.socket(fileno=os.dup(receiver)) as connection:
                is_given = sockets.send(connection, b"i", [pipe])
        answer({"given": is_given})

    def close(self, process: ManagedProcess, answer: Answer) -> None:
        """Close standard input once everything that waits is written; at a terminal, type end-of-file."""
        letter = self._letter(process)
        if letter is None:
            answer({})
        elif letter == "m":
            self.write(process, _END_OF_FILE, answer)
        elif process.inputs:
            # An empty piece at the end of the queue: its answer closes.
            process.inputs.append((memoryview(b""), lambda _reply: self.close(process, answer)))
        else:
            process.close_fd("i")
            # The shim holds a duplicate: the command sees the end only when both are closed.
            if process.shim is not None:
                with contextlib.suppress(OSError):
                    sockets.send(process.shim.socket, b"close i")
            answer({})

    def abandon(self, process: ManagedProcess) -> None:
        """Answer every request that waits: the process has ended."""
        waiting, process.inputs = process.inputs, []
        for _, answer in waiting:
            answer({"error": "stdin_closed", "message": "The process ended before it read its input."})

    @staticmethod
    def _letter(process: ManagedProcess) -> str | None:
        return next((letter for letter in "im" if letter in process.fds), None)

    def _push(self, process: ManagedProcess) -> None:
        letter = self._letter(process)
        while process.inputs and letter is not None:
            view, answer = process.inputs[0]
            fd = process.fds[letter]
            try:
                written = os.write(fd, view) if view else 0
            except BlockingIOError:
                self._wait(process, letter)
                return
            except OSError:  # EPIPE: the read end is closed
                self.abandon(process)
                return
            if written < len(view):
                process.inputs[0] = (view[written:], answer)
                continue
            process.inputs.pop(0)
            answer({})

    def _wait(self, process: ManagedProcess, letter: str) -> None:
        """Continue when there is room.

        A terminal's descriptor is already watched for output, so it is tried again soon.
        """
        if letter == "m":
            self.loop.later(0.005, lambda: self._push(process))
            return
        fd = process.fds[letter]
        if sum(len(view) for view, _ in process.inputs) > _BUSY_BYTES:
            with contextlib.suppress(OSError):  # the user's limit is reached (pipe(7), pipe-user-pages-soft)
                fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, _BUSY_PIPE_BYTES)

        def ready(_events: int) -> None:
            self.loop.unwatch(fd)
            if process.fds.get(letter) == fd:
                self._push(process)

        self.loop.watch(fd, ready, select.EPOLLOUT)


def _fits(process: ManagedProcess, data: bytes) -> bool:
    """Tell whether the terminal takes all of `data`; counts the line that is typed there.

    Keys that erase a character are counted as characters.
    """
    try:
        attributes = termios.tcgetattr(process.fds["m"])
    except termios.error:  # hung up: the write says so
        return True
    if not attributes[_LFLAG] & termios.ICANON:
        process.typed_bytes = 0
        return True
    ends = b"\r" + b"".join(attributes[_CC][place] for place in _ENDS)
    first, *others = data.translate(bytes.maketrans(ends, b"\n" * len(ends))).split(b"\n")
    sizes = [process.typed_bytes + len(first), *map(len, others)]
    if max(sizes) > _LONGEST_LINE_BYTES:
        return False
    process.typed_bytes = sizes[-1]
    return True


MAX_LENT_FDS = 2  # of one offer: a standard input, and the socket with what else was inherited
_MAX_LENT = 256  # outside of commands: there are never more starts on their way at once
_MAX_INSIDE = 64  # inside of all commands together
_MAX_EACH = 16  # for each process outside, and for each tree


@dataclass(eq=False, slots=True, kw_only=True)
class _Offer:
    """What is offered for one start, and what is known of its lender."""

    lender: object
    fetch: Callable[[], list[int]]
    pid: int
    tree: bytes | None


class PassedStdin:
    """Offers by process id, each with its lender."""

    def __init__(self) -> None:
        self._offers: dict[str, _Offer] = {}

    def lend(
        self,
        lender: object,
        process_id: str,
        fetch: Callable[[], list[int]],
        *,
        pid: int,
        tree: bytes | None,
    ) -> bool:
        """Record an offer for the start of a process; False where there is no place for it.

        Args:
            lender: The connection; its end makes us forget the offer.
            process_id: The process that the offer is for. An earlier offer of the same lender for it is
                replaced.
            fetch: Returns the descriptors, which belong to the caller then; none if there are none after all.
            pid: The process that lends.
            tree: The key of our process whose descendant the lender is (`ControlClient.tree`); None outside.
        """
        before = self._offers.get(process_id)
        if before is not None and (before.pid, before.tree) != (pid, tree):
            return False  # another process's offer, which may be the one that the start is meant to get
        others = [one for one in self._offers.values() if one is not before]
        # Callers outside compete only with each other, each process for its own share.
        if tree is None:
            alike = [one for one in others if one.tree is None]
            has_room = len(alike) < _MAX_LENT and sum(one.pid == pid for one in alike) < _MAX_EACH
        else:
            alike = [one for one in others if one.tree is not None]
            of_tree = sum(one.tree == tree for one in alike)
            has_room = not of_tree or (of_tree < _MAX_EACH and len(alike) < _MAX_INSIDE)
        if has_room:
            self._offers[process_id] = _Offer(lender=lender, fetch=fetch, pid=pid, tree=tree)
        return has_room

    def take(self, process_id: str) -> list[int]:
        """Return the descriptors that are lent for a process which the server starts now."""
        offer = self._offers.pop(process_id, None)
        return [] if offer is None else offer.fetch()

    def forget(self, lender: object) -> None:
        """Forget the offers of `lender` that were not taken; their descriptors close with its connection."""
        for process_id in [name for name, one in self._offers.items() if one.lender is lender]:
            del self._offers[process_id]
