"""What no event of the engine says, looked for from time to time: processes that have gone silent, and a disk
that is nearly full.

Both return notices for `NoticeSender`, each once: a silence until the process writes again, the disk until
there is room again. What was notified of is kept in files, so that a later server does not repeat it, and one
whose server was killed before it was delivered is looked for again, under the same id.

Neither counts what it has seen: a silence is the age of a log's last byte, low is what the file system says
now. So a server that was just started sees what the one before it would have seen, and a look that comes late
is not a look that is lost.
"""

import asyncio
import contextlib
import json
import os
import time
from datetime import UTC, datetime

from outlive.core.documents import decode_json
from outlive.core.layout import STREAM_FILES, Layout
from outlive.core.lifecycle import State
from outlive.core.process import ProcessRecord
from outlive.core.values import dataclass
from outlive.engine import Engine
from outlive.extensions.observe.notices.notice import DiskNotice, ProcessNotice
from outlive.extensions.observe.notices.owed_notices import OwedNotices
from outlive.kernel.disk import Reserve
from outlive.kernel.files import read_small, write_whole
from outlive.protocols.frames import decoded

_SHARE = 4  # looks within the time that makes a silence: it is noticed at most a quarter late
_LEAST_PAUSE_S, _MOST_PAUSE_S = 0.1, 15.0
# Room again means a tenth more than the bound: a disk that swings around it is one episode.
_HYSTERESIS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Alerting:
    """The operator's bounds; None: nothing of that kind is looked for."""

    silence_s: float | None = None
    disk_bytes: int | None = None

    @property
    def pause_s(self) -> float:
        """How long to wait between two looks."""
        silence_s = _MOST_PAUSE_S * _SHARE if self.silence_s is None else self.silence_s
        return min(_MOST_PAUSE_S, max(_LEAST_PAUSE_S, silence_s / _SHARE))


class SilenceWatch:
    """Finds processes that wrote nothing for `after_s` seconds, among those that asked for it.

    On the engine's loop only.
    """

    def __init__(self, engine: Engine, layout: Layout, owed: OwedNotices, *, after_s: float) -> None:
        self._engine = engine
        self._owed = owed
        self._layout = layout
        self._after_s = after_s
        self._queued: dict[str, str] = {}  # the cursor of the silence for which a notice is on its way

    async def look(self) -> list[ProcessNotice]:
        """Return a notice for each silence that is new."""
        owed = self._owed
        live = {process.process_id: process for process in self._engine.queries.live()}
        self._queued = {one: cursor for one, cursor in self._queued.items() if one in live}
        found = []
        for process_id in owed.ids():
            process = live.get(process_id)
            if process is None or "silence" not in owed.of(process_id):
                continue
            record = process.record
            cursor = str(record.cursor)
            if cursor in {owed.silence_of(process_id), self._queued.get(process_id)}:
                continue
            # A paused process cannot write: that it is silent is what was asked for.
            # The state is asked before the files: for what does not run no thread is needed.
            if record.state is State.RUNNING and await asyncio.to_thread(self._is_silent, record):
                self._queued[process_id] = cursor
                found.append(ProcessNotice(event="silence", record=record, at=datetime.now(UTC)))
        return found

    async def note_told(self, notice: ProcessNotice) -> None:
        """Keep that it was notified of."""
        # A full disk: at worst the next server notifies again, under the same id.
        with contextlib.suppress(OSError):
            await asyncio.to_thread(
                self._owed.note_silence, notice.record.process_id, str(notice.record.cursor)
            )

    def still_true(self, notice: ProcessNotice, record: ProcessRecord | None) -> bool:
        """Tell whether a notice is news yet: a process that has written or ended meanwhile is not silent."""
        return record is not None and not record.is_ended and record.cursor == notice.record.cursor

    def _is_silent(self, record: ProcessRecord) -> bool:
        """Look at when the logs were written last, which also a server that was just started can see."""
        latest = (record.started_at or record.created_at).timestamp()
        folder = self._layout.process(record.process_id)
        for name in STREAM_FILES:
            with contextlib.suppress(OSError):
                found = os.stat(f"{folder}/{name}")
                # An empty log was made before its process began.
                latest = max(latest, found.st_mtime if found.st_size else 0.0)
        return time.time() - latest >= self._after_s


class DiskAlert:
    """Says once that the disk has less room than the operator wants. On the engine's loop only."""

    def __init__(self, layout: Layout, *, limit_bytes: int) -> None:
        self._layout = layout
        self._limit_bytes = limit_bytes
        self._queued = False

    async def look(self) -> DiskNotice | None:
        """Return a notice where the disk has become low, or was when an earlier server could not say it."""
        return await asyncio.to_thread(self._look)

    async def note_told(self, notice: DiskNotice) -> None:
        """Keep that it was notified of."""
        await asyncio.to_thread(self._write, notice.since, is_told=True)

    def _look(self) -> DiskNotice | None:
        try:
            disk = os.statvfs(self._layout.root)
        except OSError:  # the folder is gone, which the engine reports
            return None
        free = disk.f_bavail * disk.f_frsize
        known = self._read()
        if free >= self._limit_bytes:
            if known is not None and free >= self._limit_bytes + self._limit_bytes // _HYSTERESIS:
                self._queued = False
                with contextlib.suppress(OSError):
                    os.unlink(self._layout.disk_alert)
            return None
        if known is None:
            known = (datetime.now(UTC).replace(microsecond=0), False)
            self._write(known[0], is_told=False)
        # Two reasons to say nothing: an earlier look, of this server or of one before it, has said it.
        since, is_told = known
        if is_told or self._queued:
            return None
        self._queued = True
        return DiskNotice(since=since, free_bytes=free, limit_bytes=self._limit_bytes)

    def _read(self) -> tuple[datetime, bool] | None:
        return decoded(read_small(self._layout.disk_alert), _since_and_told)

    def _write(self, since: datetime, *, is_told: bool) -> None:
        content = json.dumps({"since": since.isoformat(), "told": is_told}).encode()
        # The disk may be full by now: the reserve is for such records. Without the file the next server says
        # it again.
        with contextlib.suppress(OSError):
            Reserve(self._layout.root).fit(lambda: write_whole(self._layout.disk_alert, content))


def _since_and_told(raw: bytes) -> tuple[datetime, bool]:
    found = decode_json(raw)
    return datetime.fromisoformat(found["since"]), found["told"] is True
