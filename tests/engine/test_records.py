"""What is remembered of a process can be changed: tags, group, and whether it is remembered at all."""

import asyncio
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from outlive.core.command import Command
from outlive.core.errors import InvalidState, ProcessNotFound
from outlive.core.events import Event, ProcessRemoved
from outlive.core.identity import ProcessId
from outlive.core.lifecycle import State
from outlive.engine import Engine, ProcessFilter
from outlive.store.folder import ChangedLabels, read_folder
from outlive.store.retention import Retention
from tests.engine.engines import ME, an_engine, run, settled
from tests.keeper.house import House
from tests.support.processes import Marker, poll_until, wait_for


def _labels(tags: dict[str, str], group: str | None, name: str | None = None) -> ChangedLabels:
    return ChangedLabels(tags=tags, group=group, name=name)


def _exists(folder: str) -> bool:
    return os.path.exists(folder)


async def test_changed_tags_are_listed_by_at_once(engine: Engine) -> None:
    process = await engine.starts.start(Command(line="sleep 100", tags={"old": "1"}, group="a"), owner=ME)
    await engine.records.relabel(process, _labels({"new": "2"}, None))
    assert (process.record.tags, process.record.group) == ({"new": "2"}, None)
    assert await engine.queries.list(ProcessFilter(tags={"old": "1"})) == []
    assert [one.process_id for one in await engine.queries.list(ProcessFilter(tags={"new": "2"}))] == [
        process.process_id
    ]
    await engine.records.remove(process, force=True)


async def test_changed_tags_survive_the_server_and_the_loss_of_its_registry(own_house: House) -> None:
    async with an_engine(own_house.state_dir) as engine:
        running = await engine.starts.start(Command(line="sleep 100"), owner=ME)
        ended = await run(engine, "true", tags={"old": "1"})
        for process in (running, ended):
            await engine.records.relabel(process, _labels({"kept": "yes"}, "g"))
        await settled(engine, ended)
        again = await engine.queries.find(ended.process_id)
        await engine.records.relabel(again, _labels({"kept": "still"}, "g", "called-so"))
    for name in ("registry.db", "registry.db-wal", "registry.db-shm"):
        (own_house.state_dir / name).unlink(missing_ok=True)
    async with an_engine(own_house.state_dir) as engine:
        found = [await engine.queries.find(one.process_id) for one in (running, ended)]
        assert [one.record.tags for one in found] == [{"kept": "yes"}, {"kept": "still"}]
        assert [(one.record.group, one.record.name) for one in found] == [("g", None), ("g", "called-so")]
        await engine.records.remove(found[0], force=True)


async def test_two_that_live_are_never_given_one_name(engine: Engine) -> None:
    one, other = [await engine.starts.start(Command(line="sleep 100"), owner=ME) for _ in range(2)]
    outcomes = await asyncio.gather(
        *(engine.records.relabel(process, _labels({}, None, "one-of-two")) for process in (one, other)),
        return_exceptions=True,
    )
    (refused,) = [outcome for outcome in outcomes if outcome is not None]
    assert isinstance(refused, InvalidState)
    assert refused.code == "name_taken"
    assert sorted([one.record.name or "", other.record.name or ""]) == ["", "one-of-two"]
    named = one if one.record.name else other
    await engine.records.relabel(named, _labels({"a": "b"}, None, "one-of-two"))
    assert [found.process_id for found in await engine.queries.list(ProcessFilter(name="one-of-two"))] == [
        named.process_id
    ]
    for process in (one, other):
        await engine.records.remove(process, force=True)


async def test_removing_a_finished_process_takes_record_output_and_folder(engine: Engine) -> None:
    events: list[Event] = []
    unsubscribe = engine.events.subscribe(events.append, kinds=[ProcessRemoved])
    process = await run(engine, "echo secret")
    await engine.records.remove(process)
    unsubscribe()
    assert events == [ProcessRemoved(process_id=process.process_id, record=process.record)]
    assert not _exists(process.folder)
    with pytest.raises(ProcessNotFound):
        await engine.queries.find(process.process_id)
    assert all(one is not process for one in engine.queries.live())
    listed = await engine.queries.list(ProcessFilter(principal=ME.principal), limit=1000)
    assert process.process_id not in {record.process_id for record in listed}


@pytest.mark.promise("S4.12.nodes.once")
async def test_a_removed_process_is_not_started_again_under_its_id(own_house: House, tmp_path: Path) -> None:
    """Whoever has lost the answer asks again, a client or the server whose node this is.

    Retention removes as a caller does.
    """
    ran = tmp_path / "ran"
    command = Command(line=f"echo x >> {ran}")
    async with an_engine(own_house.state_dir) as engine:
        started = [await engine.starts.start(command, owner=ME) for _ in range(2)]
        for process in started:
            await engine.queries.wait(process)
            await settled(engine, process)
        await engine.records.remove(started[0])
    nothing = Retention(max_count=0)
    for _ in range(2):
        async with an_engine(own_house.state_dir, retention=nothing) as engine:
            await poll_until(lambda: not _exists(started[1].folder))
            for process in started:
                with pytest.raises(InvalidState, match="was removed") as refused:
                    await engine.starts.start(command, owner=ME, process_id=process.process_id)
                assert refused.value.code == "process_ended"
    assert ran.read_text() == "x\nx\n"


async def test_nobody_finds_half_a_process_that_retention_removes(own_house: House) -> None:
    async with an_engine(own_house.state_dir) as engine:
        process = await run(engine, "echo whole")
        await settled(engine, process)
    rule = Retention(max_age_s=None, max_count=0, max_bytes=None)
    async with an_engine(own_house.state_dir, retention=rule) as engine:
        while _exists(process.folder):  # noqa: ASYNC110 - the very next turn is what matters
            await asyncio.sleep(0)
        with pytest.raises(ProcessNotFound):
            await engine.queries.find(process.process_id)


async def test_a_removal_that_a_crash_cut_off_is_finished_by_the_next_server(own_house: House) -> None:
    async with an_engine(own_house.state_dir) as engine:
        process = await run(engine, "echo half")
        await settled(engine, process)
        beside = f"{process.folder}.removed"
        os.rename(process.folder, beside)
    async with an_engine(own_house.state_dir) as engine:
        await poll_until(lambda: not _exists(beside))
        listed = {record.process_id for record in await engine.queries.list(ProcessFilter(), limit=1000)}
        assert {process.process_id} >= listed, "swept, not entered under another name"


async def test_an_ended_process_that_was_let_go_of_can_be_removed(engine: Engine) -> None:
    process = await run(engine, "true")
    await settled(engine, process)
    await engine.records.remove(await engine.queries.find(process.process_id))
    with pytest.raises(ProcessNotFound):
        await engine.queries.find(process.process_id)


async def test_what_still_runs_is_removed_only_by_force(engine: Engine, marker: Marker) -> None:
    process = await engine.starts.start(Command(line=f"trap '' TERM; {marker.sleep} & wait"), owner=ME)
    await wait_for(marker, 1)
    with pytest.raises(InvalidState, match="still runs"):
        await engine.records.remove(process)
    assert process.status.state is State.RUNNING
    await engine.records.remove(process, force=True, note="Removed by this test.")
    await wait_for(marker, 0)
    assert not _exists(process.folder)


async def test_what_a_process_left_running_stands_in_the_way_of_its_removal(
    engine: Engine, marker: Marker
) -> None:
    process = await run(engine, f"{marker.sleep} & true")
    with pytest.raises(InvalidState, match="still runs"):
        await engine.records.remove(process)
    await engine.records.remove(process, force=True)
    await wait_for(marker, 0)


async def test_relabelling_what_was_removed_says_so(engine: Engine) -> None:
    process = await run(engine, "true")
    await engine.records.remove(process)
    with pytest.raises(ProcessNotFound):
        await engine.records.relabel(process, _labels({}, None))


async def test_torn_labels_leave_those_of_the_start(engine: Engine) -> None:
    process = await run(engine, "true", tags={"old": "1"})
    await engine.records.relabel(process, _labels({"new": "2"}, None))
    labels = Path(process.folder) / "labels"
    whole = labels.read_text()
    for torn in ("", whole[:-3], "[]", '{"tags": 3, "group": null}'):
        labels.write_text(torn)
        found = await asyncio.to_thread(
            read_folder, process.folder, ProcessId(process.process_id), is_live=False
        )
        assert found is not None
        assert found[0].record.tags == {"old": "1"}
    await engine.records.remove(process)


async def test_a_filter_by_state_text_and_time_sees_running_and_ended_ones(engine: Engine) -> None:
    group = os.urandom(6).hex()
    first = await run(engine, "exit 3 # Needle", group=group)
    second = await engine.starts.start(Command(line="sleep 100 # needle", group=group), owner=ME)
    third = await run(engine, "true", group=group)
    await settled(engine, first)

    async def listed(**wanted: object) -> list[str]:
        records = await engine.queries.list(ProcessFilter(group=group, **wanted))  # type: ignore[arg-type] # by name
        return [record.process_id for record in records]

    assert await listed(text="nEEDLE") == [second.process_id, first.process_id]
    assert await listed(states=frozenset({State.RUNNING})) == [second.process_id]
    assert await listed(states=frozenset({State.EXITED})) == [third.process_id, first.process_id]
    assert await listed(since=second.process_id) == [third.process_id, second.process_id]
    assert await listed(since=second.process_id, before=third.process_id) == [second.process_id]
    await engine.records.remove(second, force=True)


async def test_a_check_returns_while_keeper_and_registry_answer(engine: Engine) -> None:
    async with asyncio.timeout(10):
        await engine.health.check()


async def test_a_late_doorbell_does_not_bring_back_what_is_being_removed(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The keeper rings once more while the folder is still there, and what it would be loaded from is read in
    time.
    """
    process = await run(engine, "echo secret")
    bell = (process.key, *process.status.doorbell)
    is_removed = asyncio.Event()
    read, remove_tree, loop = engine._recovery._read, shutil.rmtree, asyncio.get_running_loop()

    async def read_early(
        _recovery: object, process_ids: Iterable[ProcessId], *, is_live: bool
    ) -> dict[ProcessId, Any]:
        found = await read(process_ids, is_live=is_live)
        await is_removed.wait()
        return found

    async def ring() -> None:
        engine._table.ring([bell])
        for _ in range(50):  # let recovery read, if it wants to
            await asyncio.sleep(0.001)

    def ring_first(folder: str, *, ignore_errors: bool) -> None:
        asyncio.run_coroutine_threadsafe(ring(), loop).result(10)
        remove_tree(folder, ignore_errors=ignore_errors)

    monkeypatch.setattr(type(engine._recovery), "_read", read_early)
    monkeypatch.setattr("outlive.engine.recovery.upkeep.shutil.rmtree", ring_first)
    await engine.records.remove(process)
    is_removed.set()
    with pytest.raises(ProcessNotFound):
        await engine.queries.find(process.process_id)
    assert all(one.process_id != process.process_id for one in engine.queries.live())
