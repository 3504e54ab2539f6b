"""Servers that are killed, extensions that dial again: terminals are known again, and nothing runs twice.

Each window is a process of its own here, as VS Code's extension hosts are: by that the server knows it.
"""

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator

import pytest
from anyio import to_thread

from tests.extensions.bridge.extension import DocumentExtension, dialling
from tests.extensions.bridge.knocking import Door, Refused
from tests.extensions.fleet.pairs import wait_until
from tests.support.fixtures import ServerFactory
from tests.support.server import OutliveServer

pytestmark = [pytest.mark.anyio, pytest.mark.thorough]

_PATIENCE_S = 60.0


class _Window:
    """A process with one extension (`tests.extensions.bridge.window`), which tells what it was asked."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.executed: list[list[str]] = []
        self.connections = 0

    async def until_connected(self, times: int) -> None:
        """Return when it has connected for the n-th time."""
        async with asyncio.timeout(_PATIENCE_S):
            while self.connections < times:
                await self._hear()

    async def until_executed(self, times: int) -> None:
        """Return when it was asked to execute so often."""
        async with asyncio.timeout(_PATIENCE_S):
            while len(self.executed) < times:
                await self._hear()

    async def settle(self) -> None:
        """Take in everything that it says within a moment."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.5):
                while True:
                    await self._hear()

    async def _hear(self) -> None:
        assert self._process.stdout is not None
        said = json.loads(await self._process.stdout.readline())
        if "connected" in said:
            self.connections = said["connected"]
        else:
            self.executed.append(said["executed"])


@contextlib.asynccontextmanager
async def _window(server: OutliveServer) -> AsyncIterator[_Window]:
    words = (sys.executable, "-m", "tests.extensions.bridge.window", server.bridge_url)
    process = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
    try:
        window = _Window(process)
        await window.until_connected(1)
        yield window
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


@pytest.mark.promise("S3.4.again", "S3.4.once")
async def test_a_server_killed_in_mid_request_knows_the_terminals_again_and_repeats_nothing(
    bridge: OutliveServer, door: Door
) -> None:
    async with _window(bridge) as first, _window(bridge) as second:
        two = await door("create", name="in the second")
        async with _window(bridge) as third:
            three = await door("create", name="in the third")
            await door("execute", terminal_id=two["terminal_id"], command="before")
            waiting = asyncio.create_task(
                door("execute", terminal_id=three["terminal_id"], command="sleep for ever")
            )
            await third.until_executed(1)
            await to_thread.run_sync(bridge.kill)
            with pytest.raises((OSError, Refused)):
                await waiting
            await to_thread.run_sync(bridge.start)
            # Whoever dials first gets his own terminals, and nobody else's.
            await asyncio.gather(
                first.until_connected(2), second.until_connected(2), third.until_connected(2)
            )
            assert set(await door.vscode()) == {two["terminal_id"], three["terminal_id"]}
            names = {one["terminal_name"] for one in await door("terminals")}
            assert names == {"in the second", "in the third"}
            await door("execute", terminal_id=two["terminal_id"], command="after")
            await asyncio.gather(first.settle(), second.settle(), third.settle())
            assert first.executed == []
            assert second.executed == [[two["terminal_id"], "before"], [two["terminal_id"], "after"]]
            assert third.executed == [[three["terminal_id"], "sleep for ever"]], "it never runs twice"
        # A window that is closed for good takes its terminals with it.
        async with asyncio.timeout(_PATIENCE_S):
            while await door.vscode() != [two["terminal_id"]]:  # noqa: ASYNC110 -- asked over HTTP
                await asyncio.sleep(0.05)


@pytest.mark.promise("S3.4.again")
async def test_a_request_that_meets_a_server_just_started_waits_for_its_extension(
    bridge: OutliveServer, door: Door
) -> None:
    async with _window(bridge) as window:
        made = await door("create")
        await to_thread.run_sync(bridge.restart)
        await door("execute", terminal_id=made["terminal_id"], command="date")
        await window.until_executed(1)
        assert window.executed == [[made["terminal_id"], "date"]]


@pytest.mark.promise("S3.4.again")
async def test_a_damaged_file_costs_the_terminals_and_nothing_else(bridge: OutliveServer, door: Door) -> None:
    extension = DocumentExtension()
    async with dialling(bridge.bridge_url, extension):
        await door("create")
        file = bridge.state_dir / "bridge.json"
        assert file.stat().st_mode & 0o777 == 0o600
        await to_thread.run_sync(bridge.kill)
        file.write_bytes(file.read_bytes()[:-3])
        before = extension.connections
        await to_thread.run_sync(bridge.start)
        await extension.until(lambda: extension.connections > before)
        assert await door.vscode() == []
        # A log's line is written in a thread, beside what the door does.
        await to_thread.run_sync(wait_until, lambda: "they are forgotten" in bridge.stderr)
        await door("create")


@pytest.mark.promise("S3.4.again")
async def test_of_two_that_cannot_be_told_apart_neither_gets_the_others_terminals(
    serve: ServerFactory,
) -> None:
    """Both extensions are this one process: in doubt nothing is given back, rather than typed into the wrong
    window.
    """
    server = serve("--bridge-timeout", "1")
    door = Door(server)
    first, second = DocumentExtension(), DocumentExtension()
    async with dialling(server.bridge_url, first):
        one = await door("create")
        async with dialling(server.bridge_url, second):
            two = await door("create")
            await to_thread.run_sync(server.restart)
            await first.until(lambda: first.connections >= 2)
            await second.until(lambda: second.connections >= 2)
            for made in (one, two):
                refused = await door.refusal("execute", terminal_id=made["terminal_id"], command="date")
                assert refused.code == "extension_away"
    assert first.executed == second.executed == []
