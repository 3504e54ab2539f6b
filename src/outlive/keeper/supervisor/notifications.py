"""Which processes changed, and what servers are told of it: `Notifications`, the doorbells of one turn."""

from outlive.keeper.supervisor.loop import Loop
from outlive.keeper.supervisor.managed_process import ManagedProcess

_LATER_S = 0.05
_BULK_S = 0.004


class _Delay:
    """Processes whose change is due after a moment, unless it is told with a newer one before."""

    __slots__ = ("due", "is_timed", "seconds")

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.due: dict[bytes, ManagedProcess] = {}
        self.is_timed = False


class Notifications:
    """Collects changes until the end of a turn, when `take` hands out each process's newest state once."""

    def __init__(self, loop: Loop) -> None:
        """Begin with nothing to tell."""
        self._loop = loop
        self._dirty: dict[bytes, ManagedProcess] = {}
        self._later = _Delay(_LATER_S)
        self._bulk = _Delay(_BULK_S)

    def touch(self, kept: ManagedProcess) -> None:
        """Tell servers the newest state of a process at the end of this turn."""
        self._dirty[kept.key] = kept

    def touch_later(self, kept: ManagedProcess) -> None:
        """The same for what can wait: within 50 ms, or with the next change, which is mostly sooner."""
        self._delay(kept, self._later)

    def touch_bulk(self, kept: ManagedProcess) -> None:
        """The same for a stream in full flow: within 4 ms, however often it moves in between."""
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
        """Return the doorbells of what changed since the last call, by key; nothing that was told already."""
        dirty = self._dirty
        if not dirty:
            return {}
        self._dirty = {}
        for delay in (self._later, self._bulk):
            if delay.due:
                delay.due = {key: kept for key, kept in delay.due.items() if key not in dirty}
        bells = {}
        for key, kept in dirty.items():
            if (bell := kept.doorbell()) != kept.told:
                bells[key] = kept.told = bell
        return bells
