"""Many small things under way at once: `Pipeline` reads small files whole, writes them whole, and hears later
what came of it.
"""

import hashlib
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from outlive.client.files.ends import FileEnd, Pending
from outlive.client.files.stream import AT_ONCE, check_unchanged, key_of, seal_of
from outlive.core.errors import OutliveError
from outlive.core.file_words import PIECE_BYTES

Members = Mapping[str, Any]


class Pipeline:
    """At most `AT_ONCE` in each direction: one more waits for the oldest."""

    def __init__(
        self,
        source: FileEnd,
        target: FileEnd,
        *,
        arrived: Callable[[int], None],
        leave_out: Callable[[str, OutliveError], None],
    ) -> None:
        """Take both ends.

        Args:
            source: Where files are.
            target: Where they will be.
            arrived: Called with the size of each file that has its name.
            leave_out: Called with the name of what failed, and why; raises what ends the copy.
        """
        self._source = source
        self._target = target
        self._arrived = arrived
        self._leave_out = leave_out
        self._reads: deque[tuple[str, Members, Pending]] = deque()
        self._writes: deque[tuple[str, int | None, Pending]] = deque()

    async def send(self, name: str, entry: Members) -> None:
        """Begin to copy a file of one piece."""
        self._reads.append((name, entry, await self._source.read(name, 0, PIECE_BYTES)))
        if len(self._reads) >= AT_ONCE:
            await self._take_read()

    async def _take_read(self) -> None:
        """Take the oldest small file that was asked for, and send it on."""
        name, entry, pending = self._reads.popleft()
        try:
            found = await pending.result()
            data = found["data"]
            check_unchanged(name, entry, found, is_whole=len(data) == entry["size"])
            seal = seal_of(entry, hashlib.sha256(data).hexdigest())
            writing = await self._target.write(name, key_of(entry), 0, data, cut=True, seal=seal)
        except OutliveError as error:
            self._leave_out(name, error)
            return
        await self.wait_for(name, entry["size"], writing)

    async def wait_for(self, name: str, size: int | None, pending: Pending) -> None:
        """Take note of something that was begun at the target; `size` is that of a file that is whole with
        it.
        """
        self._writes.append((name, size, pending))
        if len(self._writes) >= AT_ONCE:
            await self._take_write()

    async def _take_write(self) -> None:
        name, size, pending = self._writes.popleft()
        try:
            await pending.result()
        except OutliveError as error:
            self._leave_out(name, error)
            return
        if size is not None:
            self._arrived(size)

    async def drain(self) -> None:
        """Wait for everything that is under way."""
        while self._reads:
            await self._take_read()
        while self._writes:
            await self._take_write()
