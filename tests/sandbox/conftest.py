"""Fixtures of the sandbox's tests: one keeper for all that kill nobody, and an engine on it."""

from collections.abc import AsyncIterator, Iterator

import pytest

from outlive.engine import Engine
from tests.engine.engines import an_engine
from tests.keeper.house import House


@pytest.fixture(scope="session")
def shared_house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A keeper that all tests share which neither kill nor configure it."""
    with House(tmp_path_factory.mktemp("s") / "state") as house:
        yield house


@pytest.fixture
async def engine(shared_house: House) -> AsyncIterator[Engine]:
    """An engine of the test's own on the shared keeper."""
    async with an_engine(shared_house.state_dir) as opened:
        yield opened
