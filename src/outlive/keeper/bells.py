"""Which processes changed, and what servers are told of it: `Bells`, the doorbells of one turn."""

from outlive.keeper.kept import Kept
from outlive.keeper.loop import Loop

__all__ = ["Bells"]

_LATER_S = 0.05


class Bells:
    """Collects changes until the end of a turn, when `take` hands out each process's newest state once."""

    def __init__(self, loop: Loop) -> None:
        """Begin with nothing to tell."""
        self._loop = loop
        self._dirty: dict[bytes, Kept] = {}
        self._later: dict[bytes, Kept] = {}
        self._is_timed = False

    def touch(self, kept: Kept) -> None:
        """Tell servers the newest state of a process at the end of this turn."""
        self._dirty[kept.key] = kept

    def touch_later(self, kept: Kept) -> None:
        """The same for what can wait: within 50 ms, or with the next change, which is mostly sooner."""
        self._later[kept.key] = kept
        if not self._is_timed:
            self._is_timed = True
            self._loop.later(_LATER_S, self._be_due)

    def _be_due(self) -> None:
        self._is_timed = False
        self._dirty.update(self._later)

    def take(self) -> dict[bytes, bytes]:
        """Return the doorbells of what changed since the last call, by key; nothing that was told already."""
        bells = {}
        for key, kept in self._dirty.items():
            self._later.pop(key, None)
            if (bell := kept.doorbell()) != kept.told:
                bells[key] = kept.told = bell
        self._dirty.clear()
        return bells
