"""`outlive keeper status | upgrade | stop | run`: looking after the processes that look after the commands.
`outlive stop-server`: the server is to end, on purpose; what runs lives on, with its keeper.

`run` is the keeper for a unit of systemd, in the foreground, in the control group of this process. It keeps
nothing itself: supervisor and guardian are the keeper, as ever, and look after each other. This process sees
to it that they are there, that they lie in its own control group, and that they stay while there is nothing
to keep. Its own death costs nothing. It reports to systemd how far it is (`Notifier`, sd_notify(3)): one
datagram to the socket that a unit of Type=notify gets.
"""

import contextlib
import os
import select
import signal
import socket
import time
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import Any, cast

from outlive.cli.output import Answer, Line, say, show_json
from outlive.cli.parameters import JSON, STATE_DIR, switch, takes
from outlive.cli.server.keeper_client import KeeperClient
from outlive.core.errors import BackendUnavailable, ConfigInvalid, InvalidState
from outlive.core.layout import Layout
from outlive.discovery import server_lock
from outlive.discovery.keeper import ensure_keeper
from outlive.discovery.ownership import Ownership
from outlive.discovery.state_folder import layout_of, open_state_folder
from outlive.kernel.disk import look_at
from outlive.kernel.locks import has_ended, holder_of, take_lock
from outlive.kernel.state_files import read_journal

_ATTEMPTS = 3
_TAKING_IN = 5  # attempts: another process may launch one at the same moment
_GUARDIAN_PATIENCE_S = 5.0  # it comes up a moment after the supervisor
_NOTIFY_VARIABLE = "NOTIFY_SOCKET"
_NOTIFY_PATIENCE_S = 2.0  # systemd empties the socket at once; a hung one must not keep us from serving
_GONE_PATIENCE_S = 10.0
_LOOK_S = 0.01
_ASKED_ANEW_S = 1.0  # so often the keeper says how far it is with ending what lives
_STUCK_S = 20.0  # without one more process that ended: what is left then does not end
_SHOWN_IDS = 20
_TOLD_IDS = 1000  # as the keeper tells
_ROUNDS = 5  # more servers come from a program that starts them for ever
_KILLS = "`outlive keeper stop --kill` ends them too."
_RESISTS = (
    "The keeper goes on killing them; ask again. What runs as another user (sudo) only that user or root "
    "ends: `outlive inspect ID` says what it is."
)
_NOBODY: dict[str, object] = {
    "guardian": {"pid": None},
    "supervisor": {"pid": None},
    "processes": 0,
    "redundant": False,
}


@takes(STATE_DIR, JSON)
def status(*, state_dir: str | None) -> Answer:
    """Print which keeper has the commands."""
    found: dict[str, Any] = read_status(layout_of(state_dir))
    lines: list[Line] = []
    if "degraded" in found:
        lines.append(f"degraded    {found['degraded']}: nothing can be started")
    supervisor, guardian = found["supervisor"]["pid"], found["guardian"]["pid"]
    if supervisor is None:
        lines.append(f"No keeper runs; {found['processes']} processes wait for one.")
        return Answer(found, lines)
    redundant = "yes: every descriptor is held twice" if found["redundant"] else "no, not at this moment"
    lines += [
        f"supervisor  pid {supervisor}",
        f"guardian    pid {guardian or '(on its way back)'}",
        f"processes   {found['processes']}",
        f"redundant   {redundant}",
    ]
    return Answer(found, lines)


@takes(STATE_DIR, JSON)
def upgrade(*, state_dir: str | None) -> Answer:
    """Replace the keeper, and print by what."""
    found: dict[str, Any] = upgrade_keeper(layout_of(state_dir))
    old, new = found["old"], found["new"]
    said = (
        f"Upgraded in {found['ms']} ms: supervisor {old['supervisor']} -> {new['supervisor']}, "
        f"guardian {old['guardian']} -> {new['guardian']}; {found['processes']} processes went on."
    )
    return Answer(found, [said])


@takes(STATE_DIR, switch("--kill", about="End the processes that live, too."), JSON)
def stop(*, state_dir: str | None, kill: bool, as_json: bool) -> Answer:
    """End the keeper, and before it the server, which would start it again.

    Raises:
        InvalidState: As `stop_keeper` does.
        OutliveError: As `end_server` does.
    """
    servers: list[int] = []
    try:
        has_run = _end_all(layout_of(state_dir), servers, kill=kill, as_json=as_json)
    except InvalidState as error:
        if as_json:
            show_json({"stopped": False, "servers": servers, **error.details})
        raise
    said = "The keeper has ended." if has_run else "No keeper runs."
    return Answer({"stopped": has_run, "servers": servers}, said=[said])


@takes(
    switch("--kill", about="Kill a server that does not end."),
    STATE_DIR,
    JSON,
    more="Services are not started again until the next server; the next call of outlive starts one.",
)
def stop_server(*, kill: bool, state_dir: str | None) -> Answer:
    """End the server."""
    pid = end_server(layout_of(state_dir), kill=kill)
    said = "No server runs." if pid is None else f"The server (pid {pid}) has ended."
    return Answer({"stopped": pid is not None, "pid": pid}, said=[said])


def end_server(layout: Layout, *, kill: bool) -> int | None:
    """End the server, and say where the purpose cannot be noted; return its pid, None where none runs."""
    pid = server_lock.stop_server(layout, kill=kill)
    if pid is not None and not Ownership(layout).is_stopped:
        say(f"outlive: {layout.server_stopped} cannot be written: the keeper may start a server again.")
    return pid


def _end_all(layout: Layout, servers: list[int], *, kill: bool, as_json: bool) -> bool:
    """End server and keeper; return whether there was a keeper, and add the pids of servers.

    Raises:
        InvalidState: `process_running`.
        ConfigInvalid: `server_running`: another one is started again and again.
    """
    has_run = False
    # A client may start a server meanwhile, and that one a keeper.
    for _ in range(_ROUNDS):
        if not kill:
            _check_idle(layout)  # where it is refused nothing is stopped
        if (pid := end_server(layout, kill=kill)) is not None:
            servers.append(pid)
            if not as_json:
                say(f"The server (pid {pid}) has ended.")
        has_run = stop_keeper(layout, kill=kill) or has_run
        if holder_of(layout.server_lock) is None:
            return has_run
    text = f"Servers of {layout.root} are started again and again."
    raise ConfigInvalid("server_running", text, hint="Look for the program that starts them.")


def _check_idle(layout: Layout) -> None:
    """Refuse to stop a server whose keeper would refuse to end.

    Raises:
        InvalidState: `process_running`.
    """
    if holder_of(layout.server_lock) is None:
        return
    processes = read_status(layout)["processes"]
    if processes:
        ids = sorted(read_journal(layout.live))[:_TOLD_IDS]
        raise InvalidState(
            "process_running",
            f"{_counted(processes)}: the keeper goes on.",
            hint=_KILLS,
            details={"processes": processes, "ids": ids},
        )


def read_status(layout: Layout) -> dict[str, object]:
    """Return {guardian: {pid}, supervisor: {pid}, processes, redundant, version}, and `degraded` where it
    applies.

    When no keeper runs the pids are None, and `processes` counts those that its journal calls live.

    Raises:
        BackendUnavailable: The keeper is there and does not answer.
    """
    try:
        with _open_keeper(layout) as keeper:
            reply = keeper.ask({"op": "status"})
    except BackendUnavailable as error:
        if error.code != "keeper_unavailable":
            raise
        return {**_NOBODY, "processes": len(read_journal(layout.live)), **_degraded(layout)}
    return {**{name: reply.get(name) for name in _NOBODY}, **_degraded(layout)}


def _degraded(layout: Layout) -> dict[str, object]:
    """Return the member that says what keeps the state folder from being written.

    Where there is no folder none is needed.
    """
    found = look_at(layout.root)
    return {} if found is None or found == "folder_gone" else {"degraded": found}


def upgrade_keeper(layout: Layout) -> dict[str, object]:
    """Replace supervisor and guardian by those of the installed version; every command goes on.

    Returns:
        {old: {supervisor, guardian}, new: {supervisor, guardian}, processes, ms}: pids, and how long no
        output was moved.
    """
    with _open_keeper(layout) as keeper, contextlib.ExitStack() as stack:
        old = _pids(keeper.ask({"op": "status"}))
        watched = _watch(old.values(), stack)
        begun = time.monotonic()
        with contextlib.suppress(BackendUnavailable):  # it may be gone before its answer is read
            keeper.ask({"op": "retire"})
        _wait_gone(watched)
    ensure_keeper(layout.root)
    with _open_keeper(layout) as keeper:
        ms = round((time.monotonic() - begun) * 1000)
        status = keeper.ask({"op": "status"})
        # The new supervisor answers a moment before the new guardian has come up.
        while _pids(status)["guardian"] is None and time.monotonic() - begun < _GONE_PATIENCE_S:
            time.sleep(_LOOK_S)
            status = keeper.ask({"op": "status"})
    return {"old": old, "new": _pids(status), "processes": status["processes"], "ms": ms}


def stop_keeper(layout: Layout, *, kill: bool, stuck_s: float = _STUCK_S) -> bool:
    """End the keeper; return whether there was one.

    With `kill` everything that lives is ended before, however long that takes while it goes on; a keeper that
    dies meanwhile is asked again. It gives up `stuck_s` seconds after the last process ended; the keeper does
    not.

    Raises:
        InvalidState: `process_running`: processes live, and `kill` was not asked for, or they did not end.
            Details: {processes: number, ids: of at most a thousand of them}.
    """
    patience = _Patience(stuck_s)
    has_run = False
    while (keeper := _find_keeper(layout)) is not None:
        has_run = True
        try:
            with keeper, contextlib.ExitStack() as stack:
                watched = _watch(_pids(keeper.ask({"op": "status"})).values(), stack)
                _end(keeper, patience, kill=kill)
                _wait_gone(watched)
            break
        except BackendUnavailable as error:
            # It died at it, or hangs and is being replaced: what was begun goes on, the next one is asked for
            # the rest.
            if not kill or not patience.is_left or error.code not in {"keeper_restarted", "timeout"}:
                raise
    return has_run


def _find_keeper(layout: Layout) -> KeeperClient | None:
    """Connect to the keeper, starting one where commands may live without: only a keeper can end them.

    None: no process of the keeper lives, and no command.
    """
    try:
        return _open_keeper(layout)
    except BackendUnavailable as error:
        if error.code != "keeper_unavailable":
            raise
        # A guardian alone is about to start a supervisor, in some seconds if the last ones could not begin.
        if not read_journal(layout.live) and holder_of(layout.guardian_lock) is None:
            return None
    ensure_keeper(layout.root)
    return _open_keeper(layout)


class _Patience:
    """How long a keeper may still be asked to end what lives: anew with each process that ended."""

    def __init__(self, stuck_s: float) -> None:
        self.stuck_s = stuck_s
        self._fewest: int | None = None
        self._until = time.monotonic() + stuck_s

    @property
    def is_left(self) -> bool:
        """Whether it may be asked again."""
        return time.monotonic() < self._until

    def note(self, processes: int) -> None:
        """Take how many are left."""
        if self._fewest is None or processes < self._fewest:
            self._fewest = processes
            self._until = time.monotonic() + self.stuck_s


def _end(keeper: KeeperClient, patience: _Patience, *, kill: bool) -> None:
    """Ask a keeper to end until it does, or nothing ends any more."""
    while True:
        try:
            within_s = min(_ASKED_ANEW_S, patience.stuck_s)
            keeper.ask({"op": "end", "kill": kill, "within_s": within_s})
        except InvalidState as error:
            processes = int(str(error.details.get("processes", 0)))
            patience.note(processes)
            if kill and patience.is_left:
                continue
            raise InvalidState(
                error.code,
                f"{_counted(processes)}{_named(error.details) if kill else ': the keeper goes on.'}",
                hint=_RESISTS if kill else _KILLS,
                details=error.details,
            ) from error
        else:
            return


def _open_keeper(layout: Layout) -> KeeperClient:
    """Connect; a supervisor that is replaced at this very moment is asked again.

    A hung one does not answer, is ended by the guardian after some seconds, and its successor answers.
    """
    for _ in range(_ATTEMPTS - 1):
        try:
            return KeeperClient(layout)
        except BackendUnavailable as error:
            if error.code != "keeper_restarted":
                raise
    return KeeperClient(layout)


def _counted(number: object) -> str:
    return "One process lives" if number == 1 else f"{number} processes live"


def _named(details: Mapping[str, object]) -> str:
    """Return which processes an error is about, the first of them by their ids."""
    ids = [str(one) for one in cast("list[object]", details.get("ids") or [])]
    more = int(str(details.get("processes", 0))) - len(ids[:_SHOWN_IDS])
    return f" on although killed: {', '.join(ids[:_SHOWN_IDS])}{f' and {more} more' if more > 0 else ''}."


def _pids(status: dict[str, object]) -> dict[str, int | None]:
    pids: dict[str, int | None] = {}
    for part in ("supervisor", "guardian"):
        entry = status.get(part)
        pid = cast("dict[str, object]", entry).get("pid") if isinstance(entry, dict) else None
        pids[part] = pid if isinstance(pid, int) else None
    return pids


def _watch(pids: Iterable[int | None], stack: contextlib.ExitStack) -> list[int]:
    """Open a pidfd for each: a pid that is reused meanwhile is not waited for."""
    watched: list[int] = []
    for pid in pids:
        if pid:
            with contextlib.suppress(ProcessLookupError):
                fd = os.pidfd_open(pid)
                stack.callback(os.close, fd)
                watched.append(fd)
    return watched


def _wait_gone(pidfds: Iterable[int]) -> None:
    deadline = time.monotonic() + _GONE_PATIENCE_S
    for fd in pidfds:
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            raise BackendUnavailable(
                "timeout", f"The keeper was asked to end and still lives after {_GONE_PATIENCE_S:.0f} s."
            )


class Notifier:
    """Reports to the service manager that has started this process as a unit.

    Reports nothing where none has.
    """

    def __init__(self, environ: MutableMapping[str, str]) -> None:
        self._address = environ.pop(_NOTIFY_VARIABLE, "")

    def notify(self, *assignments: str) -> bool:
        """Send lines such as "READY=1"; return whether they were sent. Trouble is no reason not to serve."""
        if self._address[:1] not in {"/", "@"}:
            return False
        address = "\0" + self._address[1:] if self._address[0] == "@" else self._address
        with (
            contextlib.suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as connection,
        ):
            connection.settimeout(_NOTIFY_PATIENCE_S)
            connection.connect(address)
            connection.send("\n".join(assignments).encode())
            return True
        return False


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
    for _ in range(_TAKING_IN):
        ensure_keeper(layout.root)
        with contextlib.suppress(BackendUnavailable):  # another process has replaced it meanwhile
            status = _settled_status(layout)
            pids = [pid for pid in _pids(status).values() if pid is not None]
            if all(_control_groups(pid) in {None, _control_groups(os.getpid())} for pid in pids):
                break
            say(f"outlive: taking in the keeper that was started elsewhere (pids {pids}).")
            upgrade_keeper(layout)
    count = status.get("processes")
    return count if isinstance(count, int) else 0


def _settled_status(layout: Layout) -> dict[str, object]:
    until = time.monotonic() + _GUARDIAN_PATIENCE_S
    while True:
        status = read_status(layout)
        if None not in _pids(status).values() or time.monotonic() > until:
            return status
        time.sleep(_LOOK_S)


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
