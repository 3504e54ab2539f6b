"""Servers with the tests' own door to the terminals, and who knocks there."""

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.extensions.bridge.knocking import Door
from tests.support.fixtures import ServerFactory
from tests.support.server import OutliveServer, heeded_path

_ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True, scope="package")
def _with_a_door() -> Iterator[None]:
    """Make every server of this folder one with a door to the terminals."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(
            "OUTLIVE_TEST_COMMAND", f"{shlex.quote(sys.executable)} -m tests.extensions.bridge.serve"
        )
        patch.setenv("PYTHONPATH", heeded_path(_ROOT))
        yield


@pytest.fixture
def bridge(serve: ServerFactory) -> OutliveServer:
    """A server of the test's own: all extensions of these tests are one process, which gets its terminals
    back.
    """
    return serve()


@pytest.fixture
def own_bridge(serve: ServerFactory) -> OutliveServer:
    """A server of the test's own, quick to lose its patience."""
    return serve("--bridge-ping", "0.2", "--bridge-timeout", "2", "--log-level", "debug")


@pytest.fixture
def door(bridge: OutliveServer) -> Door:
    """The door of that server."""
    return Door(bridge)
