"""`Semaphores`: how many callers of one name do something at a time."""

import asyncio
from collections.abc import Hashable
from weakref import WeakValueDictionary

from outlive.core.values import dataclass, field


@dataclass(eq=False, slots=True)
class Semaphores:
    """A semaphore of `places` for each name, as long as a caller holds it or waits for it; with one place a
    lock. On one event loop only.
    """

    places: int
    _known: WeakValueDictionary[Hashable, asyncio.Semaphore] = field(
        default_factory=WeakValueDictionary, init=False
    )

    def of(self, name: Hashable) -> asyncio.Semaphore:
        """Return the semaphore of a name; a caller that enters it keeps it until it leaves."""
        semaphore = self._known.get(name)
        if semaphore is None:
            semaphore = self._known[name] = asyncio.Semaphore(self.places)
        return semaphore
