"""Which process holds a socket: `Holders` looks through /proc on the event loop, a little in each turn.

Not in a thread: each of its hundreds of system calls would give the interpreter away and wait for it again, several
turns of a busy loop (decision 91). Reading whose descriptors are what waits for nobody; another process's memory is not
read here.
"""

import asyncio
import itertools
import os
from collections.abc import Iterable, Iterator

from outlive.keeper.common.callers import sockets_of

_EACH_TURN = 2000  # descriptors, 4 us each: most searches end in the turn in which they begin
_FEW = 64
_MOST_SEEN = 65_536  # sockets of a walk: 10 MB


class Holders:
    """Searches on one event loop. All who ask meanwhile are answered by one walk through /proc together.

    What the newest walk has seen is remembered, and looked at again before it counts: of a thousand clients that connected together most
    ask when the walk has passed them (decision 146).
    """

    def __init__(self, *, each_turn: int = _EACH_TURN) -> None:
        """Nobody asks; `each_turn` descriptors are looked at in each turn of the loop."""
        self._each_turn = each_turn
        self._likely: dict[int, None] = {}
        self._asked: dict[int, list[asyncio.Future[int | None]]] = {}
        self._wanted: dict[int, list[asyncio.Future[int | None]]] = {}
        self._walk: Iterator[tuple[int, int]] | None = None
        self._seen: dict[int, int] = {}  # socket: the first process that was seen with it

    async def find(self, inode: int, likely: Iterable[int]) -> int | None:
        """Return a process that holds the socket `inode`, looking at `likely` ones first, then at the youngest.

        None when it is not to be seen: another user's, in another pid namespace, or gone.

        Cancellation: safe.
        """
        seen = self._seen.get(inode)
        if seen is not None and is_held_by(inode, seen):
            return seen
        loop = asyncio.get_running_loop()
        place: asyncio.Future[int | None] = loop.create_future()
        is_idle = not (self._asked or self._wanted)
        self._asked.setdefault(inode, []).append(place)
        self._likely.update(dict.fromkeys(likely))
        if is_idle:
            self._go_on(loop)
        return await place

    def _go_on(self, loop: asyncio.AbstractEventLoop) -> None:
        """Walk for one turn, and see to the next one if somebody still waits."""
        if self._walk is None:
            self._wanted, self._asked = self._asked, {}
            self._walk = _sockets(self._likely)
            self._likely = {}
            self._seen = {}
        for number, (pid, inode) in enumerate(self._walk, 1):
            if inode and len(self._seen) < _MOST_SEEN:
                self._seen.setdefault(inode, pid)
            self._tell(inode, pid)
            if not self._wanted or number == self._each_turn:
                break
        else:  # everybody was looked at
            for inode in list(self._wanted):
                self._settle(self._wanted, inode, None)
        if not self._wanted:
            self._walk = None
        if self._wanted or self._asked:
            loop.call_soon(self._go_on, loop)

    def _tell(self, inode: int, pid: int) -> None:
        """Answer those who wait for a socket, also who has asked since the walk began: it may have passed theirs, or not."""
        self._settle(self._wanted, inode, pid)
        self._settle(self._asked, inode, pid)

    @staticmethod
    def _settle(waiting: dict[int, list[asyncio.Future[int | None]]], inode: int, pid: int | None) -> None:
        for place in waiting.pop(inode, ()):
            if not place.done():  # else its caller has given up
                place.set_result(pid)


def is_held_by(inode: int, pid: int) -> bool:
    """Tell whether the socket is among the first 64 descriptors of a process: 2 us each."""
    return inode in itertools.islice(sockets_of(pid), _FEW)


def _sockets(likely: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield each descriptor's process and the inode of its socket (0: none), the likely processes' first."""
    tried = set()
    for pid in likely:
        tried.add(pid)
        for inode in sockets_of(pid):
            yield pid, inode
    for pid in sorted((int(name) for name in os.listdir("/proc") if name.isdigit()), reverse=True):
        if pid not in tried:
            yield pid, 0
            for inode in sockets_of(pid):
                yield pid, inode
