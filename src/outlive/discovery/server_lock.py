"""One server at a time for a state folder: `ServerLock`, and how a server that a client has started yields to
the operator's.

Such a server is recognized by `SELF_STARTED` in its command line; it is sent the signal `HAND_OVER`. Nothing
is lost: the keeper holds the commands, and clients connect again (decision 141).

The lock itself belongs to `kernel.locks`, the marks in the folder to `ownership`.
"""

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from outlive.core.errors import BackendUnavailable, ConfigInvalid, OutliveError
from outlive.core.layout import Layout
from outlive.discovery.ownership import Ownership
from outlive.discovery.server import SELF_STARTED
from outlive.discovery.state_folder import unusable
from outlive.kernel.disk import Reserve
from outlive.kernel.locks import holder_of, note_failure, take_lock
from outlive.kernel.processes import command_line, stat_fields

HAND_OVER = signal.SIGUSR1
# An orderly stop takes a tenth of a second. After 5 s the server hangs and is killed: everything that must
# survive that lies on disk or with the keeper.
_HAND_OVER_S = 5.0
_STOP_S = 10.0  # twice as long: it is not killed unless that was asked for
_POLL_S = 0.01


class ServerLock:
    """The exclusive right to serve a state folder.

    Held until `__exit__` or the process's end, of any kind.
    """

    def __init__(self, layout: Layout, *, say: Callable[[str], None] | None = None) -> None:
        """Name the folder; nothing is locked yet.

        With `say` a server that a client has started must yield, as it reports.
        """
        self._layout = layout
        self._say = say
        self._fd = -1

    def __enter__(self) -> Self:
        """Take the lock and write this process's pid into it.

        Raises:
            ConfigInvalid: `server_running`; the message names the other server's pid.
        """
        try:
            fd = Reserve(self._layout.root).fit(lambda: take_lock(self._layout.server_lock))
            if fd is None and self._say is not None:
                fd = take_over(self._layout, say=self._say)
        except OSError as error:
            raise unusable(self._layout.root, f"its lock cannot be opened ({error.strerror})") from error
        if fd is None:
            pid = holder_of(self._layout.server_lock)
            raise ConfigInvalid(
                "server_running",
                f"Another outlive server (pid {pid or 'unknown'}) already serves {self._layout.root}.",
                hint="Stop that one first, or serve another folder: --state-dir FOLDER.",
                details={"pid": pid},
            )
        self._fd = fd
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Release the lock for the next server; what let this one not serve stays written there."""
        if isinstance(error, OutliveError):
            note_failure(self._fd, error.message)
        os.close(self._fd)


def stop_server(layout: Layout, *, kill: bool) -> int | None:
    """End the server of a state folder on purpose; return its pid, None where none runs.

    What is being started meanwhile by a client or the guardian ends as well: it finds the mark of the stop
    once it has the lock. A server that is started later is not this one's business.

    Args:
        layout: The folder.
        kill: End a server that hangs, too.

    Raises:
        ConfigInvalid: `server_running`: it belongs to a unit of systemd.
        BackendUnavailable: `timeout`: it does not end, and `kill` was not asked for.
    """
    ownership = Ownership(layout)
    pid = holder_of(layout.server_lock)
    if pid is not None and (service := ownership.service()) is not None:
        text = f"The server of {layout.root} (pid {pid}) belongs to the unit {service.unit}."
        raise ConfigInvalid("server_running", text, hint=f"Stop that: `{service.stop}`.")
    # Before it is looked for: a server that is starting looks for the mark once it has the lock.
    if os.path.isdir(layout.root):
        ownership.note_stop()
    until = time.monotonic() + _STOP_S
    while (pid := holder_of(layout.server_lock)) == 0 and time.monotonic() < until:
        time.sleep(_POLL_S)  # it has the lock, and has not written its pid yet
    if not pid:
        return None
    with contextlib.suppress(ProcessLookupError):
        pidfd = os.pidfd_open(pid)
        try:
            _end(layout, pid, pidfd, kill=kill)
        finally:
            os.close(pidfd)
    return pid


def _end(layout: Layout, pid: int, pidfd: int, *, kill: bool) -> None:
    """Ask the holder of the lock to end, and wait; with `kill` it is killed in the end."""
    if holder_of(layout.server_lock) != pid:  # the pidfd may be another process's
        return
    signal.pidfd_send_signal(pidfd, signal.SIGTERM)
    if _has_gone(pidfd, _HAND_OVER_S if kill else _STOP_S):
        return
    if kill:
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        if _has_gone(pidfd, _STOP_S):
            return
    is_halted = stat_fields(pid)[:1] == [b"T"]
    words = "is stopped by a signal (SIGSTOP)" if is_halted else "was asked to end"
    text = f"The server of {layout.root} (pid {pid}) {words}, and lives after {_STOP_S:.0f} s."
    hint = f"`kill -CONT {pid}` lets it go on, and end. " if is_halted else ""
    raise BackendUnavailable("timeout", text, hint=f"{hint}--kill kills it; what runs lives on.")


def _has_gone(pidfd: int, patience_s: float) -> bool:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(patience_s * 1000))


def take_over(layout: Layout, *, say: Callable[[str], None]) -> int | None:
    """Return the server's lock, after a server that a client has started has yielded; None when an operator's
    server holds it.
    """
    asked: int | None = None  # the pid of the server that was asked to yield
    until = time.monotonic() + _HAND_OVER_S
    while True:
        fd = take_lock(layout.server_lock)
        if fd is not None:
            return fd
        pid = holder_of(layout.server_lock)
        if pid is not None and pid != asked:
            if pid and not _is_self_started(pid):
                return None
            if pid:  # 0: the holder has not written its pid yet
                say(f"outlive: the server that a client has started (pid {pid}) hands over")
                _send(layout, pid, HAND_OVER)
                asked, until = pid, time.monotonic() + _HAND_OVER_S
        if time.monotonic() > until:
            if asked is None:
                return None
            _send(layout, asked, signal.SIGKILL)
            until = time.monotonic() + _HAND_OVER_S
            asked = None
        time.sleep(_POLL_S)


def _is_self_started(pid: int) -> bool:
    words = command_line(pid)
    return not words or SELF_STARTED in words  # none: it has just ended, the lock is free in a moment


def _send(layout: Layout, pid: int, number: signal.Signals) -> None:
    """Send a signal to the holder of the lock, and to no process that has inherited its pid."""
    with contextlib.suppress(OSError):
        pidfd = os.pidfd_open(pid)
        try:
            # Asked again once the pidfd is open: if this process still holds the lock, the pidfd is its own.
            if holder_of(layout.server_lock) == pid:
                signal.pidfd_send_signal(pidfd, number)
        finally:
            os.close(pidfd)
