"""The questions about processes: live, find, list, read, wait. Changes nothing."""

from collections.abc import Iterable
from typing import Literal

from outlive.core.cursor import Cursor
from outlive.core.process import ProcessRecord
from outlive.engine.process import Process
from outlive.store.output_log import OutputChunk
from outlive.store.rows import ProcessFilter

__all__ = ["Queries"]

# Spelled out here because inside the class `list` is the method.
Chunks = list[OutputChunk]
Processes = list[Process]
Records = list[ProcessRecord]


class Queries:
    """The other half of `Engine`: what can be known."""

    def live(self) -> Iterable[Process]:
        """Return the processes that can still change: running, draining, or with open streams or descendants."""
        raise NotImplementedError

    async def find(self, process_id: str) -> Process:
        """Return a process by its id: the live object, or an ended one loaded again.

        Raises:
            ProcessNotFound: Nobody knows this id (or retention removed it).
        """
        raise NotImplementedError

    async def list(self, wanted: ProcessFilter | None = None, *, limit: int = 50) -> Records:
        """Return records, newest first, live and ended; the next page is `before=` the last one's id."""
        raise NotImplementedError

    async def read(self, process: Process, cursor: Cursor, limit_bytes: int = 65536) -> Chunks:
        """Return output of both streams from `cursor` on, in the order it was written.

        Zero or more chunks; empty means "caught up", not "finished". A chunk with `is_gap` stands for output the
        log no longer holds. The next cursor is `OutputChunk.after(cursor, chunks)`.

        Cancellation: safe at any point; nothing is consumed.
        """
        raise NotImplementedError

    async def wait(self, process: Process, *, until: Literal["complete", "closed"] = "complete") -> None:
        """Return when the process is complete (ended, output whole) or closed (its streams ended too).

        Waits without a deadline of its own: put it under `asyncio.timeout`. Cancellation: safe.
        """
        raise NotImplementedError

    def of_connection(self, connection_id: str) -> Processes:
        """Return the live processes that a connection started, oldest first (also complete ones not yet closed)."""
        raise NotImplementedError

    async def ended_of_connection(self, connection_id: str) -> Processes:
        """Return the processes of a connection that are not live any more, oldest first (at most 1000)."""
        raise NotImplementedError

    def connections_waiting(self) -> set[str]:
        """Return the connections whose live, not detached processes were recovered from an earlier server."""
        raise NotImplementedError
