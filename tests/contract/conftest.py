"""Fixtures of the contract: `place` for tests that kill nobody, `own_place` for the others; ids are the places' names."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.places import PLACES, Asker, Place, open_place
from tests.docker.conftest import docker_host


@pytest.fixture(scope="session", params=PLACES)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A place that all tests share which neither kill nor configure it."""
    folder = tmp_path_factory.mktemp("c")
    with open_place(request.param, folder, lambda: str(request.getfixturevalue("docker_host"))) as shared:
        yield shared


@pytest.fixture(params=PLACES)
def own_place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """A place of the test's own."""
    with open_place(request.param, tmp_path, lambda: str(request.getfixturevalue("docker_host"))) as own:
        yield own


@pytest.fixture
def asker(place: Place) -> Iterator[Asker]:
    """Who starts commands at the shared place."""
    with place.client() as one:
        yield one
