"""The state folder's own time for retention: `RetentionTime` reads both clocks and keeps what is known of them in a file."""

import asyncio
import contextlib
import logging
import os
import time

import orjson

from outlive.core.identity import ProcessId
from outlive.core.layout import Layout
from outlive.keeper.common.kernel import BOOT_ID, boottime_ns
from outlive.store.folder import read_folder
from outlive.store.registry import Registry
from outlive.store.retention import BootTime, ClockReading, RetentionClock
from outlive.store.rows import ProcessFilter, StoredProcess, to_ns

_logger = logging.getLogger(__name__)

_NEWEST = 50  # records that are read where no clock was kept: one of this boot is enough


def boot_time() -> BootTime:
    """Return this moment by the clock since boot."""
    return BootTime(BOOT_ID, boottime_ns())


class RetentionTime:
    """One state folder's `RetentionClock`. Opened before commands are started: their ends must not begin it."""

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
        self._clock = clock = self._clock.step(_reading())
        try:
            await asyncio.to_thread(_save, self._layout.retention_clock, clock)
        except OSError as error:  # a full disk: an older look has to do until there is room
            _logger.debug("the retention clock could not be written", extra={"reason": error.strerror})
        return clock

    async def _begin(self) -> RetentionClock:
        reading = _reading()
        rows = [
            row for row in await self._registry.list(ProcessFilter(), limit=_NEWEST) if row.record.ended_at
        ]
        # Rows of versions without this clock do not name the boot; the folders do.
        for row in await asyncio.to_thread(self._from_folders, rows):
            if row.ended_boot and row.ended_boot.boot_id == reading.boot.boot_id and row.record.ended_at:
                begin_ns = to_ns(row.record.ended_at) - row.ended_boot.boottime_ns
                return RetentionClock.of_boot(reading, begin_ns=begin_ns)
        ends = [to_ns(row.record.ended_at) for row in rows if row.record.ended_at]
        return RetentionClock.first(reading, floor_ns=max(ends, default=None))

    def _from_folders(self, rows: list[StoredProcess]) -> list[StoredProcess]:
        ids = [ProcessId(row.record.process_id) for row in rows]
        found = [read_folder(self._layout.process(one), one, is_live=False) for one in ids]
        return [one[0] for one in found if one is not None]


def _reading() -> ClockReading:
    return ClockReading(boot=boot_time(), wall_ns=time.time_ns())


def _load(path: str) -> RetentionClock | None:
    with contextlib.suppress(OSError, ValueError), open(path, "rb") as file:
        return RetentionClock.read(orjson.loads(file.read()))
    return None


def _save(path: str, clock: RetentionClock) -> None:
    new = f"{path}.new"
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(fd, "wb") as file:
        file.write(orjson.dumps(clock.view()))
    os.rename(new, path)
