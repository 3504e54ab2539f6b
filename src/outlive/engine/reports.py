"""`Reports`: what the caller's processes did in a span of time, what the audit log says, which settings
count, what a check finds.

Counted is what the registry has: nothing samples anything. SQLite adds it up (`store.span_sums`), and
`SpanCounts` makes the answer of that.
"""

import asyncio
import contextlib
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import accumulate
from typing import Any, assert_never

import msgspec

from outlive.config import EffectiveSetting
from outlive.core.errors import BackendUnavailable
from outlive.core.layout import Layout
from outlive.core.lifecycle import NOT_ENDED, Cause
from outlive.core.process import Owner, ProcessRecord, end_status
from outlive.core.values import dataclass, field
from outlive.engine.queries import Queries
from outlive.engine.starts.start_queue import StartQueue
from outlive.kernel.processes import python_words
from outlive.operations.reports import (
    AuditPage,
    AuditRequest,
    ChecksAnswer,
    ChecksRequest,
    GroupsAnswer,
    GroupsRequest,
    Outage,
    ProjectCounts,
    ReportAnswer,
    ReportRequest,
    SettingsAnswer,
    SettingsRequest,
    SettingView,
    Span,
    StatisticsAnswer,
    StatisticsBucket,
    StatisticsRequest,
)
from outlive.operations.requests import moment_of
from outlive.store.audit.audit_trail import Away, read_outages, read_page
from outlive.store.registry import Registry, span_sums
from outlive.store.rows import ProcessFilter, bounded_ns
from outlive.store.span_sums import SpanBounds, SpanSums


def count_records(records: Iterable[ProcessRecord], span: Span) -> StatisticsAnswer:
    """Return what these processes did in a span. Pure."""
    counting = SpanCounts(span)
    counting.add(records)
    return counting.answer(())


@dataclass(slots=True)
class _Sums:
    """Counts that grow."""

    started: int = 0
    ended: int = 0
    failed: int = 0
    stopped: int = 0
    run_s: float = 0.0
    output_bytes: int = 0

    def end(self, cause: Cause, *, is_clean: bool, count: int, output_bytes: int) -> None:
        """Count ends of one kind."""
        self.ended += count
        status = end_status(cause, is_clean=is_clean)
        self.stopped += count * (status == "terminated")
        self.failed += count * (status in {"failed", "timeout"})
        self.output_bytes += output_bytes

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
class SpanCounts:
    """Counts records by the buckets of a span and by project. Pure."""

    span: Span
    sums: list[_Sums] = field(init=False)
    # How many more processes ran through the whole of a bucket than through the one before: a process of a
    # year costs two additions.
    throughout: list[int] = field(init=False)
    projects: dict[str | None, _Sums] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.sums = [_Sums() for _ in range(self.span.count)]
        self.throughout = [0] * (self.span.count + 1)

    def add_sums(self, found: SpanSums) -> None:
        """Count what the registry has added up, and what it could not."""
        for started in found.starts:
            self.sums[started.bucket].started += started.count
            self._project(started.project).started += started.count
        for ended in found.ends:
            for sums in (self.sums[ended.bucket], self._project(ended.project)):
                sums.end(
                    Cause(ended.cause),
                    is_clean=ended.is_clean,
                    count=ended.count,
                    output_bytes=ended.output_bytes,
                )
        for ran in found.runs:
            self._project(ran.project).run_s += ran.end_s - ran.begin_s
            self._run(ran.first, ran.last, begin_s=ran.begin_s, end_s=ran.end_s, count=ran.count)
        self.add(found.others)

    def _project(self, name: str | None) -> _Sums:
        return self.projects.setdefault(name, _Sums())

    def add(self, records: Iterable[ProcessRecord]) -> None:
        """Count these."""
        span = self.span
        for record in records:
            project = self._project(record.project)
            if span.since <= record.created_at < span.until:
                self.sums[self._place(record.created_at)].started += 1
                project.started += 1
            ended_at = record.ended_at or (None if record.state in NOT_ENDED else record.created_at)
            if ended_at is not None and span.since <= ended_at < span.until:
                is_clean = record.exit_code == 0 and not record.output_lost
                output_bytes = record.stdout_bytes + record.stderr_bytes
                for sums in (self.sums[self._place(ended_at)], project):
                    sums.end(record.cause, is_clean=is_clean, count=1, output_bytes=output_bytes)
            if record.started_at is not None:
                begin = max(record.started_at, span.since)
                end = min(ended_at or span.until, span.until)
                if begin < end:
                    project.run_s += (end - begin).total_seconds()
                    begin_s = (begin - span.since).total_seconds()
                    end_s = (end - span.since).total_seconds()
                    last = min(int(end_s // span.bucket_s), len(self.sums) - 1)
                    self._run(int(begin_s // span.bucket_s), last, begin_s=begin_s, end_s=end_s, count=1)

    def _place(self, moment: datetime) -> int:
        return int((moment - self.span.since).total_seconds() // self.span.bucket_s)

    def _run(self, first: int, last: int, *, begin_s: float, end_s: float, count: int) -> None:
        """Add runs from one bucket to another one to all that they touch.

        Sums of seconds since the span's beginning.
        """
        length_s = self.span.bucket_s
        # What begins within the last microsecond of the span is rounded to the bucket behind the last one.
        last = min(last, len(self.sums) - 1)
        first = min(first, last)
        if first == last:
            self.sums[first].run_s += end_s - begin_s
            return
        self.sums[first].run_s += count * (first + 1) * length_s - begin_s
        self.sums[last].run_s += end_s - count * last * length_s
        self.throughout[first + 1] += count
        self.throughout[last] -= count

    def answer(self, away: Sequence[Away]) -> StatisticsAnswer:
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
            complete=True,
            away=[Outage(from_=one.since, to=one.until, exact=one.is_exact) for one in away],
        )


_CHECK_S = 30.0  # a doctor on a busy machine: it starts some programs
_CHECKED_S = 10.0  # a page that is looked at asks again


@dataclass(eq=False, slots=True)
class Reports:
    """Answers `statistics`, `groups`, `audit`, `settings` and `checks`. On the engine's loop only."""

    layout: Layout
    registry: Registry
    queries: Queries
    queue: StartQueue
    _settings: tuple[SettingView, ...] = field(default=(), init=False)
    _checking: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)
    _checked: tuple[float, ChecksAnswer] | None = field(default=None, init=False)

    def show_settings(self, effective: Iterable[EffectiveSetting]) -> None:
        """Take the settings that are in effect, once, before the first question."""
        self._settings = tuple(
            SettingView(key=one.key, value=one.value, source=one.source, place=one.place, help=one.help)
            for one in effective
        )

    async def answer(self, asked: ReportRequest, by: Owner) -> ReportAnswer:
        """Answer one of `operations.reports.REPORTS`; raises what each of them does."""
        match asked:
            case StatisticsRequest():
                return await self.statistics(by.principal, asked)
            case GroupsRequest():
                return GroupsAnswer(groups=self.queue.machine.views(by.principal))
            case AuditRequest():
                return await self.audit(asked)
            case SettingsRequest():
                return self.settings()
            case ChecksRequest():
                return await self.checks()
            case _:
                assert_never(asked)

    def settings(self) -> SettingsAnswer:
        """Return every setting of this server, as it was started; no secret's value is among them."""
        return SettingsAnswer(settings=list(self._settings))

    async def checks(self) -> ChecksAnswer:
        """Return what `outlive doctor` finds on this machine, at most ten seconds old.

        In a process of its own: what is tried out (signals, a subreaper, a group of processes) must not
        happen in a server.

        Raises:
            BackendUnavailable: `timeout`: it has not ended in half a minute, or says nothing that can be
            read.
        """
        async with self._checking:  # asked for twice at once, it is done once
            now = time.monotonic()
            if self._checked is None or now - self._checked[0] > _CHECKED_S:
                self._checked = (now, await _check(self.layout.root))
            return self._checked[1]

    async def statistics(self, principal: str, asked: StatisticsRequest) -> StatisticsAnswer:
        """Return what a principal's processes did.

        Raises:
            InvalidRequest: The span makes no sense.
            OutliveError: The registry does not answer.
        """
        span = asked.span(datetime.now(UTC))
        counting = SpanCounts(span)
        if asked.counts:
            wanted = ProcessFilter(principal=principal, project=asked.project, alive_since=span.since)
            bounds = SpanBounds(
                since_ns=bounded_ns(span.since),
                until_ns=bounded_ns(span.until),
                bucket_ns=span.bucket_s * 10**9,
                count=span.count,
            )
            counting.add_sums(await self._sums(wanted, bounds))
        away = await asyncio.to_thread(read_outages, self.layout.audit, since=span.since, until=span.until)
        return counting.answer(away)

    async def _sums(self, wanted: ProcessFilter, bounds: SpanBounds) -> SpanSums:
        """Return what the registry adds up; what lives is among `others`."""
        await self.queries.known()
        live = [one.record for one in self.queries.live(principal=wanted.principal)]
        found = await span_sums(self.registry, wanted, bounds, without=[one.process_id for one in live])
        found.others += [one for one in live if wanted.matches(one)]
        return found

    async def audit(self, asked: AuditRequest) -> AuditPage:
        """Return a page of the audit log; an entry is there some 50 ms after what it is about.

        Raises:
            InvalidRequest: A time is none.
        """
        found = await asyncio.to_thread(
            read_page,
            self.layout.audit,
            process_id=asked.process_id,
            since="" if asked.since is None else _as_entered("since", asked.since),
            until="~" if asked.until is None else _as_entered("until", asked.until),
            before=asked.before,
            limit=asked.limit + 1,
        )
        return AuditPage(entries=found[: asked.limit], more=len(found) > asked.limit)


async def _check(state_dir: str) -> ChecksAnswer:
    words = (*python_words(), "-m", "outlive", "doctor", "--json", "--state-dir", state_dir)
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
