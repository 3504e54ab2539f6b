"""Signals between our own start and the command's: `EarlySignals` keeps them for it, and gives up when that takes long."""

import os
import threading
from collections.abc import Callable

from outlive.cli.foreground.exit_status import die_here
from outlive.cli.foreground.signals import ENDING, Received, Signals
from outlive.cli.foreground.terminal import OwnTerminal

_PATIENCE_S = 3.0  # a start takes milliseconds, unless the server has to be started or hangs


class EarlySignals:
    """Takes all signals from now on; what comes before `pass_on` is handed over then.

    Somebody who wants to end us meanwhile waits three seconds at most.
    """

    def __init__(self, terminal: OwnTerminal | None) -> None:
        """Take signals; `terminal` is put back before this program dies."""
        self._terminal = terminal
        self._lock = threading.Lock()
        self._waiting: list[Received] = []
        self._heed: Callable[[Received], None] | None = None
        signals = Signals()
        signals.hold()
        signals.begin(self._take)

    def pass_on(self, heed: Callable[[Received], None]) -> None:
        """Hand over what has come, and from now on everything, to `heed`."""
        while True:
            with self._lock:
                if not self._waiting:
                    self._heed = heed
                    return
                received = self._waiting.pop(0)
            heed(received)

    def _take(self, received: Received) -> None:
        with self._lock:
            heed = self._heed
            if heed is None:
                self._waiting.append(received)
        if heed is not None:
            heed(received)
        elif received.number in ENDING:
            timer = threading.Timer(_PATIENCE_S, self._give_up, [received.number])
            timer.daemon = True
            timer.start()

    def _give_up(self, number: int) -> None:
        with self._lock:
            if self._heed is not None:
                return
        if self._terminal is not None:
            self._terminal.restore(for_good=True)
        die_here(number)
        os._exit(128 + number)
