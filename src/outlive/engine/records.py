"""`Records`: changing what is kept of processes: other tags, another group or name, removal."""

import asyncio
import contextlib
import functools
from collections.abc import Callable

from outlive.core.errors import BackendUnavailable, InvalidState, ProcessNotFound, StoreCorrupt
from outlive.core.events import ProcessRelabeled
from outlive.core.lifecycle import State
from outlive.core.values import dataclass
from outlive.engine.controls import Controls
from outlive.engine.health import DiskWatch
from outlive.engine.processes.event_publisher import EventPublisher
from outlive.engine.processes.process import Process, until
from outlive.engine.processes.process_table import RegistryFeed
from outlive.engine.recovery.upkeep import Upkeep
from outlive.engine.starts.names import NameHolders
from outlive.engine.starts.start_queue import StartQueue
from outlive.store.folder import ChangedLabels, write_labels
from outlive.store.registry import Registry
from outlive.store.writer import AUDIT_LOG

_CLOSED_S = 5.0  # when the tree is gone its streams have ended, unless a descriptor was handed to a stranger


@dataclass(eq=False, slots=True, kw_only=True)
class Records:
    """Changes what is kept. On the engine's loop only.

    `controls` end a process that is removed by force, `holders` know which names are free.
    """

    registry: Registry
    upkeep: Upkeep
    feed: RegistryFeed
    queue: StartQueue
    controls: Controls
    holders: NameHolders
    disk: DiskWatch
    events: EventPublisher

    async def relabel(self, process: Process, labels: ChangedLabels) -> None:
        """Give a process, running or ended, these tags, this group and this name instead of its own.

        They are on disk when this returns and survive every crash; whatever follows events hears of them.

        Raises:
            InvalidState: `name_taken`: both live, and the other one has the name; or `process_queued`.
            ProcessNotFound: It was removed meanwhile.
            StoreCorrupt: The disk did not take them.
            BackendUnavailable: `timeout`: the registry did not take them within 10 s.
        """
        if process.status.state is State.QUEUED:
            text = "The process waits for its turn: its labels can be changed once it runs."
            raise InvalidState("process_queued", text)
        record = process.record
        if labels.name is None or labels.name == record.name or process.status.is_ended:
            await self._label(process, labels)
            return
        place = (record.owner.principal, record.project or "")
        async with self.holders.locks.of((*place, labels.name)):
            await self.holders.check_free(labels.name, place)
            await self._label(process, labels)

    async def _label(self, process: Process, labels: ChangedLabels) -> None:
        try:
            await asyncio.to_thread(write_labels, process.folder, labels)
        except FileNotFoundError as error:
            raise ProcessNotFound("process_not_found", "The process was removed meanwhile.") from error
        except OSError as error:
            text = f"Tags and name cannot be written: {error.strerror}."
            raise StoreCorrupt("store_corrupt", text) from error
        self.queue.relabel(process, labels)
        self.registry.put(process.stored)
        if (
            process.status.is_ended
        ):  # no later server reads its folder again: lists would find it by its old labels after a crash
            await self.registry.flush()
        self.events.publish_process(ProcessRelabeled, process)

    async def remember_audit_log(self, tell_name: Callable[[Callable[[int], None]], None]) -> None:
        """Have the registry keep which audit log is this folder's, unless it knows one: a new one is
        distinguished by it.
        """
        if not await self.registry.counter(AUDIT_LOG):
            tell_name(functools.partial(self.registry.count_to, AUDIT_LOG))

    async def remove(self, process: Process, *, force: bool = False, note: str = "") -> None:
        """Forget a finished process: record, output and folder are gone when this returns.

        Args:
            process: What to remove.
            force: End it first (KILL at once) if it, or something of its tree, still runs.
            note: Which caller asked, for the record of that end.

        Raises:
            InvalidState: `process_running`: it or its descendants still run, and `force` is not set.
            BackendUnavailable: Its tree is not gone some seconds after the KILL, or the registry was not
            written.
            StoreCorrupt: The disk refused it.
            LimitExceeded: `read_only`.

        Cancellation: it may be removed all the same.
        """
        if self.disk.degraded == "read_only":
            await self.disk.check()  # before the row is gone: nothing can be removed there
        if not process.status.is_finished:
            if not force:
                raise InvalidState(
                    "process_running",
                    f"The process {process.process_id} still runs, or something that it started.",
                    hint="End it first, or ask for it to be ended with its removal.",
                )
            with contextlib.suppress(InvalidState):  # it ended meanwhile
                await self.controls.end(process, grace_s=0.0, note=note)
            await self._closed(process)
        letting_go = functools.partial(self.feed.forget, process)
        try:
            await self.upkeep.remove(process.process_id, process.record, letting_go=letting_go)
        except OSError as error:
            text = f"The folder of the process cannot be removed: {error.strerror}."
            raise StoreCorrupt("store_corrupt", text) from error
        await self.registry.flush()

    async def _closed(self, process: Process) -> None:
        try:
            async with asyncio.timeout(_CLOSED_S):
                await until(process, lambda one: one.status.is_finished)
        except TimeoutError:
            text = f"Somebody outside the tree of process {process.record.pid} holds its streams open."
            raise BackendUnavailable("timeout", text) from None
