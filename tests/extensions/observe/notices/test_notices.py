"""Notices of a real server to a real endpoint: what is said, when, and what is never said."""

import asyncio
import contextlib
import os
import random
import signal
from pathlib import Path

import pytest

from outlive.client import AsyncClient, InvalidRequest
from tests.extensions.observe.notices.endpoints import PATIENCE_S, Channel, Endpoint
from tests.support.fixtures import ServerFactory
from tests.support.processes import poll_until
from tests.support.server import OutliveServer, free_port

_SECRET = "sk_live_4eC39HqLyjWDarjtT1zdp7dc"


async def _served(
    serve: ServerFactory, endpoint: Endpoint, *args: str, channel: Channel = "webhook"
) -> OutliveServer:
    return await asyncio.to_thread(lambda: serve(*args, **endpoint.named(channel), OUTLIVE_LOG_LEVEL="debug"))


def _client(server: OutliveServer) -> AsyncClient:
    return AsyncClient(server.state_dir, start_server=False)


@pytest.mark.promise("N.end")
async def test_ends_and_failures_are_notified_once_with_what_a_receiver_needs(
    serve: ServerFactory, endpoint: Endpoint
) -> None:
    server = await _served(serve, endpoint)
    async with _client(server) as client:
        done = await client.start("echo hello", notify=True, tags={"job": "build"}, cwd="/tmp")
        (first,) = await endpoint.came(1)
        failed = await client.start(
            f"echo {_SECRET} >&2; exit 3", env_secrets={"TOKEN": "a-secret-value"}, notify=["failure"]
        )
        await client.start("true", notify=["failure"])
        await client.start("exit 4")
        await client.start("sleep 0.3; exit 5", notify=True)
        got = await endpoint.came(3)
    assert first["id"] == f"{done.process_id}.end"
    assert (first["event"], first["state"], first["exit_code"]) == ("end", "exited", 0)
    assert (first["command"], first["cwd"], first["tags"]) == ("echo hello", "/tmp", {"job": "build"})
    assert 0 <= first["seconds"] < PATIENCE_S
    assert [one["exit_code"] for one in got] == [0, 3, 5]
    assert (got[1]["event"], got[1]["process_id"]) == ("failure", failed.process_id)
    # Neither output nor environment nor a secret of the command's words.
    assert "last_line" not in got[1]
    assert "4eC39" not in str(got)
    assert "a-secret-value" not in str(got)
    assert endpoint.heads[0].startswith("POST /hook?token=a-token HTTP/1.1\r\n")
    assert f"Outlive-Notice: {first['id']}\r\n" in endpoint.heads[0]
    # The URL holds a token: it is in no log.
    assert "a-token" not in server.stderr


@pytest.mark.promise("N.question")
async def test_a_question_is_notified_and_the_state_says_that_a_person_was_asked(
    serve: ServerFactory, endpoint: Endpoint, channel: Channel
) -> None:
    server = await _served(serve, endpoint, channel=channel)
    async with _client(server) as client:
        process = await client.start(
            "read -s -p 'Password: ' p; read -p 'Sure? ' q; sleep 1000", pty=True, notify=True
        )
        (asked,) = await endpoint.came(1)
        assert (asked["event"], asked["waiting"], asked["state"]) == ("question", "password", "running")
        async with asyncio.timeout(PATIENCE_S):
            while not (info := await process.info()).is_person_asked:  # noqa: ASYNC110 - the answer to the webhook comes first
                await asyncio.sleep(0.02)
        assert info.waiting == "password"
        await process.write(b"hunter2\n")
        assert (await process.info()).is_person_asked is False
        again = (await endpoint.came(2))[1]
        assert again["waiting"] == "input"
        assert again["id"] != asked["id"]
        await process.cancel(0.5)
        assert (await endpoint.came(3))[2]["event"] == "failure"
    assert "hunter2" not in str(endpoint.got)


@pytest.mark.promise("N.last-line")
async def test_the_last_line_is_shown_where_the_operator_wants_it_without_secrets(
    serve: ServerFactory, endpoint: Endpoint
) -> None:
    server = await _served(serve, endpoint, "--notify-last-line")
    async with _client(server) as client:
        await client.start(f"echo one; printf '\\033[31mkey {_SECRET}\\033[0m\\n\\n'", notify=True)
        line = (await endpoint.came(1))[0]["last_line"]
        assert line.startswith("key ")
        assert "4eC39" not in line
        await client.start("echo out; echo why >&2; exit 1", notify=True)
        assert (await endpoint.came(2))[1]["last_line"] == "why"


@pytest.mark.promise("N.survives")
async def test_an_end_while_no_server_runs_is_notified_by_the_next_one(
    serve: ServerFactory, endpoint: Endpoint, channel: Channel, tmp_path: Path
) -> None:
    server = await _served(serve, endpoint, channel=channel)
    gate = tmp_path / "gate"
    async with _client(server) as client:
        process = await client.start(f"until [ -e {gate} ]; do sleep 0.05; done; exit 7", notify=True)
    await asyncio.to_thread(server.kill)
    gate.touch()
    done = server.state_dir / "processes" / process.process_id / "done"
    async with asyncio.timeout(PATIENCE_S):
        while not done.exists():  # noqa: ASYNC110 - the keeper tells nobody else
            await asyncio.sleep(0.02)
    assert endpoint.got == []
    await asyncio.to_thread(server.start)
    (got,) = await endpoint.came(1)
    assert (got["process_id"], got["event"], got["exit_code"]) == (process.process_id, "failure", 7)
    await _nothing_owed(server)


@pytest.mark.promise("N.survives")
async def test_a_notice_that_was_not_delivered_when_the_server_was_killed_comes_again_with_the_same_id(
    serve: ServerFactory, endpoint: Endpoint, channel: Channel
) -> None:
    endpoint.answers.append(None)  # takes the notice and never says so
    server = await _served(serve, endpoint, channel=channel)
    async with _client(server) as client:
        process = await client.start("true", notify=True)
        (first,) = await endpoint.came(1)
    await asyncio.to_thread(server.kill)
    await asyncio.to_thread(server.start)
    again = (await endpoint.came(2))[1]
    assert (first["id"], again["id"]) == (f"{process.process_id}.end",) * 2
    await _nothing_owed(server)


@pytest.mark.usefixtures("stays_stopped")
@pytest.mark.thorough
@pytest.mark.promise("N.survives")
async def test_a_start_that_the_keeper_reads_only_after_its_server_was_killed_is_notified_of(
    serve: ServerFactory, endpoint: Endpoint, channel: Channel, tmp_path: Path
) -> None:
    """The next server finds a note without a process, and the process comes after that."""
    server = await _served(serve, endpoint, channel=channel)
    async with _client(server) as client:
        await (await client.start("true")).wait()  # the keeper runs
        supervisor = (await asyncio.to_thread(server.keeper_status)).supervisor_pid
        assert supervisor is not None
        os.kill(supervisor, signal.SIGSTOP)
        try:
            start = asyncio.create_task(client.start(f"touch {tmp_path}/ran; exit 6", notify=True))
            async with asyncio.timeout(PATIENCE_S):
                while not _owed_files(server):  # noqa: ASYNC110 - a file has no event
                    await asyncio.sleep(0.02)
                await asyncio.sleep(0.5)  # what follows the note is one packet to the keeper
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)
        finally:
            # On a full machine the guardian has ended a supervisor that rested for so long; then the client's
            # repetition counts.
            with contextlib.suppress(ProcessLookupError):
                os.kill(supervisor, signal.SIGCONT)
        (got,) = await endpoint.came(1)
        assert (got["event"], got["exit_code"]) == ("failure", 6)
        await asyncio.gather(start, return_exceptions=True)  # repeated under its id, it starts nothing twice
        assert (tmp_path / "ran").exists()
    await _nothing_owed(server)


@pytest.mark.promise("N.survives")
async def test_a_process_is_kept_until_its_notice_was_delivered(
    serve: ServerFactory, endpoint: Endpoint, channel: Channel
) -> None:
    """Retention would remove the only thing that says how it ended, and the next server would forget the
    notice.
    """
    endpoint.answers += [None]
    server = await _served(serve, endpoint, "--retention", "0", channel=channel)
    async with _client(server) as client:
        process = await client.start("exit 8", notify=True)
        await endpoint.came(1)
    await asyncio.to_thread(server.kill)
    await asyncio.to_thread(server.start)
    again = (await endpoint.came(2))[1]
    assert (again["process_id"], again["exit_code"]) == (process.process_id, 8)
    await _nothing_owed(server)


@pytest.mark.thorough
@pytest.mark.promise("N.survives")
async def test_of_starts_amid_kills_every_process_that_ran_is_notified_of(
    serve: ServerFactory, endpoint: Endpoint, channel: Channel, tmp_path: Path, storm_seed: int
) -> None:
    """Killed at any point: before, between and after the note, the start, the end, the delivery and the
    removal of the note.
    """
    chance = random.Random(storm_seed)
    server = await _served(serve, endpoint, channel=channel)
    ran = tmp_path / "ran"
    ran.touch()
    for _ in range(12):
        async with _client(server) as client:
            line = f"echo $OUTLIVE_PROCESS_ID >>{ran}; sleep {chance.random() / 5:.3f}"
            starts = [asyncio.create_task(client.start(line, notify=True)) for _ in range(6)]
            await asyncio.sleep(chance.random() / 3)
            await asyncio.to_thread(server.kill)
            for start in starts:
                start.cancel()
            await asyncio.gather(*starts, return_exceptions=True)
        await asyncio.to_thread(server.start)
    wanted = set(ran.read_text().split())
    assert wanted
    async with asyncio.timeout(3 * PATIENCE_S):
        while not wanted <= {one["process_id"] for one in endpoint.got}:  # noqa: ASYNC110 - polled beside its events
            await asyncio.sleep(0.05)
    assert all(one["id"] == f"{one['process_id']}.end" for one in endpoint.got)


def _owed_files(server: OutliveServer) -> list[Path]:
    folder = server.state_dir / "notices"
    return list(folder.iterdir()) if folder.exists() else []


async def test_what_is_owed_is_settled_once_and_not_again_after_a_restart(
    serve: ServerFactory, endpoint: Endpoint, channel: Channel
) -> None:
    server = await _served(serve, endpoint, channel=channel)
    async with _client(server) as client:
        await client.start("true", notify=True)
        await client.start("true", notify=["failure"])
        await endpoint.came(1)
        with pytest.raises(Exception, match="nothing-of-that-name"):
            await client.start(["nothing-of-that-name"], notify=True)
    await _nothing_owed(server)
    await asyncio.to_thread(server.restart)
    async with _client(server) as client:
        await client.start("true", notify=True)
        assert len(await endpoint.came(2)) == 2


async def _nothing_owed(server: OutliveServer) -> None:
    """Wait until no notice is owed."""
    folder = server.state_dir / "notices"
    async with asyncio.timeout(PATIENCE_S):
        while [*folder.iterdir()]:  # noqa: ASYNC110 - the removal of a file has no event
            await asyncio.sleep(0.02)


@pytest.mark.promise("N.operator")
async def test_a_caller_that_names_a_url_is_refused(serve: ServerFactory, endpoint: Endpoint) -> None:
    server = await _served(serve, endpoint)
    async with _client(server) as client:
        for wish in ("http://169.254.169.254/latest", ["http://127.0.0.1:1/"], {"url": "http://x/"}, 1):
            with pytest.raises(InvalidRequest) as refused:
                await client.start("true", notify=wish)  # type: ignore[arg-type] # on purpose
            assert "notify" in refused.value.message
    assert endpoint.got == []


async def test_a_server_without_a_channel_says_so(own_server: OutliveServer) -> None:
    async with _client(own_server) as client:
        with pytest.raises(InvalidRequest, match="has named no channel") as refused:
            await client.start("true", notify=True)
    assert refused.value.hint
    assert "--notify-webhook" in refused.value.hint


async def test_events_that_the_operator_left_out_are_refused(
    serve: ServerFactory, endpoint: Endpoint
) -> None:
    server = await _served(serve, endpoint, "--notify-on", "failure")
    async with _client(server) as client:
        with pytest.raises(InvalidRequest, match="failure only"):
            await client.start("true", notify=["end"])
        await client.start("true", notify=True)
        await client.start("exit 1", notify=True)
    assert (await endpoint.came(1))[0]["exit_code"] == 1


_METADATA = (
    b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:%d/latest/meta-data\r\nContent-Length: 0\r\n\r\n"
)


@pytest.mark.promise("N.hostile")
async def test_a_redirect_is_not_followed(serve: ServerFactory, endpoint: Endpoint) -> None:
    async with Endpoint() as metadata:
        endpoint.answers.append(_METADATA % metadata.port)
        server = await _served(serve, endpoint)
        async with _client(server) as client:
            await client.start("true", notify=True)
            await client.start("exit 1", notify=True)
        got = await endpoint.came(2)  # the first was given up, not tried again
        assert sorted(one["exit_code"] for one in got) == [0, 1]  # either may end first
        assert metadata.got == []
        await poll_until(lambda: "redirects are not followed" in server.stderr)  # logged behind the answer


@pytest.mark.promise("N.hostile")
@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 10_000_000,
        b"HTTP/1.1 200 OK\r\n" + b"X-Long: " + b"x" * 10_000_000,
    ],
    ids=["a body of 10 MB", "a head of 10 MB"],
)
async def test_an_endless_answer_counts_by_its_first_line(serve: ServerFactory, answer: bytes) -> None:
    async with Endpoint(answer) as endpoint:
        server = await _served(serve, endpoint)
        async with _client(server) as client:
            await client.start("true", notify=True)
            await client.start("exit 1", notify=True)
            assert len(await endpoint.came(2)) == 2
        await _nothing_owed(server)


@pytest.mark.thorough
@pytest.mark.promise("N.hostile")
@pytest.mark.parametrize(
    "answer",
    [None, b"x" * 100_000, b"SSH-2.0-OpenSSH_9\r\n", b"HTTP/1.1 503 Busy\r\n\r\n", b""],
    ids=["silence", "a line without end", "another protocol", "busy", "a closed connection"],
)
async def test_an_endpoint_that_fails_slows_no_process_and_is_tried_again(
    serve: ServerFactory, endpoint: Endpoint, answer: bytes | None
) -> None:
    endpoint.answers.append(answer)
    server = await _served(serve, endpoint)
    async with _client(server) as client:
        began = asyncio.get_running_loop().time()
        first = await client.start("true", notify=True)
        assert (await first.wait(PATIENCE_S)).exit_code == 0
        for _ in range(10):
            await (await client.start("true", notify=["end"])).wait(PATIENCE_S)
        assert asyncio.get_running_loop().time() - began < 8  # less than the deadline of one delivery
        got = await endpoint.came(12)
    assert [one["id"] for one in got[:2]] == [f"{first.process_id}.end"] * 2
    assert len({one["id"] for one in got}) == 11


async def test_an_endpoint_that_comes_later_gets_what_is_owed(
    serve: ServerFactory, endpoint: Endpoint
) -> None:
    port = free_port()
    server = await asyncio.to_thread(lambda: serve(OUTLIVE_NOTIFY_WEBHOOK=f"http://localhost:{port}/"))
    async with _client(server) as client:
        await (await client.start("true", notify=True)).wait(PATIENCE_S)
        async with Endpoint(port=port) as late:
            assert len(await late.came(1)) == 1
    assert endpoint.got == []


async def test_a_group_that_is_full_notifies_of_those_that_wait_too(
    serve: ServerFactory, endpoint: Endpoint
) -> None:
    server = await _served(serve, endpoint)
    async with _client(server) as client:
        first = await client.start("sleep 1000", group="g", group_limit=1)
        queued = await client.start("exit 2", group="g", notify=True)
        withdrawn = await client.start("exit 3", group="g", notify=True)
        await withdrawn.cancel()
        await first.cancel(0.5)
        got = {one["process_id"]: one for one in await endpoint.came(2)}
    assert got[queued.process_id]["exit_code"] == 2
    assert got[withdrawn.process_id]["state"] == "failed_to_start"
