"""How many starts of one principal are on their way at a time: `StartSlots`."""

import asyncio
import os
from weakref import WeakValueDictionary

# Each start on its way holds a shim and becomes a process that wants a core. More than a few for each core
# are needed to keep it busy; beyond that they only take turns from all others: at 64 on two cores this server
# itself waited most of the time for one (decision 91).
_EACH_CORE = 8


def _places() -> int:
    """Return how many starts keep this machine busy."""
    return _EACH_CORE * max(2, len(os.sched_getaffinity(0)))


class StartSlots:
    """A semaphore for each name, as long as a caller holds it or waits for it. On one event loop only."""

    def __init__(self, places: int | None = None) -> None:
        self._places = _places() if places is None else places
        self._semaphores: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    def of(self, name: str) -> asyncio.Semaphore:
        """Return the semaphore of a name; a caller that enters it keeps it until it leaves."""
        semaphore = self._semaphores.get(name)
        if semaphore is None:
            semaphore = self._semaphores[name] = asyncio.Semaphore(self._places)
        return semaphore
