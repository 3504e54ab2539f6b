"""Fixtures of the fleet's tests: a pair of servers for all that kill nobody, and one of a test's own."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlive.client import Client
from tests.engine.conftest import engine, shared_house
from tests.extensions.fleet.cables import Cable
from tests.extensions.fleet.pairs import Pair


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Two servers that all tests share which neither kill nor cut."""
    with Pair(tmp_path_factory.mktemp("p")) as shared:
        yield shared


@pytest.fixture
def own_pair(tmp_path: Path) -> Iterator[Pair]:
    """Two servers of the test's own."""
    with Pair(tmp_path) as own:
        yield own


@pytest.fixture
def near(pair: Pair) -> Iterator[Client]:
    """A client of the near server."""
    with pair.client() as client:
        yield client


@pytest.fixture
def far(pair: Pair) -> Iterator[Client]:
    """A client of the far server, as the near server's principal."""
    with pair.far_client() as client:
        yield client


@pytest.fixture
def cable() -> Iterator[Cable]:
    """A cable between two networks of the test's own."""
    reason = None if shutil.which("ip") else "there is no ip(8)"
    laid = Cable()
    if reason is None:
        try:
            laid.lay()
        except subprocess.CalledProcessError as error:
            laid.remove()
            reason = f"no network namespace here: {error.stderr.decode().strip()}"
    if reason is not None:
        assert not os.environ.get("OUTLIVE_REQUIRE_PROGRAMS"), reason
        pytest.skip(reason)
    yield laid
    laid.remove()
