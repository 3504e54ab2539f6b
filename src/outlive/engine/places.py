"""How many starts of one principal are on their way at a time: `Places`."""

import asyncio
from weakref import WeakValueDictionary

__all__ = ["Places"]

# Each start on its way holds a shim and becomes a process that wants a core: thousands of them at once would only take
# both from everybody else. More than a few are needed to keep two cores busy; eight were slower (decision 26).
_PLACES = 64


class Places:
    """A semaphore for each name, as long as somebody holds it or waits for it. On one event loop only."""

    def __init__(self, places: int = _PLACES) -> None:
        """Let so many in for each name; the others wait in line."""
        self._places = places
        self._semaphores: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    def of(self, name: str) -> asyncio.Semaphore:
        """Return the semaphore of a name; whoever enters it keeps it until he leaves."""
        semaphore = self._semaphores.get(name)
        if semaphore is None:
            semaphore = self._semaphores[name] = asyncio.Semaphore(self._places)
        return semaphore
