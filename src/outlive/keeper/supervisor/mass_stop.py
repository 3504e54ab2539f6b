"""Stopping everything that lives, for whoever ends the keeper: `MassStop`.

A slice in each turn of the loop: the guardian's pings and what the commands still write are heeded between two, so that thousands
of trees do not make the supervisor look hung. What was begun is carried on by `Terminator`, also by the next supervisor.
"""

import time
from collections.abc import Callable

from outlive.keeper.supervisor.endings.terminator import Terminator
from outlive.keeper.supervisor.loop import Loop
from outlive.keeper.supervisor.managed_process import Answer
from outlive.keeper.supervisor.process_table import ManagedProcesses
from outlive.protocols.keeper import CauseCode

_SLICE_S = 0.02  # of stops in one turn: about a hundred on an idle machine
_LOOK_S = 0.01
_MOST_IDS = 1000  # in an answer: 30 KB, well below what a packet holds
_NOTE = "The keeper was stopped."


class MassStop:
    """Goes on while somebody waits, and then until the stop of each that lives is recorded."""

    def __init__(
        self, loop: Loop, table: ManagedProcesses, stops: Terminator, *, emptied: Callable[[Answer], None]
    ) -> None:
        """Nobody asks yet; `emptied` is called once nothing lives, with the answer to all who wait."""
        self._loop = loop
        self._table = table
        self._stops = stops
        self._emptied = emptied
        self._waiting: list[tuple[float, Answer]] = []
        self._is_at_work = False

    def begin(self, answer: Answer, *, within_s: float) -> None:
        """Answer once nothing lives, or `process_running` with what does after so many seconds.

        What is started while somebody waits is stopped, too.
        """
        self._waiting.append((time.monotonic() + within_s, answer))
        if not self._is_at_work:
            self._is_at_work = True
            self._go_on()

    def _go_on(self) -> None:
        is_begun = self._stop_some()
        if not self._table.living_ids():
            self._is_at_work = False
            if self._waiting:
                self._emptied(self._answer_all)
            return
        now = time.monotonic()
        late = [answer for until, answer in self._waiting if until <= now]
        self._waiting = [(until, answer) for until, answer in self._waiting if until > now]
        for answer in late:
            answer(still_running(self._table))
        # What is not taken over yet is stopped as soon as it is.
        self._is_at_work = bool(self._waiting) or not is_begun or len(self._table.unrecovered) > 0
        if self._is_at_work:
            self._loop.later(_LOOK_S if is_begun else 0.0, self._go_on)

    def _answer_all(self, reply: dict[str, object]) -> None:
        waiting, self._waiting = self._waiting, []
        for _, answer in waiting:
            answer(dict(reply))

    def _stop_some(self) -> bool:
        """Begin as many stops as a turn has time for; tell whether all are begun."""
        until = time.monotonic() + _SLICE_S
        for kept in self._table.living():
            if kept.stop_at and kept.deadline <= until:
                continue
            if time.monotonic() > until:
                return False
            self._stops.stop(kept, CauseCode.SHUTDOWN, grace_s=0.0, note=_NOTE)
        return True


def still_running(table: ManagedProcesses) -> dict[str, object]:
    """Return the refusal `process_running`: details {processes: number, ids: of at most a thousand of them}."""
    living = table.living_ids()
    return {
        "error": "process_running",
        "message": f"{len(living)} processes live on in this keeper.",
        "details": {"processes": len(living), "ids": living[:_MOST_IDS]},
    }
