"""`outlive keeper status | upgrade | stop`: looking after the processes that look after the commands."""

import contextlib
import os
import select
import time
from collections.abc import Iterable
from typing import cast

from outlive.cli.keeper_client import KeeperClient
from outlive.core.errors import BackendUnavailable, InvalidState
from outlive.core.layout import Layout
from outlive.keeper.journal import read_journal
from outlive.presence.keeper import ensure_keeper

__all__ = ["read_status", "stop_keeper", "upgrade_keeper"]

_ATTEMPTS = 3
_GONE_PATIENCE_S = 10.0
_LOOK_S = 0.01
_KILL_PATIENCE_S = 60.0  # TERM, the grace period, KILL and draining of every process
_NOBODY: dict[str, object] = {
    "guardian": {"pid": None},
    "supervisor": {"pid": None},
    "processes": 0,
    "redundant": False,
    "version": None,
}


def read_status(layout: Layout) -> dict[str, object]:
    """Return {guardian: {pid}, supervisor: {pid}, processes, redundant, version}.

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
        return {**_NOBODY, "processes": len(read_journal(layout.live))}
    return {name: reply.get(name) for name in _NOBODY}


def upgrade_keeper(layout: Layout) -> dict[str, object]:
    """Replace supervisor and guardian by those of the installed version; every command goes on.

    Returns:
        {old: {supervisor, guardian}, new: {supervisor, guardian}, processes, ms}: pids, and how long nobody pumped.
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


def stop_keeper(layout: Layout, *, kill: bool) -> bool:
    """End the keeper; return whether there was one.

    Raises:
        InvalidState: `process_running`: processes live and `kill` was not asked for.
    """
    try:
        keeper = _open_keeper(layout)
    except BackendUnavailable as error:
        if error.code != "keeper_unavailable":
            raise
        if not read_journal(layout.live):
            return False
        # The keeper died and nobody started it again, but its commands may live: only a keeper can end them.
        ensure_keeper(layout.root)
        keeper = _open_keeper(layout)
    with keeper, contextlib.ExitStack() as stack:
        watched = _watch(_pids(keeper.ask({"op": "status"})).values(), stack)
        try:
            keeper.ask({"op": "end", "kill": kill}, timeout_s=_KILL_PATIENCE_S)
        except InvalidState as error:
            raise InvalidState(
                error.code,
                f"{_counted(error.details.get('processes'))}: the keeper goes on.",
                hint="`outlive keeper stop --kill` ends them too.",
                details=error.details,
            ) from error
        _wait_gone(watched)
    return True


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
