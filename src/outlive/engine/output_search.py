"""`OutputSearch`: lines that match in the output of all of a principal's processes, the newest process first.

A search is asked for in slices: each returns what it has found within a short time, and where the next one
goes on. So the caller gets matches as they are found, and a search that its caller does not go on with has
ended. Nothing of it is kept in between.

Every line is compared as `store/search/line_search.py` reads it, after redaction, and only processes that the
caller's filter names are read.

`OutputIndex` has indexes made of what processes have written, by a program beside the server
(`store/search/index_maker.py`), which finds by itself what is missing, and ends when nothing is. Nothing
waits for it, and without it a search reads the logs.
"""

import asyncio
import contextlib
import logging
import os
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE
from collections import deque
from collections.abc import Sequence
from itertools import islice

from outlive.core.cursor import SearchPlace
from outlive.core.errors import StoreCorrupt
from outlive.core.events import Event, ProcessClosed
from outlive.core.layout import Layout
from outlive.core.process import ProcessRecord
from outlive.core.values import dataclass, field, replace
from outlive.engine.processes.event_publisher import EventPublisher
from outlive.engine.processes.output_redaction import Redaction
from outlive.engine.processes.process_table import ProcessTable
from outlive.engine.queries import Queries
from outlive.policy.redaction import Redactor
from outlive.protocols.output.line_query import LineQuery, needed_literals
from outlive.store.log_mask import noted_patterns
from outlive.store.output_log import OutputLog
from outlive.store.registry import Registry, output_bytes
from outlive.store.rows import ProcessFilter
from outlive.store.search.line_search import LineSearch, MatchedLine
from outlive.store.search.log_index import GROUP_BYTES, LEAST_BYTES, LogIndex, key_of

# In one visit to a thread: a search whose caller has left ends within so much, and others get their turn.
_VISIT_S = 0.05
# Threads that read at a time, of all callers together: the rest of the machine is for the commands. Both
# serve one search while there is no other one; on one processor the second would only be in the way. Their
# priority is the usual one: each holds the interpreter's lock now and then, and with a lower one the event
# loop would wait for a thread that the kernel does not run.
_AT_ONCE = 2
_PROCESSORS = len(os.sched_getaffinity(0))
# A part that one thread is given: about a visit's work. Small outputs cost some system calls each.
_PART_BYTES = 16 * 1024 * 1024
_PART_PROCESSES = 50
# So much is read ahead of what is searched first: it is lost where the slice ends before that is done, 0.1 s
# of a processor.
_AHEAD_BYTES = 32 * 1024 * 1024
# A slice that has found something ends after so long: a person sees matches as they come, not one by one.
_SOON_S = 0.2
_PAGE = 200  # records that are listed at a time


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is looked for, and where.

    `processes` has the principal whose processes are searched; with `only` that one is searched alone.
    `context` is the number of lines shown around a match, `most_each` the number of matching lines of one
    process after which the next one is searched.
    """

    query: LineQuery
    processes: ProcessFilter
    only: ProcessRecord | None = None
    context: int = 0
    most_each: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchHit:
    """A line that matches, and whose it is."""

    record: ProcessRecord
    line: MatchedLine


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchSlice:
    """What one slice has found, in the order of the search; `next` is where to go on, None once everything
    was searched.

    `processes` were searched to their end in it, `read_bytes` of output read. `searched_bytes` is how much
    output it has searched, what an index excludes included, and `left_bytes` how much lies behind `next`,
    about. The output of `unreadable` processes could not be read.
    """

    hits: list[SearchHit]
    next: SearchPlace | None
    processes: int
    read_bytes: int
    searched_bytes: int
    left_bytes: int
    unreadable: int


class OutputSearch:
    """Searches in slices. On the engine's loop only; it reads logs in threads."""

    def __init__(
        self,
        layout: Layout,
        queries: Queries,
        redaction: Redaction,
        *,
        table: ProcessTable,
        registry: Registry,
    ) -> None:
        """Find processes by `queries`, their folders by `layout`, and hide by `redaction`; `table` and
        `registry` say how much there is.
        """
        self._table = table
        self._registry = registry
        self._layout = layout
        self._queries = queries
        self._redaction = redaction
        self._key = key_of(redaction.redactor)
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._searches = 0  # that are under way

    async def find(
        self, wanted: Wanted, *, begin: SearchPlace | None = None, limit: int, within_s: float
    ) -> SearchSlice:
        """Search from `begin` on until `limit` lines were found or `within_s` seconds are over.

        Sooner if something was found.

        Cancellation: safe; the threads that read end within 50 ms.
        """
        walk = _Walk(self, wanted, begin)
        begun = time.monotonic()
        self._searches += 1
        try:
            while True:
                if walk.is_empty and not walk.take(await self._records(wanted, walk.last_id, begin)):
                    break
                elapsed = time.monotonic() - begun
                if (
                    len(walk.hits) >= limit
                    or elapsed >= within_s
                    or (walk.hits and elapsed >= min(_SOON_S, within_s))
                ):
                    break
                first, second = walk.parts()
                room = limit - len(walk.hits)
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._visit(walk, first, room))
                    if second and self._searches == 1 and _PROCESSORS > 1:
                        group.create_task(self._visit(walk, second, room, most_bytes=_AHEAD_BYTES))
                walk.gather(limit)
        finally:
            walk.is_stopped = True
            self._searches -= 1
        return SearchSlice(
            hits=walk.hits,
            next=walk.place,
            processes=walk.processes,
            read_bytes=walk.read_bytes,
            searched_bytes=walk.searched_bytes,
            left_bytes=walk.left_bytes + await self._unlisted_bytes(wanted, walk),
            unreadable=walk.unreadable,
        )

    def open_log(self, record: ProcessRecord) -> OutputLog:
        """Return a process's output as it is shown to callers.

        It may be read in a thread, which closes it.
        """
        hiding = self._redaction.hiding(record, is_over=lambda: record.is_complete, held=_not_waiting)
        return OutputLog(self._layout.process(record.process_id), hiding=hiding)

    def open_index(self, record: ProcessRecord, literals: Sequence[bytes] | None) -> LogIndex | None:
        """Return a process's index, asked for these literals; None where it would say nothing."""
        # The values of secrets are not always known to what makes indexes, so that such a process has none.
        if literals is None or record.secret_names:
            return None
        return LogIndex(self._layout.process(record.process_id), self._key, literals)

    async def _visit(
        self, walk: "_Walk", part: "Sequence[_Reading]", most: int, *, most_bytes: int | None = None
    ) -> None:
        # Taken for each visit anew: a slice that waits for a slow registry, or a slow caller, keeps no other
        # out.
        async with self._turns:
            await asyncio.to_thread(walk.visit, part, most, most_bytes)

    async def _records(
        self, wanted: Wanted, last_id: str | None, begin: SearchPlace | None
    ) -> list[ProcessRecord]:
        """Return the next processes: those older than `last_id`, or those from `begin` on, or the newest."""
        if wanted.only is not None:
            return [] if last_id is not None else [wanted.only]
        before = last_id
        if before is None and begin is not None:
            before = f"{begin.process_id}0"  # longer, so greater than the id and smaller than the next one
        return await self._queries.list(
            replace(wanted.processes, before=before) if before else wanted.processes, limit=_PAGE
        )

    async def _unlisted_bytes(self, wanted: Wanted, walk: "_Walk") -> int:
        if wanted.only is not None or walk.is_empty:
            return 0
        asked = replace(wanted.processes, before=walk.last_id)
        live = [one.record for one in self._table.processes.candidates(asked)]
        stored = await output_bytes(self._registry, asked, without=[one.process_id for one in live])
        return stored + sum(one.stdout_bytes + one.stderr_bytes for one in live if asked.matches(one))


class _Reading:
    """The search of one process's output. Used by one thread at a time.

    Attributes:
        record: Whose output it is.
        hits: What was found and not yet taken.
        is_over: It was searched to its end.
        is_unreadable: It could not be read.
        read_bytes: Of its output.
    """

    def __init__(self, search: OutputSearch, wanted: Wanted, record: ProcessRecord) -> None:
        self.record = record
        self.hits: list[SearchHit] = []
        self.is_over = self.is_unreadable = False
        self.read_bytes = 0
        self._search = search
        self._wanted = wanted
        self._begin = SearchPlace(process_id=record.process_id)
        self._found = 0
        self._open: tuple[OutputLog, LineSearch] | None = None

    def begin_at(self, place: SearchPlace) -> None:
        """Begin there, or begin again."""
        self.close()
        self._begin, self._found = place, place.found
        self.hits, self.is_over = [], False

    @property
    def begin(self) -> SearchPlace:
        """Where it has begun."""
        return self._begin

    @property
    def place(self) -> SearchPlace:
        """Where to go on."""
        if self._open is None:
            return self._begin
        now = self._open[1]
        return SearchPlace(
            process_id=self.record.process_id, stream=now.stream, offset=now.offset, found=self._found
        )

    def turn(self, most: int, literals: Sequence[bytes] | None) -> None:
        """Search the next piece, for at most `most` lines in all.

        Raises:
            StoreCorrupt: The disk does not give the bytes.
        """
        if self._open is None:
            self._open = self._opened(literals)
        search, each = self._open[1], self._wanted.most_each
        left = most - len(self.hits)
        left = left if each is None else min(left, each - self._found)
        if left > 0:
            before = search.read_bytes
            lines = search.turn(left)
            self.hits += [SearchHit(record=self.record, line=line) for line in lines]
            self._found += len(lines)
            self.read_bytes += search.read_bytes - before
        self.is_over = search.is_over or (each is not None and self._found >= each)

    def close(self) -> None:
        """Close its log."""
        if self._open is not None:
            self._open[0].close()
            self._open = None

    def _opened(self, literals: Sequence[bytes] | None) -> tuple[OutputLog, LineSearch]:
        log = self._search.open_log(self.record)
        return log, LineSearch(
            log,
            self._wanted.query,
            stream=self._begin.stream,
            offset=self._begin.offset,
            context=self._wanted.context,
            index=self._search.open_index(self.record, literals),
        )


class _Walk:
    """One slice on its way: what is to be searched, and what was found.

    Threads search the parts that they are given; everything else is done between their visits.

    Attributes:
        hits: What was found.
        processes: How many were searched to their end.
        read_bytes: Of their output.
        unreadable: How many could not be read.
        last_id: The last process that was listed.
        is_stopped: Its caller is gone.
    """

    def __init__(self, search: OutputSearch, wanted: Wanted, begin: SearchPlace | None) -> None:
        self.hits: list[SearchHit] = []
        self.processes = self.read_bytes = self.unreadable = 0
        self.last_id: str | None = None
        self.is_stopped = False
        self._search = search
        self._wanted = wanted
        self._begin = begin
        self._literals = needed_literals(wanted.query)
        self._readings: deque[_Reading] = deque()
        self._searched_bytes = 0  # of those that were searched to their end

    @property
    def is_empty(self) -> bool:
        """Whether everything that was listed has been searched."""
        return not self._readings

    @property
    def place(self) -> SearchPlace | None:
        """Where to go on; None when everything was searched."""
        return self._readings[0].place if self._readings else None

    @property
    def searched_bytes(self) -> int:
        """How much output was searched."""
        begun = sum(
            _bytes_behind(one.record, one.begin) - _bytes_behind(one.record, one.place)
            for one in islice(self._readings, 1)
        )
        return self._searched_bytes + begun

    @property
    def left_bytes(self) -> int:
        """How much of what was listed lies behind that place."""
        return sum(
            _bytes_behind(one.record, one.begin if number else one.place)
            for number, one in enumerate(self._readings)
        )

    def take(self, records: list[ProcessRecord]) -> bool:
        """Take the next processes; return whether there are any."""
        for record in records:
            reading = _Reading(self._search, self._wanted, record)
            if self._begin is not None and self._begin.process_id == record.process_id:
                reading.begin_at(self._begin)
            self._readings.append(reading)
            self.last_id = record.process_id
        return bool(records)

    def parts(self) -> tuple[list[_Reading], list[_Reading]]:
        """Return what two threads may search now: the next processes, and those behind them, not too far
        ahead.
        """
        open_ = [one for one in self._readings if not one.is_over]
        first = _part(open_)
        return first, _part(open_[len(first) :])

    def visit(self, part: Sequence[_Reading], most: int, most_bytes: int | None) -> None:
        """Search a part for 50 ms, or until `most` lines were found, or about `most_bytes` were read, or to
        its end.
        """
        until = time.monotonic() + _VISIT_S
        found = 0
        for reading in part:
            while not reading.is_over:
                is_enough = most_bytes is not None and sum(one.read_bytes for one in part) >= most_bytes
                is_full = found + len(reading.hits) >= most
                if is_full or is_enough or self.is_stopped or time.monotonic() >= until:
                    return
                try:
                    reading.turn(most - found, self._literals)
                except StoreCorrupt:  # the log of one process must not end the search through all others
                    reading.is_over = reading.is_unreadable = True
            reading.close()
            found += len(reading.hits)

    def gather(self, limit: int) -> None:
        """Take over what was found, in the order of the search, up to the first process that was not searched
        to its end.
        """
        while self._readings:
            reading = self._readings[0]
            if len(reading.hits) > limit - len(self.hits):
                # It was searched ahead, and what came before it has left less room: it is searched again from
                # its beginning.
                reading.begin_at(reading.begin)
                return
            self.hits += reading.hits
            reading.hits = []
            self.read_bytes += reading.read_bytes
            reading.read_bytes = 0
            if not reading.is_over:
                return
            self.processes += 1
            self.unreadable += reading.is_unreadable
            self._searched_bytes += _bytes_behind(reading.record, reading.begin)
            self._readings.popleft()


def _part(readings: Sequence[_Reading]) -> list[_Reading]:
    """Return the first of some processes, as many as are about one visit's work."""
    part: list[_Reading] = []
    size = 0
    for one in readings:
        if part and (size >= _PART_BYTES or len(part) >= _PART_PROCESSES):
            break
        part.append(one)
        size += _bytes_behind(one.record, one.place)
    return part


def _bytes_behind(record: ProcessRecord, place: SearchPlace) -> int:
    """Return how much of a process's output is searched from a place on, as far as it was written when it was
    listed.
    """
    if place.stream:
        return max(0, record.stderr_bytes - place.offset)
    return max(0, record.stdout_bytes - place.offset) + record.stderr_bytes


def _not_waiting() -> None:
    """Bytes that are held back are not waited for: a later search finds them."""


_MAKER = "outlive.store.search.index_maker"
# After the server's start and after an end: what comes in bursts is indexed together, and no start of a
# server is slower.
_SETTLE_S = 30.0
_LOOK_S = 600.0  # for what has run so long that part of its log is final
_REAPED_S = 5.0  # a killed process is gone at once, unless the machine hangs
# What Python needs to start as it was started; secrets of the server's environment are not among it.
_PASSED = ("HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PATH", "PYTHONHOME", "PYTHONPATH")

_logger = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class OutputIndex:
    """Has what has ended indexed some time later. On the engine's loop only."""

    layout: Layout
    table: ProcessTable
    redactor: Redactor
    events: EventPublisher
    _wanted: asyncio.Event = field(default_factory=asyncio.Event, init=False)

    async def run(self) -> None:
        """Have indexes made from time to time, for ever. Cancellation: the program beside ends, too."""
        if key_of(self.redactor) != await asyncio.to_thread(self._key_of_maker):
            # with --redact=off or secrets the program would hide more than is shown: searches read the logs
            return
        unsubscribe = self.events.subscribe(self._heard, kinds={ProcessClosed})
        try:
            while True:
                await asyncio.sleep(_SETTLE_S)
                self._wanted.clear()
                await self._make()
                while not self._wanted.is_set():
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(_LOOK_S):
                            await self._wanted.wait()
                    if self._has_long_logs():
                        break
        finally:
            unsubscribe()

    def _key_of_maker(self) -> bytes:
        return key_of(Redactor(extra=noted_patterns(self.layout)))

    def _heard(self, event: Event) -> None:
        assert isinstance(event, ProcessClosed)
        if max(event.record.stdout_bytes, event.record.stderr_bytes) >= LEAST_BYTES:
            self._wanted.set()

    def _has_long_logs(self) -> bool:
        return any(one.record.stdout_bytes > GROUP_BYTES for one in self.table.live.values())

    async def _make(self) -> None:
        """Run the program to its end."""
        argv = [sys.executable, "-s", "-P", "-m", _MAKER, self.layout.root, key_of(self.redactor).hex()]
        environment = {name: os.environ[name] for name in _PASSED if name in os.environ}
        try:
            # Its stdin is what tells it that the server is there.
            maker = await asyncio.create_subprocess_exec(
                *argv, stdin=PIPE, stdout=DEVNULL, stderr=DEVNULL, env=environment, start_new_session=True
            )
        except OSError as error:  # no memory, no pids: searches read the logs
            _logger.warning("indexes are not made", extra={"reason": error.strerror})
            return
        try:
            code = await maker.wait()
        except asyncio.CancelledError:
            with contextlib.suppress(ProcessLookupError):
                maker.kill()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_REAPED_S):
                    await maker.wait()
            raise
        if code:
            _logger.warning("making indexes failed", extra={"exit_code": code})
