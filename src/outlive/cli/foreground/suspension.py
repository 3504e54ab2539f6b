"""Ctrl-Z: the command's tree is paused, our terminal put back, we stop; `fg` or `bg` undo all that."""

import contextlib
import threading

from outlive.cli.foreground.inner_terminal import ignores_stop
from outlive.cli.foreground.signals import stop_here
from outlive.cli.foreground.terminal import OwnTerminal
from outlive.client import OutliveError, Process


class Suspension:
    """Stops us together with the command. Any thread may ask for it; one stops, the others return at once."""

    def __init__(self, process: Process, terminal: OwnTerminal | None, *, is_elsewhere: bool = False) -> None:
        """Suspend `process`; `terminal` is ours, if it may be raw. On another machine nobody sees what it ignores."""
        self._is_elsewhere = is_elsewhere
        self._process = process
        self._terminal = terminal
        self._turn = threading.Lock()

    def suspend(self, *, whole_group: bool) -> None:
        """Stop, and return when we go on; a command that ignores SIGTSTP goes on, and so do we."""
        pid = self._process.pid
        is_deaf = pid is None or (not self._is_elsewhere and ignores_stop(pid))
        if is_deaf or not self._turn.acquire(blocking=False):
            return
        try:
            with contextlib.suppress(
                OutliveError
            ):  # it has ended: then there is nothing to pause, and we end, too
                self._process.pause()
            was_raw = self._terminal is not None and self._terminal.is_raw
            if self._terminal is not None:
                self._terminal.restore()
            stop_here(whole_group=whole_group)
            if self._terminal is not None and was_raw and self._terminal.is_ours:
                self._terminal.make_raw()
            with contextlib.suppress(OutliveError):
                self._process.resume()
        finally:
            self._turn.release()
