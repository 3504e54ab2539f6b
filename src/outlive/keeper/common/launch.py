"""Starting the keeper when no supervisor listens (`ensure_keeper`), and asking one for its status (`ask_status`).

For the server and the command line; neither function needs a lasting connection to the supervisor.

Where `outlive keeper run` looks after the keeper (in a systemd unit, for instance), starting it is left to that program: a
keeper that a server launches is in the server's control group, and would end with it.
"""

import contextlib
import math
import os
import select
import subprocess
import time
from collections.abc import Callable

from outlive.core.errors import BackendUnavailable
from outlive.core.layout import Layout
from outlive.keeper.common import sockets
from outlive.keeper.common.disk import look_at
from outlive.keeper.common.folder_identity import claim_folder
from outlive.keeper.common.locks import holder_of
from outlive.keeper.common.sockets import connect_unix
from outlive.keeper.common.spawn import EXTERNAL_VARIABLE, SHIM_VARIABLE, keeper_argv, keeper_environment
from outlive.protocols.keeper import decode_message, encode_message

_HOST_PATIENCE_S = 3.0  # one that hangs or is being started again must not keep commands from running


def ensure_keeper(
    state_dir: str, *, deadline_s: float = 8.0, find_shim: Callable[[], str | None] | None = None
) -> None:
    """Return when a supervisor listens on the state folder's socket; start the keeper if none does.

    Blocking (about 40 ms for a start). Several processes may call it at once: locks let one of them win. `find_shim` returns
    the path of the shim program; a keeper without one forks its shims.

    Raises:
        BackendUnavailable: `keeper_unavailable`, no supervisor listened in time.
    """
    layout = Layout(state_dir)
    begun = time.monotonic()
    until = begun + deadline_s
    launches_at = begun + _patience_s(layout)
    with contextlib.suppress(OSError):  # the process that takes the folder reports the error
        claim_folder(layout)  # before connecting: in a copy made of hard links the socket is the original's
    while True:
        with contextlib.suppress(FileNotFoundError, ConnectionRefusedError, BlockingIOError):
            connect_unix(layout.keeper_socket).close()
            return
        now = time.monotonic()
        if now > until:
            raise BackendUnavailable(
                "keeper_unavailable",
                f"The keeper did not start within {deadline_s:.0f} s.",
                hint=f"See {layout.keeper_log} and `outlive doctor`."
                if math.isfinite(launches_at)
                else "It has a unit of its own: `systemctl start outlive-keeper` (--user for a user's).",
            )
        if now >= launches_at and look_at(state_dir) == "read_only":
            raise BackendUnavailable(
                "keeper_unavailable",
                f"The keeper cannot be started: the file system of {state_dir} is read-only.",
                hint="Make it writable again (mount -o remount,rw); what runs goes on meanwhile.",
            )
        # A guardian needs some 40 ms; after two seconds the launch has failed, and is repeated.
        if now >= launches_at:
            launches_at = now + 2.0
            _launch(state_dir, find_shim)
        time.sleep(0.002)


def _patience_s(layout: Layout) -> float:
    """Return how long to wait for the program that looks after the keeper before launching it from here."""
    host = holder_of(layout.keeper_lock)
    if host == os.getpid():
        return 0.0
    if os.environ.get(EXTERNAL_VARIABLE):
        return math.inf
    return 0.0 if host is None else _HOST_PATIENCE_S


def _launch(state_dir: str, find_shim: Callable[[], str | None] | None) -> None:
    env = keeper_environment("guardian")
    if SHIM_VARIABLE not in env and find_shim is not None and (path := find_shim()) is not None:
        env[SHIM_VARIABLE] = path  # a path that the user has set takes precedence
    subprocess.run(
        keeper_argv("guardian", state_dir, "--first"),
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        cwd="/",
        check=False,
        timeout=10,
    )


def ask_status(layout: Layout, *, within_s: float, with_commands: bool = False) -> dict[str, object] | None:
    """Return the answer of `Lifecycle.status`, None where no answer comes in time, or a refusal. Blocks.

    Args:
        layout: The state folder of the supervisor.
        within_s: How long to wait for the answer.
        with_commands: Ask for `commands`, too, which a supervisor of an earlier version does not report.

    Raises:
        OSError: No supervisor listens, or its backlog is full.
    """
    with sockets.connect_unix(layout.keeper_socket) as link:
        poll = select.poll()
        poll.register(link, select.POLLIN)
        with contextlib.suppress(OSError, ValueError):  # the supervisor ends just now
            sockets.send(link, encode_message({"op": "status", "req": 1, "commands": with_commands}))
            if poll.poll(within_s * 1000) and (packet := sockets.receive(link)) is not None and packet[0]:
                reply, _ = decode_message(packet[0])
                return reply if reply.get("ok") else None
    return None
