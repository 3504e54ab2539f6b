"""`StartOutcomes`: what became of a start, whether it was asked for at once or after waiting for its turn."""

from dataclasses import replace

from outlive.backends.contract import StartOutcome
from outlive.core.errors import BackendUnavailable, OutliveError, StartFailed
from outlive.core.events import ProcessStarted
from outlive.core.lifecycle import Cause, State
from outlive.engine.changes.change_handler import ChangeHandler
from outlive.engine.changes.process_table import ProcessTable
from outlive.engine.processes.event_publisher import EventPublisher
from outlive.engine.processes.output_redaction import Redaction, hide_error
from outlive.engine.processes.process import Process
from outlive.engine.processes.registry_feed import RegistryFeed
from outlive.engine.queue.groups import ConcurrencyLimits
from outlive.store.registry import Registry
from outlive.store.rows import StoredProcess


class StartOutcomes:
    """Takes over the backend's answers to starts.

    Attributes:
        started_count: How many processes this server has started; an event for each would cost every start.
    """

    def __init__(
        self,
        table: ProcessTable,
        registry: Registry,
        *,
        feed: RegistryFeed,
        limits: ConcurrencyLimits,
        changes: ChangeHandler,
        redaction: Redaction,
        events: EventPublisher,
    ) -> None:
        """Take what must learn of an outcome."""
        self.started_count = 0
        self._table = table
        self._registry = registry
        self._feed = feed
        self._limits = limits
        self._changes = changes
        self._redaction = redaction
        self._events = events

    def settle(self, process: Process, outcome: StartOutcome | OutliveError) -> None:
        """Take over the answer to a start that did not wait."""
        if isinstance(outcome, StartOutcome):
            self.started(process, outcome)
        else:
            self._failed(process, outcome)

    def started(self, process: Process, outcome: StartOutcome) -> None:
        """Take over that a process runs."""
        self.started_count += 1
        process.status.confirm_start(outcome.pid, outcome.started_ns)
        process.subscribers.wake()
        if outcome.is_existing:
            self._table.doubt(process)
        self._feed.note(process)
        self._events.publish_process(ProcessStarted, process)

    def never_started(self, process: Process, *, cause: Cause, error: str) -> None:
        """End a process that has waited and will not run any more."""
        stored = _failed_record(process, error, cause=cause)
        changes = process.settle_from(stored)
        process.subscribers.wake()
        self._changes.changed(process, changes)

    def _failed(self, process: Process, error: OutliveError) -> None:
        """Forget a start that failed; after a timeout it may still come to life and is then unknown."""
        hide_error(error, self._redaction.texts_of(process.process_id))
        self._table.leave(process)
        self._limits.leave(process)
        record = process.record
        if not isinstance(error, BackendUnavailable):
            stored = _failed_record(process, error.message, cause=record.cause)
            process.settle_from(stored)  # for callers that have found it already, and want to end it
            process.subscribers.wake()
            if isinstance(error, StartFailed):
                self._registry.put(stored)
        self._events.publish_failure(record, error)


def _failed_record(process: Process, error: str, *, cause: Cause) -> StoredProcess:
    """Return what is kept of a process that has never run."""
    record = replace(
        process.record,
        state=State.FAILED_TO_START,
        cause=cause,
        error=error,
        is_complete=True,
        is_closed=True,
    )
    return StoredProcess(record=record, complete=record.cursor, output_limit=process.output_limit)
