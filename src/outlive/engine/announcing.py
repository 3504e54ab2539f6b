"""What happened, told by the engine to whoever listens; and the verbs on behalf of a caller."""

from collections.abc import Awaitable, Callable, Collection

from outlive.core.events import Deed, Event, StartRejected
from outlive.core.process import Owner
from outlive.engine.announcer import Announcer
from outlive.engine.asked import Asked
from outlive.engine.queries import Queries
from outlive.engine.queueing import Queueing

__all__ = ["Announcing"]


class Announcing(Queueing, Queries):
    """One part of `Engine`: events."""

    _announcer: Announcer
    _witness: Callable[[Deed], Awaitable[None]] | None = None

    def witness_with(self, witness: Callable[[Deed], Awaitable[None]]) -> None:
        """Have what must not happen unrecorded told to `witness`, which returns when it is recorded or raises."""
        self._witness = witness

    async def record(self, deed: Deed) -> None:
        """Return when a deed is recorded; at once where the operator wants no record.

        Raises:
            BackendUnavailable: `audit_unavailable`: it cannot be recorded, and must not be done.
        """
        if self._witness is not None:
            await self._witness(deed)

    def subscribe_events(
        self, callback: Callable[[Event], None], *, kinds: Collection[type[Event]] | None = None
    ) -> Callable[[], None]:
        """Call `callback` on the loop for every event (of these kinds) from now on; return what ends that.

        It must be quick and must not raise (it is logged if it does); nothing is queued for it.
        """
        return self._announcer.subscribe(callback, kinds)

    def announce(self, deed: Deed) -> None:
        """Tell what a caller did, or was refused, at a door."""
        self._announcer.emit(deed)

    def on_behalf(self, by: Owner) -> Asked:
        """Return the verbs on a process, for a caller: what is asked there is announced."""
        return Asked(self, self, by, announce=self.announce, record=self.record)

    def _announce_rejection(
        self, owner: Owner, code: str, *, command: str, process_id: str | None = None
    ) -> None:
        self._announcer.emit(
            StartRejected(
                principal=owner.principal, code=code, by=owner, command=command, process_id=process_id
            )
        )
