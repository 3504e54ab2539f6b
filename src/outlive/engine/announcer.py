"""Telling subscribers what happened: events are made only when somebody listens, and nothing is queued."""

import logging
from collections.abc import Callable

from outlive.core.events import Event, ProcessClosed, ProcessCompleted, StateChanged
from outlive.engine.process import Change, Process

__all__ = ["Announcer"]

_logger = logging.getLogger(__name__)


class Announcer:
    """The list of subscribers; called on the event loop only."""

    def __init__(self) -> None:
        """Nobody listens yet."""
        self._subscribers: tuple[tuple[Callable[[Event], None]], ...] = ()

    def subscribe(self, callback: Callable[[Event], None]) -> Callable[[], None]:
        """Call `callback` for every event from now on; return what ends that (may be called twice)."""
        entry = (callback,)  # an identity of its own: the same callable may subscribe twice
        self._subscribers = (*self._subscribers, entry)

        def unsubscribe() -> None:
            self._subscribers = tuple(other for other in self._subscribers if other is not entry)

        return unsubscribe

    def emit(self, event: Event) -> None:
        """Tell everybody; a subscriber's fault is logged and hurts nobody else."""
        for (callback,) in self._subscribers:
            try:
                callback(event)
            except Exception:
                _logger.exception("a subscriber of events failed")

    def tell(self, kind: Callable[..., Event], process: Process) -> None:
        """Tell an event that carries the process's record."""
        if self._subscribers:
            self.emit(kind(record=process.record))

    def tell_changes(self, process: Process, changes: int) -> None:
        """Tell what the `Change` bits say."""
        if self._subscribers:
            for bit, kind in (
                (Change.STATE, StateChanged),
                (Change.COMPLETED, ProcessCompleted),
                (Change.CLOSED, ProcessClosed),
            ):
                if changes & bit:
                    self.emit(kind(record=process.record))
