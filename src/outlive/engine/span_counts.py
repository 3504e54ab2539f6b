"""Counting what happened in a span of time: `SpanCounts`, by the buckets of the span and by project. Pure."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import accumulate
from typing import Any

from outlive.core.lifecycle import NOT_ENDED, Cause
from outlive.core.process import ProcessRecord, end_status
from outlive.core.values import dataclass, field
from outlive.operations.reports import Outage, ProjectCounts, Span, StatisticsAnswer, StatisticsBucket
from outlive.store.audit.audit_trail import Away
from outlive.store.span_sums import SpanSums


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
    """Counts records by the buckets of a span and by project."""

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
