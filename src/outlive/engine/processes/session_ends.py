"""`SessionEnds`: which MCP sessions their clients have ended, and so which processes are left behind by them.

An ended session ends no process. What it has started and still lives is marked (`ProcessRecord.is_session_over`), and `SessionEnded` is
published for each. The end is what the client says: a host that is killed says nothing, and its sessions look as if they went on.
"""

import asyncio
import contextlib

from outlive.core.events import SessionEnded
from outlive.engine.processes.event_publisher import EventPublisher
from outlive.engine.processes.process_table import LiveTable
from outlive.store.ended_sessions import connection_of, read_ended


class SessionEnds:
    """Marks what ended sessions have left behind. On the engine's loop only."""

    def __init__(self, path: str, processes: LiveTable, *, events: EventPublisher) -> None:
        """Take the file of ended sessions, which `frontends.mcp.http.sessions` writes, and what lives."""
        self._path = path
        self._processes = processes
        self._events = events

    async def open(self) -> None:
        """Read which sessions have ended; before what lives is found again."""
        # What was forgotten of the oldest (the file's floor) is of sessions years ago: nothing of them is marked.
        with contextlib.suppress(OSError):  # a file that cannot be read costs marks
            names, _ = await asyncio.to_thread(read_ended, self._path)
            for name in names:
                self._processes.end_connection(connection_of(name))

    def end(self, connection_id: str) -> None:
        """Note that a session is over; whatever follows events hears of the processes that it leaves."""
        for process in self._processes.end_connection(connection_id):
            self._events.publish_process(SessionEnded, process)
