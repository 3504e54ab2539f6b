"""Fixtures of the tools' tests: a keeper they share, an engine and a toolbox of a test's own."""

from collections.abc import AsyncIterator, Iterator

import pytest

from outlive.config import Settings
from outlive.engine import Engine
from outlive.frontends.mcp.tools import Toolbox
from tests.engine.engines import an_engine
from tests.keeper.house import House


@pytest.fixture(scope="session")
def shared_house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A keeper that all tests share which neither kill nor configure it."""
    with House(tmp_path_factory.mktemp("t") / "state") as house:
        yield house


@pytest.fixture
async def engine(shared_house: House) -> AsyncIterator[Engine]:
    """An engine of the test's own on the shared keeper."""
    async with an_engine(shared_house.state_dir) as opened:
        yield opened


@pytest.fixture
def toolbox(engine: Engine) -> Toolbox:
    """All tools with the default settings."""
    return Toolbox(engine, Settings())
