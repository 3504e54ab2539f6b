"""What a command left running ends while no server is there, or another one: it is known, and nothing of it
stays for ever.
"""

import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.keeper.client import until
from tests.support.processes import Marker
from tests.support.rpc import connect
from tests.support.server import OutliveServer


@pytest.fixture
def server(tmp_path: Path) -> Iterator[OutliveServer]:
    """A server of the test's own, which is killed."""
    with OutliveServer(tmp_path / "state") as one:
        yield one


def _ask(server: OutliveServer, method: str, **params: object) -> dict[str, Any]:
    async def ask() -> dict[str, Any]:
        async with connect(server.url) as client:
            return await client.request(method, **params)

    return anyio.run(ask)


def _leave_one(server: OutliveServer, marker: Marker) -> str:
    """Run a command that leaves a process without its streams.

    Return its id once the registry has that in its file.
    """
    line = f"setsid {marker.sleep} </dev/null >/dev/null 2>&1 & exit 3"
    started = _ask(server, "execute", command=line, detach=True)["process_id"]
    # What it leaves has its streams for a moment, before it has given them up.
    found = _ask(server, "wait", process_id=started, until="closed", wait_s=10)
    assert (found["exit_code"], found["streams"], found["descendants"]) == (3, "closed", 1)
    until(lambda: _filed(server) == {started: 1}, "its row")  # the next server begins with that
    return str(started)


def _filed(server: OutliveServer) -> dict[str, int]:
    """Return how much is left of each closed process by the registry's file."""
    with closing(sqlite3.connect(server.state_dir / "registry.db")) as file:
        return dict(file.execute("SELECT process_id, descendants FROM processes WHERE is_closed"))


def _end(marker: Marker) -> None:
    for pid in marker.pids():
        os.kill(pid, signal.SIGKILL)


def _left(server: OutliveServer, process_id: str) -> int:
    return int(_ask(server, "get", process_id=process_id)["descendants"])


def test_a_tree_that_ended_while_no_server_was_there_is_gone(server: OutliveServer, marker: Marker) -> None:
    started = _leave_one(server, marker)
    server.kill()
    _end(marker)
    until(lambda: server.keeper_status().processes == 0, "an empty keeper")
    server.start()
    until(lambda: not _left(server, started), "the news")
    assert _ask(server, "remove", process_id=started)["removed"] is True


def test_a_tree_that_ends_under_another_server_is_gone(server: OutliveServer, marker: Marker) -> None:
    started = _leave_one(server, marker)
    server.restart()
    assert _left(server, started) == 1
    _end(marker)
    until(lambda: not _left(server, started), "the news")
    assert _ask(server, "remove", process_id=started)["removed"] is True


def test_a_tree_that_lives_under_another_server_is_ended_by_a_removal(
    server: OutliveServer, marker: Marker
) -> None:
    started = _leave_one(server, marker)
    server.restart()
    assert _ask(server, "remove", process_id=started, force=True)["removed"] is True
    assert marker.pids() == []
