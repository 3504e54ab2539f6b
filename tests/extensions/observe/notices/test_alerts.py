"""Silence, and a disk that is nearly full: real servers, a real receiver, once each, also across SIGKILL."""

import asyncio
import json
from pathlib import Path

import pytest

from outlive.client import AsyncClient, AsyncProcess, InvalidRequest
from outlive.core.layout import Layout
from outlive.extensions.observe.notices.owed_notices import DiskAlert
from tests.extensions.observe.notices.endpoints import PATIENCE_S, Endpoint
from tests.support.fixtures import ServerFactory
from tests.support.server import OutliveServer

_QUIET = ("--notify-silence", "1s")


async def _served(serve: ServerFactory, endpoint: Endpoint, *args: str) -> OutliveServer:
    return await asyncio.to_thread(lambda: serve(*args, OUTLIVE_NOTIFY_WEBHOOK=endpoint.url))


def _client(server: OutliveServer) -> AsyncClient:
    return AsyncClient(server.state_dir, start_server=False)


async def _until_told(server: OutliveServer, process: AsyncProcess) -> None:
    """Wait until the server has kept that the silence was notified of."""
    owed = server.state_dir / "notices" / process.process_id
    async with asyncio.timeout(PATIENCE_S):
        while not json.loads(owed.read_text())["silence"]:  # noqa: ASYNC110 -- a file tells no other way
            await asyncio.sleep(0.02)


@pytest.mark.thorough
@pytest.mark.promise("N.silence")
async def test_a_silence_is_notified_of_once_until_the_process_writes_again(
    serve: ServerFactory, endpoint: Endpoint, tmp_path: Path
) -> None:
    server = await _served(serve, endpoint, *_QUIET)
    first, second = tmp_path / "first", tmp_path / "second"
    async with _client(server) as client:
        line = (
            f"echo a; until [ -e {first} ]; do sleep 0.05; done; echo b; until [ -e {second} ]; do "
            "sleep 0.05; done"
        )
        process = await client.start(line, notify=True, name="web")
        (one,) = await endpoint.came(1)
        assert (one["event"], one["state"], one["process_id"]) == ("silence", "running", process.process_id)
        await _until_told(server, process)
        # Looks go on four times a second; the next notice that comes at all is the second silence's.
        first.touch()
        two = (await endpoint.came(2))[1]
        assert two["event"] == "silence"
        assert two["id"] != one["id"]
        second.touch()
        three = (await endpoint.came(3))[2]
        assert (three["event"], len(endpoint.got)) == ("end", 3)


@pytest.mark.thorough
@pytest.mark.promise("N.silence")
async def test_a_process_that_writes_is_paused_or_asked_for_nothing_is_not_silent(
    serve: ServerFactory, endpoint: Endpoint
) -> None:
    server = await _served(serve, endpoint, *_QUIET)
    async with _client(server) as client:
        writes = await client.start("while :; do echo x; sleep 0.1; done", notify=True)
        paused = await client.start("sleep 1000", notify=True)
        await paused.pause()
        await client.start("sleep 1000", notify=["end"])
        await client.start("sleep 1000")
        silent = await client.start("sleep 1000", notify=["silence"])
        (got,) = await endpoint.came(1)
        assert got["process_id"] == silent.process_id
        await paused.resume()
        assert (await endpoint.came(2))[1]["process_id"] == paused.process_id
        await writes.cancel(0.5)
        assert (await endpoint.came(3))[2]["process_id"] == writes.process_id


@pytest.mark.promise("N.silence")
async def test_without_the_operators_time_no_silence_can_be_asked_for(
    serve: ServerFactory, endpoint: Endpoint
) -> None:
    server = await _served(serve, endpoint)
    async with _client(server) as client:
        with pytest.raises(InvalidRequest, match="end, failure, question only"):
            await client.start("true", notify=["silence"])
        await (await client.start("true", notify=True)).wait(30)
        assert (await endpoint.came(1))[0]["event"] == "end"


@pytest.mark.thorough
@pytest.mark.promise("N.silence")
@pytest.mark.promise("N.survives")
async def test_a_silence_that_was_notified_of_is_not_repeated_by_the_next_server_and_one_that_was_not_is(
    serve: ServerFactory, endpoint: Endpoint
) -> None:
    # No answer: the first attempt hangs, and the server is killed with it.
    endpoint.answers.append(None)
    server = await _served(serve, endpoint, *_QUIET)
    async with _client(server) as client:
        process = await client.start("echo a; sleep 1000", notify=True)
        await endpoint.came(1)
    await asyncio.to_thread(server.restart)
    first, again = await endpoint.came(2)
    assert first["id"] == again["id"]
    await _until_told(server, process)
    await asyncio.to_thread(server.restart)
    async with _client(server) as client:
        # Another process's silence comes next, a second later: the first one's does not.
        other = await client.start("sleep 1000", notify=True)
        third = (await endpoint.came(3))[2]
        assert third["process_id"] == other.process_id


@pytest.mark.promise("N.disk")
@pytest.mark.promise("N.survives")
async def test_a_low_disk_is_notified_of_once_also_across_kills(
    serve: ServerFactory, endpoint: Endpoint
) -> None:
    endpoint.answers.append(None)
    server = await _served(serve, endpoint, "--notify-disk", "900T", *_QUIET)
    await endpoint.came(1)
    await asyncio.to_thread(server.restart)
    first, again = await endpoint.came(2)
    assert first["id"] == again["id"]
    assert (first["event"], first["limit_bytes"]) == ("disk", 900 << 40)
    assert 0 < first["free_bytes"] < first["limit_bytes"]
    async with asyncio.timeout(PATIENCE_S):
        while '"told": true' not in (server.state_dir / "disk.low").read_text():  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    await asyncio.to_thread(server.restart)
    async with _client(server) as client:
        await client.start("true", notify=True)
        assert (await endpoint.came(3))[2]["event"] == "end"


@pytest.mark.promise("N.disk")
async def test_the_disk_is_news_again_once_there_was_room(tmp_path: Path) -> None:
    layout = Layout(str(tmp_path))
    low = DiskAlert(layout, limit_bytes=1 << 60)
    first = await low.look()
    assert first is not None
    assert await low.look() is None
    await low.note_told(first)
    assert await DiskAlert(layout, limit_bytes=1 << 60).look() is None
    assert await DiskAlert(layout, limit_bytes=1).look() is None
    assert not (tmp_path / "disk.low").exists()
    assert await DiskAlert(layout, limit_bytes=1 << 60).look() is not None
