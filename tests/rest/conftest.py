"""Fixtures of the REST tests."""

import pytest

from tests.rest.rest_caller import RestCaller
from tests.support.fixtures import anyio_backend, gate, marker, own_server, serve, server
from tests.support.server import OutliveServer

__all__ = ["anyio_backend", "gate", "marker", "own_server", "rest", "serve", "server"]


@pytest.fixture
def rest(server: OutliveServer) -> RestCaller:
    """A caller of the shared server."""
    return RestCaller(server.rest_url)
