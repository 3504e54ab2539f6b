"""The engine's events as one connection gets them: `EventFeed`.

There is no history of events: what stays is the record of each process. While a client does not read, up to 1
MiB of events wait for it. Those beyond are counted, and the event `missed` has their number.
"""

from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime

from outlive.core.events import (
    ApprovalDecided,
    ApprovalRequested,
    Event,
    KeeperConnected,
    KeeperDisconnected,
    NodeAway,
    NodeConnected,
    ProcessClosed,
    ProcessCompleted,
    ProcessRecovered,
    ProcessRelabeled,
    ProcessRemoved,
    ProcessStarted,
    SessionEnded,
    StartRejected,
    StateChanged,
)
from outlive.core.lifecycle import State
from outlive.core.process import ProcessRecord
from outlive.core.values import dataclass, field
from outlive.engine import Engine
from outlive.frontends.jsonrpc.sessions import Session
from outlive.protocols.jsonrpc.answers import EventFilter, EventName, encode_event
from outlive.protocols.websocket_frames import text_frame
from outlive.server.http.websocket_io import Outbox
from outlive.server.sender import Spawn

_KEPT_BYTES = 1024 * 1024
_NAMES: dict[type[Event], EventName] = {
    ProcessStarted: "started",
    ProcessRecovered: "recovered",
    ProcessCompleted: "ended",
    ProcessClosed: "closed",
    ProcessRelabeled: "relabeled",
    SessionEnded: "session_ended",
    ProcessRemoved: "removed",
    StartRejected: "rejected",
    ApprovalRequested: "approval_requested",
    ApprovalDecided: "approval_decided",
    KeeperConnected: "keeper_connected",
    KeeperDisconnected: "keeper_disconnected",
    NodeConnected: "node_connected",
    NodeAway: "node_away",
}
# The member of an event that becomes `reason`.
_REASONS: dict[type[Event], str] = {StartRejected: "code", NodeAway: "reason", ApprovalDecided: "verdict"}
_STATES: dict[State, EventName] = {
    State.QUEUED: "queued",
    State.PAUSED: "paused",
    State.STOPPING: "stopping",
}


@dataclass(eq=False, slots=True)
class EventFeed:
    """Sends a connection the events that it may see and wants. Used on the event loop only."""

    engine: Engine
    session: Session
    outbox: Outbox
    spawn: Spawn
    _wanted: EventFilter = field(default_factory=EventFilter, init=False)
    _paused: set[str] = field(default_factory=set, init=False)
    _ended: ProcessRecord | None = field(default=None, init=False)  # what the last `ended` has shown
    _kept: deque[bytes] = field(default_factory=deque, init=False)
    _kept_bytes: int = field(default=0, init=False)
    _missed: int = field(default=0, init=False)
    _is_draining: bool = field(default=False, init=False)
    _unsubscribe: Callable[[], None] | None = field(default=None, init=False)

    def begin(self, wanted: EventFilter) -> None:
        """Send what happens from now on, instead of what was wanted before."""
        self.close()
        self._wanted = wanted
        self._paused = {
            one.process_id for one in self.engine.queries.live() if one.status.state is State.PAUSED
        }
        self._unsubscribe = self.engine.events.subscribe(self._hear, kinds=[StateChanged, *_NAMES])

    def close(self) -> None:
        """Send nothing more. Safe to repeat."""
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None
        self._kept.clear()
        self._kept_bytes = self._missed = 0

    def _hear(self, event: Event) -> None:
        kind = type(event)
        record: ProcessRecord | None = getattr(event, "record", None)
        name = self._state_name(event.record) if isinstance(event, StateChanged) else _NAMES[kind]
        if isinstance(event, StartRejected):
            may_see = event.principal == self.session.principal
        elif record is None:
            # Of one without a record the owner is not known: no client may see it.
            may_see = kind is not ProcessRemoved
        else:
            may_see = self.session.may_see(record)
        if name is None or not may_see or not self._wanted.matches(name, record):
            return
        if self._wanted.is_distinct:
            if kind is ProcessClosed and record is self._ended:
                return  # one doorbell has told both, and this event would show the same once more
            self._ended = record if kind is ProcessCompleted else None
        reason: str | None = getattr(event, _REASONS.get(kind, ""), None)
        node = event.name if isinstance(event, NodeConnected | NodeAway) else None
        self._send(encode_event(name, record, at=datetime.now(UTC), reason=reason, node=node))

    def _state_name(self, record: ProcessRecord) -> EventName | None:
        """Return the name of a change of state; None for those that have an event of their own."""
        process_id, state = record.process_id, record.state
        was_paused = process_id in self._paused
        if state is State.PAUSED:
            self._paused.add(process_id)
            return None if was_paused else "paused"
        self._paused.discard(process_id)
        if state is State.RUNNING:
            return "resumed" if was_paused else None
        return _STATES.get(state)

    def _send(self, message: bytes) -> None:
        frame = text_frame(message)
        if not self._kept and not self._is_draining and self.outbox.is_ready:
            self.outbox.write(frame)
            return
        if self._missed or self._kept_bytes + len(frame) > _KEPT_BYTES:
            self._missed += 1
        else:
            self._kept.append(frame)
            self._kept_bytes += len(frame)
        if not self._is_draining:
            self._is_draining = True
            self.spawn(self._drain())

    async def _drain(self) -> None:
        """Send what is kept as fast as the client reads it."""
        try:
            while self._kept or self._missed:
                if self._kept:
                    frame = self._kept.popleft()
                    self._kept_bytes -= len(frame)
                else:
                    missed, self._missed = self._missed, 0
                    frame = text_frame(encode_event("missed", None, at=datetime.now(UTC), missed=missed))
                await self.outbox.send(frame)
                if self.outbox.is_closed:
                    self.close()
        finally:
            self._is_draining = False
