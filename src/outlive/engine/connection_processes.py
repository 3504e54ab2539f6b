"""`ConnectionProcesses`: which processes a connection has started, whichever server it was connected to then."""

from outlive.core.layout import Layout
from outlive.engine.changes.process_table import ProcessTable
from outlive.engine.processes.output_redaction import Redaction
from outlive.engine.processes.process import Process
from outlive.engine.queries import rows_as_they_are
from outlive.engine.recovery.reconciliation import Reconciliation
from outlive.engine.recovery.recovery import Recovery
from outlive.store.registry import Registry
from outlive.store.rows import ProcessFilter

_MAX_ENDED = 1000


class ConnectionProcesses:
    """Answers by connection. On the engine's loop only."""

    def __init__(
        self,
        layout: Layout,
        table: ProcessTable,
        *,
        registry: Registry,
        recovery: Recovery,
        reconciliation: Reconciliation,
        redaction: Redaction,
    ) -> None:
        """Take what knows of processes."""
        self._layout = layout
        self._table = table
        self._registry = registry
        self._recovery = recovery
        self._reconciliation = reconciliation
        self._redaction = redaction

    def live_of(self, connection_id: str) -> list[Process]:
        """Return the live processes that a connection started, oldest first (also complete ones not yet closed)."""
        return _oldest_first(self._table.processes.of_connection(connection_id))

    def running_of(self, connection_id: str) -> list[Process]:
        """Return those of them that are not complete, oldest first."""
        live = self._table.processes.of_connection(connection_id)
        return _oldest_first([process for process in live if not process.is_complete])

    async def ended_of(self, connection_id: str) -> list[Process]:
        """Return the processes of a connection that are not live any more, oldest first (the newest 1000).

        Together with an `live_of` right after it this misses none.
        """
        await self._reconciliation.listed()
        rows = await self._registry.list(ProcessFilter(connection_id=connection_id), limit=_MAX_ENDED)
        rows = await rows_as_they_are(self._layout, rows)
        live = {process.process_id for process in self.live_of(connection_id)}
        return [
            Process.from_stored(row, self._layout.process(row.record.process_id), redaction=self._redaction)
            for row in reversed(rows)
            if row.record.process_id not in live
        ]

    def waiting(self) -> set[str]:
        """Return the connections whose live, not detached processes were recovered from an earlier server."""
        return {
            process.connection_id
            for process in self._table.live.values()
            if process.connection_id in self._recovery.connections
            and process.connection_id
            and not process.is_detached
        }


def _oldest_first(processes: list[Process]) -> list[Process]:
    return sorted(processes, key=lambda process: process.process_id)
