"""`Reports`: what the caller's processes did in a span of time, what the audit log says, which settings count, what a check finds.

Counted are records that the registry has: nothing samples anything. Counting is pure (`count_records`); a page of a thousand records costs it some
milliseconds in a thread, and the event loop nothing.
"""

import asyncio
import contextlib
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import accumulate
from typing import Any

import msgspec

from outlive.config import EffectiveSetting
from outlive.core.errors import BackendUnavailable
from outlive.core.layout import Layout
from outlive.core.lifecycle import NOT_ENDED
from outlive.core.process import ProcessRecord, status_of
from outlive.engine.queries import Queries
from outlive.operations.reports import (
    AuditPage,
    AuditRequest,
    ChecksAnswer,
    Outage,
    ProjectCounts,
    SettingsAnswer,
    SettingView,
    Span,
    StatisticsAnswer,
    StatisticsBucket,
    StatisticsRequest,
)
from outlive.operations.requests import moment_of
from outlive.store.audit.audit_pages import Away, read_outages, read_page
from outlive.store.rows import ProcessFilter

_PAGE = 1000  # records of one question to the registry: some milliseconds
_CHECK_S = 30.0  # a doctor on a busy machine: it starts some programs
_CHECKED_S = 10.0  # a page that is looked at asks again
MOST_RECORDS = 50_000  # five times what retention keeps by default; some four seconds of a thread (80 µs each, mostly to read them)


class Reports:
    """Answers `statistics`, `audit`, `settings` and `checks`. On the engine's loop only."""

    def __init__(self, layout: Layout, *, queries: Queries) -> None:
        """Take where the audit log lies, and what knows processes."""
        self._layout = layout
        self._queries = queries
        self._settings: tuple[SettingView, ...] = ()
        self._checking = asyncio.Lock()
        self._checked: tuple[float, ChecksAnswer] | None = None

    def show_settings(self, effective: Iterable[EffectiveSetting]) -> None:
        """Take the settings that are in effect, once, before the first question."""
        self._settings = tuple(
            SettingView(key=one.key, value=one.value, source=one.source, place=one.place, help=one.help)
            for one in effective
        )

    def settings(self) -> SettingsAnswer:
        """Return every setting of this server, as it was started; no secret's value is among them."""
        return SettingsAnswer(settings=list(self._settings))

    async def checks(self) -> ChecksAnswer:
        """Return what `outlive doctor` finds on this machine, at most ten seconds old.

        In a process of its own: what is tried out (signals, a subreaper, a group of processes) must not happen in a server.

        Raises:
            BackendUnavailable: `timeout`: it has not ended in half a minute, or says nothing that can be read.
        """
        async with self._checking:  # asked for twice at once, it is done once
            now = time.monotonic()
            if self._checked is None or now - self._checked[0] > _CHECKED_S:
                self._checked = (now, await _check(self._layout.root))
            return self._checked[1]

    async def statistics(self, principal: str, asked: StatisticsRequest) -> StatisticsAnswer:
        """Return what a principal's processes did.

        Raises:
            InvalidRequest: The span makes no sense.
            OutliveError: The registry does not answer.
        """
        span = asked.span(datetime.now(UTC))
        counting = _SpanCounts(span)
        before: str | None = None
        is_complete = not asked.counts
        for _ in range(MOST_RECORDS // _PAGE if asked.counts else 0):
            wanted = ProcessFilter(
                principal=principal,
                project=asked.project,
                alive_since=span.since,
                before=before,
            )
            page = await self._queries.list(wanted, limit=_PAGE)
            await asyncio.to_thread(counting.add, page)
            if is_complete := len(page) < _PAGE:
                break
            before = page[-1].process_id
        away = await asyncio.to_thread(read_outages, self._layout.audit, since=span.since, until=span.until)
        return counting.answer(away, is_complete=is_complete)

    async def audit(self, asked: AuditRequest) -> AuditPage:
        """Return a page of the audit log; an entry is there some 50 ms after what it is about.

        Raises:
            InvalidRequest: A time is none.
        """
        found = await asyncio.to_thread(
            read_page,
            self._layout.audit,
            process_id=asked.process_id,
            since="" if asked.since is None else _as_entered("since", asked.since),
            until="~" if asked.until is None else _as_entered("until", asked.until),
            before=asked.before,
            limit=asked.limit + 1,
        )
        return AuditPage(entries=found[: asked.limit], more=len(found) > asked.limit)


async def _check(state_dir: str) -> ChecksAnswer:
    words = (sys.executable, "-m", "outlive", "doctor", "--json", "--state-dir", state_dir)
    doctor = await asyncio.create_subprocess_exec(
        *words,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(_CHECK_S):
            said, _ = await doctor.communicate()
        return msgspec.json.decode(said, type=ChecksAnswer)
    except (TimeoutError, msgspec.DecodeError) as error:
        text = "`outlive doctor` gave no answer."
        raise BackendUnavailable("timeout", text, hint="Try it at the machine's own command line.") from error
    finally:
        with contextlib.suppress(ProcessLookupError):  # mostly it has ended
            doctor.kill()
        await asyncio.shield(doctor.wait())


def _as_entered(name: str, text: str) -> str:
    """Return a moment in the form in which the audit log has it."""
    return f"{moment_of(name, text).astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"


def count_records(records: Iterable[ProcessRecord], span: Span) -> StatisticsAnswer:
    """Return what these processes did in a span. Pure."""
    counting = _SpanCounts(span)
    counting.add(records)
    return counting.answer((), is_complete=True)


@dataclass(slots=True)
class _Sums:
    """Counts that grow."""

    started: int = 0
    ended: int = 0
    failed: int = 0
    stopped: int = 0
    run_s: float = 0.0
    output_bytes: int = 0

    def end(self, record: ProcessRecord) -> None:
        """Count an end."""
        self.ended += 1
        status = status_of(record)
        self.stopped += status == "terminated"
        self.failed += status in {"failed", "timeout"}
        self.output_bytes += record.stdout_bytes + record.stderr_bytes

    def members(self) -> dict[str, Any]:
        """Return them as members of an answer."""
        return {
            "started": self.started,
            "ended": self.ended,
            "failed": self.failed,
            "stopped": self.stopped,
            "run_s": round(self.run_s, 3),
            "output_bytes": self.output_bytes,
        }


@dataclass(slots=True)
class _SpanCounts:
    """Counts records by the buckets of a span and by project."""

    span: Span
    sums: list[_Sums] = field(init=False)
    # How many more processes ran through the whole of a bucket than through the one before: a process of a year costs two additions.
    throughout: list[int] = field(init=False)
    projects: dict[str | None, _Sums] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.sums = [_Sums() for _ in range(self.span.count)]
        self.throughout = [0] * (self.span.count + 1)

    def add(self, records: Iterable[ProcessRecord]) -> None:
        """Count these."""
        span = self.span
        for record in records:
            project = self.projects.setdefault(record.project, _Sums())
            if span.since <= record.created_at < span.until:
                self.sums[self._place(record.created_at)].started += 1
                project.started += 1
            ended_at = record.ended_at or (None if record.state in NOT_ENDED else record.created_at)
            if ended_at is not None and span.since <= ended_at < span.until:
                self.sums[self._place(ended_at)].end(record)
                project.end(record)
            if record.started_at is not None:
                begin = max(record.started_at, span.since)
                end = min(ended_at or span.until, span.until)
                if begin < end:
                    project.run_s += (end - begin).total_seconds()
                    self._run((begin - span.since).total_seconds(), (end - span.since).total_seconds())

    def _place(self, moment: datetime) -> int:
        return int((moment - self.span.since).total_seconds() // self.span.bucket_s)

    def _run(self, begin_s: float, end_s: float) -> None:
        """Add a run, in seconds since the span's beginning, to the buckets that it touches."""
        length_s = self.span.bucket_s
        first = int(begin_s // length_s)
        last = min(int(end_s // length_s), len(self.sums) - 1)
        if first == last:
            self.sums[first].run_s += end_s - begin_s
            return
        self.sums[first].run_s += (first + 1) * length_s - begin_s
        self.sums[last].run_s += end_s - last * length_s
        self.throughout[first + 1] += 1
        self.throughout[last] -= 1

    def answer(self, away: Sequence[Away], *, is_complete: bool) -> StatisticsAnswer:
        """Return everything that was counted; to be called once."""
        span = self.span
        for sums, count in zip(self.sums, accumulate(self.throughout), strict=False):
            sums.run_s += count * span.bucket_s
        buckets = [
            StatisticsBucket(at=span.since + number * span.bucket, **sums.members())
            for number, sums in enumerate(self.sums)
        ]
        seen = {name: sums for name, sums in self.projects.items() if sums != _Sums()}
        projects = [ProjectCounts(project=name, **sums.members()) for name, sums in seen.items()]
        return StatisticsAnswer(
            since=span.since,
            until=span.until,
            bucket_s=span.bucket_s,
            buckets=buckets,
            projects=sorted(projects, key=lambda one: (-one.started, one.project or "")),
            complete=is_complete,
            away=[Outage(from_=one.since, to=one.until, exact=one.is_exact) for one in away],
        )
