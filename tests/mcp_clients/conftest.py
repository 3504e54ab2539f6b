"""Fixtures: the installed clients, and a TypeScript client connected to the shared server in every way there
is.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mcp_clients.driving import WAYS, Client, Way, driving
from tests.mcp_clients.installed import Installed, installed_clients
from tests.support.server import OutliveServer


@pytest.fixture(scope="session")
def installed() -> Installed:
    """The installed clients."""
    return installed_clients()


@pytest.fixture(params=WAYS.values(), ids=list(WAYS))
def way(request: pytest.FixtureRequest) -> Way:
    """Each client over each transport in each era that it speaks."""
    found: Way = request.param
    return found


@pytest.fixture
def client(installed: Installed, server: OutliveServer, way: Way, tmp_path: Path) -> Iterator[Client]:
    """A connected client."""
    with driving(installed, way, tmp_path) as started:
        assert started.do("connect", **way.target(server))["name"] == "outlive"
        yield started
