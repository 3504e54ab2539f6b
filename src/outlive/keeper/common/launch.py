"""Starting the keeper when no supervisor listens (`ensure_keeper`), and asking one for its status
(`ask_status`).

For the server and the command line; neither function needs a lasting connection to the supervisor.

Where `outlive keeper run` looks after the keeper (in a systemd unit, for instance), starting it is left to
that program: a keeper that a server launches is in the server's control group, and would end with it.
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
from outlive.keeper.common.program import open_program
from outlive.keeper.common.spawn import EXTERNAL_VARIABLE, PROGRAM_FLAG, keeper_argv, keeper_environment
from outlive.kernel import sockets
from outlive.kernel.disk import look_at
from outlive.kernel.folder_identity import claim_folder
from outlive.kernel.locks import failure_of, holder_of
from outlive.kernel.processes import wake
from outlive.kernel.sockets import connect_unix
from outlive.protocols.keeper import CANNOT_START, decode_message, encode_message

_FAILED_S = 5.0  # without a supervisor after one that could not start: longer than until the second one
_HOST_PATIENCE_S = 3.0  # one that hangs or is being started again must not keep commands from running


def ensure_keeper(state_dir: str, *, deadline_s: float = 8.0, find_program: Callable[[], str]) -> None:
    """Return when a supervisor listens on the state folder's socket; start the keeper if none does.

    Blocking (about 40 ms for a start). Several processes may call it at once: locks let one of them win.
    `find_program` returns the path of the program that shims are; it may take its time, and is called only
    where a keeper has to be started.

    Raises:
        BackendUnavailable: `keeper_unavailable`, the program is of no use, no supervisor listened in time, or
        two have ended at their start (with `CANNOT_START`).
    """
    layout = Layout(state_dir)
    begun = time.monotonic()
    until = begun + deadline_s
    launches_at = begun + _patience_s(layout)
    failures: set[tuple[str, str]] = set()  # of supervisors; one may have had bad luck
    with contextlib.suppress(OSError):  # the process that takes the folder reports the error
        claim_folder(layout)  # before connecting: in a copy made of hard links the socket is the original's
    while True:
        with contextlib.suppress(FileNotFoundError, ConnectionRefusedError, BlockingIOError):
            connect_unix(layout.keeper_socket).close()
            return
        now = time.monotonic()
        if (failure := failure_of(layout.supervisor_lock)) is not None:
            failures.add(failure)
            if len(failures) > 1 or now > begun + _FAILED_S:
                raise BackendUnavailable(
                    "keeper_unavailable",
                    f"The keeper cannot start: {failure[1]}.",
                    hint=f"See {layout.keeper_log} and `outlive doctor`.",
                    details={"reason": CANNOT_START},
                )
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
            program = open_program(layout, find_program)
            until += time.monotonic() - now  # it may have been compiled
            launches_at = time.monotonic() + 2.0
            if guardian := holder_of(layout.guardian_lock):
                wake(guardian)  # it has to start its supervisor, and no other one can begin
            try:
                _launch(state_dir, program)
            finally:
                os.close(program)
        time.sleep(0.002)


def _patience_s(layout: Layout) -> float:
    """Return how long to wait for the program that looks after the keeper before launching it from here."""
    host = holder_of(layout.keeper_lock)
    if host == os.getpid():
        return 0.0
    if os.environ.get(EXTERNAL_VARIABLE):
        return math.inf
    return 0.0 if host is None else _HOST_PATIENCE_S


def _launch(state_dir: str, program: int) -> None:
    subprocess.run(
        keeper_argv("guardian", state_dir, "--first", f"{PROGRAM_FLAG}{program}"),
        env=keeper_environment(),
        pass_fds=(program,),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        cwd="/",
        check=False,
        timeout=10,
    )


def ask_status(layout: Layout, *, within_s: float) -> dict[str, object] | None:
    """Return the answer of `Lifecycle.status`, None where no answer comes in time, or a refusal. Blocks.

    Args:
        layout: The state folder of the supervisor.
        within_s: How long to wait for the answer.

    Raises:
        OSError: No supervisor listens, or its backlog is full.
    """
    with sockets.connect_unix(layout.keeper_socket) as link:
        poll = select.poll()
        poll.register(link, select.POLLIN)
        with contextlib.suppress(OSError, ValueError):  # the supervisor ends just now
            sockets.send(link, encode_message({"op": "status", "req": 1}))
            if poll.poll(within_s * 1000) and (packet := sockets.receive(link)) is not None and packet[0]:
                reply, _ = decode_message(packet[0])
                return reply if reply.get("ok") else None
    return None
