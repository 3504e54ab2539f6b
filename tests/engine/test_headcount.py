"""How many processes one principal may have at a time."""

import pytest

from outlive.config import Settings
from outlive.core.command import Command
from outlive.core.errors import LimitExceeded
from outlive.core.process import Owner
from outlive.engine import Engine
from tests.engine.engines import ME, an_engine
from tests.keeper.house import House

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
