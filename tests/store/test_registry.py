"""The registry remembers what it was told, through every kind of death."""

import asyncio
import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlive.core.command import BootTime
from outlive.core.errors import BackendUnavailable, StoreCorrupt
from outlive.core.identity import id_to_bytes
from outlive.core.lifecycle import State
from outlive.core.process import Owner
from outlive.store import registry as registry_module
from outlive.store.registry import Registry, output_bytes, span_sums
from outlive.store.retention import (
    Candidate,
    ClockReading,
    Retention,
    RetentionClock,
    judge,
    select_removable,
)
from outlive.store.rows import COLUMNS, ProcessFilter, StoredProcess
from outlive.store.schema import SCHEMA, VERSION
from outlive.store.span_sums import SpanBounds
from outlive.store.writer import open_registry
from tests.store.rows import a_row, stored_processes
from tests.support.processes import poll_until

RIGHT_CLOCK = RetentionClock.first(ClockReading(boot=BootTime("now", 10**15), wall_ns=10**18))

WRITER = """
import asyncio, sys
sys.path.insert(0, {root!r})
from outlive.store.registry import Registry
from tests.store.rows import a_row

async def write():
    async with Registry({path!r}) as registry:
        number = 0
        while True:
            for _ in range(7):
                registry.put(a_row(number))
                number += 1
            await registry.flush()
            print(number, flush=True)

asyncio.run(write())
"""


@given(stored=stored_processes)
def test_a_row_keeps_everything(stored: StoredProcess) -> None:
    assert StoredProcess.from_row(tuple(stored.to_row())) == stored
    assert len(stored.to_row()) == len(COLUMNS)


def test_text_that_is_no_text_is_kept_readable() -> None:
    """A command may hold undecodable bytes; SQLite may not."""
    row = a_row(1, command="echo \udcff", shell=None)
    assert StoredProcess.from_row(row.to_row()).record.command == "echo \ufffd\ufffd\ufffd"


@settings(max_examples=40, deadline=None)
@given(
    rows=st.lists(stored_processes, max_size=12, unique_by=lambda row: row.record.process_id),
    wanted=st.builds(
        ProcessFilter,
        principal=st.sampled_from([None, "me"]),
        connection_id=st.sampled_from([None, "c1"]),
        request_id=st.sampled_from([None, "1"]),
        command_id=st.sampled_from([None, "cmd_1_1"]),
        pid=st.none() | st.integers(1, 5),
        group=st.sampled_from([None, "g"]),
        tags=st.sampled_from([None, {}, {"b.c": "ü"}, {'q"': "1", "a": "2"}]),
        active=st.sampled_from([None, True, False]),
        detached=st.sampled_from([None, True, False]),
    ),
    data=st.data(),
)
def test_sql_and_python_agree_on_who_is_wanted(
    rows: list[StoredProcess], wanted: ProcessFilter, data: st.DataObject
) -> None:
    """Pending rows are chosen by `matches`, written ones by `where`; nobody must see the difference."""
    before = data.draw(st.sampled_from([None, *(row.record.process_id for row in rows)]))
    wanted = replace(wanted, before=before)
    connection = sqlite3.connect(":memory:")
    connection.executescript(SCHEMA)
    places = ", ".join("?" * len(COLUMNS))
    insert = f"INSERT INTO processes VALUES ({places})"  # noqa: S608 - our own question marks
    connection.executemany(insert, [row.to_row() for row in rows])
    condition, values = wanted.where()
    question = f"SELECT process_id FROM processes WHERE {condition}"  # noqa: S608 - what is tested
    found = connection.execute(question, values).fetchall()
    connection.close()
    assert {one for (one,) in found} == {row.record.process_id for row in rows if wanted.matches(row.record)}


async def test_what_was_put_is_read_at_once_and_after_opening_again(tmp_path: Path) -> None:
    path = str(tmp_path / "registry.db")
    async with Registry(path) as registry:
        first = a_row(1, state=State.RUNNING, exit_code=None, is_closed=False, is_complete=False)
        registry.put(first)
        assert await registry.find(first.record.process_id) == first
        assert await registry.list(ProcessFilter(), limit=10) == [first]
        assert await registry.known_of([first.record.process_id, "other"]) == {first.record.process_id: False}
        await registry.flush()
        assert await registry.unfinished_pids() == {
            id_to_bytes(first.record.process_id): first.record.pid or 0
        }
        ended = a_row(1)
        registry.put(ended)
        assert await registry.find(first.record.process_id) == ended
    async with Registry(path) as registry:
        assert await registry.find(first.record.process_id) == ended
        assert await registry.unfinished_pids() == {}
        assert await registry.find("nobody") is None


@pytest.mark.parametrize("pid", [2**70, ["no number"]])
async def test_a_row_that_cannot_be_held_costs_no_other_one(tmp_path: Path, pid: object) -> None:
    async with Registry(str(tmp_path / "registry.db")) as registry:
        for number in range(3):
            registry.put(a_row(number, **({"pid": pid} if number == 1 else {})))
        await registry.flush()
        registry.put(a_row(3))
        await registry.flush()
        found = [one.record.command for one in await registry.list(ProcessFilter(), limit=9)]
    assert found == ["echo 3", "echo 2", "echo 0"]


async def test_lists_are_newest_first_and_paged(tmp_path: Path) -> None:
    rows = [a_row(number, owner=Owner(principal="me", connection_id="c")) for number in range(10)]
    async with Registry(str(tmp_path / "registry.db")) as registry:
        for row in rows[:6]:
            registry.put(row)
        await registry.flush()
        for row in rows[6:]:
            registry.put(row)
        page = await registry.list(ProcessFilter(connection_id="c"), limit=4)
        assert page == rows[:5:-1]
        older = ProcessFilter(before=page[-1].record.process_id)
        assert await registry.list(older, limit=4) == rows[5:1:-1]
        left_out = [row.record.process_id for row in rows[4:]]
        assert await registry.list(ProcessFilter(), limit=2, without=left_out) == [rows[3], rows[2]]


async def test_committed_rows_are_told_on_the_loop(tmp_path: Path) -> None:
    told: list[StoredProcess] = []
    heard = asyncio.Event()
    async with Registry(str(tmp_path / "registry.db")) as registry:

        def committed(rows: list[StoredProcess]) -> None:
            told.extend(rows)
            heard.set()

        registry.on_committed = committed
        registry.put(a_row(1))
        async with asyncio.timeout(5):
            await heard.wait()
    assert told == [a_row(1)]


async def test_a_burst_of_changes_is_one_transaction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 40: a transaction writes the pages of every index, so many rows share one."""
    monkeypatch.setattr("outlive.store.writer._COLLECT_S", 60.0)  # ended by `flush` alone
    transactions: list[int] = []
    async with asyncio.timeout(5), Registry(str(tmp_path / "registry.db")) as registry:
        registry.on_committed = lambda rows: transactions.append(len(rows))
        for number in range(50):
            registry.count_to("n", number)
            registry.put(a_row(number))
            await asyncio.sleep(0)
        await registry.flush()
        await asyncio.sleep(0)  # the loop hears of the commit in its next turn
        assert transactions == [50]
        registry.put(a_row(50))  # what closes waits for no batch to fill
    async with Registry(str(tmp_path / "registry.db")) as registry:
        assert await registry.find(a_row(50).record.process_id) == a_row(50)


_some = stored_processes.filter(lambda one: one.record.stdout_bytes + one.record.stderr_bytes < 2**50)


@given(
    rows=st.lists(_some, min_size=2, max_size=9, unique_by=lambda row: row.record.process_id),
    later=_some,
    is_removed=st.booleans(),
    active=st.none() | st.booleans(),
    states=st.none() | st.frozensets(st.sampled_from(State), max_size=3),
    limit=st.integers(1, 8),
)
@settings(max_examples=60, deadline=None)
def test_a_read_is_the_same_before_and_after_the_commit(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[StoredProcess],
    later: StoredProcess,
    is_removed: bool,
    active: bool | None,
    states: frozenset[State] | None,
    limit: int,
) -> None:
    """Rows that are pending count at once, in pages and sums, too; the rows that they replace do not."""
    folder = tmp_path_factory.mktemp("pending")
    committed, added = rows[: len(rows) // 2 + 1], rows[len(rows) // 2 + 1 :]
    first, last = committed[0].record.process_id, committed[-1].record.process_id
    later = replace(later, record=replace(later.record, process_id=last))
    wanted = ProcessFilter(active=active, states=states)
    bounds = SpanBounds(since_ns=0, until_ns=2**62, bucket_ns=2**60, count=4)
    ids = [row.record.process_id for row in rows]

    async def read(registry: Registry) -> list[object]:
        page = await registry.list(wanted, limit=limit)
        older = replace(wanted, before=page[-1].record.process_id) if page else wanted
        sums = await span_sums(registry, wanted, bounds)
        return [
            page,
            await registry.list(older, limit=limit),
            [await registry.find(one) for one in ids],
            await registry.known_of(ids[1:]),
            await registry.counter("n"),
            await output_bytes(registry, wanted),
            sum(one.count for one in sums.starts) + len(sums.others),
        ]

    async def ask() -> tuple[list[object], list[object]]:
        async with Registry(str(folder / "registry.db")) as registry:
            registry.put(*committed)
            registry.count_to("n", 1)
            await registry.flush()
            registry.put(*added, later)
            registry.count_to("n", 2)
            if is_removed:
                registry.remove([first])
            before = await read(registry)
            await registry.flush()
            return before, await read(registry)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("outlive.store.writer._COLLECT_S", 60.0)  # ended by `flush` alone
        before, after = asyncio.run(ask())
    assert before == after


async def test_what_was_removed_is_read_no_more_and_may_come_back(tmp_path: Path) -> None:
    """At once, whether the deletion is committed or not; a later state of the same process stays."""
    gone, kept = a_row(1), a_row(2)
    async with Registry(str(tmp_path / "registry.db")) as registry:
        registry.put(gone)
        registry.put(kept)
        await registry.flush()
        registry.remove([gone.record.process_id, kept.record.process_id])
        registry.put(kept)
        assert await registry.find(gone.record.process_id) is None
        assert await registry.list(ProcessFilter(), limit=9) == [kept]
        await registry.flush()
        assert await registry.list(ProcessFilter(), limit=9) == [kept]


async def test_removed_rows_are_gone_and_counters_stay(tmp_path: Path) -> None:
    path = str(tmp_path / "registry.db")
    async with Registry(path) as registry:
        registry.put(a_row(1))
        registry.put(a_row(2))
        await registry.flush()
        registry.remove([a_row(1).record.process_id])
        assert await registry.counter("n") == 0
        registry.count_to("n", 7)
        await registry.flush()
        assert await registry.counter("n") == 7
        assert await registry.list(ProcessFilter(), limit=9) == [a_row(2)]
        [candidate] = await registry.removable(RIGHT_CLOCK)
        assert candidate.process_id == a_row(2).record.process_id
    async with Registry(path) as registry:
        assert await registry.counter("n") == 7


@pytest.mark.parametrize("damage", ["text", "another schema", "torn"])
async def test_a_file_that_cannot_be_used_is_set_aside(tmp_path: Path, damage: str) -> None:
    """The folders are the truth: a damaged index is no reason not to start."""
    path = tmp_path / "registry.db"
    await asyncio.to_thread(do_damage, path, damage)
    async with Registry(str(path)) as registry:
        registry.put(a_row(1))
        await registry.flush()
        assert await registry.list(ProcessFilter(), limit=9) == [a_row(1)]
    assert any("damaged" in name for name in os.listdir(tmp_path))


def do_damage(path: Path, damage: str) -> None:
    """Make a registry that cannot be used."""
    if damage == "text":
        path.write_bytes(b"this is no database" * 500)
    else:
        connection = open_registry(str(path), now_s=0)
        if damage == "torn":
            connection.execute("DROP TABLE counters")
        else:
            connection.execute(f"PRAGMA user_version = {VERSION + 1}")
        connection.close()


async def test_a_folder_that_cannot_hold_a_registry_is_told(tmp_path: Path) -> None:
    registry = Registry(str(tmp_path / "missing" / "registry.db"))
    with pytest.raises(StoreCorrupt):
        await registry.__aenter__()
    await registry.__aexit__()


async def test_a_failed_transaction_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A full disk delays rows; it loses none."""
    path = str(tmp_path / "registry.db")
    monkeypatch.setattr("outlive.store.writer._RETRY_S", 0.01)
    async with Registry(path) as registry:
        registry.put(a_row(1))
        await registry.flush()
        blocker = sqlite3.connect(path)
        blocker.executescript(
            "CREATE TRIGGER full BEFORE INSERT ON processes BEGIN SELECT RAISE(ABORT, 'full'); END;"
        )
        registry.put(a_row(2))
        monkeypatch.setattr(registry_module, "_DEADLINE_S", 0.2)
        with pytest.raises(BackendUnavailable):
            await registry.flush()
        assert await registry.find(a_row(2).record.process_id) == a_row(2)
        # The writer's thread may not even have had its turn: without a failure there is nothing to try again.
        await poll_until(lambda: "tried again" in caplog.text)
        blocker.executescript("DROP TRIGGER full")
        blocker.close()
        monkeypatch.setattr(registry_module, "_DEADLINE_S", 10.0)
        await registry.flush()
        assert len(await registry.list(ProcessFilter(), limit=9)) == 2


async def test_reading_a_table_that_is_gone_is_told(tmp_path: Path) -> None:
    path = str(tmp_path / "registry.db")
    async with Registry(path) as registry:
        registry.put(known := a_row(2))
        await registry.flush()
        with sqlite3.connect(path) as other:
            other.execute("DROP TABLE processes")
        other.close()
        with pytest.raises(StoreCorrupt):
            await registry.find(known.record.process_id)


async def test_an_id_later_than_all_others_is_unknown_without_a_look_into_the_file(tmp_path: Path) -> None:
    """The start that brings it is new: a question to another thread for each would cost a node a tenth of the
    start.
    """
    path = str(tmp_path / "registry.db")
    earlier, known, later = (a_row(number) for number in (1, 2, 3))
    async with Registry(path) as registry:
        registry.put(known)
    async with Registry(path) as registry:  # another server's: what it has put is in the file
        asked: list[str] = []
        connection = registry._connection
        assert connection is not None
        connection.set_trace_callback(asked.append)
        assert await registry.find(later.record.process_id) is None
        assert not asked
        assert await registry.find(earlier.record.process_id) is None
        assert await registry.find(known.record.process_id) == known
        assert len(asked) == 2
        registry.put(later)
        await registry.flush()
        assert await registry.find(later.record.process_id) == later


@pytest.mark.parametrize("patience_s", [0.05, 0.15, 0.3])
def test_acknowledged_rows_survive_sigkill(tmp_path: Path, patience_s: float) -> None:
    """Whatever `flush` returned for is there after SIGKILL, and the file is sound."""
    path = tmp_path / "registry.db"
    root = str(Path(__file__).parents[2])
    acknowledged = 0
    for _ in range(3):
        program = WRITER.format(root=root, path=str(path))
        with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            acknowledged = max(acknowledged, int(writer.stdout.readline()))
            with pytest.raises(subprocess.TimeoutExpired):
                writer.wait(patience_s)
            writer.send_signal(signal.SIGKILL)
            lines = writer.stdout.read().split("\n")[:-1]
            acknowledged = max([acknowledged, *map(int, lines)])
        with sqlite3.connect(path) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            found = {one for (one,) in connection.execute("SELECT process_id FROM processes")}
        connection.close()
        assert {a_row(number).record.process_id for number in range(acknowledged)} <= found


@given(
    candidates=st.lists(
        st.builds(
            lambda number, ended, size: Candidate(a_row(number).record.process_id, ended, size),
            st.integers(0, 10**6),
            st.integers(0, 100),
            st.integers(0, 50),
        ),
        unique_by=lambda one: one.process_id,
    ),
    rule=st.builds(
        Retention,
        max_age_s=st.none() | st.integers(0, 50).map(lambda ns: ns / 1e9),
        max_count=st.none() | st.integers(0, 5),
        max_bytes=st.none() | st.integers(0, 100),
    ),
)
def test_what_stays_satisfies_the_whole_rule(candidates: list[Candidate], rule: Retention) -> None:
    removed = select_removable(candidates, rule, now_ns=100)
    stays = [one for one in candidates if one.process_id not in removed]
    assert removed == sorted(removed)
    assert rule.max_count is None or len(stays) <= rule.max_count
    assert rule.max_bytes is None or sum(one.size for one in stays) <= rule.max_bytes
    if rule.max_age_s is not None:
        assert all(one.ended_ns >= 100 - round(rule.max_age_s * 1e9) for one in stays)
    if rule == Retention(max_age_s=None, max_count=None, max_bytes=None):
        assert not removed


def test_the_newest_processes_stay() -> None:
    candidates = [Candidate(a_row(number).record.process_id, number, 1) for number in range(5)]
    rule = Retention(max_age_s=None, max_count=2, max_bytes=None)
    assert select_removable(candidates, rule, now_ns=10) == [one.process_id for one in candidates[:3]]


def test_tags_are_stored_as_json() -> None:
    row = dict(zip(COLUMNS, a_row(1, tags={"a": "1"}).to_row(), strict=True))
    assert json.loads(str(row["tags"])) == {"a": "1"}


async def test_a_counter_is_read_as_it_was_set_last_however_far_the_writer_is(tmp_path: Path) -> None:
    """A project's numbers are read again when they were forgotten: an older count would name two processes
    alike.
    """
    async with Registry(str(tmp_path / "registry.db")) as registry:
        for value in range(1, 300):
            registry.count_to("n", value)
            assert await registry.counter("n") == value


@given(
    ends=st.lists(st.tuples(st.integers(0, 100), st.integers(0, 50)), max_size=8),
    rule=st.builds(
        Retention,
        max_age_s=st.none() | st.integers(0, 50).map(lambda ns: ns / 1e9),
        max_count=st.none() | st.integers(0, 5),
        max_bytes=st.none() | st.integers(0, 100),
    ),
)
def test_each_removal_is_put_down_to_the_part_of_the_rule_that_takes_it(
    ends: list[tuple[int, int]], rule: Retention
) -> None:
    """A part that sets no limit takes nothing, and without the part that takes it a process would stay or go
    by another.
    """
    candidates = [Candidate(f"{number:026d}", ended, size) for number, (ended, size) in enumerate(ends)]
    taken = judge(candidates, rule, now_ns=100)
    assert sorted(taken) == select_removable(candidates, rule, now_ns=100)
    limits = {"age": rule.max_age_s, "count": rule.max_count, "size": rule.max_bytes}
    assert all(limits[part] is not None for part in taken.values())
    by_id = {one.process_id: one for one in candidates}
    for process_id, part in taken.items():
        is_old = rule.max_age_s is not None and by_id[process_id].ended_ns < 100 - round(rule.max_age_s * 1e9)
        assert (part == "age") == is_old


async def test_a_list_that_lacks_rows_can_be_told_from_one_that_is_whole(tmp_path: Path) -> None:
    """The disk does not answer, and comes back just as the list goes without it."""
    answers = threading.Event()
    async with Registry(str(tmp_path / "registry.db")) as registry:
        registry.put(a_row(1))
        await registry.flush()
        connection = registry._connection
        assert connection is not None
        connection.set_progress_handler(lambda: not answers.wait(60.0), 1)
        lacking = await registry.list(ProcessFilter(), limit=9, may_lack=True)
        answers.set()
        assert await registry.find(a_row(1).record.process_id) == a_row(1)
        assert (lacking, registry.is_silent) == ([], True)
        await poll_until(lambda: not registry.is_silent)
        assert await registry.list(ProcessFilter(), limit=9, may_lack=True) == [a_row(1)]
        assert not registry.is_silent


@pytest.mark.parametrize("has_file", [True, False])
async def test_a_file_of_another_schema_on_a_full_disk_leaves_the_registry_in_memory(
    tmp_path: Path, *, has_file: bool
) -> None:
    """Also where it is found only when there is room again."""
    path = tmp_path / "registry.db"
    other = path if has_file else tmp_path / "other"
    with contextlib.closing(sqlite3.connect(other)) as connection:
        connection.execute("CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER)")
        connection.execute(f"PRAGMA user_version = {VERSION - 1}")
        connection.commit()
    if not has_file:
        path.mkdir()  # it cannot be opened
    async with Registry(str(path), takes_writes=lambda: False) as registry:
        assert registry.is_in_memory
        registry.put(a_row(1))
        if not has_file:
            path.rmdir()
            other.rename(path)
        async with asyncio.timeout(20):
            await registry.move_to_disk()
        assert [row.record.process_id for row in await registry.list(ProcessFilter(), limit=5)] == [
            a_row(1).record.process_id
        ]
