"""Looking after the past: folders that the registry forgot are indexed, old processes are removed
(retention).

The state folder's own time for retention: `RetentionTime` reads both clocks and keeps what is known of them
in a file.
"""

import asyncio
import contextlib
import logging
import math
import os
import shutil
from collections.abc import Callable

import orjson

from outlive.core.documents import decode_json
from outlive.core.errors import OutliveError
from outlive.core.events import ProcessRemoved
from outlive.core.identity import ProcessId, id_to_bytes, is_process_id
from outlive.core.layout import Layout
from outlive.core.process import ProcessRecord
from outlive.core.values import replace
from outlive.engine.commands.notices import Notices
from outlive.engine.processes.event_publisher import EventPublisher
from outlive.engine.processes.output_redaction import Secrets
from outlive.engine.processes.process import read_clocks
from outlive.engine.processes.process_table import ProcessTable
from outlive.kernel.disk import Reserve
from outlive.kernel.files import read_small, write_whole
from outlive.protocols.frames import decoded
from outlive.store.folder import UNFILTERED, bytes_on_disk, read_folder
from outlive.store.registry import Registry
from outlive.store.retention import Candidate, Retention, RetentionClock, select_removable
from outlive.store.rows import ProcessFilter, StoredProcess, to_ns
from outlive.store.search.log_index import INDEX_FILE
from outlive.store.used_ids import RemovedIds

_NEWEST = 50  # records that are read where no clock was kept: one of this boot is enough


class RetentionTime:
    """One state folder's `RetentionClock`.

    Opened before commands are started: their ends must not begin it.
    """

    def __init__(self, layout: Layout, registry: Registry) -> None:
        """Keep the clock in the file that `layout` names."""
        self._layout = layout
        self._registry = registry
        self._clock: RetentionClock | None = None

    async def open(self) -> None:
        """Take up the clock where the last server left it, or begin one from the newest records."""
        self._clock = await asyncio.to_thread(_load, self._layout.retention_clock) or await self._begin()

    async def look(self) -> RetentionClock:
        """Look at the clocks; return what is known then."""
        if self._clock is None:
            raise AssertionError("the clock is opened first")
        self._clock = clock = self._clock.step(read_clocks())
        try:
            await asyncio.to_thread(write_whole, self._layout.retention_clock, orjson.dumps(clock.view()))
        except OSError as error:  # a full disk: an older look has to do until there is room
            _logger.debug("the retention clock could not be written", extra={"reason": error.strerror})
        return clock

    async def _begin(self) -> RetentionClock:
        reading = read_clocks()
        rows = [
            row for row in await self._registry.list(ProcessFilter(), limit=_NEWEST) if row.record.ended_at
        ]
        for row in rows:
            if row.ended_boot and row.ended_boot.boot_id == reading.boot.boot_id and row.record.ended_at:
                begin_ns = to_ns(row.record.ended_at) - row.ended_boot.boottime_ns
                return RetentionClock.of_boot(reading, begin_ns=begin_ns)
        ends = [to_ns(row.record.ended_at) for row in rows if row.record.ended_at]
        return RetentionClock.first(reading, floor_ns=max(ends, default=None))


def _load(path: str) -> RetentionClock | None:
    return decoded(read_small(path), lambda raw: RetentionClock.read(decode_json(raw)))


_logger = logging.getLogger(__name__)

_SLICE = 200  # folders read at once
_REST_S = 3600.0  # between two rounds without work: the clocks are looked at
_BESIDE = (f"{UNFILTERED}/out", INDEX_FILE)  # files of a process's folder that grow with its output
_REMOVED = ".removed"  # ends the name of a folder that is being removed


class Upkeep:
    """Works in the background with threads for every file; what is live is never touched."""

    def __init__(
        self,
        layout: Layout,
        registry: Registry,
        table: ProcessTable,
        *,
        secrets: Secrets,
        events: EventPublisher,
        removed: RemovedIds,
        notices: Notices,
        has_finished: asyncio.Event,
    ) -> None:
        """Take the files, what lives, what a removed process must be taken out of, what remembers its id, and
        the notices for which a process is kept.

        `has_finished` is set when there is one process more that may be removed.
        """
        self._layout = layout
        self._registry = registry
        self._table = table
        self._secrets = secrets
        self._events = events
        self._notices = notices
        self._has_finished = has_finished
        self._removed = removed
        self._time = RetentionTime(layout, registry)
        self._reserve = Reserve(layout.root)
        # Folders that say nothing of an end. Each is entered as lost or as never run, and either may be
        # wrong: the keeper may be about to start it (its folder is there before its `pid` is) or to report
        # it. So such a folder is removed in a later round at the earliest; by then the keeper has reported
        # what lives.
        self._without_end: set[str] = set()

    async def open(self) -> None:
        """Take up what earlier servers knew. To be awaited before the first question.

        The newest forgotten folders are entered: what an earlier server started and had not written yet when
        it died. A client that returns after a crash wants just these.
        """
        await self._time.open()
        await self.index_folders(newest=_SLICE)
        await self._registry.flush()

    async def run(self, rule: Retention, *, interval_s: float) -> None:
        """Index forgotten folders once, then apply retention for ever.

        That is `interval_s` after processes have ended or have become too old.
        """
        is_indexed = False
        while True:
            due_s = 0.0
            self._has_finished.clear()
            try:
                await asyncio.to_thread(_sweep, self._layout.processes)
                if not is_indexed:
                    await self.index_folders()
                    is_indexed = True
                due_s = await self.prune(rule)
            except OutliveError as error:  # the registry does not answer, for example
                _logger.warning("looking after the past waits", extra={"reason": error.code})
            except OSError:
                _logger.exception("upkeep failed; it is tried again")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(due_s, _REST_S)):
                    await self._has_finished.wait()
            await asyncio.sleep(interval_s)

    async def index_folders(self, *, newest: int | None = None) -> None:
        """Enter folders that the registry does not know: it was lost, or the server died before it wrote."""
        names = await asyncio.to_thread(_names, self._layout.processes)
        entered = 0
        # From the newest on, which are forgotten first: what was written is known without looking at all the
        # rest.
        for end in range(len(names), 0, -_SLICE):
            part = names[max(0, end - _SLICE) : end]
            known = await self._registry.known_of(part)
            forgotten = [ProcessId(one) for one in part if one not in known and is_process_id(one)]
            entered += len(forgotten)
            await self._enter([one for one in forgotten if not self._is_live(one)])
            if newest is not None and (not forgotten or entered >= newest):
                return

    async def newest_forgotten(self) -> list[ProcessId]:
        """Return which of the newest folders have no row: started, or ended, just before an earlier server
        died.
        """
        names = (await asyncio.to_thread(_names, self._layout.processes))[-_SLICE:]
        known = await self._registry.known_of(names)
        return [ProcessId(one) for one in names if one not in known and is_process_id(one)]

    async def _enter(self, process_ids: list[ProcessId]) -> None:
        for stored in await asyncio.to_thread(self._read, process_ids):
            process_id = stored.record.process_id
            # Started after the names were listed: not forgotten at all.
            if not self._is_live(process_id) and await self._registry.find(process_id) is None:
                self._registry.put(stored)
                if stored.record.ended_at is None:
                    self._without_end.add(process_id)

    async def prune(self, rule: Retention) -> float:
        """Remove the ended processes that retention does not keep: the folder first, then the row.

        Return in how many seconds the next one becomes too old; 0 if some could not be removed yet.
        """
        clock, ended = await self.candidates()
        removable = await asyncio.to_thread(select_removable, ended, rule, now_ns=clock.now_ns)
        too_early, self._without_end = self._without_end, set()
        oldest_ns = min((one.ended_ns for one in ended if one.process_id not in removable), default=math.inf)
        is_over = True
        for name in removable:
            # A notice says how its process ended. It is delivered or given up within minutes, and the next
            # round is for the process.
            if self._is_live(name) or name in too_early or self._notices.of(name):
                is_over = False
                continue
            stored = await self._registry.find(name)
            await self.remove(ProcessId(name), None if stored is None else stored.record)
        age_s = math.inf if rule.max_age_s is None else rule.max_age_s
        return age_s - (clock.now_ns - oldest_ns) / 1e9 if is_over else 0.0

    async def clock(self) -> RetentionClock:
        """Look at the clocks; return what is known then."""
        return await self._time.look()

    async def candidates(self) -> tuple[RetentionClock, list[Candidate]]:
        """Return what retention chooses from, with the clock by which it ages."""
        clock = await self._time.look()
        ended = await self._registry.removable(clock)
        return clock, await asyncio.to_thread(self._with_what_lies_beside, ended)

    def _with_what_lies_beside(self, ended: list[Candidate]) -> list[Candidate]:
        """Add to each size what is kept beside the output, which no row counts: what entered a final filter,
        and the index.
        """
        return [
            replace(
                one,
                size=one.size
                + sum(bytes_on_disk(f"{self._layout.process(one.process_id)}/{name}") for name in _BESIDE),
            )
            for one in ended
        ]

    async def remove(
        self,
        process_id: ProcessId,
        record: ProcessRecord | None,
        *,
        letting_go: Callable[[], None] | None = None,
    ) -> None:
        """Remove a finished process: row, then folder; `letting_go` is called when no folder of this name is
        left.

        Until then a live one must stay known: a late doorbell about an unknown one would load it again. One
        that is not live is not found from the first moment on, not even half. What a crash leaves is swept by
        the next server.
        """
        self._registry.remove([process_id])
        folder = self._layout.process(process_id)

        def set_aside() -> str:
            # First: a kill in between leaves the process, which is found before its id is.
            self._removed.add(process_id)
            return _set_aside(folder)

        doomed = await asyncio.to_thread(self._reserve.fit, set_aside)
        if letting_go is not None:
            letting_go()
            self._registry.remove([process_id])  # its state may have been filed meanwhile
        self._secrets.forget(process_id)
        self._events.publish(ProcessRemoved(process_id=process_id, record=record))
        await asyncio.to_thread(shutil.rmtree, doomed, ignore_errors=True)

    def _is_live(self, process_id: str) -> bool:
        return self._table.is_told(id_to_bytes(process_id))

    def _read(self, process_ids: list[ProcessId]) -> list[StoredProcess]:
        found = [read_folder(self._layout.process(one), one, is_live=False) for one in process_ids]
        return [each[0] for each in found if each is not None]


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except FileNotFoundError:
        return []


def _set_aside(folder: str) -> str:
    """Give a folder, if it is still there, the name of one that is being removed; return that."""
    doomed = folder + _REMOVED
    with contextlib.suppress(FileNotFoundError):
        os.rename(folder, doomed)
    return doomed


def _sweep(folder: str) -> None:
    """Finish the removals that a crash cut off."""
    for name in _names(folder):
        if name.endswith(_REMOVED):
            shutil.rmtree(f"{folder}/{name}", ignore_errors=True)
