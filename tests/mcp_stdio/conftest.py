"""Fixtures of the relay's tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mcp_stdio.hosting import Host, hosting, leave_nothing
from tests.support.server import OutliveServer


@pytest.fixture
def host(server: OutliveServer) -> Iterator[Host]:
    """A host of the test's own, whose relay finds the shared server."""
    with hosting(server.state_dir) as started:
        yield started


@pytest.fixture
def no_server(tmp_path: Path) -> Iterator[Path]:
    """A state folder that no server serves; whatever a relay has started there is gone afterwards."""
    state_dir = tmp_path / "state"
    yield state_dir
    leave_nothing(state_dir)
