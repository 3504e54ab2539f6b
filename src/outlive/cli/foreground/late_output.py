"""What descendants write after the command has ended: carried on by a small program that stays as long as they hold a pipe.

A shell's background job keeps the pipe to a reader open, and the reader gets what it writes; only the shell does not wait
for it. So do we: `leave_behind` spawns this module with our stdout and stderr, and we end.
"""

import contextlib
import os
import sys

from outlive.cli.far import a_client
from outlive.cli.foreground.delivery import Delivery
from outlive.cli.foreground.exit_status import die_here
from outlive.cli.foreground.signals import ENDING, Signals
from outlive.client import Cursor, OutliveError, Process
from outlive.client.results import Stream

_SETTLES_S = 0.02  # the last processes of a pipeline end one after the other
_LOOK_S = 0.2
_OUTPUTS = frozenset({"stdout", "stderr"})


def leave_behind(process: Process, cursor: Cursor, state_dir: str) -> None:
    """See to it that what comes behind `cursor` reaches our stdout and stderr, if anything still can."""
    with contextlib.suppress(OutliveError, OSError):  # what they write stays in the log
        if process.wait(_SETTLES_S, until="closed").is_closed:
            return
        words = [sys.executable, "-P", "-m", __name__, state_dir, process.process_id, str(cursor)]
        os.posix_spawn(
            sys.executable,
            words,
            os.environ,
            file_actions=[(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)],
            setsigmask=ENDING,  # until it can pass them on
        )


def main(state_dir: str, process_id: str, cursor: Cursor) -> None:
    """Deliver until nothing can come any more, or nobody reads."""
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
    """End as we are told to, and with us what the command has left running: it was told, too, if its caller's group was."""
    if number in ENDING:
        with contextlib.suppress(OutliveError):
            process.signal(number, whole_tree=True)
        die_here(number)


if __name__ == "__main__":
    with contextlib.suppress(OutliveError):
        main(sys.argv[1], sys.argv[2], Cursor.parse(sys.argv[3]))
