"""`ServerStarter`: starts the server of the state folder again when it was killed while services are wanted
(decision 195).

The program is this very Python with the package that it belongs to, and its environment is the keeper's:
nothing in the state folder decides what is executed, since a command may write there. The supervisor is told
which process it is (`introduction`): a child of ours would count as living in a command's tree otherwise.
"""

import os
import signal
import sys

from outlive.core.layout import Layout
from outlive.keeper.common.spawn import keeper_environment
from outlive.keeper.common.standard_files import log
from outlive.kernel.locks import holder_of
from outlive.kernel.processes import start_ticks, stat_fields, wake
from outlive.kernel.state_files import is_server_wanted

# Ticks of a second without a server until one is started: a client or an operator may be about to do it, and
# goes first.
_ALONE_TICKS = 2
_FIRST_REST_S, _LONGEST_REST_S = 2.0, 60.0
_SETTLED_S = 60.0  # a server that served so long is started at once after its end
_TERMINAL = 4  # index in `stat_fields`: the controlling terminal, 0 without one
_UMASK = 0o022  # of a server that no person's program has started; ours is for the keeper's own files


class ServerStarter:
    """Looks once a second."""

    def __init__(self, layout: Layout, own: set[int]) -> None:
        self._layout = layout
        self._own = own
        self._pid = 0
        self._alone_ticks = 0
        self._begun_at = self._next_at = 0.0
        self._rest_s = _FIRST_REST_S
        self.introduction = (
            b""  # the packet that names the newest one to a supervisor; empty: none was started
        )

    def tick(self, now: float) -> bool:
        """Start a server if one is due; return whether one was started."""
        if not is_server_wanted(self._layout) or self._is_served():
            self._alone_ticks = 0
            return False
        self._alone_ticks += 1
        if self._alone_ticks < _ALONE_TICKS or now < self._next_at:
            return False
        if now - self._begun_at > _SETTLED_S:
            self._rest_s = _FIRST_REST_S
        self._begun_at = now
        self._next_at = now + self._rest_s
        self._rest_s = min(_LONGEST_REST_S, self._rest_s * 2)
        log("services are wanted and no server runs: starting one")
        try:
            self._start()
        except OSError as error:  # no room for a process, or for its log; this may pass
            log(f"no server can be started now: {error.strerror}")
            return False
        return True

    def wake(self) -> None:
        """Continue the server if a command has stopped it; one at a terminal was stopped by its user
        (Ctrl-Z).
        """
        holder = holder_of(self._layout.server_lock)
        if holder and (fields := stat_fields(holder)) and fields[_TERMINAL] == b"0":
            wake(holder)

    def _is_served(self) -> bool:
        """Return whether a server serves, or the one that was started here has not ended yet: it may still be
        about to.
        """
        is_starting = self._pid != 0 and self._pid in self._own
        return is_starting or holder_of(self._layout.server_lock) is not None

    def _start(self) -> None:
        root = self._layout.root
        # As `discovery.server` starts one for a client; `-P` keeps the working folder out of the module path.
        argv = [sys.executable, "-P", "-m", "outlive", "serve", "--self-started", "--state-dir", root]
        output = os.open(
            self._layout.server_log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600
        )
        umask = os.umask(_UMASK)
        try:
            pid = os.posix_spawn(
                argv[0],
                argv,
                keeper_environment(),
                file_actions=[(os.POSIX_SPAWN_DUP2, output, 1), (os.POSIX_SPAWN_DUP2, output, 2)],
                setsid=True,
                setsigmask=(),
                # Ignored here, and a server's commands would inherit that.
                setsigdef=(signal.SIGINT, signal.SIGHUP, signal.SIGPIPE),
            )
        finally:
            os.umask(umask)
            os.close(output)
        self._pid = pid
        self._own.add(pid)
        self.introduction = b"server %d %d" % (pid, start_ticks(pid))
