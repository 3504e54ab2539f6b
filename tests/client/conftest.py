"""Fixtures of the client's tests: both twins on the shared server, and a server that may be killed."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from outlive.client import AsyncClient, Client
from tests.mcp_stdio.hosting import leave_nothing
from tests.support.server import OutliveServer


@pytest.fixture
def blocking(server: OutliveServer) -> Iterator[Client]:
    """A blocking client of the test's own."""
    with Client(server.state_dir, start_server=False) as client:
        yield client


@pytest.fixture
async def asynchronous(server: OutliveServer) -> AsyncIterator[AsyncClient]:
    """An asyncio client of the test's own."""
    async with AsyncClient(server.state_dir, start_server=False) as client:
        yield client


@pytest.fixture
def no_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A state folder that no server serves.

    What a client starts there takes free ports, and is gone afterwards.
    """
    for name in ("OUTLIVE_JSONRPC_PORT", "OUTLIVE_MCP_PORT", "OUTLIVE_REST_PORT", "OUTLIVE_BRIDGE_PORT"):
        monkeypatch.setenv(name, "0")
    state_dir = tmp_path / "state"
    yield state_dir
    leave_nothing(state_dir)
