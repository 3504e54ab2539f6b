"""A list costs what it answers, not what was ever run: steps of SQLite's machine are counted, no clock is
asked.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlive.core.lifecycle import State
from outlive.core.process import Owner
from outlive.store.registry import Registry
from outlive.store.rows import ProcessFilter, StoredProcess
from tests.store.rows import START, a_row, stored_processes

pytestmark = pytest.mark.promise("W.list.flat")

_FEW, _MANY = 1_000, 20_000
_OLDEST = a_row(0).record.process_id
_BOUNDS = (datetime(1970, 1, 1), datetime(2100, 1, 1))  # noqa: DTZ001 - Hypothesis takes naive ones, and adds the zone

# Questions about "me", who has nothing that fits; the history is a crowd that nearly does.
_EMPTY: dict[str, ProcessFilter] = {
    "another principal": ProcessFilter(principal="nobody"),
    "running": ProcessFilter(principal="me", active=True),
    "running, detached": ProcessFilter(principal="me", active=True, detached=True),
    "running, of a large connection": ProcessFilter(principal="me", connection_id="c", active=True),
    "running, of a large group": ProcessFilter(principal="me", group="g", active=True),
    "running, of a common tag": ProcessFilter(principal="me", tags={"a": "1"}, active=True),
    "lost": ProcessFilter(principal="me", states=frozenset({State.LOST})),
    "lost, detached": ProcessFilter(principal="me", detached=True, states=frozenset({State.LOST})),
    "lost and running": ProcessFilter(principal="me", states=frozenset({State.LOST}), active=True),
    "detached": ProcessFilter(principal="me", detached=True),
    "another group": ProcessFilter(principal="me", group="h"),
    "another group of a connection": ProcessFilter(principal="me", group="h", connection_id="c"),
    "another tag": ProcessFilter(principal="me", tags={"a": "2"}),
    "another tag of a group": ProcessFilter(principal="me", tags={"b": "1"}, group="g", detached=True),
    "another connection": ProcessFilter(principal="me", connection_id="d"),
    "another request": ProcessFilter(principal="me", connection_id="d", request_id="1"),
    "another command id": ProcessFilter(principal="me", command_id="cmd_0_0"),
    "another pid": ProcessFilter(principal="me", pid=4, active=True, detached=True),
    "before the first": ProcessFilter(principal="me", before=_OLDEST),
    "before the first, ended": ProcessFilter(principal="me", active=False, before=_OLDEST),
    "other words": ProcessFilter(principal="me", same_as=("make test", "/")),
    "the same words elsewhere": ProcessFilter(principal="me", same_as=("make", "/tmp"), detached=True),
    "since the future": ProcessFilter(principal="me", since="z" * 26),
}
_PAGES: dict[str, ProcessFilter] = {
    "newest": ProcessFilter(principal="me"),
    "ended": ProcessFilter(principal="me", active=False),
    "ended, of a tag": ProcessFilter(principal="me", active=False, tags={"a": "1"}),
    "a group": ProcessFilter(principal="me", group="g"),
    "runs of a command": ProcessFilter(principal="me", same_as=("make", "/")),
    "later page": ProcessFilter(principal="me", before=a_row(_FEW // 2).record.process_id),
}


def _history(count: int) -> list[StoredProcess]:
    owner = Owner(principal="me", connection_id="c")
    common: dict[str, object] = {
        "owner": owner,
        "group": "g",
        "tags": {"a": "1"},
        "pid": 3,
        "command_id": "cmd_1_1",
    }
    common |= {"command": "make", "started_at": START}
    return [a_row(number, **common) for number in range(count)]


async def _steps(folder: Path, count: int) -> dict[str, int]:
    """Return how many steps of SQLite's machine each question takes in a history of so many."""
    counted: dict[str, int] = {}
    async with Registry(str(folder / f"{count}.db")) as registry:
        history = _history(count)
        for first in range(0, count, 500):  # each part is written well within the time that a write has
            registry.put(*history[first : first + 500])
            await registry.flush()
        reading = registry._connection
        assert reading is not None
        steps = 0

        def step() -> int:
            nonlocal steps
            steps += 1
            return 0

        reading.set_progress_handler(step, 1)
        for name, wanted in (_EMPTY | _PAGES).items():
            steps = 0
            found = await registry.list(wanted, limit=20)
            assert len(found) == (20 if name in _PAGES else 0), name
            counted[name] = steps
        reading.set_progress_handler(None, 0)
    return counted


async def test_a_list_takes_no_more_steps_in_a_long_history(tmp_path: Path) -> None:
    few = await _steps(tmp_path, _FEW)
    many = await _steps(tmp_path, _MANY)
    grown = {name: (few[name], many[name]) for name in few if many[name] > few[name] * 1.2 + 50}
    assert grown == {}


_filters = st.builds(
    ProcessFilter,
    principal=st.sampled_from([None, "me", "you"]),
    connection_id=st.sampled_from([None, None, "c1", "c2"]),
    request_id=st.sampled_from([None, None, "1"]),
    command_id=st.sampled_from([None, None, "cmd_1_1"]),
    pid=st.none() | st.integers(1, 5),
    group=st.sampled_from([None, None, "g"]),
    tags=st.none()
    | st.dictionaries(st.sampled_from(["a", "b.c", 'q"']), st.sampled_from(["1", "ü"]), max_size=2),
    active=st.none() | st.booleans(),
    detached=st.none() | st.booleans(),
    states=st.none() | st.frozensets(st.sampled_from(State), max_size=3),
    text=st.sampled_from([None, None, "a"]),
    same_as=st.sampled_from([None, None, ("make", "/"), ("", "")]),
    until=st.sampled_from([None, None, a_row(_FEW // 2).record.process_id]),
    ended_since=st.none() | st.datetimes(*_BOUNDS, timezones=st.just(UTC)),
    alive_since=st.none() | st.datetimes(*_BOUNDS, timezones=st.just(UTC)),
)


@given(
    st.lists(stored_processes, max_size=12, unique_by=lambda row: row.record.process_id),
    _filters,
    st.integers(1, 5),
)
@settings(max_examples=60, deadline=None)
def test_every_filter_finds_what_it_matches_and_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, rows: Sequence[StoredProcess], wanted: ProcessFilter, limit: int
) -> None:
    """Whichever index finds it: the answer is that of `matches`, for rows that are committed."""
    folder = tmp_path_factory.mktemp("lists")

    async def ask() -> list[str]:
        async with Registry(str(folder / "registry.db")) as registry:
            registry.put(*rows)
            await registry.flush()
            left_out = [row.record.process_id for row in rows[:1]]
            return [
                row.record.process_id for row in await registry.list(wanted, limit=limit, without=left_out)
            ]

    expected = sorted((row.record.process_id for row in rows[1:] if wanted.matches(row.record)), reverse=True)
    assert asyncio.run(ask()) == expected[:limit]


async def test_changed_tags_are_found_and_old_ones_are_not(tmp_path: Path) -> None:
    async with Registry(str(tmp_path / "registry.db")) as registry:
        for tags in ({"a": "1"}, {"a": "2", "b": "3"}, {}):
            registry.put(replace(a_row(1), record=replace(a_row(1).record, tags=tags)))
            await registry.flush()
            for tag in (("a", "1"), ("a", "2"), ("b", "3")):
                found = await registry.list(ProcessFilter(principal="me", tags=dict([tag])), limit=9)
                assert bool(found) == (tag in tags.items())
        registry.put(a_row(2, tags={"a": "1"}))
        await registry.flush()
        registry.remove([a_row(2).record.process_id])
        await registry.flush()
        assert await registry._read("SELECT * FROM process_tags", [], list) == []


@pytest.mark.promise("W.list.flat")
async def test_what_has_ended_and_left_others_running_is_active(tmp_path: Path) -> None:
    left, lost = a_row(1, descendants=2), a_row(3, descendants=1, state=State.LOST)
    async with Registry(str(tmp_path / "registry.db")) as registry:
        registry.put(left, a_row(2), lost)
        await registry.flush()
        for wanted, found in (
            (ProcessFilter(principal="me", active=True), [lost, left]),
            (ProcessFilter(principal="me", active=True, states=frozenset({State.LOST})), [lost]),
        ):
            assert await registry.list(wanted, limit=9) == found
