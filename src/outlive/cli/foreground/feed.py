"""Our standard input to a command that cannot read it itself: `feed`, a thread.

Such a command runs on another machine, or ran already when we came (`outlive attach`).
"""

import os
import threading

from outlive.cli.output import show_error
from outlive.client import OutliveError, Process

_READ_BYTES = 64 * 1024


def feed(process: Process) -> None:
    """Write what our stdin has to a process, and close its input behind that, in a thread."""
    threading.Thread(target=_feed, args=(process,), name="stdin", daemon=True).start()


def _feed(process: Process) -> None:
    try:
        while data := os.read(0, _READ_BYTES):
            process.write(data)
        process.close_stdin()
    except OutliveError as error:
        if error.code not in {"process_ended", "stdin_closed"}:
            show_error(error)
    except OSError:
        return
