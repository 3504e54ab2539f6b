"""The table of what is live, by id, by connection and by principal, and how many one principal may have."""

from typing import Any

import pytest

from outlive.config import Settings
from outlive.core.command import Command
from outlive.core.errors import LimitExceeded
from outlive.core.process import Owner
from outlive.engine import Engine
from outlive.engine.processes.event_publisher import EventPublisher
from outlive.engine.processes.process import Process
from outlive.engine.processes.process_table import LiveTable, ProcessTable
from outlive.store.rows import ProcessFilter
from tests.engine.engines import ME, an_engine
from tests.keeper.house import House
from tests.store.rows import a_row


def _intake() -> ProcessTable:
    unused: Any = None  # nothing changes here
    return ProcessTable(LiveTable(), changes=unused, events=EventPublisher())


def _process(number: int, connection_id: str | None) -> Process:
    owner = Owner(principal="me", connection_id=connection_id)
    return Process.from_stored(a_row(number, owner=owner), "/nowhere")


async def test_a_connection_has_what_it_started_as_long_as_it_is_live() -> None:
    intake = _intake()
    first, second, other, nobodys = (_process(n, name) for n, name in enumerate(("a", "a", "b", None)))
    for process in (first, second, other, nobodys):
        intake.processes.enter(process)
    assert {*intake.processes.of_connection("a")} == {first, second}
    assert intake.processes.leave(first)
    assert not intake.processes.leave(first)
    assert (intake.processes.of_connection("a"), intake.processes.of_connection("b")) == ([second], [other])
    for process in (second, other, nobodys):
        assert intake.processes.leave(process)
    assert (intake.live, intake.processes.of_connection("a"), intake.processes.of_connection("b")) == (
        {},
        [],
        [],
    )


async def test_another_object_of_the_same_id_takes_the_place_of_the_first() -> None:
    """A start that was repeated over another connection."""
    intake = _intake()
    first, again = _process(1, "a"), _process(1, "b")
    intake.processes.enter(first)
    intake.processes.enter(again)
    assert (intake.processes.of_connection("a"), intake.processes.of_connection("b")) == ([], [again])
    assert intake.processes.leave(first)
    assert (intake.live, intake.processes.of_connection("b")) == ({}, [])


async def test_a_principal_has_what_it_started_over_any_connection() -> None:
    """And a question looks at nothing else, where it names a principal or a connection."""
    intake = _intake()
    first, second = _process(1, "a"), _process(2, None)
    other = Process.from_stored(a_row(3, owner=Owner(principal="you", connection_id="b")), "/nowhere")
    for process in (first, second, other):
        intake.processes.enter(process)
    table = intake.processes
    assert (
        {*table.of_principal("me")} == {*table.candidates(ProcessFilter(principal="me"))} == {first, second}
    )
    assert [*table.candidates(ProcessFilter(principal="me", connection_id="a"))] == [first]
    assert [*table.candidates(ProcessFilter(principal="nobody"))] == []
    assert {*table.candidates(ProcessFilter(pid=1))} == {first, second, other}
    intake.processes.leave(first)
    assert [*table.of_principal("me")] == [second]
    intake.processes.leave(second)
    assert [*table.of_principal("me")] == []


_SLEEP = Command(argv=("sleep", "60"))


async def test_one_process_too_many_is_refused_and_another_principal_is_not(own_house: House) -> None:
    async with an_engine(own_house.state_dir, options=Settings(max_processes=3)) as engine:
        first, *_ = [await engine.starts.start(_SLEEP, owner=ME) for _ in range(3)]
        with pytest.raises(LimitExceeded, match="3 processes of this principal") as refused:
            await engine.starts.start(_SLEEP, owner=ME)
        assert refused.value.code == "process_limit"
        assert "--max-processes" in refused.value.hint
        await engine.starts.start(_SLEEP, owner=Owner(principal="somebody else"))
        await engine.controls.cancel(first)
        await engine.queries.wait(first)
        await engine.starts.start(_SLEEP, owner=ME)
        await engine.bulk.cancel(grace_s=1)


async def test_who_waits_for_a_turn_counts(own_house: House) -> None:
    async with an_engine(own_house.state_dir, options=Settings(max_processes=2)) as engine:
        await engine.starts.start(Command(argv=("sleep", "60"), group="g", group_limit=1), owner=ME)
        await engine.starts.start(Command(argv=("sleep", "60"), group="g"), owner=ME)
        with pytest.raises(LimitExceeded):
            await _start(engine)
        await engine.bulk.cancel(grace_s=1)


async def _start(engine: Engine) -> None:
    await engine.starts.start(Command(argv=("sleep", "60"), group="g"), owner=ME)
