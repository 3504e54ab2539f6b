"""Fixtures: import them in a folder's conftest.py with `from tests.support.fixtures import *`."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.keeper.house import House
from tests.support.processes import Gate, Marker
from tests.support.rpc import RpcClient, connect
from tests.support.server import OutliveServer

ServerFactory = Callable[..., OutliveServer]


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Run async tests on asyncio: the test client is built on it."""
    return "asyncio"


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OutliveServer]:
    """One server with default settings for all tests that neither kill nor configure it, executed as users
    do.
    """
    with OutliveServer(tmp_path_factory.mktemp("s") / "state", is_executed=True) as shared:
        yield shared


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[OutliveServer]:
    """A server of the test's own, to be killed and started again."""
    with OutliveServer(tmp_path / "state") as own:
        yield own


@pytest.fixture
def stays_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no process of a keeper be continued that a test has stopped: as if it waited for a disk."""
    monkeypatch.setenv("OUTLIVE_DEGRADE", "wake")


@pytest.fixture
def own_house(tmp_path: Path) -> Iterator[House]:
    """A keeper of the test's own."""
    with House(tmp_path / "state") as own:
        yield own


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[ServerFactory]:
    """A function that starts a server with options: `serve("--reconnect-grace", "1", MAX_SESSIONS="2")`."""
    with ExitStack() as servers:
        count = 0

        def start(*args: str, **env: object) -> OutliveServer:
            nonlocal count
            count += 1
            words = {name: str(value) for name, value in env.items()}
            return servers.enter_context(OutliveServer(tmp_path / f"state{count}", args=args, env=words))

        yield start


@pytest.fixture
async def client(server: OutliveServer) -> AsyncIterator[RpcClient]:
    """A connection of the test's own to the shared server."""
    async with connect(server.url) as connected:
        yield connected


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    """A closed gate for commands to wait at; opened at the end so that nothing waits for ever."""
    closed = Gate(tmp_path / "gate")
    yield closed
    closed.open()


@pytest.fixture
def marker() -> Marker:
    """A mark that finds this test's `sleep` processes."""
    return Marker()
