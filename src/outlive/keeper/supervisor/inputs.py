"""Bytes to a command's standard input or terminal: in order, answered when written, bounded."""

import contextlib
import fcntl
import os
import select
import socket

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
