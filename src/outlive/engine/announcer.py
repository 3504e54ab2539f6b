"""Telling subscribers what happened: events are made only when somebody listens, and nothing is queued."""

import logging
from collections.abc import Callable, Collection
from typing import get_args

from outlive.core.events import (
    Event,
    KeeperConnected,
    KeeperDisconnected,
    NodeAway,
    NodeConnected,
    ProcessClosed,
    ProcessCompleted,
    ProcessRecovered,
    ProcessStarted,
    StateChanged,
)
from outlive.engine.process import Process
from outlive.engine.told import Change

_logger = logging.getLogger(__name__)

_Entry = tuple[Callable[[Event], None], frozenset[type[Event]]]
_Telling = ProcessStarted | ProcessRecovered | StateChanged | ProcessCompleted | ProcessClosed
_KINDS: tuple[tuple[int, type[_Telling]], ...] = (
    (int(Change.STATE), StateChanged),
    (int(Change.COMPLETED), ProcessCompleted),
    (int(Change.CLOSED), ProcessClosed),
)


class Announcer:
    """The list of subscribers; called on the event loop only."""

    def __init__(self) -> None:
        """Nobody listens yet."""
        self._subscribers: tuple[_Entry, ...] = ()
        self._callbacks: dict[type[Event], tuple[Callable[[Event], None], ...]] = {}

    def subscribe(
        self, callback: Callable[[Event], None], kinds: Collection[type[Event]] | None = None
    ) -> Callable[[], None]:
        """Call `callback` for every event (of these kinds) from now on; return what ends that (may be called twice)."""
        # A tuple has an identity of its own: the same callable may subscribe twice.
        entry = (callback, frozenset(get_args(Event) if kinds is None else kinds))
        self._set((*self._subscribers, entry))

        def unsubscribe() -> None:
            self._set(tuple(other for other in self._subscribers if other is not entry))

        return unsubscribe

    def _set(self, subscribers: "tuple[_Entry, ...]") -> None:
        self._subscribers = subscribers
        self._callbacks = {
            kind: tuple(callback for callback, kinds in subscribers if kind in kinds)
            for kind in frozenset().union(*(kinds for _, kinds in subscribers))
        }

    def emit(self, event: Event) -> None:
        """Tell everybody; a subscriber's fault is logged and hurts nobody else."""
        for callback in self._callbacks.get(type(event), ()):
            try:
                callback(event)
            except Exception:
                _logger.exception("a subscriber of events failed")

    def keeper_connected(self, pid: int, sessions: tuple[int, ...]) -> None:
        """Tell that the keeper answers."""
        self.emit(KeeperConnected(pid=pid, sessions=sessions))

    def keeper_disconnected(self) -> None:
        """Tell that the keeper is gone for the moment."""
        self.emit(KeeperDisconnected())

    def node_changed(self, name: str, reason: str | None) -> None:
        """Tell that a node is away, or (without a reason) there."""
        self.emit(NodeConnected(name=name) if reason is None else NodeAway(name=name, reason=reason))

    def tell(self, kind: type[_Telling], process: Process) -> None:
        """Tell an event that carries the process's record."""
        if kind in self._callbacks:
            self.emit(kind(record=process.record))

    def tell_changes(self, process: Process, changes: int) -> None:
        """Tell what the `Change` bits say."""
        for bit, kind in _KINDS:
            if changes & bit:
                self.tell(kind, process)
