"""Which processes a notice is owed for: `OwedNotices`, a file for each, written before the process is
started; and what no event of the engine says (`SilenceWatch`, `DiskAlert`), looked for from time to time.

What is owed survives the server: the next one finds the files, and notifies of what ended meanwhile. A file
is removed when its notice was delivered, or given up. Where this server has a channel it is the engine's
`Notices`. What reads or writes a file blocks: run it in a thread.

A silence is notified of once until the process writes again, a disk that is nearly full until there is room
again. Neither counts what it has seen: a silence is the age of a log's last byte, low is what the file system
says now. So a server that was just started sees what the one before it would have seen.
"""

import asyncio
import contextlib
import json
import os
import time
from collections.abc import Iterable
from datetime import UTC, datetime

from outlive.core.command import NOTIFY_EVENTS, NotifyEvent
from outlive.core.documents import decode_json
from outlive.core.errors import InvalidRequest, LimitExceeded
from outlive.core.identity import ProcessId, is_process_id
from outlive.core.layout import STREAM_FILES, Layout
from outlive.core.lifecycle import State
from outlive.core.process import ProcessRecord
from outlive.core.values import dataclass
from outlive.engine import Engine
from outlive.extensions.observe.notices.notice import DiskNotice, ProcessNotice
from outlive.kernel.disk import Reserve
from outlive.kernel.files import read_small, write_whole
from outlive.protocols.frames import decoded

_ON_ITS_WAY_S = 60.0  # a start is given up after 25 s, and a supervisor that hangs is replaced before that


class OwedNotices:
    """The folder `notices` of a state folder; one writer, the server.

    Attributes:
        offered: The events that this server notifies of.
    """

    def __init__(self, layout: Layout, offered: frozenset[NotifyEvent]) -> None:
        """Know of none before `open`."""
        self._layout = layout
        self.offered = offered
        self._owed: dict[ProcessId, frozenset[NotifyEvent]] = {}
        self._silences: dict[ProcessId, str] = {}

    def open(self) -> None:
        """Read what earlier servers owe.

        What is owed for processes that were removed, or never started, is forgotten.

        A file that cannot be read, or holds no event, is removed as well: nothing could ever be sent for it.
        """
        with contextlib.suppress(FileNotFoundError):
            for name in os.listdir(self._layout.notices):
                path = f"{self._layout.notices}/{name}"
                # A waiting command has no folder yet, and one that the keeper is about to start has not
                # either. Temporary names of `put` are no process ids, and are removed with the rest.
                is_known = is_process_id(name) and (
                    os.path.exists(self._layout.process(name))
                    or os.path.exists(f"{self._layout.waiting}/{name}")
                    or _is_young(path)
                )
                events, silence = _read(path) if is_known else (frozenset(), "")
                if events:
                    self._owed[ProcessId(name)] = events
                    if silence:
                        self._silences[ProcessId(name)] = silence
                else:
                    with contextlib.suppress(OSError):
                        os.unlink(path)

    def check(self, events: tuple[NotifyEvent, ...]) -> None:
        """Let a start pass whose notices can be sent.

        Raises:
            InvalidRequest: This server notifies of none of these events.
        """
        # One of them is enough: a caller may ask for more than this operator sends, with the same arguments
        # everywhere.
        if not self.offered.intersection(events):
            text = f"notify: this server notifies of {', '.join(sorted(self.offered))} only."
            hint = (
                "Ask for one of these, or have the operator change --notify-on (silence: "
                "--notify-silence, too)."
            )
            raise InvalidRequest("invalid_params", text, hint=hint)

    async def owe(self, process_id: ProcessId, events: tuple[NotifyEvent, ...]) -> None:
        """Note what is owed (see `Notices.owe`).

        Raises:
            LimitExceeded: `disk_full`: it cannot be written.
        """
        try:
            # A file in a thread: a slow disk delays this start alone.
            await asyncio.to_thread(self.put, process_id, self.offered.intersection(events))
        except OSError as error:
            text = f"What to notify of cannot be written: {error.strerror}."
            raise LimitExceeded("disk_full", text) from error

    def of(self, process_id: str) -> frozenset[NotifyEvent]:
        """Return the events of a process that are notified of; none for most processes."""
        return self._owed.get(ProcessId(process_id), frozenset())

    def ids(self) -> list[ProcessId]:
        """Return the processes that a notice is owed for."""
        return list(self._owed)

    def put(self, process_id: ProcessId, events: Iterable[NotifyEvent]) -> None:
        """Owe notices of these events from now on, also after a crash.

        Raises:
            OSError: The disk refuses it.
        """
        owed = frozenset(events)
        self._write(process_id, owed, "")
        self._owed[process_id] = owed

    def silence_of(self, process_id: str) -> str:
        """Return the cursor of the silence that was notified of last; empty where none was."""
        return self._silences.get(ProcessId(process_id), "")

    def note_silence(self, process_id: ProcessId, cursor: str) -> None:
        """Keep that a silence was notified of, so that no later server does it again.

        Raises:
            OSError: The disk refuses it.
        """
        if owed := self.of(process_id):
            self._silences[process_id] = cursor
            self._write(process_id, owed, cursor)

    def _write(self, process_id: ProcessId, owed: frozenset[NotifyEvent], silence: str) -> None:
        os.makedirs(self._layout.notices, mode=0o700, exist_ok=True)
        # After a power cut a notice may be missing, as the last lines of output may be.
        content = json.dumps({"events": sorted(owed), "silence": silence}).encode()
        write_whole(f"{self._layout.notices}/{process_id}", content, by_many=True)

    def remove_unknown(self, process_id: str) -> None:
        """Owe nothing for a process that no query finds, unless it may be about to start."""
        if not _is_young(f"{self._layout.notices}/{process_id}"):
            self.remove(process_id)

    def remove(self, process_id: str) -> None:
        """Owe nothing for a process any more; idempotent."""
        self._owed.pop(ProcessId(process_id), None)
        self._silences.pop(ProcessId(process_id), None)
        with contextlib.suppress(OSError):  # at worst it is notified again, under the same id
            os.unlink(f"{self._layout.notices}/{process_id}")


def _is_young(path: str) -> bool:
    """Tell whether a file was written so lately that the start which it belongs to may still be on its way to
    the keeper.

    A killed server leaves what it has sent in the keeper's socket, and a keeper that is busy or stopped reads
    it when the next server is there already.
    """
    with contextlib.suppress(OSError):
        return (
            time.time() - os.stat(path).st_mtime < _ON_ITS_WAY_S
        )  # a time to come, after a clock was set back, is young, too
    return False


def _read(path: str) -> tuple[frozenset[NotifyEvent], str]:
    """Return which events are owed, and the cursor of the silence that was notified of."""
    found = decoded(read_small(path), json.loads)
    events, silence = (found.get("events"), found.get("silence")) if isinstance(found, dict) else (None, None)
    owed = frozenset(event for event in NOTIFY_EVENTS if isinstance(events, list) and event in events)
    return owed, silence if isinstance(silence, str) else ""


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
