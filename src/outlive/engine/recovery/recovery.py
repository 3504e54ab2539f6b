"""Finding again what earlier servers started, and what finished while no server watched.

Three sources, in this order of trust: the keeper (everything it mentions is live), the process folders, the
registry. Files are read in a thread; the loop's thread alone changes processes.
"""

import asyncio
import contextlib
import logging
import os
from collections.abc import Iterable, Mapping

from outlive.backends.contract import Bell
from outlive.core.errors import OutliveError
from outlive.core.identity import ProcessId, id_from_bytes, id_to_bytes
from outlive.core.layout import Layout
from outlive.core.lifecycle import State
from outlive.core.values import dataclass, field, replace
from outlive.engine.processes.output_redaction import Redaction
from outlive.engine.processes.process import Process
from outlive.engine.processes.process_state import Change
from outlive.engine.processes.process_table import ChangeHandler, ProcessTable
from outlive.kernel.processes import this_boot
from outlive.protocols.keeper import Phase
from outlive.store.folder import read_folder
from outlive.store.registry import Registry
from outlive.store.rows import StoredProcess

_logger = logging.getLogger(__name__)

_SLICE = 200  # folders read at once: the loop has its turns between
_PAUSE_S = 1.0  # after a failure


@dataclass(eq=False, slots=True)
class Recovery:
    """Loads unknown processes and ends what has finished unseen; `upkeep` looks after the rest of the past.

    Attributes:
        changes: Is notified of adopted live processes and of ends that were found in files.
        connections: Those whose processes were found again after the start of this server.
        is_first_round: Whether what is adopted was started by an earlier server; ended by `Reconciliation`.
    """

    layout: Layout
    registry: Registry
    table: ProcessTable
    changes: ChangeHandler
    redaction: Redaction
    connections: set[str] = field(default_factory=set, init=False)
    is_first_round: bool = field(default=True, init=False)

    async def run(self) -> None:
        """Do what the table leaves to do, for ever."""
        while True:
            await self.table.work.wait()
            try:
                await self.catch_up()
            except OutliveError as error:  # the registry does not answer, for example
                _logger.warning("recovery waits", extra={"reason": error.code})
                await asyncio.sleep(_PAUSE_S)
            except OSError:
                _logger.exception("recovery failed; it is tried again")
                await asyncio.sleep(_PAUSE_S)

    async def catch_up(self) -> None:
        """Load all unknown processes, end all vanished ones that are known now, and look after the
        unconfirmed ones.
        """
        self.table.work.clear()
        try:
            while self.table.unknown:
                await self.adopt([ProcessId(one) for one in self.table.unknown_ids()[:_SLICE]])
            while self.table.vanished:
                await self._end_vanished(self.table.vanished[:_SLICE])
            while self.table.unconfirmed:
                await self._end_unconfirmed(self.table.unconfirmed[:_SLICE])
        except BaseException:
            self.table.work.set()
            raise

    async def end_rows(self, unfinished: Iterable[bytes]) -> None:
        """Bring those rows up to date, of the unfinished ones, whose processes the keeper does not hold any
        more.
        """
        left = [key for key in unfinished if not self.table.is_told(key)]
        for begin in range(0, len(left), _SLICE):
            rows = [await self.registry.find(id_from_bytes(key)) for key in left[begin : begin + _SLICE]]
            part = [row for row in rows if row is not None and not row.record.is_finished]
            found = await self._read([one.record.process_id for one in part], is_live=False)
            for row in part:
                ended, _ = found.get(row.record.process_id, (None, ""))
                self._end_row(row, _lost(row) if ended is None else ended)

    async def look_up(self, process_id: ProcessId) -> StoredProcess | None:
        """Return an ended process that the registry does not know (yet) from its folder."""
        if not _exists(self.layout.process(process_id)):
            return None  # as nearly always: a start brings the id that its caller has just made
        found = await self._read([process_id], is_live=False)
        return found[process_id][0] if process_id in found else None

    async def adopt_untold(self, unfinished: Iterable[bytes]) -> None:
        """Load what the folders of unfinished processes say, for as long as the keeper is silent.

        Marked as unknown.
        """
        left = [ProcessId(id_from_bytes(key)) for key in unfinished if not self.table.is_told(key)]
        for begin in range(0, len(left), _SLICE):
            found = await self._read(part := left[begin : begin + _SLICE], is_live=True, boot_id=this_boot())
            await self._recover_secrets(found)
            finished = await self.registry.known_of(part)
            for process_id in part:
                loaded = found.get(process_id)
                if loaded is None or finished.get(process_id):
                    continue
                if loaded[0].record.is_closed:  # it has ended, whatever the keeper will say
                    row = await self.registry.find(process_id)
                    if row is None:
                        self.registry.put(loaded[0])
                    elif not row.record.is_closed:
                        self._end_row(row, loaded[0])
                    continue
                if self.table.is_told(id_to_bytes(process_id)):
                    continue
                process = self._loaded(*loaded)
                if not process.status.is_acknowledged:  # the keeper may never have heard of it
                    continue
                process.status.mark_unknown()
                self.table.expect(process)
                self._adopted(process)

    def _adopted(self, process: Process) -> None:
        self.changes.adopted(process)
        if process.connection_id is not None and self.is_first_round:
            self.connections.add(process.connection_id)

    def _end_row(self, row: StoredProcess, ended: StoredProcess) -> None:
        folder = self.layout.process(row.record.process_id)
        process = Process.from_stored(row, folder, redaction=self.redaction)
        changes = process.end_as(ended)
        self.registry.put(process.stored)
        self.changes.changed(process, changes)

    def _loaded(self, stored: StoredProcess, note: str) -> Process:
        process = Process.from_stored(
            stored, self.layout.process(stored.record.process_id), redaction=self.redaction
        )
        process.note = note
        return process

    async def _recover_secrets(self, found: Mapping[ProcessId, tuple[StoredProcess, str]]) -> None:
        for stored, _ in found.values():
            if stored.record.secret_names:
                await asyncio.to_thread(self.redaction.secrets.recover, stored.record)

    async def adopt(self, process_ids: list[ProcessId]) -> None:
        """Load unknown processes; what was loaded or filed away meanwhile is left alone."""
        found = await self._read(process_ids, is_live=True)
        await self._recover_secrets(found)
        finished = await self.registry.known_of(process_ids)
        rows = []
        for process_id in process_ids:
            key = id_to_bytes(process_id)
            loaded = found.get(process_id)
            if key in self.table.live:  # adopted meanwhile
                if (bell := self.table.unknown.pop(key, None)) is not None:
                    self.table.ring([bell])
                continue
            if key not in self.table.unknown:
                continue  # filed away meanwhile
            if loaded is None:
                _logger.warning("the keeper holds a process without a readable folder: %s", process_id)
                self.table.unknown.pop(key, None)
                continue
            if finished.get(process_id) and _is_over(self.table.unknown[key]):
                # A last word about a process that was filed away already. One that runs counts for more than
                # its row: its folder was seen before the keeper had reported it, and was taken for what a
                # crash left.
                self.table.unknown.pop(key, None)
                continue
            process = self._loaded(*loaded)
            rows.append(process.stored)
            self.table.adopt(process)
            self._adopted(process)
        if rows:
            self.registry.put(*rows)

    async def _end_vanished(self, processes: list[Process]) -> None:
        found = await self._read([process.process_id for process in processes], is_live=False)
        for process in processes:
            with contextlib.suppress(ValueError):
                self.table.vanished.remove(process)
            self._end(process, *found.get(process.process_id, (_lost(process.stored), "")))

    async def _end_unconfirmed(self, processes: list[Process]) -> None:
        """Settle those of which nothing will change any more. The others the keeper reports."""
        found = await self._read([process.process_id for process in processes], is_live=True)
        for process in processes:
            # A question about a process may catch up at the same time.
            with contextlib.suppress(ValueError):
                self.table.unconfirmed.remove(process)
            ended = found.get(process.process_id)
            if ended is not None and ended[0].record.is_closed:
                self._end(process, *ended)

    def _end(self, process: Process, ended: StoredProcess, note: str) -> None:
        process.note = process.note or note
        changes = process.end_as(ended)
        if changes & Change.FINISHED:
            self.changes.changed(process, changes)
            process.subscribers.wake()

    async def _read(
        self, process_ids: Iterable[ProcessId], *, is_live: bool, boot_id: str | None = None
    ) -> dict[ProcessId, tuple[StoredProcess, str]]:
        layout = self.layout

        def read() -> dict[ProcessId, tuple[StoredProcess, str]]:
            found = {
                one: read_folder(layout.process(one), one, is_live=is_live, boot_id=boot_id)
                for one in process_ids
            }
            return {one: stored for one, stored in found.items() if stored is not None}

        return await asyncio.to_thread(read)


def _exists(folder: str) -> bool:
    # One system call, on the loop: handing it to a thread and waiting for that costs fifty times as much.
    return os.path.lexists(folder)


def _is_over(bell: Bell) -> bool:
    return bell[5] >= Phase.EXITED


def _lost(row: StoredProcess) -> StoredProcess:
    """Return what is left of a process whose folder is gone."""
    record = replace(row.record, is_complete=True, is_closed=True, descendants=0)
    if not record.is_ended:
        record = replace(record, state=State.LOST)
    return replace(row, record=record, complete=row.complete or record.cursor)
