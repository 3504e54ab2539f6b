"""`outlive keeper run`: the keeper for a unit of systemd, in the foreground, in the control group of this
process.

Keeps nothing itself: supervisor and guardian are the keeper, as ever, and look after each other. This process
sees to it that they are there, that they lie in its own control group, and that they stay while there is
nothing to keep. Its own death costs nothing.

Reports to systemd how far it is (`Notifier`, sd_notify(3)): one datagram to the socket that a unit of
Type=notify gets.
"""

import contextlib
import os
import select
import signal
import socket
import time
from collections.abc import Iterator, MutableMapping

from outlive.cli.output import say
from outlive.cli.parameters import STATE_DIR, takes
from outlive.cli.server.keeper import read_status, upgrade_keeper
from outlive.cli.server.keeper_client import KeeperClient
from outlive.core.errors import BackendUnavailable, ConfigInvalid
from outlive.core.layout import Layout
from outlive.discovery.keeper import ensure_keeper
from outlive.discovery.state_folder import layout_of, open_state_folder
from outlive.kernel.locks import has_ended, holder_of, take_lock

_VARIABLE = "NOTIFY_SOCKET"
_PATIENCE_S = 2.0  # systemd empties the socket at once; a hung one must not keep us from serving


class Notifier:
    """Reports to the service manager that has started this process as a unit.

    Reports nothing where none has.
    """

    def __init__(self, environ: MutableMapping[str, str]) -> None:
        self._address = environ.pop(_VARIABLE, "")

    def notify(self, *assignments: str) -> bool:
        """Send lines such as "READY=1"; return whether they were sent. Trouble is no reason not to serve."""
        if self._address[:1] not in {"/", "@"}:
            return False
        address = "\0" + self._address[1:] if self._address[0] == "@" else self._address
        with (
            contextlib.suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as connection,
        ):
            connection.settimeout(_PATIENCE_S)
            connection.connect(address)
            connection.send("\n".join(assignments).encode())
            return True
        return False


_ATTEMPTS = 5  # another process may launch one at the same moment
_LOOK_S = 0.02
_GUARDIAN_PATIENCE_S = 5.0  # it comes up a moment after the supervisor


@takes(STATE_DIR)
def run(*, state_dir: str | None) -> int:
    """Run the keeper of a state folder until SIGTERM or SIGINT, or `outlive keeper stop`.

    A keeper that runs already is taken in: where it lies in another control group, supervisor and guardian
    are replaced as by `outlive keeper upgrade`; every command goes on. After the signal the keeper lives on
    as long as it has something to keep.

    Returns:
        The exit code.

    Raises:
        ConfigInvalid: The state folder cannot be used, or another process does this for this state folder
        already.
        BackendUnavailable: The keeper cannot be started.
    """
    layout = open_state_folder(layout_of(state_dir).root)
    notifier = Notifier(os.environ)
    with _only_one(layout), _stop_signals() as stop:
        while True:
            count = _take_in(layout)
            with contextlib.suppress(BackendUnavailable), KeeperClient(layout) as keeper:
                notifier.notify("READY=1", f"STATUS=Keeps {count} processes of {layout.root}")
                if _wait(keeper, stop):
                    notifier.notify("STOPPING=1")
                    say("outlive: the keeper lives on as long as it has something to keep.")
                    return 0
            if has_ended(layout.supervisor_lock) and holder_of(layout.supervisor_lock) is None:
                say("outlive: the keeper has ended.")
                return 0


@contextlib.contextmanager
def _only_one(layout: Layout) -> Iterator[None]:
    """Two of us in different control groups would take the keeper from each other for ever."""
    fd = take_lock(layout.keeper_lock)
    if fd is None:
        pid = holder_of(layout.keeper_lock)
        raise ConfigInvalid(
            "config_invalid",
            f"`outlive keeper run` (pid {pid or 'unknown'}) looks after the keeper of {layout.root} already.",
            hint="Leave it to that one, or end that one first.",
        )
    try:
        yield
    finally:
        os.close(fd)


@contextlib.contextmanager
def _stop_signals() -> Iterator[int]:
    """Yield a descriptor that becomes readable with the first SIGINT or SIGTERM."""
    stop, alarm = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    old = signal.set_wakeup_fd(alarm, warn_on_full_buffer=False)
    handlers = {number: signal.signal(number, lambda *_: None) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(old)
        os.close(stop)
        os.close(alarm)


def _take_in(layout: Layout) -> int:
    """Return when a keeper runs in our own control group (or cannot be brought there).

    Return what it keeps.
    """
    status: dict[str, object] = {}
    for _ in range(_ATTEMPTS):
        ensure_keeper(layout.root)
        with contextlib.suppress(BackendUnavailable):  # another process has replaced it meanwhile
            status = _settled_status(layout)
            if all(_control_groups(pid) in {None, _control_groups(os.getpid())} for pid in _pids(status)):
                break
            say(f"outlive: taking in the keeper that was started elsewhere (pids {_pids(status)}).")
            upgrade_keeper(layout)
    count = status.get("processes")
    return count if isinstance(count, int) else 0


def _settled_status(layout: Layout) -> dict[str, object]:
    until = time.monotonic() + _GUARDIAN_PATIENCE_S
    while True:
        status = read_status(layout)
        if len(_pids(status)) == 2 or time.monotonic() > until:
            return status
        time.sleep(_LOOK_S)


def _pids(status: dict[str, object]) -> list[int]:
    parts = (status.get(name) for name in ("supervisor", "guardian"))
    pids = (part.get("pid") for part in parts if isinstance(part, dict))
    return [pid for pid in pids if isinstance(pid, int)]


def _control_groups(pid: int) -> str | None:
    """Return what the kernel says about a process's control groups (cgroups(7)); None when it has gone."""
    with (
        contextlib.suppress(FileNotFoundError, ProcessLookupError),
        open(f"/proc/{pid}/cgroup", encoding="utf-8", errors="surrogateescape") as groups,
    ):
        return groups.read()
    return None


def _wait(keeper: KeeperClient, stop: int) -> bool:
    """Wait until we are to stop (True) or the keeper has gone away (False)."""
    poll = select.poll()
    poll.register(stop, select.POLLIN)
    poll.register(keeper, select.POLLIN)
    while True:
        ready = [fd for fd, _ in poll.poll()]
        if stop in ready:
            return True
        if keeper.fileno() in ready and keeper.has_gone():
            return False
