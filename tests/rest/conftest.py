"""Fixtures of the REST tests."""

import pytest

from tests.rest.rest_caller import RestCaller
from tests.support.server import OutliveServer


@pytest.fixture
def rest(server: OutliveServer) -> RestCaller:
    """A caller of the shared server."""
    return RestCaller(server.rest_url)
