"""Whose request is looked at next when many come at once: `FairQueue`.

A hundred requests that become runnable in the same turn of the event loop would all be served before anything else is
looked at. So only a few begin in each turn, one principal's after another's: whoever asks most waits most.
"""

import asyncio
from collections import deque

_EACH_TURN = (
    2  # requests of a millisecond of work each: the loop sees to everything else some hundred times a second
)


class FairQueue:
    """Lets a few callers pass in each turn of the loop, the others in theirs. On one event loop only."""

    def __init__(self) -> None:
        """Nobody waits."""
        self._left = _EACH_TURN
        self._is_due = False
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    async def wait(self, name: str) -> None:
        """Return when it is the turn of one more request of `name`.

        Cancellation: safe; whoever is next takes the place.
        """
        loop = asyncio.get_running_loop()
        if not self._is_due:
            self._is_due = True
            loop.call_soon(self._begin_turn, loop)
        if self._left and not self._waiting:
            self._left -= 1
            return
        place: asyncio.Future[None] = loop.create_future()
        self._waiting.setdefault(name, deque()).append(place)
        await place

    def _begin_turn(self, loop: asyncio.AbstractEventLoop) -> None:
        self._left = _EACH_TURN
        while self._left and self._waiting:
            name = next(iter(self._waiting))
            line = self._waiting.pop(name)  # and to the end of the others
            place = line.popleft()
            if line:
                self._waiting[name] = line
            if not place.done():  # else its caller has given up
                place.set_result(None)
                self._left -= 1
        self._is_due = bool(self._waiting)
        if self._is_due:
            loop.call_soon(self._begin_turn, loop)
