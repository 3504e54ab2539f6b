"""`EventPublisher`: what happened, for its subscribers.

Events are made only for subscribers, and nothing is queued.

Frontends, logs, metrics and the audit log subscribe here. An act that must not happen unrecorded has a
witness: the audit log, which returns when the act is recorded or raises.

Processes that wait for a reader that is gone: `Unread` lets them go on.

With `on_limit` "block" a process waits until its output was delivered. When no reader follows it any more
(its reader was killed, its terminal closed) no client will ever report that: the process would stand still
for ever, and silently.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from typing import get_args

from outlive.backends.contract import Backend
from outlive.core.controls import Unbind
from outlive.core.errors import AccessDenied, BackendUnavailable, CommandRefused, OutliveError
from outlive.core.events import (
    AuditEvent,
    Event,
    InputRequested,
    ProcessClosed,
    ProcessCompleted,
    ProcessRecovered,
    ProcessRelabeled,
    ProcessStarted,
    SessionEnded,
    StartRejected,
    StateChanged,
)
from outlive.core.process import Owner, ProcessRecord
from outlive.core.values import dataclass, field
from outlive.engine.processes.process import Process
from outlive.engine.processes.process_state import Change

_logger = logging.getLogger(__name__)

_Subscriber = Callable[[Event], object]  # what it returns is of no interest here
_Witness = Callable[[AuditEvent], Awaitable[None]]
_Entry = tuple[_Subscriber, frozenset[type[Event]]]
_ProcessEvent = (
    ProcessStarted
    | ProcessRecovered
    | StateChanged
    | InputRequested
    | ProcessCompleted
    | ProcessClosed
    | ProcessRelabeled
    | SessionEnded
)
_KINDS: tuple[tuple[int, type[_ProcessEvent]], ...] = (
    (int(Change.STATE), StateChanged),
    (int(Change.COMPLETED), ProcessCompleted),
    (int(Change.CLOSED), ProcessClosed),
)


@dataclass(eq=False, slots=True, kw_only=True)
class EventPublisher:
    """The list of subscribers; called on the event loop only."""

    _subscribers: tuple[_Entry, ...] = field(default=(), init=False)
    _callbacks: dict[type[Event], tuple[_Subscriber, ...]] = field(default_factory=dict, init=False)
    _witness: _Witness | None = field(default=None, init=False)
    _recorded: Callable[[], Awaitable[None]] | None = field(default=None, init=False)

    def subscribe(
        self, callback: _Subscriber, *, kinds: Collection[type[Event]] | None = None
    ) -> Callable[[], None]:
        """Call `callback` for every event (of these kinds) from now on.

        Return what ends that (may be called twice).

        It must be quick and must not raise (it is logged if it does); nothing is queued for it.
        """
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

    def publish(self, event: Event) -> None:
        """Call the subscribers; a subscriber's fault is logged and hurts no other."""
        for callback in self._callbacks.get(type(event), ()):
            try:
                callback(event)
            except Exception:
                _logger.exception("a subscriber of events failed")

    def publish_process(self, kind: type[_ProcessEvent], process: Process) -> None:
        """Publish an event that carries the process's record, which is made only if there is a subscriber."""
        if kind in self._callbacks:
            self.publish(kind(record=process.record))

    def publish_changes(self, process: Process, changes: int) -> None:
        """Publish what the `Change` bits say."""
        for bit, kind in _KINDS:
            if changes & bit:
                self.publish_process(kind, process)

    def publish_refusal(self, owner: Owner, code: str, *, command: str) -> None:
        """Publish that a command was refused before a process was made of it."""
        self.publish(StartRejected(principal=owner.principal, code=code, by=owner, command=command))

    def publish_failure(self, record: ProcessRecord, error: OutliveError) -> None:
        """Publish that a process was not started.

        After a timeout it may still come to life in its container.
        """
        self.publish(
            StartRejected(
                principal=record.owner.principal,
                code=error.code,
                by=record.owner,
                command=record.command,
                process_id=record.process_id,
                container=None if isinstance(error, BackendUnavailable) else record.location.container,
            )
        )

    @contextlib.contextmanager
    def audited(
        self,
        what: str,
        by: Owner,
        *,
        details: Mapping[str, str | int | bool],
        process_id: str | None = None,
    ) -> Iterator[None]:
        """Publish for the audit log what a caller does in the block, or why it was denied or failed;
        `details` as they are then.
        """
        try:
            yield
        except OutliveError as error:
            is_denied = isinstance(error, CommandRefused | AccessDenied)
            self.publish(
                AuditEvent(
                    what=what,
                    by=by,
                    decision="denied" if is_denied else "failed",
                    reason=error.code,
                    process_id=process_id,
                    details=details,
                )
            )
            raise
        self.publish(AuditEvent(what=what, by=by, process_id=process_id, details=details))

    def witness_with(self, witness: _Witness, recorded: Callable[[], Awaitable[None]]) -> None:
        """Have `witness` record what must not happen unrecorded, and `recorded` say when refusals are.

        The first returns when that is recorded, or raises; the second returns.
        """
        self._witness, self._recorded = witness, recorded

    async def recorded(self) -> None:
        """Return when the refusals that were published are in the audit log: then they may be answered."""
        if self._recorded is not None:
            await self._recorded()

    async def witness(self, event: AuditEvent) -> None:
        """Return when an act is in the audit log (where the operator wants one).

        Raises:
            BackendUnavailable: `audit_unavailable`: it cannot be recorded, and must not be done.
        """
        if self._witness is not None:
            await self._witness(event)


_LOOK_S = 0.5


@dataclass(eq=False, slots=True)
class Unread:
    """Watches what is blocked; a process that had no reader for `grace_s` seconds waits for none any more.

    As a client whose connection was lost, a reader may come back. `output_limit` is what holds for a process
    that waits for no reader any more.
    """

    backend: Backend
    grace_s: float
    output_limit: int | None
    _since: dict[Process, float | None] = field(default_factory=dict, init=False)
    _woken: asyncio.Event = field(default_factory=asyncio.Event, init=False)

    def changed(self, process: Process) -> None:
        """Look at a process whose flags have changed."""
        if process.status.is_blocked and process not in self._since:
            self._since[process] = None
            self._woken.set()

    async def run(self) -> None:
        """Look twice a second while something is blocked; until cancelled."""
        while True:
            await self._woken.wait()
            while self._since:
                await asyncio.sleep(_LOOK_S)
                await self._look(asyncio.get_running_loop().time())
            self._woken.clear()

    async def _look(self, now: float) -> None:
        for process, since in list(self._since.items()):
            if not process.status.is_blocked or process.status.is_closed:
                del self._since[process]
            elif process.subscribers.has_reader:
                self._since[process] = None
            elif since is None:
                self._since[process] = now
            elif now - since >= self.grace_s:
                with contextlib.suppress(
                    OutliveError
                ):  # the keeper does not answer: the next look asks again
                    await self.backend.control(process.process_id, Unbind(output_limit=self.output_limit))
