"""The command's output to our own: in order, as fast as it is read, and what was delivered is let go of.

What descendants write after the command has ended: carried on by a small program that stays as long as they
hold a pipe.

A shell's background job keeps the pipe to a reader open, and the reader gets what it writes; only the shell
does not wait for it. So do we: `leave_behind` spawns this module with our stdout and stderr, and we end.
"""

import contextlib
import errno
import os
import sys
import threading
from collections import deque
from collections.abc import Callable

from outlive.cli.far import a_client
from outlive.cli.foreground.signals import ENDING, Signals, die_here
from outlive.cli.foreground.terminal import Screen
from outlive.cli.output import deliver, say, tell_hidden
from outlive.client import BEGINNING, Cursor, Gap, OutliveError, Output, Process
from outlive.client.results import Stream
from outlive.core.identity import short_name
from outlive.core.layout import Layout
from outlive.kernel.processes import python_words

# The log of a command in the foreground: at least the last 24 MiB stay for `outlive logs`, and while the
# reader of our output is slow, 32 MiB more wait on the disk before the command does.
LOG_BYTES = 64 << 20
_KEPT_STEPS = 3
_STEP_BYTES = 8 << 20
_DESCRIPTORS = {"stdout": 1, "stderr": 2}
_FULL_TERMINAL_S = 1.0  # Ctrl-S, or a window that hangs
_GONE = frozenset({errno.EPIPE, errno.EIO, errno.EBADF})


class Delivery:
    """Writes items of a follow to stdout and stderr; `take` is for one thread.

    What is written to one whose reader has left is dropped, once `gone` was called. Of a terminal it is kept
    which modes the command has switched on: `leave_terminal` switches them off.
    """

    def __init__(self, process: Process, *, releases: bool, gone: Callable[[Stream], None]) -> None:
        """Deliver the output of `process`.

        Args:
            process: Whose.
            releases: Whether delivered output is released from the log.
            gone: Called once for each stream that has lost its reader.
        """
        self._process = process
        self._releases = releases
        self._gone = gone
        self.has_failed = False  # for another reason than a reader that has left: said already
        self._closed: set[str] = set()
        self._delivered = self._redacted = 0
        self._steps: deque[Cursor] = deque()
        self._lock = threading.Lock()
        self._terminals = {number for number in _DESCRIPTORS.values() if os.isatty(number)}
        if self._terminals:
            from outlive.protocols.terminal.carried_modes import CarriedModes  # noqa: PLC0415 - start-up time

            self._modes = CarriedModes()

    def take(self, item: Output | Gap, screen: Screen | None = None) -> None:
        """Write one item out, through `screen` if there is one; waits for a slow reader."""
        if isinstance(item, Gap):
            say(f"outlive: {item.end - item.start} bytes of {item.stream} are not kept any more")
            return
        if item.stream not in self._closed and not self._pass(item, screen):
            self._closed.add(item.stream)
            with contextlib.suppress(OutliveError):  # it has ended meanwhile
                self._gone(item.stream)
        if self._releases:
            self._release(len(item.data), item.cursor)
        self._redacted += item.redacted

    def tell_hidden(self) -> None:
        """Tell a person how many secrets are stars in what was written; to be called at the end."""
        tell_hidden(self._redacted, by=f"`outlive logs --raw {short_name(self._process.process_id)}`")

    def show(self, data: bytes) -> bool:
        """Write to our stdout; False when its reader has left."""
        return self._write(1, data)

    def leave_terminal(self) -> None:
        """Switch off on our terminal what the command has switched on, and write nothing more.

        For any thread, once; a terminal that takes nothing for a second keeps what it has.
        """
        if self._terminals and self._lock.acquire(timeout=_FULL_TERMINAL_S):
            with contextlib.suppress(OSError):
                deliver(min(self._terminals), self._modes.undo())

    def unbind(self) -> None:
        """Let the command go on without a reader."""
        if self._releases:
            with contextlib.suppress(OutliveError):
                self._process.release(BEGINNING, unbound=True)

    def _pass(self, item: Output, screen: Screen | None) -> bool:
        return self._write(_DESCRIPTORS[item.stream], item.data) if screen is None else screen.take(item.data)

    def _write(self, descriptor: int, data: bytes) -> bool:
        """Write all of it; False when its reader has left, or it cannot be written any more.

        Raises:
            CannotPrint: It cannot be written, and the command is not ours to tell.
        """
        try:
            if descriptor in self._terminals:
                with self._lock:
                    self._modes.take(data)
                    deliver(descriptor, data)
            else:
                deliver(descriptor, data)
        except OSError as error:
            if error.errno not in _GONE:
                if not self._releases:
                    raise
                self.has_failed = True
                say(f"outlive: output cannot be written: {error.strerror}")
            return False
        return True

    def _release(self, size: int, cursor: Cursor) -> None:
        before = self._delivered // _STEP_BYTES
        self._delivered += size
        if self._delivered // _STEP_BYTES == before:
            return
        self._steps.append(cursor)
        if len(self._steps) > _KEPT_STEPS:
            with contextlib.suppress(OutliveError):  # the next step tries again
                self._process.release(self._steps.popleft())


_SETTLES_S = 0.02  # the last processes of a pipeline end one after the other
_LOOK_S = 0.2
_OUTPUTS = frozenset({"stdout", "stderr"})


def leave_behind(process: Process, cursor: Cursor, state_dir: str, delivery: Delivery) -> None:
    """See to it that what comes behind `cursor` reaches our stdout and stderr, if anything still can."""
    with contextlib.suppress(OutliveError, OSError):  # what they write stays in the log
        found = process.wait(_SETTLES_S, until="closed")
        if found.is_closed:
            if found.cursor != cursor:  # they have written in between
                with process.follow(cursor, raw=None) as items:
                    for item in items:
                        delivery.take(item)
            return
        words = [*python_words(), "-m", __name__, state_dir, process.process_id, str(cursor)]
        os.posix_spawn(
            sys.executable,
            words,
            os.environ,
            file_actions=[(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)],
            setsigmask=ENDING,  # until it can pass them on
        )


def main(state_dir: str, process_id: str, cursor: Cursor) -> None:
    """Deliver until nothing can come any more, or no reader is left."""
    from outlive.discovery.ownership import Ownership  # noqa: PLC0415 - of no use to `run` itself

    if Ownership(Layout(state_dir)).is_stopped:
        return  # on purpose: a new client would bring the server back
    read: set[str] = set(_OUTPUTS)
    signals = Signals()
    signals.hold()
    with a_client(state_dir, no_start=False) as client:
        process = client.get(process_id)
        signals.begin(lambda received: _pass_on(process, received.number))

        def gone(stream: Stream) -> None:
            read.discard(stream)
            process.close_output(stream)

        delivery = Delivery(process, releases=True, gone=gone)
        is_closed = False
        while read:
            page = process.read(cursor, raw=None)
            for item in page.items:
                delivery.take(item)
            cursor = page.cursor
            if not page.items:
                if is_closed:
                    break
                is_closed = process.wait(_LOOK_S, until="closed").is_closed
        delivery.tell_hidden()


def _pass_on(process: Process, number: int) -> None:
    """End as the signal demands, and with us what the command has left running: it got the signal, too, if
    its caller's group was.
    """
    if number in ENDING:
        with contextlib.suppress(OutliveError):
            process.signal(number, whole_tree=True)
        die_here(number)


if __name__ == "__main__":
    with contextlib.suppress(OutliveError):
        main(sys.argv[1], sys.argv[2], Cursor.parse(sys.argv[3]))
