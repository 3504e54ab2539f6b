"""Fixtures of the terminals' tests: a keeper they share, and terminals of an engine of a test's own."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from outlive.engine import Engine
from tests.engine.engines import an_engine
from tests.keeper.house import House
from tests.terminals.shells import Desk, an_environment


@pytest.fixture(scope="session")
def shared_house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A keeper that all tests share which neither kill nor configure it."""
    with House(tmp_path_factory.mktemp("tm") / "state") as house:
        yield house


@pytest.fixture
async def engine(shared_house: House, tmp_path: Path) -> AsyncIterator[Engine]:
    """An engine of the test's own on the shared keeper, for a user with an empty home."""
    async with an_engine(
        shared_house.state_dir, environment=an_environment(tmp_path), cwd=str(tmp_path)
    ) as opened:
        yield opened


@pytest.fixture
async def desk(engine: Engine) -> AsyncIterator[Desk]:
    """Terminals of that engine; those that a test leaves open are closed."""
    desk = Desk(engine)
    yield desk
    await desk.close_all()
