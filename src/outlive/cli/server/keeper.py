"""`outlive keeper status | upgrade | stop`: looking after the processes that look after the commands."""

import contextlib
import os
import select
import time
from collections.abc import Iterable, Mapping
from typing import Any, cast

from outlive.cli.output import say, show, show_json
from outlive.cli.parameters import JSON, STATE_DIR, switch, takes
from outlive.cli.server.keeper_client import KeeperClient
from outlive.core.errors import BackendUnavailable, InvalidState
from outlive.core.layout import Layout
from outlive.discovery.keeper import ensure_keeper
from outlive.discovery.state_folder import layout_of
from outlive.keeper.common.disk import look_at
from outlive.keeper.common.files import read_journal

_ATTEMPTS = 3
_GONE_PATIENCE_S = 10.0
_LOOK_S = 0.01
_ASKED_ANEW_S = 1.0  # so often the keeper says how far it is with ending what lives
_STUCK_S = 20.0  # without one more process that ended: what is left then does not end
_SHOWN_IDS = 20
_RESISTS = (
    "The keeper goes on killing them; ask again. What runs as another user (sudo) only that user or root ends: "
    "`outlive inspect ID` says what it is."
)
_ANSWER_S = 60.0  # for a keeper of an earlier version: TERM, KILL and draining of every process
_NOBODY: dict[str, object] = {
    "guardian": {"pid": None},
    "supervisor": {"pid": None},
    "processes": 0,
    "redundant": False,
    "version": None,
}


@takes(STATE_DIR, JSON)
def status(*, state_dir: str | None, as_json: bool) -> int:
    """Print which keeper has the commands."""
    answer: dict[str, Any] = read_status(layout_of(state_dir))
    if as_json:
        show_json(answer)
        return 0
    if "degraded" in answer:
        show(f"degraded    {answer['degraded']}: nothing can be started")
    supervisor, guardian = answer["supervisor"]["pid"], answer["guardian"]["pid"]
    if supervisor is None:
        show(f"No keeper runs; {answer['processes']} processes wait for one.")
        return 0
    show(f"supervisor  pid {supervisor}")
    show(f"guardian    pid {guardian or '(on its way back)'}")
    show(f"processes   {answer['processes']}")
    show(
        f"redundant   {'yes: every descriptor is held twice' if answer['redundant'] else 'no, not at this moment'}"
    )
    show(f"protocol    version {answer['version']}")
    return 0


@takes(STATE_DIR, JSON)
def upgrade(*, state_dir: str | None, as_json: bool) -> int:
    """Replace the keeper, and print by what."""
    answer: dict[str, Any] = upgrade_keeper(layout_of(state_dir))
    if as_json:
        show_json(answer)
        return 0
    old, new = answer["old"], answer["new"]
    show(
        f"Upgraded in {answer['ms']} ms: supervisor {old['supervisor']} -> {new['supervisor']}, "
        f"guardian {old['guardian']} -> {new['guardian']}; {answer['processes']} processes went on."
    )
    return 0


@takes(STATE_DIR, switch("--kill", about="End the processes that live, too."), JSON)
def stop(*, state_dir: str | None, kill: bool, as_json: bool) -> int:
    """End the keeper.

    Raises:
        InvalidState: As `stop_keeper` does.
    """
    try:
        has_run = stop_keeper(layout_of(state_dir), kill=kill)
    except InvalidState as error:
        if as_json:
            show_json({"stopped": False, **error.details})
        raise
    if as_json:
        show_json({"stopped": has_run})
    else:
        say("The keeper has ended." if has_run else "No keeper runs.")
    return 0


def read_status(layout: Layout) -> dict[str, object]:
    """Return {guardian: {pid}, supervisor: {pid}, processes, redundant, version}, and `degraded` where it applies.

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
    """Return the member that says what keeps the state folder from being written; where there is no folder none is needed."""
    found = look_at(layout.root)
    return {} if found is None or found == "folder_gone" else {"degraded": found}


def upgrade_keeper(layout: Layout) -> dict[str, object]:
    """Replace supervisor and guardian by those of the installed version; every command goes on.

    Returns:
        {old: {supervisor, guardian}, new: {supervisor, guardian}, processes, ms}: pids, and how long no output was moved.
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

    With `kill` everything that lives is ended before, however long that takes while it goes on; a keeper that dies meanwhile
    is asked again. It gives up `stuck_s` seconds after the last process ended; the keeper does not.

    Raises:
        InvalidState: `process_running`: processes live, and `kill` was not asked for, or they did not end. Details:
            {processes: number, ids: of at most a thousand of them}.
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
            # It died at it, or hangs and is being replaced: what was begun goes on, the next one is asked for the rest.
            if not kill or not patience.is_left or error.code not in {"keeper_restarted", "timeout"}:
                raise
    return has_run


def _find_keeper(layout: Layout) -> KeeperClient | None:
    """Connect to the keeper, starting one where commands may live without: only a keeper can end them. None: nothing lives."""
    try:
        return _open_keeper(layout)
    except BackendUnavailable as error:
        if error.code != "keeper_unavailable":
            raise
        if not read_journal(layout.live):
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
            # One of an earlier version knows no `within_s` and answers when all is over.
            keeper.ask({"op": "end", "kill": kill, "within_s": within_s}, timeout_s=_ANSWER_S)
        except InvalidState as error:
            processes = int(str(error.details.get("processes", 0)))
            patience.note(processes)
            if kill and patience.is_left:
                continue
            raise InvalidState(
                error.code,
                f"{_counted(processes)}{_named(error.details) if kill else ': the keeper goes on.'}",
                hint=_RESISTS if kill else "`outlive keeper stop --kill` ends them too.",
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
