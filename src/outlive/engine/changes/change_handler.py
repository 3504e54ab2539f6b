"""`ChangeHandler`: what the engine does when something about a process has changed.

Called for doorbells, for ends that were found in files, and for what the engine decides itself. One place, so that an end
is recorded, lets the next of its group start and is published, in this order, whoever has found it.
"""

from outlive.core.events import ProcessRecovered, StateChanged
from outlive.engine.processes.event_publisher import EventPublisher
from outlive.engine.processes.output_redaction import Redaction
from outlive.engine.processes.process import Process
from outlive.engine.processes.process_state import Change
from outlive.engine.processes.registry_feed import RegistryFeed
from outlive.engine.processes.unread import Unread
from outlive.engine.queue.groups import ConcurrencyLimits

_ENDING = int(Change.COMPLETED | Change.CLOSED)


class ChangeHandler:
    """Passes a change on to the parts that have to do with it. On the engine's loop only."""

    def __init__(
        self,
        feed: RegistryFeed,
        limits: ConcurrencyLimits,
        *,
        unread: Unread,
        redaction: Redaction,
        events: EventPublisher,
    ) -> None:
        """Take those parts."""
        self._feed = feed
        self._limits = limits
        self._unread = unread
        self._redaction = redaction
        self._events = events

    def changed(self, process: Process, changes: int) -> None:
        """Record and publish what a doorbell (or the files) changed; `changes` are `Change` bits."""
        if changes & _ENDING and process.has_secrets:
            self._redaction.note_masks(process.record, process.folder)
        if process.is_ended:  # the keeper says what lives; the row of a live process needs no update
            self._feed.note(process)
            self._limits.leave(process)
        self._unread.changed(process)
        self._events.publish_changes(process, changes)

    def adopted(self, process: Process) -> None:
        """Count and publish a process of an earlier server that was found again."""
        self._limits.enter(process)
        self._unread.changed(process)
        self._events.publish_process(ProcessRecovered, process)

    def queued(self, process: Process) -> None:
        """Record and publish that a new process waits, for an approval or for its group's turn."""
        self._feed.note(process)
        self._events.publish_process(StateChanged, process)
