"""`NoticeSender`: tells the operator's webhook and program of ends, failures and questions, for processes
that asked for it.

It is a subscriber of the engine's events and slows nothing: it puts a notice into a bounded queue, and one
task for each channel delivers. What is owed for an end stands in a file since before the process's start
(`owed_notices`) and is removed once it was delivered: a notice reaches them at least once, also when
the server was killed between; its id is the same then.
"""

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from datetime import UTC, datetime

from outlive.core.errors import OutliveError, ProcessNotFound
from outlive.core.events import Event, InputRequested, ProcessCompleted, StartRejected
from outlive.core.layout import Layout
from outlive.engine import Engine, Process
from outlive.extensions.observe.notices.notice import (
    Notice,
    NoticeChannel,
    ProcessNotice,
    event_of,
    plain_line,
)
from outlive.extensions.observe.notices.owed_notices import Alerting, DiskAlert, OwedNotices, SilenceWatch

_logger = logging.getLogger(__name__)

_MOST_WAITING = 1000  # notices of some 2 KB each: 2 MB behind a dead endpoint, and no more
_TRIES = 20  # with the pauses between, for some 15 minutes
_FIRST_PAUSE_S = 1.0
_MOST_PAUSE_S = 60.0
_LINE_BYTES = 4096  # of the end of the output in which the last line is looked for


class NoticeSender:
    """Notifies while it is open. The first channel is the one whose deliveries settle what is owed."""

    def __init__(
        self,
        engine: Engine,
        channels: Sequence[NoticeChannel],
        *,
        layout: Layout,
        owed: OwedNotices,
        alerting: Alerting,
        shows_last_line: bool = False,
    ) -> None:
        self._engine = engine
        self._owed = owed
        self._queues = [(channel, asyncio.Queue[Notice](_MOST_WAITING)) for channel in channels]
        self._alerting = alerting
        silence_s, disk_bytes = alerting.silence_s, alerting.disk_bytes
        self._silence = None if silence_s is None else SilenceWatch(engine, layout, owed, after_s=silence_s)
        self._disk = None if disk_bytes is None else DiskAlert(layout, limit_bytes=disk_bytes)
        self._shows_last_line = shows_last_line
        self._stack = contextlib.AsyncExitStack()
        self._queued: set[str] = set()  # ids of ends that are in the first queue
        self._has_missed = False
        self._tasks: asyncio.TaskGroup | None = None

    async def open(self) -> None:
        """Notify from now on, and of what earlier servers owe."""
        engine = self._engine
        tasks = self._tasks = await self._stack.enter_async_context(asyncio.TaskGroup())
        kinds = (ProcessCompleted, InputRequested, StartRejected)
        self._stack.callback(engine.events.subscribe(self._note, kinds=kinds))
        for place, (channel, queue) in enumerate(self._queues):
            running = self._deliver_all(channel, queue, settles=place == 0)
            self._stack.callback(tasks.create_task(running, name=f"notify {channel.name}").cancel)
        self._stack.callback(tasks.create_task(self._catch_up(), name="notify owed").cancel)
        if self._silence is not None or self._disk is not None:
            self._stack.callback(tasks.create_task(self._look_on(), name="notify alerts").cancel)

    async def close(self) -> None:
        """Notify of nothing more; what is owed for ends stays in the files."""
        await self._stack.aclose()

    def _note(self, event: Event) -> None:
        """Take an event of the engine: no wait, no file.

        It is called on the engine's loop, in the middle of what a process's end sets off.
        """
        match event:
            case ProcessCompleted(record=record):
                # Most processes ask for nothing: this is a look into a dictionary for each end, and no more.
                wanted = self._owed.of(record.process_id)
                if not wanted or record.process_id in self._queued:
                    return
                kind = event_of(record, wanted)
                if kind is None:
                    self._settle_soon(record.process_id)
                else:
                    self._put(ProcessNotice(event=kind, record=record, at=datetime.now(UTC)))
            case InputRequested(record=record):
                # A shell at its prompt waits for whatever comes next, and asks no person.
                if not record.is_at_prompt and "question" in self._owed.of(record.process_id):
                    self._put(ProcessNotice(event="question", record=record, at=datetime.now(UTC)))
            case StartRejected(process_id=process_id) if process_id is not None:
                if self._owed.of(process_id):
                    self._settle_soon(process_id)
            case _:
                pass

    async def _look_on(self) -> None:
        """Look for what no event says, for ever."""
        await self._engine.queries.known()
        while True:
            try:
                if self._silence is not None:
                    for notice in await self._silence.look():
                        self._put(notice)
                if self._disk is not None and (low := await self._disk.look()) is not None:
                    self._put(low)
            except Exception:  # the outermost loop of a task: one look that fails must not end the others
                _logger.exception("a look for alerts failed")
            await asyncio.sleep(self._alerting.pause_s)

    def _put(self, notice: Notice) -> None:
        for place, (channel, queue) in enumerate(self._queues):
            try:
                queue.put_nowait(notice)
            except asyncio.QueueFull:
                # The file of an end stays: it is queued again once there is room.
                self._has_missed = True
                _logger.warning("a notice was left out", extra={"channel": channel.name, "notice": notice.id})
            else:
                if place == 0 and isinstance(notice, ProcessNotice) and notice.settles:
                    self._queued.add(notice.record.process_id)

    def _settle_soon(self, process_id: str) -> None:
        if self._tasks is not None:
            removing = asyncio.to_thread(self._owed.remove, process_id)
            self._tasks.create_task(removing, name=f"settle {process_id}")

    async def _catch_up(self) -> None:
        """Notify of ends that earlier servers owe."""
        try:
            await self._look_up_owed()
        except (
            Exception
        ):  # the outermost loop of a task: what could not be looked up is owed to the next server
            _logger.exception("owed notices could not be looked up")

    async def _look_up_owed(self) -> None:
        queries = self._engine.queries
        await queries.known()
        for process_id in self._owed.ids():
            try:
                process = await queries.find(process_id)
            except ProcessNotFound:
                await asyncio.to_thread(self._owed.remove_unknown, process_id)
                continue
            except OutliveError as error:  # not known yet: its end will be an event
                _logger.info("a notice waits", extra={"process_id": process_id, "reason": error.code})
                continue
            if process.status.is_complete:
                self._note(ProcessCompleted(record=process.record))

    async def _deliver_all(
        self, channel: NoticeChannel, queue: "asyncio.Queue[Notice]", *, settles: bool
    ) -> None:
        while True:
            notice = await queue.get()
            try:
                await self._deliver(channel, notice)
                if settles:
                    await self._settle(notice)
            except Exception:  # the outermost loop of a task: one notice's fault must not silence the others
                _logger.exception("a notice failed", extra={"channel": channel.name, "notice": notice.id})
            finally:
                if settles and isinstance(notice, ProcessNotice):
                    self._queued.discard(notice.record.process_id)
            if settles and self._has_missed and queue.empty():
                self._has_missed = False
                await self._catch_up()

    async def _settle(self, notice: Notice) -> None:
        """Keep that a notice was delivered or given up."""
        if not isinstance(notice, ProcessNotice):
            if self._disk is not None:
                await self._disk.note_told(notice)
        elif notice.settles:
            await asyncio.to_thread(self._owed.remove, notice.record.process_id)
        elif notice.event == "silence" and self._silence is not None:
            await self._silence.note_told(notice)

    async def _deliver(self, channel: NoticeChannel, notice: Notice) -> None:
        """Try until it is delivered, refused for good, out of tries, or not true any more."""
        pause_s = _FIRST_PAUSE_S
        extra = {"channel": channel.name, "notice": notice.id}
        for attempt in range(1, _TRIES + 1):
            # Anew at each attempt: minutes may lie between two, and an answered question is no news any more.
            process = await self._found(notice)
            if self._is_old_news(notice, process):
                return
            done = await channel.deliver(self._with_line(notice, process))
            if done.verdict == "sent":
                if notice.event == "question" and process is not None:
                    self._engine.questions.note_asked(process)
                _logger.debug("notified", extra=extra)
                return
            extra["reason"] = done.detail
            if done.verdict == "refused":
                break
            if attempt == 1:  # one line for each notice: a dead endpoint must not fill the log
                _logger.warning("a notice is not delivered yet; it is tried again", extra=extra)
            if attempt < _TRIES:
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 2, _MOST_PAUSE_S)
        _logger.warning("a notice could not be delivered", extra=extra)

    def _is_old_news(self, notice: Notice, process: Process | None) -> bool:
        """Tell whether a question was answered, or a silent process wrote or ended, since the notice was
        made.
        """
        if notice.event == "question":
            return process is None or not process.status.is_asking
        if self._silence is None or not isinstance(notice, ProcessNotice) or notice.event != "silence":
            return False
        return not self._silence.still_true(notice, None if process is None else process.record)

    async def _found(self, notice: Notice) -> Process | None:
        if not isinstance(notice, ProcessNotice):
            return None
        if notice.settles and not self._shows_last_line:
            return None
        try:
            return await self._engine.queries.find(notice.record.process_id)
        except OutliveError:
            return None

    def _with_line(self, notice: Notice, process: Process | None) -> Notice:
        if not self._shows_last_line or process is None or not isinstance(notice, ProcessNotice):
            return notice
        now = process.status
        # The masked log: secrets are stars here as in every answer.
        tails = [
            process.log.pread(stream, _LINE_BYTES, max(0, end - _LINE_BYTES)).decode(errors="replace")
            for stream, end in enumerate((now.stdout_bytes, now.stderr_bytes))
            if end
        ]
        # Of a failure stderr says more.
        lines = list(filter(None, map(plain_line, reversed(tails) if notice.event == "failure" else tails)))
        return ProcessNotice(
            event=notice.event, record=notice.record, at=notice.at, last_line=lines[0] if lines else ""
        )
