"""Fixtures of the command line's tests."""

from collections.abc import Iterator

import pytest

from outlive.client import Client
from tests.support.server import OutliveServer


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OutliveServer]:
    """One server for all tests of a file."""
    with OutliveServer(tmp_path_factory.mktemp("cli") / "state") as server:
        yield server


@pytest.fixture
def client(served: OutliveServer) -> Iterator[Client]:
    """A client of that server."""
    with Client(served.state_dir, start_server=False) as client:
        yield client
