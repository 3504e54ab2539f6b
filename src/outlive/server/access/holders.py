"""Which process holds a socket: `Holders`, which searches /proc/PID/fd on the event loop, some in each turn.

A thread would be slower: each of its hundreds of system calls would release the interpreter lock and wait for
it again, several turns of a busy loop (decision 91). Reading the names of descriptors never blocks. Another
process's memory, which can block, is read by `peers`; what a caller may do is decided by `authenticator`.
"""

import asyncio
import itertools
from collections.abc import Iterable, Iterator

from outlive.kernel.processes import all_pids, sockets_of

_EACH_TURN = 2000  # descriptors, 4 us each: most searches end in the turn in which they begin
_FEW = 64
_MOST_SEEN = 65_536  # sockets remembered from one walk: 10 MB


class Holders:
    """Searches on one event loop. One walk through /proc answers all callers that ask during it.

    The newest walk's findings are remembered, and checked again before they count: of a thousand clients that
    connect together, most ask after the walk has passed their process (decision 146).
    """

    def __init__(self, *, each_turn: int = _EACH_TURN) -> None:
        """Begin without questions; `each_turn` descriptors are looked at in each turn of the loop."""
        self._each_turn = each_turn
        self._likely: dict[int, None] = {}
        self._asked: dict[int, list[asyncio.Future[int | None]]] = {}  # by inode: for the next walk
        self._wanted: dict[int, list[asyncio.Future[int | None]]] = {}  # by inode: for the walk under way
        self._walk: Iterator[tuple[int, int]] | None = None
        self._seen: dict[int, int] = {}  # inode of a socket: the first process that was seen with it

    async def find(self, inode: int, likely: Iterable[int]) -> int | None:
        """Return a process that holds the socket `inode`, looking at `likely` ones first, then at the
        youngest.

        None when no process is seen with it: it is another user's, in another pid namespace, or gone.

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
        """Walk for one turn, and schedule the next one while a caller waits."""
        if self._walk is None:
            self._wanted, self._asked = self._asked, {}
            self._walk = _sockets(self._likely)
            self._likely = {}
            self._seen = {}
        for number, (pid, inode) in enumerate(self._walk, 1):
            if inode and len(self._seen) < _MOST_SEEN:
                self._seen.setdefault(inode, pid)
            self._found(inode, pid)
            if not self._wanted or number == self._each_turn:
                break
        else:  # every process was looked at
            for inode in list(self._wanted):
                self._settle(self._wanted, inode, None)
        if not self._wanted:
            self._walk = None
        if self._wanted or self._asked:
            loop.call_soon(self._go_on, loop)

    def _found(self, inode: int, pid: int) -> None:
        """Answer the callers that wait for a socket, also those that asked during the walk: it may reach
        theirs only now.
        """
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
    for pid in sorted(all_pids(), reverse=True):
        if pid not in tried:
            yield pid, 0
            for inode in sockets_of(pid):
                yield pid, inode
