"""Finding the server of a state folder, and starting it when there is none: `Server`.

The program that starts a server is not its parent: the server gets a POSIX session of its own, outside that
program's process tree. Hosts of MCP servers end both the process group and the tree of what they have
started, and the server has to outlive them.

Whether a server may be started is recorded by `ownership`; the folder itself belongs to `state_folder`.
"""

import os
import select
import socket
import sys
import threading
import time
from collections.abc import Callable

from outlive.core.errors import BackendUnavailable, ConfigInvalid
from outlive.core.layout import Layout
from outlive.kernel.locks import failure_of, holder_of
from outlive.kernel.processes import python_words
from outlive.kernel.sockets import connect_unix

SELF_STARTED = "--self-started"  # in the command line of a server that a client has started
_START_S = 20.0  # ten times as long as a start takes on a busy machine
_RETURN_S = 1.0  # a server that has just gone may be restarted by its operator: nothing is started before
_SERVICE_S = 10.0  # ten times as long as systemd needs to start a server that died
_POLL_S = 0.01
_LOG_BYTES = 1024 * 1024
_ALIVE_FD = 3
# Descriptor 3 is the pipe that shows the server's end. All others that the host has left open are closed, so
# that the server keeps none of the host's pipes open; then the fork lets the starting program's tree end.
_DETACH = (
    "import os, sys\nos.closerange(4, 65536)\nif os.fork(): os._exit(0)\nos.execv(sys.argv[1], sys.argv[1:])"
)


class Server:
    """The server of one state folder, seen from outside. Safe to use from any thread."""

    def __init__(self, layout: Layout, *, say: Callable[[str], None]) -> None:
        """Take the state folder, which exists; `say` gets a line for people when a server is started."""
        self._layout = layout
        self._say = say
        self._starting = threading.Lock()
        self._was_there = self._has_started = False

    @property
    def root(self) -> str:
        """The state folder."""
        return self._layout.root

    def connect(
        self, *, is_abandoned: Callable[[], bool] = lambda: False, after_stop: bool = False
    ) -> socket.socket:
        """Return a blocking connection to the server; start it if none listens (then within 20 s).

        Args:
            is_abandoned: Called again and again while this waits; True ends the waiting (a started server
                goes on starting).
            after_stop: Start it also when the server that this was connected to was stopped on purpose.

        Raises:
            ConfigInvalid: The server that was started ended at once, for the reason in the message.
            BackendUnavailable: `timeout`: no server listened in time, or the caller has given up.
            `server_unavailable`: the server was stopped on purpose under this caller, or while one was
                started, or a systemd unit owns it and it did not come back within 10 s.
        """
        connection = self.dial()
        if connection is None:
            with self._starting:
                connection = self._start(is_abandoned, after_stop=after_stop)
        return connection

    def dial(self) -> socket.socket | None:
        """Return a blocking connection, None when no server listens now; never waits."""
        try:
            connection = connect_unix(self._layout.server_socket, socket.SOCK_STREAM)
        except (FileNotFoundError, ConnectionRefusedError, BlockingIOError):
            return None
        connection.settimeout(None)  # no deadline here: hosts set their own, and cancel
        self._was_there = True
        return connection

    def _start(self, is_abandoned: Callable[[], bool], *, after_stop: bool) -> socket.socket:
        """Start a server unless its lock is held, a unit owns it or it was stopped under this caller.

        Wait until one listens.
        """
        # Start-up time: most callers find a server that listens, and need no marks.
        from outlive.discovery.ownership import Ownership  # noqa: PLC0415

        ownership = Ownership(self._layout)
        # What was connected when the server was stopped brings none back. A new call does: it came later.
        brings_none = self._was_there and not after_stop
        begun = time.monotonic()
        waits_until = begun + (_RETURN_S if self._was_there else 0.0)
        alive: int | None = None  # a descriptor that becomes readable when the server started here ends
        try:
            while (connection := self.dial()) is None:
                now = time.monotonic()
                is_served = holder_of(self._layout.server_lock) is not None
                if now > begun + _START_S or is_abandoned():
                    raise BackendUnavailable(
                        "timeout",
                        f"The server of {self._layout.root} did not answer within {now - begun:.1f} s.",
                        hint=f"See {self._layout.server_log} and `outlive doctor`.",
                    )
                # A held lock means that a server is starting or stopping: then only waiting helps.
                if alive is None and not is_served and (service := ownership.service()) is not None:
                    if now > begun + _SERVICE_S:
                        raise self._owned(service.unit, service.start)
                elif alive is None and not is_served and brings_none and ownership.is_stopped:
                    raise self._stopped()
                elif alive is None and now >= waits_until and not is_served:
                    locks = (self._layout.supervisor_lock, self._layout.server_lock)
                    if self._has_started and any(map(failure_of, locks)):
                        raise self._refusal()  # the one before listened, and ended without serving
                    self._say(f"outlive: starting the server of {self._layout.root}")
                    self._has_started = True
                    # A stop that comes from now on is one of the server that is being started.
                    ownership.forget_stop()
                    alive = _launch(self._layout)
                elif alive is not None and not is_served and _has_ended(alive):
                    raise self._stopped() if ownership.is_stopped else self._refusal()
                time.sleep(_POLL_S)
        finally:
            if alive is not None:
                os.close(alive)
        return connection

    def _owned(self, unit: str, start: str) -> BackendUnavailable:
        return BackendUnavailable(
            "server_unavailable",
            f"The server of {self._layout.root} belongs to the unit {unit}, which does not run.",
            hint=f"Start it: {start}",
        )

    def _stopped(self) -> BackendUnavailable:
        return BackendUnavailable(
            "server_unavailable",
            f"The server of {self._layout.root} was stopped on purpose, and this starts none.",
            hint="`outlive serve` starts it, and so does the next call of outlive; what runs lives on.",
        )

    def _refusal(self) -> ConfigInvalid:
        with open(self._layout.server_log, "rb") as log:
            log.seek(max(0, os.fstat(log.fileno()).st_size - 2000))
            words = [line for line in log.read().decode(errors="replace").splitlines() if line.strip()]
        return ConfigInvalid(
            "config_invalid",
            "The server does not start: " + " ".join(line.strip() for line in words[-2:]),
            hint=f"`outlive serve --state-dir {self._layout.root}` says more.",
        )


def _launch(layout: Layout) -> int:
    """Start `outlive serve`, detached; return a descriptor that becomes readable when it ends.

    The server inherits the writing end of a pipe. When it ends in any way, the kernel closes that end, and
    the reading end shows it.
    """
    python = sys.executable
    serve = [*python_words(), "-m", "outlive", "serve", SELF_STARTED, "--state-dir", layout.root]
    alive, held = os.pipe()
    log = _open_log(layout.server_log)
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, log, 1),
        (os.POSIX_SPAWN_DUP2, log, 2),
        (os.POSIX_SPAWN_DUP2, held, _ALIVE_FD),
    ]
    try:
        pid = os.posix_spawn(
            python,
            [python, "-I", "-S", "-c", _DETACH, *serve],
            os.environ,
            file_actions=actions,
            setsid=True,
            setsigmask=(),
        )
        os.waitpid(pid, 0)
    except BaseException:
        os.close(alive)
        raise
    finally:
        os.close(held)
        os.close(log)
    return alive


def _open_log(path: str) -> int:
    """Return a descriptor that appends to the log.

    A log above 1 MiB is renamed first, replacing the older one.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    fd = os.open(path, flags, 0o600)
    if os.fstat(fd).st_size > _LOG_BYTES:
        os.rename(path, path + ".old")
        os.close(fd)
        fd = os.open(path, flags, 0o600)
    return fd


def _has_ended(alive: int) -> bool:
    return bool(select.select([alive], [], [], 0)[0])
