"""Which processes changed, and which doorbells servers get for it at the end of a turn: `Notifications`.

`clients` sends them; a doorbell that cannot be sent waits there.
"""

from outlive.keeper.supervisor.loop import Loop
from outlive.keeper.supervisor.managed_process import ManagedProcess

_LATER_S = 0.05  # a change that a user does not wait for
_BULK_S = 0.004  # a stream in full flow: at most 250 doorbells a second, however often it moves


class _Delay:
    """Processes whose change is due after a moment, unless a newer change is sent before."""

    __slots__ = ("due", "is_timed", "seconds")

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.due: dict[bytes, ManagedProcess] = {}
        self.is_timed = False


class Notifications:
    """Collects changes until the end of a turn, when `take` hands out each process's newest state once."""

    def __init__(self, loop: Loop) -> None:
        """Begin without changes."""
        self._loop = loop
        self._dirty: dict[bytes, ManagedProcess] = {}
        self._later = _Delay(_LATER_S)
        self._bulk = _Delay(_BULK_S)

    def touch(self, kept: ManagedProcess) -> None:
        """Send servers the newest state of a process at the end of this turn."""
        self._dirty[kept.key] = kept

    def touch_later(self, kept: ManagedProcess) -> None:
        """Send it within 50 ms, or with the next change, which mostly comes sooner."""
        self._delay(kept, self._later)

    def touch_bulk(self, kept: ManagedProcess) -> None:
        """Send it within 4 ms, however often the stream moves in between."""
        self._delay(kept, self._bulk)

    def _delay(self, kept: ManagedProcess, delay: _Delay) -> None:
        delay.due[kept.key] = kept
        if not delay.is_timed:
            delay.is_timed = True
            self._loop.later(delay.seconds, lambda: self._be_due(delay))

    def _be_due(self, delay: _Delay) -> None:
        delay.is_timed = False
        self._dirty.update(delay.due)

    def take(self) -> dict[bytes, bytes]:
        """Return the doorbells of what changed since the last call, by key; a state that was sent already is left out."""
        dirty = self._dirty
        if not dirty:
            return {}
        self._dirty = {}
        # What is sent now needs no later doorbell for its earlier change.
        for delay in (self._later, self._bulk):
            if delay.due:
                delay.due = {key: kept for key, kept in delay.due.items() if key not in dirty}
        bells = {}
        for key, kept in dirty.items():
            if (bell := kept.doorbell()) != kept.told:
                bells[key] = kept.told = bell
        return bells
