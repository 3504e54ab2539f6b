"""The verbs on a process on behalf of a caller: what was asked, by which caller, and whether it was done, is
published.

Frontends call the engine through this (`Engine.as_`) where a caller asks for something; what the server does
by itself it does directly. What is decided here is one thing, for every verb: a caller that lives in a
process of ours acts on no process with a weaker profile (`check_reach`). The frontends have decided before
whose processes a caller sees.
"""

import contextlib
from collections.abc import AsyncIterable, AsyncIterator, Mapping

from outlive.core.controls import CloseOutput, Control, SignalProcess
from outlive.core.cursor import Cursor
from outlive.core.errors import ProcessNotFound
from outlive.core.events import AuditEvent
from outlive.core.process import Owner
from outlive.core.values import dataclass
from outlive.engine.controls import Controls
from outlive.engine.processes.event_publisher import EventPublisher
from outlive.engine.processes.process import Process
from outlive.engine.queries import Queries, check_raw, check_reach, check_request
from outlive.engine.records import Records
from outlive.store.folder import ChangedLabels


@dataclass(eq=False, slots=True)
class AuditedControls:
    """What changes processes, for one caller, `by`; `queries` knows the process in which it may live.

    Each method does what its namesake in `Controls` or `Records` does.

    Each raises CommandRefused (`profile_too_weak`) where `check` does.
    """

    by: Owner
    controls: Controls
    records: Records
    queries: Queries
    events: EventPublisher

    async def control(self, process: Process, operation: Control) -> None:
        """Carry out an operation; the audit log has it under the operation's verb."""
        details: dict[str, int | str | bool] = {}
        match operation:
            case SignalProcess(signal=number, whole_tree=whole_tree):
                details = {"signal": number, "whole_tree": whole_tree}
            case CloseOutput(stream=stream):
                details = {"stream": stream}
        async with _audited(self, operation.verb, process, **details):
            await self.controls.control(process, operation)

    async def cancel(self, process: Process, *, grace_s: float | None = None, note: str = "") -> None:
        """End the whole tree: TERM now, KILL after the grace period."""
        async with _audited(self, "cancel", process):
            await self.controls.cancel(process, grace_s=grace_s, note=note)

    async def end(self, process: Process, *, grace_s: float, note: str) -> bool:
        """End the whole tree and return when it is gone, and whether the KILL was needed."""
        async with _audited(self, "cancel", process):
            return await self.controls.end(process, grace_s=grace_s, note=note)

    async def write(self, process: Process, data: bytes | memoryview | AsyncIterable[bytes]) -> int:
        """Write to the process's input; how many bytes they were is published once, what they were never."""
        async with _audited(self, "write", process) as details:
            details["bytes"] = 0
            written = await self.controls.write(process, data)
            details["bytes"] = written
        return written

    async def move(self, process: Process, *, places: int) -> None:
        """Put a command that waits for its turn back, or forward, in its group's line."""
        async with _audited(self, "move", process, places=places):
            await self.controls.move(process, places)

    async def relabel(
        self, process: Process, *, tags: Mapping[str, str], group: str | None, name: str | None
    ) -> None:
        """Give a process other tags, another group and another name."""
        async with _audited(self, "relabel", process):
            await self.records.relabel(process, ChangedLabels(tags=tags, group=group, name=name))

    async def remove(self, process: Process, *, force: bool = False, note: str = "") -> None:
        """Forget a finished process."""
        async with _audited(self, "remove", process, force=force):
            await self.records.remove(process, force=force, note=note)

    async def release(
        self, process: Process, *, stdout_bytes: int = 0, stderr_bytes: int = 0, unbound: bool = False
    ) -> None:
        """Let go of output that was delivered.

        Not published, because a reader does it many times a second.
        """
        await self.check(process)
        await self.controls.release(
            process, stdout_bytes=stdout_bytes, stderr_bytes=stderr_bytes, unbound=unbound
        )

    async def read_raw(
        self, process_id: str | None, begin: Cursor | None = None, end: Cursor | None = None
    ) -> None:
        """Let the caller see secrets once, and return when that is in the audit log (where the operator wants
        one). A program of this machine that follows what it has started itself, as `outlive run` does, looks
        at nothing that was kept: the start is its entry.

        Args:
            process_id: Whose output; None where it is what waits for approvals.
            begin: From where on,
            end: and to where; None: and whatever comes.

        Raises:
            AccessDenied: `scope_missing`: the scope admin is needed, from outside of what was started here.
            BackendUnavailable: `audit_unavailable`: it cannot be recorded, and must not be done.
        """
        check_raw(self.by)
        if end is None and process_id is not None and await self._has_started(process_id):
            return
        places = (("from", begin), ("to", end))
        details = {name: str(place) for name, place in places if place is not None}
        await self.events.witness(
            AuditEvent(what="read_raw", by=self.by, process_id=process_id, details=details)
        )

    async def _has_started(self, process_id: str) -> bool:
        if not self.by.address.startswith("unix pid "):
            return False
        try:
            process = await self.queries.find(process_id)
        except ProcessNotFound:
            return False
        return process.record.owner.address == self.by.address

    async def check(self, what: Process | Owner) -> None:
        """Let the caller act by a verb that is none of these on a process, or cancel a request that has
        started none yet.

        Args:
            what: The process, or the principal that sent the request.

        Raises:
            CommandRefused: `profile_too_weak`: the caller lives in a process of ours with a stronger profile
                than that process has, or than what the request starts may have.
        """
        if isinstance(what, Owner):
            await check_request(self.queries, what, self.by)
        else:
            await check_reach(self.queries, what, self.by)


@contextlib.asynccontextmanager
async def _audited(
    acting: AuditedControls, what: str, process: Process, **details: int | str | bool
) -> AsyncIterator[dict[str, int | str | bool]]:
    """Check that the caller may act on a process; publish what was done, or why it was not."""
    with acting.events.audited(what, acting.by, details=details, process_id=process.process_id):
        await acting.check(process)
        yield details
