"""Starting the keeper when nobody listens: for the server and the command line."""

import contextlib
import subprocess
import time

from outlive.core.errors import BackendUnavailable
from outlive.core.layout import Layout
from outlive.keeper.sockets import connect_unix
from outlive.keeper.spawn import keeper_argv, keeper_environment

__all__ = ["ensure_keeper"]


def ensure_keeper(state_dir: str, *, deadline_s: float = 8.0) -> None:
    """Return when a supervisor listens on the state folder's socket, starting the keeper if nobody does.

    Blocking (about 40 ms for a start). Safe to call by several processes at once: locks let one win.

    Raises:
        BackendUnavailable: `keeper_unavailable`, nobody listened in time.
    """
    layout = Layout(state_dir)
    until = time.monotonic() + deadline_s
    launched_at = 0.0
    while True:
        with contextlib.suppress(FileNotFoundError, ConnectionRefusedError, BlockingIOError):
            connect_unix(layout.keeper_socket).close()
            return
        now = time.monotonic()
        if now > until:
            raise BackendUnavailable(
                "keeper_unavailable",
                f"The keeper did not start within {deadline_s:.0f} s.",
                hint=f"See {layout.keeper_log} and `outlive doctor`.",
            )
        if now - launched_at > 2.0:
            launched_at = now
            _launch(state_dir)
        time.sleep(0.002)


def _launch(state_dir: str) -> None:
    subprocess.run(
        keeper_argv("guardian", state_dir, "--first"),
        env=keeper_environment("guardian"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        cwd="/",
        check=False,
        timeout=10,
    )
