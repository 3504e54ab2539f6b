"""A server that comes back by itself: which process serves a state folder, and its end."""

import os
import signal
import socket
from pathlib import Path

from outlive.core.layout import Layout
from outlive.kernel.locks import holder_of
from outlive.kernel.sockets import connect_unix
from tests.keeper.client import until
from tests.support.processes import is_alive


def server_pid(state_dir: Path) -> int:
    """Return the pid of the server that serves a state folder now; 0 for none."""
    return holder_of(Layout(str(state_dir)).server_lock) or 0


def until_back(state_dir: Path, *, after: int) -> int:
    """Return the pid of a server once one listens that is another than `after`."""
    until(
        lambda: server_pid(state_dir) not in {0, after} and _listens(state_dir),
        "another server",
        patience_s=60,
    )
    return server_pid(state_dir)


def _listens(state_dir: Path) -> bool:
    """Tell whether the socket takes connections: a server has its lock a moment earlier."""
    try:
        connect_unix(Layout(str(state_dir)).server_socket, socket.SOCK_STREAM).close()
    except OSError:
        return False
    return True


def stop_server(state_dir: Path) -> None:
    """Stop whichever server serves a state folder, in order, and wait for its end."""
    pid = server_pid(state_dir)
    if pid:
        os.kill(pid, signal.SIGTERM)
        until(lambda: not is_alive(pid), "the end of the server", patience_s=60)
