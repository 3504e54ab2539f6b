"""Which processes changed, and which doorbells servers get for it at the end of a turn: `Notifications`.

`clients` sends them; a doorbell that cannot be sent waits there.
"""

from functools import partial

from outlive.keeper.supervisor.loop import Loop
from outlive.keeper.supervisor.managed_process import ManagedProcess

_LATER_S = 0.05  # a change that a user does not wait for
_BULK_S = 0.004  # a stream in full flow: at most 250 doorbells a second, however often it moves


class Notifications:
    """Collects changes until the end of a turn, when `take` hands out each process's newest state once."""

    def __init__(self, loop: Loop) -> None:
        """Begin without changes."""
        self._loop = loop
        self._dirty: dict[bytes, ManagedProcess] = {}
        # What is due within each delay, and the delays whose timer runs.
        self._due: dict[float, dict[bytes, ManagedProcess]] = {_LATER_S: {}, _BULK_S: {}}
        self._timed: set[float] = set()

    def touch(self, kept: ManagedProcess) -> None:
        """Send servers the newest state of a process at the end of this turn."""
        self._dirty[kept.key] = kept

    def touch_later(self, kept: ManagedProcess, within_s: float = _LATER_S) -> None:
        """Send it within 50 ms (or `within_s`, one of the two delays), or with the next change, which mostly comes sooner."""
        self._due[within_s][kept.key] = kept
        if within_s not in self._timed:
            self._timed.add(within_s)
            self._loop.later(within_s, partial(self._be_due, within_s))

    def touch_bulk(self, kept: ManagedProcess) -> None:
        """Send it within 4 ms, however often the stream moves in between."""
        self.touch_later(kept, _BULK_S)

    def _be_due(self, within_s: float) -> None:
        self._timed.discard(within_s)
        self._dirty.update(self._due[within_s])

    def take(self) -> dict[bytes, bytes]:
        """Return the doorbells of what changed since the last call, by key; a state that was sent already is left out."""
        dirty = self._dirty
        if not dirty:
            return {}
        self._dirty = {}
        # What is sent now needs no later doorbell for its earlier change.
        for within_s, due in self._due.items():
            if due:
                self._due[within_s] = {key: kept for key, kept in due.items() if key not in dirty}
        bells = {}
        for key, kept in dirty.items():
            if (bell := kept.doorbell()) != kept.told:
                bells[key] = kept.told = bell
        return bells
