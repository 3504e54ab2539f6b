"""Short ids: no number comes twice in a project, however many projects a server sees meanwhile."""

import asyncio
import contextlib
import sqlite3
import weakref
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from outlive.core.command import Command
from outlive.core.errors import StoreCorrupt
from outlive.engine import Engine
from outlive.engine.recovery import upkeep
from outlive.engine.starts import names
from outlive.store.registry import Registry
from tests.engine.engines import ME, an_engine
from tests.keeper.house import House


@pytest.mark.promise("S4.13.project")
async def test_no_number_comes_twice_where_a_server_remembers_fewer_projects_than_it_has(
    shared_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Starts of one project side by side, with those of others in between, whose counters take its place."""
    monkeypatch.setattr(names, "_MAX_PROJECTS", 1)
    owner = replace(ME, principal=uuid4().hex)
    async with an_engine(shared_house.state_dir) as engine:

        async def number(project: str) -> tuple[str, int]:
            command = Command(argv=("true",), project=project, detached=True)
            process = await engine.starts.start(command, owner=owner)
            return project, process.record.number or 0

        projects = [f"/{place % 3}" for place in range(30)]
        found = await asyncio.gather(*map(number, projects))
    assert sorted(found) == sorted((f"/{one}", count) for one in range(3) for count in range(1, 11))
    async with an_engine(shared_house.state_dir) as engine:
        assert await number("/1") == ("/1", 11)


@pytest.mark.promise("S4.13.project")
async def test_the_number_of_a_process_is_kept_before_its_removal_begins(
    shared_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill in the middle of the removal: no row and no folder says any more that the number was given."""
    monkeypatch.setattr("outlive.store.writer._COLLECT_S", 60.0)  # ended by `flush` alone
    owner = replace(ME, principal=uuid4().hex)
    kept: list[int] = []

    def kill(_folder: str) -> str:
        with contextlib.closing(sqlite3.connect(registry)) as file:
            query = "SELECT value FROM counters WHERE name = ?"
            kept.extend(value for (value,) in file.execute(query, [f"short_id {owner.principal} /p"]))
        raise OSError

    async with an_engine(shared_house.state_dir) as engine:
        registry = engine.records.upkeep._layout.registry
        command = Command(argv=("true",), project="/p", detached=True)
        # The first ones may meet a flush of the engine's beginning.
        started = [await engine.starts.start(command, owner=owner) for _ in range(3)]
        for process in started:
            await engine.queries.wait(process, until="closed")
        monkeypatch.setattr(upkeep, "_set_aside", kill)
        with pytest.raises(StoreCorrupt):
            await engine.records.remove(process, force=True)
    assert kept == [process.record.number] == [3]


@pytest.mark.promise("S4.13.project")
async def test_what_a_start_still_holds_of_a_forgotten_project_counts_for_the_next_start_too(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And when no start holds it, it goes: projects come and go for ever."""
    monkeypatch.setattr(names, "_MAX_PROJECTS", 1)
    async with Registry(str(tmp_path / "registry.db")) as registry:
        ids = names.ShortIds(registry, engine.queries)
        held = await ids.of(("p", "/one"))
        await ids.of(("p", "/two"))
        again = await ids.of(("p", "/one"))
        assert [held.new(), again.new(), held.new()] == [1, 2, 3]
        await ids.of(("p", "/two"))
        gone = weakref.ref(held)
        del held, again
        assert gone() is None
        assert (await ids.of(("p", "/one"))).new() == 4
