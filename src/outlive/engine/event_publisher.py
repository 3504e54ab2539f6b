"""What happened, told by the engine to whoever listens; and the verbs on behalf of a caller."""

from collections.abc import Awaitable, Callable, Collection

from outlive.core.cursor import Cursor
from outlive.core.errors import BackendUnavailable, OutliveError
from outlive.core.events import AuditEvent, Event, StartRejected
from outlive.core.process import Owner, ProcessRecord
from outlive.engine.announcer import Announcer
from outlive.engine.audited_controls import AuditedControls
from outlive.engine.inside import check_raw
from outlive.engine.queries import Queries
from outlive.engine.queue import Queueing


class Announcing(Queueing, Queries):
    """One part of `Engine`: events."""

    _announcer: Announcer
    _witness: Callable[[AuditEvent], Awaitable[None]] | None = None

    def witness_with(self, witness: Callable[[AuditEvent], Awaitable[None]]) -> None:
        """Have what must not happen unrecorded told to `witness`, which returns when it is recorded or raises."""
        self._witness = witness

    async def read_raw(
        self, by: Owner, process_id: str | None, begin: Cursor | None = None, end: Cursor | None = None
    ) -> None:
        """Let a caller see secrets once, and return when that is in the audit log (where the operator wants one).

        Args:
            by: Who asks.
            process_id: Whose output; None where it is what waits for approvals.
            begin: From where on,
            end: and to where; None: and whatever comes.

        Raises:
            AccessDenied: `scope_missing`: the scope admin is needed, from outside of what was started here.
            BackendUnavailable: `audit_unavailable`: it cannot be recorded, and must not be done.
        """
        check_raw(by)
        if self._witness is not None:
            places = (("from", begin), ("to", end))
            details = {name: str(place) for name, place in places if place is not None}
            await self._witness(AuditEvent(what="read_raw", by=by, process_id=process_id, details=details))

    def subscribe_events(
        self, callback: Callable[[Event], None], *, kinds: Collection[type[Event]] | None = None
    ) -> Callable[[], None]:
        """Call `callback` on the loop for every event (of these kinds) from now on; return what ends that.

        It must be quick and must not raise (it is logged if it does); nothing is queued for it.
        """
        return self._announcer.subscribe(callback, kinds)

    def announce(self, deed: AuditEvent) -> None:
        """Tell what a caller did, or was refused, at a door."""
        self._announcer.emit(deed)

    def on_behalf(self, by: Owner) -> AuditedControls:
        """Return the verbs on a process, for a caller: what is asked there is announced."""
        return AuditedControls(self, self, by, announce=self.announce)

    def _announce_rejection(self, owner: Owner, code: str, *, command: str) -> None:
        self._announcer.emit(StartRejected(principal=owner.principal, code=code, by=owner, command=command))

    def _announce_failure(self, record: ProcessRecord, error: OutliveError) -> None:
        """Tell that a process was not started; after a timeout it may still come to life in its container."""
        self._announcer.emit(
            StartRejected(
                principal=record.owner.principal,
                code=error.code,
                by=record.owner,
                command=record.command,
                process_id=record.process_id,
                container=None if isinstance(error, BackendUnavailable) else record.location.container,
            )
        )
