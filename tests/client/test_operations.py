"""Every operation of the client, on a real server, by asyncio."""

import hashlib
import os
import signal
from pathlib import Path

import pytest
from anyio import to_thread

from outlive.client import (
    AsyncClient,
    AsyncProcess,
    BackendUnavailable,
    CommandRefused,
    Cursor,
    InvalidRequest,
    InvalidState,
    Output,
    ProcessNotFound,
    StartFailed,
)
from tests.support.fixtures import ServerFactory
from tests.support.processes import Gate, Marker, is_alive, is_stopped, wait_dead, wait_for
from tests.support.server import OutliveServer

pytestmark = pytest.mark.anyio


async def _output(process: AsyncProcess, stream: str = "stdout") -> bytes:
    return b"".join([i.data async for i in process.follow() if isinstance(i, Output) and i.stream == stream])


async def test_a_command_is_started_followed_and_ends(asynchronous: AsyncClient) -> None:
    process = await asynchronous.start("echo out; echo err >&2; exit 3")
    follow = process.follow()
    seen = [(item.stream, item.data) async for item in follow if isinstance(item, Output)]
    assert sorted(seen) == [("stderr", b"err\n"), ("stdout", b"out\n")]
    assert follow.completion is not None
    assert (follow.completion.exit_code, follow.completion.error) == (3, None)
    assert follow.cursor == follow.completion.cursor == Cursor(4, 4)
    info = await process.wait()
    assert (info.exit_code, info.returncode, info.is_complete, info.state) == (3, 3, True, "exited")
    assert (info.command, info.is_detached) == ("echo out; echo err >&2; exit 3", True)
    assert info.started_at is not None
    assert info.ended_at is not None
    assert info.ended_at >= info.started_at


async def test_every_option_reaches_the_process(asynchronous: AsyncClient, tmp_path: Path) -> None:
    process = await asynchronous.start(
        "pwd; echo $GREETING; stty size; tty -s && echo terminal",
        cwd=tmp_path,
        env={"GREETING": "hello", "HOME": None},
        timeout_s=60,
        grace_s=2,
        pty=True,
        rows=50,
        cols=132,
        tags={"job": "one"},
        group="jobs",
        output_limit=1 << 20,
        on_limit="kill",
        after_exit="kill",
    )
    text = (await _output(process)).decode()
    assert text.split("\r\n") == [str(tmp_path), "hello", "50 132", "terminal", ""]
    info = await process.info()
    assert (info.timeout_s, info.grace_s, info.stdio, info.cwd) == (60, 2, "pty", str(tmp_path))
    assert (dict(info.tags), info.group) == ({"job": "one"}, "jobs")


async def test_words_are_passed_without_a_shell_and_merge_keeps_the_order(asynchronous: AsyncClient) -> None:
    words = ["printf", "%s|", "$HOME", "a b", "*"]
    assert await _output(await asynchronous.start(words)) == b"$HOME|a b|*|"
    script = "for n in 1 2 3\ndo\n  echo out$n\n  echo err$n >&2\ndone\n"
    assert (
        await _output(await asynchronous.start(script, merge=True)) == b"out1\nerr1\nout2\nerr2\nout3\nerr3\n"
    )


async def test_input_is_written_whole_and_ends(asynchronous: AsyncClient) -> None:
    """More than any pipe holds; every byte value."""
    process = await asynchronous.start(["sha256sum"], stdin="pipe")
    data = bytes(range(256)) * 4000
    await process.write(data)
    await process.write(b"")
    await process.close_stdin()
    assert (await _output(process)).split()[0].decode() == hashlib.sha256(data).hexdigest()


async def test_pause_resume_signal_and_cancel(asynchronous: AsyncClient, marker: Marker) -> None:
    loop = f"while true; do {marker.sleep} & wait; done"
    process = await asynchronous.start(f"trap 'echo heard' USR1; echo ready; {loop}")
    follow = process.follow()
    assert (await anext(follow)).stream == "stdout"
    await process.pause()
    assert process.pid is not None
    assert is_stopped(process.pid)
    assert (await process.info()).state == "paused"
    await process.resume()
    await process.signal(signal.SIGUSR1)
    item = await anext(follow)
    assert isinstance(item, Output)
    assert item.data == b"heard\n"
    await process.cancel(grace_s=5)
    info = await process.wait()
    assert (info.exit_code, info.exit_signal, info.returncode, info.cause) == (None, 15, -15, "cancel")
    with pytest.raises(StopAsyncIteration):
        await anext(follow)
    assert follow.completion is not None
    assert follow.completion.exit_signal == 15
    with pytest.raises(InvalidState) as ended:
        await process.pause()
    assert ended.value.code == "process_ended"
    await wait_for(marker, 0)


async def test_a_terminal_is_resized(asynchronous: AsyncClient) -> None:
    command = "trap 'stty size; exit' WINCH; echo ready; while :; do sleep 0.05; done"
    process = await asynchronous.start(command, pty=True)
    follow = process.follow()
    await anext(follow)
    await process.resize(33, 77)
    text = b"".join([item.data async for item in follow if isinstance(item, Output)])
    assert text == b"33 77\r\n"


async def test_a_wait_that_runs_out_of_time_ends_nothing(asynchronous: AsyncClient, gate: Gate) -> None:
    process = await asynchronous.start(f"{gate.wait}; exit 5")
    info = await process.wait(0.05)
    assert (info.is_complete, info.exit_code, info.state) == (False, None, "running")
    gate.open()
    assert (await process.wait(60)).exit_code == 5


async def test_streams_that_a_descendant_holds_open_can_be_waited_for(
    asynchronous: AsyncClient, gate: Gate
) -> None:
    process = await asynchronous.start(f"({gate.wait}; echo late) & echo early")
    assert await _output(process) == b"early\n"
    assert not (await process.wait()).is_closed
    gate.open()
    assert (await process.wait(until="closed")).is_closed
    page = await process.read(Cursor(6, 0))
    assert [item.data for item in page.items if isinstance(item, Output)] == [b"late\n"]


async def test_output_is_read_by_page_and_from_its_end(asynchronous: AsyncClient) -> None:
    process = await asynchronous.start("seq 1 100000; echo e >&2")
    await process.wait()
    whole = b"".join(b"%d\n" % number for number in range(1, 100_001))
    pages, cursor = [], Cursor()
    while (page := await process.read(cursor)).items:
        pages.append(page)
        cursor = page.cursor
    out = [i.data for p in pages for i in p.items if isinstance(i, Output) and i.stream == "stdout"]
    assert b"".join(out) == whole
    assert len(pages) > 1
    assert all(page.is_complete for page in pages)
    tail = await process.tail(300_000)
    out = [i.data for i in tail.items if isinstance(i, Output) and i.stream == "stdout"]
    assert b"".join(out) == whole[-300_000:]
    assert tail.cursor == Cursor(len(whole), 2)
    (first,) = (await process.read(limit_bytes=10)).items
    assert isinstance(first, Output)
    assert first.data == whole[:10]


async def test_processes_are_listed_by_tag_group_and_page(asynchronous: AsyncClient, gate: Gate) -> None:
    queue = os.urandom(8).hex()
    started = [
        await asynchronous.start(
            "true" if n < 3 else gate.wait, tags={"queue": queue, "n": str(n)}, group=queue
        )
        for n in range(5)
    ]
    for process in started[:3]:
        await process.wait()
    newest_first = [process.process_id for process in reversed(started)]
    tags = {"queue": queue}
    assert {info.process_id for info in await asynchronous.list(tags=tags)} == {*newest_first}
    active = await asynchronous.list(group=queue, active=True)
    assert {info.process_id for info in active} == {*newest_first[:2]}
    ended = await asynchronous.list(tags=tags, active=False)
    assert {info.process_id for info in ended} == {*newest_first[2:]}
    (one,) = await asynchronous.list(tags={**tags, "n": "1"})
    assert (one.process_id, dict(one.tags)) == (started[1].process_id, {**tags, "n": "1"})
    page = await asynchronous.list(tags=tags, limit=2)
    page += await asynchronous.list(tags=tags, limit=3, before=page[-1].process_id)
    assert sorted(info.process_id for info in page) == sorted(newest_first)


async def test_another_client_finds_and_follows_what_this_one_started(
    server: OutliveServer, asynchronous: AsyncClient, gate: Gate
) -> None:
    process = await asynchronous.start(f"echo one; {gate.wait}; echo two; exit 4")
    await anext(process.follow())
    async with AsyncClient(url=server.url) as other:
        found = await other.get(process.process_id)
        assert found.pid == process.pid
        gate.open()
        follow = other.attach(process.process_id, "4.0")
        assert [item.data async for item in follow if isinstance(item, Output)] == [b"two\n"]
        assert follow.completion is not None
        assert follow.completion.exit_code == 4


async def test_starting_again_under_one_name_starts_nothing_twice(
    asynchronous: AsyncClient, marker: Marker
) -> None:
    first = await asynchronous.start(marker.sleep)
    again = await asynchronous.start(marker.sleep, process_id=first.process_id)
    assert (again.process_id, again.pid) == (first.process_id, first.pid)
    assert await wait_for(marker, 1) == [first.pid]
    await first.cancel()


async def test_failures_are_typed_and_say_what_to_do(asynchronous: AsyncClient, serve: ServerFactory) -> None:
    with pytest.raises(StartFailed) as missing:
        await asynchronous.start(["/no/such/program"])
    assert (missing.value.code, bool(missing.value.hint)) == ("not_found", True)
    with pytest.raises(StartFailed) as nowhere:
        await asynchronous.start("true", cwd="/no/such/folder")
    assert nowhere.value.code == "cwd_missing"
    with pytest.raises(InvalidRequest):
        await asynchronous.start("")
    with pytest.raises(ProcessNotFound):
        await asynchronous.get("01m7ybywps7gsyjzmq1eandhcn")
    with pytest.raises(ProcessNotFound):
        await anext(asynchronous.attach("01m7ybywps7gsyjzmq1eandhcn"))
    process = await asynchronous.start("true")
    await process.wait()
    with pytest.raises(InvalidState) as ended:
        await process.write(b"x")
    assert ended.value.code == "process_ended"
    with pytest.raises(InvalidRequest) as beyond:
        await anext(process.follow("1000.0"))
    assert beyond.value.code == "invalid_cursor"
    server = await to_thread.run_sync(lambda: serve(ALLOWED_COMMANDS="echo"))
    async with AsyncClient(server.state_dir, start_server=False) as narrow:
        with pytest.raises(CommandRefused):
            await narrow.start("ls")


async def test_a_private_process_is_its_clients_alone_and_dies_with_it(
    serve: ServerFactory, marker: Marker
) -> None:
    server = await to_thread.run_sync(lambda: serve(OUTLIVE_RECONNECT_GRACE="0.1"))
    async with AsyncClient(server.state_dir, start_server=False) as client:
        process = await client.start(f"echo x; {marker.sleep}; true", detach=False)
        async with process.follow() as follow:
            assert (await anext(follow)).stream == "stdout"
        assert (await process.info()).is_detached is False
        async with AsyncClient(server.state_dir, start_server=False) as other:
            with pytest.raises(ProcessNotFound):
                await other.get(process.process_id)
        assert process.pid is not None
        assert is_alive(process.pid)
        await process.cancel()
        assert await _output(process) == b"x\n"
        left = await client.start(marker.sleep, detach=False)
        assert left.pid is not None
    await wait_dead(left.pid)


async def test_a_closed_client_says_so(server: OutliveServer) -> None:
    client = AsyncClient(server.state_dir, start_server=False)
    process = await client.start("true")
    await client.close()
    await client.close()
    with pytest.raises(BackendUnavailable, match="closed"):
        await process.info()
    with pytest.raises(BackendUnavailable, match="closed"):
        await anext(process.follow())


async def test_who_is_not_there_is_said_at_once(tmp_path: Path) -> None:
    async with AsyncClient(tmp_path / "nobody", start_server=False) as client:
        with pytest.raises(BackendUnavailable) as absent:
            await client.list()
    assert absent.value.code == "server_unavailable"
    assert str(tmp_path / "nobody") in absent.value.message
    assert not await to_thread.run_sync((tmp_path / "nobody").exists)


async def test_a_full_group_queues_the_next_start(asynchronous: AsyncClient, gate: Gate) -> None:
    first = await asynchronous.start(gate.wait, group="client", group_limit=1)
    second = await asynchronous.start("echo late; exit 3", group="client")
    assert second.pid is None
    assert (await second.info()).state == "queued"
    follow = second.follow()
    gate.open()
    assert [item.data async for item in follow if isinstance(item, Output)] == [b"late\n"]
    assert (await second.wait()).exit_code == 3
    assert (await first.wait()).exit_code == 0
