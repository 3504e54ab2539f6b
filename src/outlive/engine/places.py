"""How many starts of one principal are on their way at a time: `Places`."""

import asyncio
from collections import deque

__all__ = ["Places"]

# Each start on its way holds a shim and becomes a process that wants a core: thousands of them at once would only take
# both from everybody else. More than a few are needed to keep two cores busy; eight were slower (decision 26).
_PLACES = 64


class Places:
    """Lets so many callers of a name in; the others wait in line. On one event loop only."""

    def __init__(self, places: int = _PLACES) -> None:
        """Offer `places` to each name."""
        self._places = places
        self._taken: dict[str, int] = {}
        self._lines: dict[str, deque[asyncio.Future[None]]] = {}

    def of(self, name: str) -> "_Place":
        """Return a place for the time of an `async with`."""
        return _Place(self, name)

    async def take(self, name: str) -> None:
        """Return with a place, to be given back with `give`.

        Cancellation: safe; the place goes to the next in line.
        """
        taken = self._taken.get(name, 0)
        if taken < self._places:
            self._taken[name] = taken + 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._lines.setdefault(name, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it had just been given the place
                self.give(name)
            raise

    def give(self, name: str) -> None:
        """Give a place back."""
        line = self._lines.get(name)
        while line:
            turn = line.popleft()
            if not line:
                del self._lines[name]
            if not turn.done():  # else its caller has given up
                turn.set_result(None)
                return
        taken = self._taken[name] - 1
        if taken:
            self._taken[name] = taken
        else:
            del self._taken[name]


class _Place:
    """One place, while entered."""

    __slots__ = ("_name", "_places")

    def __init__(self, places: Places, name: str) -> None:
        self._places = places
        self._name = name

    async def __aenter__(self) -> None:
        await self._places.take(self._name)

    async def __aexit__(self, *_: object) -> None:
        self._places.give(self._name)
