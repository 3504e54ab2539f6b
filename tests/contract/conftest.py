"""Fixtures of the contract: `place` for tests that kill nobody, `own_place` for the others.

Ids are the places' names.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.contract.places import PLACES, Asker, Place, open_place
from tests.extensions.docker.conftest import docker_host
from tests.extensions.ray.cluster import RayCluster


@pytest.fixture(scope="session", params=PLACES)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A place that all tests share which neither kill nor configure it."""
    folder = tmp_path_factory.mktemp("c")
    with _opened(request, folder) as shared:
        yield shared


@pytest.fixture(params=PLACES)
def own_place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """A place of the test's own."""
    with _opened(request, tmp_path) as own:
        yield own


def _opened(request: pytest.FixtureRequest, folder: Path) -> AbstractContextManager[Place]:
    def of_docker() -> str:
        return str(request.getfixturevalue("docker_host"))

    def of_ray() -> RayCluster:
        found: RayCluster = request.getfixturevalue("cluster")
        return found

    return open_place(request.param, folder, docker_host=of_docker, cluster=of_ray)


@pytest.fixture
def asker(place: Place) -> Iterator[Asker]:
    """Who starts commands at the shared place."""
    with place.client() as one:
        yield one
