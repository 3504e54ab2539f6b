"""`OutputSearch`: lines that match in the output of all of a principal's processes, the newest process first.

A search is asked for in slices: each returns what it has found within a short time, and where the next one goes on. So the caller
gets matches as they are found, and a search that its caller does not go on with has ended. Nothing of it is kept in between.

Every line is compared as `store/search/line_search.py` reads it, after redaction, and only processes that the caller's filter names are read.
"""

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

from outlive.core.cursor import SearchPlace
from outlive.core.errors import StoreCorrupt
from outlive.core.layout import Layout
from outlive.core.process import ProcessRecord
from outlive.engine.processes.output_redaction import Redaction
from outlive.engine.queries import Queries
from outlive.protocols.output.line_query import LineQuery
from outlive.protocols.output.literals import needed_literals
from outlive.store.output_log import OutputLog
from outlive.store.rows import ProcessFilter
from outlive.store.search.line_search import LineSearch, MatchedLine
from outlive.store.search.log_index import LogIndex, key_of

# In one visit to a thread: a search whose caller has left ends within so much, and others get their turn.
_VISIT_S = 0.05
# As many searches read at a time, of all callers together: the rest of the machine is for the commands.
_AT_ONCE = 2
# A slice that has found something ends after so long: a person sees matches as they come, not one by one.
_SOON_S = 0.2
_PAGE = 200  # records that are listed at a time


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is looked for, and where.

    `processes` has the principal whose processes are searched; with `only` that one is searched alone. `context` is the number
    of lines shown around a match, `most_each` the number of matching lines of one process after which the next one is searched.
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
    """What one slice has found, in the order of the search; `next` is where to go on, None once everything was searched.

    `processes` were searched to their end in it, `read_bytes` of output read. The output of `unreadable` processes could not be read.
    """

    hits: list[SearchHit]
    next: SearchPlace | None
    processes: int
    read_bytes: int
    unreadable: int


class OutputSearch:
    """Searches in slices. On the engine's loop only; it reads logs in threads."""

    def __init__(self, layout: Layout, queries: Queries, redaction: Redaction) -> None:
        """Find processes by `queries`, their folders by `layout`, and hide by `redaction`."""
        self._layout = layout
        self._queries = queries
        self._redaction = redaction
        self._key = key_of(redaction.redactor)
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def find(
        self, wanted: Wanted, *, begin: SearchPlace | None = None, limit: int, within_s: float
    ) -> SearchSlice:
        """Search from `begin` on until `limit` lines were found or `within_s` seconds are over; sooner if something was found.

        Cancellation: safe; the thread that reads ends within 50 ms.
        """
        walk = _Walk(self, wanted, begin)
        begun = time.monotonic()
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
                # Taken for each visit anew: a slice that waits for a slow registry, or a slow caller, keeps no other out.
                async with self._turns:
                    await asyncio.to_thread(walk.visit, limit)
        finally:
            walk.is_stopped = True
        return SearchSlice(
            hits=walk.hits,
            next=walk.place,
            processes=walk.processes,
            read_bytes=walk.read_bytes,
            unreadable=walk.unreadable,
        )

    def open_log(self, record: ProcessRecord) -> OutputLog:
        """Return a process's output as it is shown to callers; it may be read in a thread, which closes it."""
        hiding = self._redaction.hiding(record, is_over=lambda: record.is_complete, held=_not_waiting)
        return OutputLog(self._layout.process(record.process_id), hiding=hiding)

    def open_index(self, record: ProcessRecord, literals: Sequence[bytes] | None) -> LogIndex | None:
        """Return a process's index, asked for these literals; None where it would say nothing."""
        # The values of secrets are not always known to what makes indexes, so that such a process has none.
        if literals is None or record.secret_names:
            return None
        return LogIndex(self._layout.process(record.process_id), self._key, literals)

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


class _Walk:
    """One slice on its way: what is to be searched, and what was found. Used by one thread at a time.

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
        self.processes = 0
        self.read_bytes = 0
        self.unreadable = 0
        self.last_id: str | None = None
        self.is_stopped = False
        self._search = search
        self._wanted = wanted
        self._begin = begin
        self._literals = needed_literals(wanted.query)
        self._records: deque[ProcessRecord] = deque()
        self._open: tuple[OutputLog, LineSearch] | None = None  # of the first record
        self._found = 0  # in it

    @property
    def is_empty(self) -> bool:
        """Whether everything that was listed has been searched."""
        return not self._records

    @property
    def place(self) -> SearchPlace | None:
        """Where to go on; None when everything was searched."""
        if not self._records:
            return None
        process_id = self._records[0].process_id
        if self._open is None:
            begin = self._begin
            return (
                begin
                if begin is not None and begin.process_id == process_id
                else SearchPlace(process_id=process_id)
            )
        now = self._open[1]
        return SearchPlace(process_id=process_id, stream=now.stream, offset=now.offset, found=self._found)

    def take(self, records: list[ProcessRecord]) -> bool:
        """Take the next processes; return whether there are any."""
        if records:
            self._records.extend(records)
            self.last_id = records[-1].process_id
        return bool(records)

    def visit(self, limit: int) -> None:
        """Search for 50 ms, or until `limit` lines were found, or through everything that was listed."""
        until = time.monotonic() + _VISIT_S
        while self._records and len(self.hits) < limit and not self.is_stopped:
            record = self._records[0]
            try:
                is_over = self._turn(record, limit - len(self.hits))
            except StoreCorrupt:  # the log of one process must not end the search through all others
                self.unreadable += 1
                is_over = True
            if is_over:
                self._close()
                self._records.popleft()
                self.processes += 1
            if time.monotonic() >= until:
                return

    def _turn(self, record: ProcessRecord, most: int) -> bool:
        """Search the next piece of a process; return whether that was the last one."""
        each = self._wanted.most_each
        if self._open is None:
            self._open = self._opened(record)
        search = self._open[1]
        before = search.read_bytes
        left = most if each is None else min(most, each - self._found)
        if left > 0:
            lines = search.turn(left)
            self.hits += [SearchHit(record=record, line=line) for line in lines]
            self._found += len(lines)
            self.read_bytes += search.read_bytes - before
        return search.is_over or (each is not None and self._found >= each)

    def _opened(self, record: ProcessRecord) -> tuple[OutputLog, LineSearch]:
        begin = self._begin
        if begin is None or begin.process_id != record.process_id:
            begin = SearchPlace(process_id=record.process_id)
        self._found = begin.found
        log = self._search.open_log(record)
        return log, LineSearch(
            log,
            self._wanted.query,
            stream=begin.stream,
            offset=begin.offset,
            context=self._wanted.context,
            index=self._search.open_index(record, self._literals),
        )

    def _close(self) -> None:
        if self._open is not None:
            self._open[0].close()
            self._open = None


def _not_waiting() -> None:
    """Bytes that are held back are not waited for: a later search finds them."""
