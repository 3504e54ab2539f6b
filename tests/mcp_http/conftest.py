"""Fixtures of the MCP tests."""

import pytest

from tests.mcp_http.raw_caller import RawCaller
from tests.mcp_tools.conftest import engine, shared_house
from tests.support.server import OutliveServer


@pytest.fixture
def caller(server: OutliveServer) -> RawCaller:
    """A raw caller with an MCP session of its own on the shared server."""
    return RawCaller.begin(server.mcp_url)
