"""Fixtures of services' tests: services on a keeper that all share, and a server for the verbs."""

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.extensions.services.steps import Site, a_site
from tests.keeper.house import House
from tests.support.server import OutliveServer


@pytest.fixture(scope="session")
def shared_house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A keeper that all tests share which neither kill nor configure it."""
    with House(tmp_path_factory.mktemp("v") / "state") as house:
        yield house


@pytest.fixture
async def site(shared_house: House) -> AsyncIterator[Site]:
    """Services of the test's own on the shared keeper."""
    async with a_site(shared_house.state_dir) as opened:
        yield opened


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OutliveServer]:
    """One server for all tests of a file."""
    with OutliveServer(tmp_path_factory.mktemp("cli") / "state") as server:
        yield server
