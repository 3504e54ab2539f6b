"""A server that a client has started by itself yields to the operator's: `take_over` asks, `HAND_OVER` is what it hears.

Such a server is known by its command line, which has `SELF_STARTED` in it. Nothing is lost: commands are the keeper's, and clients
connect again.
"""

import contextlib
import os
import signal
import time
from collections.abc import Callable

from outlive.core.layout import Layout
from outlive.keeper.common.locks import holder_of, take_lock

SELF_STARTED = "--self-started"
HAND_OVER = signal.SIGUSR1
_PATIENCE_S = 5.0  # an orderly stop takes a tenth of a second; what must survive one that hangs is on disk or the keeper's
_POLL_S = 0.01


def take_over(layout: Layout, *, say: Callable[[str], None]) -> int | None:
    """Return the server's lock once the server that a client has started has left; None when another one holds it."""
    asked: int | None = None
    until = time.monotonic() + _PATIENCE_S
    while True:
        fd = take_lock(layout.server_lock)
        if fd is not None:
            return fd
        pid = holder_of(layout.server_lock)
        if pid is not None and pid != asked:
            if pid and not _is_self_started(pid):
                return None
            if pid:  # 0: it has not written its number yet
                say(f"outlive: the server that a client has started (pid {pid}) hands over")
                _send(layout, pid, HAND_OVER)
                asked, until = pid, time.monotonic() + _PATIENCE_S
        if time.monotonic() > until:
            if asked is None:
                return None
            _send(layout, asked, signal.SIGKILL)
            until = time.monotonic() + _PATIENCE_S
            asked = None
        time.sleep(_POLL_S)


def _is_self_started(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return SELF_STARTED.encode() in file.read().split(b"\0")
    except OSError:
        return True  # it has just gone: the lock is free in a moment


def _send(layout: Layout, pid: int, number: signal.Signals) -> None:
    """Send a signal to the holder of the lock, and to no other process that has got its number."""
    with contextlib.suppress(OSError):
        pidfd = os.pidfd_open(pid)
        try:
            if holder_of(layout.server_lock) == pid:
                signal.pidfd_send_signal(pidfd, number)
        finally:
            os.close(pidfd)
