"""Counting what happened in a span of time, and reading pages of an audit log of several files."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlive.core.errors import InvalidRequest
from outlive.core.identity import new_process_id
from outlive.core.lifecycle import Cause, State
from outlive.core.process import Owner, ProcessRecord
from outlive.engine.reports import SpanCounts, count_records
from outlive.operations.reports import Counts, Span, StatisticsRequest
from outlive.store.audit.audit_trail import AuditTrail, read_outages, read_page
from outlive.store.registry import Registry, span_sums
from outlive.store.rows import ProcessFilter, StoredProcess, to_ns
from outlive.store.span_sums import SpanBounds, SpanSums

_NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
_SPAN = Span(since=_NOON, until=_NOON + timedelta(hours=2), bucket_s=600)


def _record(begin_s: float, end_s: float | None, exit_code: int = 0) -> ProcessRecord:
    begin = _NOON + timedelta(seconds=begin_s)
    return ProcessRecord(
        process_id=new_process_id(int(begin.timestamp()) * 10**9, bytes(14)),
        command="true",
        shell=None,
        cwd="/",
        owner=Owner(principal="me"),
        state=State.RUNNING if end_s is None else State.EXITED,
        exit_code=None if end_s is None else exit_code,
        created_at=begin,
        started_at=begin,
        ended_at=None if end_s is None else _NOON + timedelta(seconds=end_s),
        project="/srv/a",
    )


def test_a_run_is_shared_among_the_buckets_that_it_touches() -> None:
    answer = count_records([_record(-60, 1500), _record(300, None), _record(7100, 7190, 1)], _SPAN)
    runs = [one.run_s for one in answer.buckets]
    assert runs == [600 + 300, 1200, 300 + 600, *[600.0] * 8, 600 + 90]
    assert [one.started for one in answer.buckets] == [1, *[0] * 10, 1]
    assert [one.ended for one in answer.buckets] == [0, 0, 1, *[0] * 8, 1]
    assert [one.failed for one in answer.buckets] == [*[0] * 11, 1]
    assert answer.buckets[2].at == _NOON + timedelta(seconds=1200)


@given(
    st.lists(
        st.tuples(st.floats(-9000, 9000), st.none() | st.floats(0, 9000), st.integers(0, 2)), max_size=20
    ),
    st.integers(60, 9000),
)
@settings(deadline=None)
def test_buckets_and_projects_add_up_to_the_same(
    lives: Sequence[tuple[float, float | None, int]], bucket_s: int
) -> None:
    span = Span(since=_NOON, until=_NOON + timedelta(hours=2), bucket_s=bucket_s)
    records = [
        _record(begin, None if length is None else begin + length, code) for begin, length, code in lives
    ]
    answer = count_records(records, span)
    assert len(answer.buckets) == -(-7200 // bucket_s)
    for name in ("started", "ended", "failed", "run_s"):
        by_time = sum(getattr(one, name) for one in answer.buckets)
        assert by_time == pytest.approx(sum(getattr(one, name) for one in answer.projects), abs=0.1)
    assert all(0 <= one.run_s <= len(records) * bucket_s + 0.01 for one in answer.buckets)


@pytest.mark.parametrize("hours", [1, 24, 24 * 30, 24 * 365])
def test_a_span_has_about_48_buckets_of_whole_minutes_unless_it_is_said(hours: int) -> None:
    asked = StatisticsRequest(since=(_NOON - timedelta(hours=hours)).isoformat())
    span = asked.span(_NOON)
    assert span.bucket_s % 60 == 0
    assert 40 <= span.count <= 60
    assert span.until == _NOON


def test_too_many_buckets_are_refused() -> None:
    with pytest.raises(InvalidRequest):
        StatisticsRequest(since=(_NOON - timedelta(days=1)).isoformat(), bucket_s=60).span(_NOON)


@given(
    st.lists(
        st.tuples(
            st.floats(-9000, 9000),
            st.none() | st.floats(0, 9000),
            st.integers(0, 2),
            st.sampled_from([Cause.NONE, Cause.TIMEOUT, Cause.CANCEL]),
            st.sampled_from([None, "/srv/a", "/srv/b"]),
        ),
        max_size=20,
    ),
    st.integers(60, 9000),
)
@settings(deadline=None, max_examples=60)
def test_what_sqlite_adds_up_is_what_is_counted_one_by_one(
    tmp_path_factory: pytest.TempPathFactory,
    lives: Sequence[tuple[float, float | None, int, Cause, str | None]],
    bucket_s: int,
) -> None:
    span = Span(since=_NOON, until=_NOON + timedelta(hours=2), bucket_s=bucket_s)
    records = [
        replace(
            _record(begin, None if length is None else begin + length, code),
            process_id=new_process_id((number + 1) * 10**6, bytes(14)),
            cause=Cause.NONE if length is None else cause,
            project=project,
            stdout_bytes=number,
            output_lost=code == 2,
        )
        for number, (begin, length, code, cause, project) in enumerate(lives)
    ]
    path = str(tmp_path_factory.mktemp("sums") / "registry.db")

    async def added_up() -> SpanSums:
        async with Registry(path) as registry:
            registry.put(*(StoredProcess(record=one) for one in records))
            await registry.flush()
            bounds = SpanBounds(
                since_ns=to_ns(span.since),
                until_ns=to_ns(span.until),
                bucket_ns=bucket_s * 10**9,
                count=span.count,
            )
            return await span_sums(registry, ProcessFilter(principal="me"), bounds)

    counting = SpanCounts(span)
    counting.add_sums(asyncio.run(added_up()))
    found, expected = counting.answer(()), count_records(records, span)
    assert [_rounded(one) for one in found.buckets] == [_rounded(one) for one in expected.buckets]
    assert {one.project: _rounded(one) for one in found.projects} == {
        one.project: _rounded(one) for one in expected.projects
    }


def _rounded(one: Counts) -> tuple[int, int, int, int, int, float]:
    return one.started, one.ended, one.failed, one.stopped, one.output_bytes, round(one.run_s, 1)


def _entry(second: int, what: str, **members: object) -> dict[str, object]:
    return {"at": f"2026-01-31T12:00:{second:02}.000000Z", "what": what, **members}


@pytest.fixture
def folder(tmp_path: Path) -> str:
    """A log whose files hold some entries each, of two servers, the first of which was killed."""
    path = str(tmp_path / "audit")
    trail = AuditTrail(path, key_file=str(tmp_path / "key"), max_bytes=600, max_files=100)
    entries = [_entry(0, "server_started")]
    entries += [_entry(n, "start", process_id=f"p{n % 2}", command='"process_id":"p0"') for n in range(1, 20)]
    entries += [_entry(30, "token_create", door="cli"), _entry(40, "server_started")]
    entries += [
        _entry(50, "server_stopped"),
        _entry(55, "server_started"),
        _entry(56, "exit", process_id="p1"),
    ]
    for one in entries:
        trail.append([one])
    assert len(list(Path(path).glob("*.jsonl"))) > 3
    return path


def test_pages_of_the_audit_log_follow_each_other_without_holes(folder: str) -> None:
    whole = read_page(folder, limit=1000)
    assert [one["n"] for one in whole] == list(range(25, 0, -1))
    paged: list[int] = []
    while page := read_page(folder, limit=5, before=paged[-1] if paged else None):
        paged += [one["n"] for one in page]
    assert paged == list(range(25, 0, -1))
    about = read_page(folder, limit=1000, process_id="p1")
    assert [one["what"] for one in about] == ["exit", *["start"] * 10]
    assert {one["process_id"] for one in about} == {"p1"}
    between = read_page(folder, limit=99, since=f"{_entry(5, '')['at']}", until=f"{_entry(8, '')['at']}")
    assert [one["n"] for one in between] == [8, 7, 6]
    assert read_page(f"{folder}/nowhere", limit=5) == []


def test_times_without_a_server_are_between_its_last_sign_and_the_next_start(folder: str) -> None:
    def seen(since_s: int, until_s: int) -> list[tuple[int, int, bool]]:
        moments = [_NOON + timedelta(seconds=second) for second in (since_s, until_s)]
        found = read_outages(folder, since=moments[0], until=moments[1])
        return [(one.since.second, one.until.second, one.is_exact) for one in found]

    assert seen(0, 59) == [(19, 40, False), (50, 55, True)], (
        "what the command line enters is no sign of a server"
    )
    assert seen(45, 59) == [(50, 55, True)]
    assert seen(20, 30) == [(19, 40, False)]
    assert seen(0, 10) == []
