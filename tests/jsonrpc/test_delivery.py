"""What a client in the foreground needs: output that waits for it, pipes that close, an input of its own."""

import array
import os
import signal
import socket
import time
from datetime import datetime

import pytest

from outlive.core.identity import RANDOM_BYTES, new_process_id
from outlive.core.layout import Layout
from outlive.kernel.sockets import connect_unix
from outlive.protocols.keeper import decode_message, encode_message
from tests.support.rpc import RpcClient
from tests.support.server import OutliveServer

pytestmark = pytest.mark.anyio

_MB = 1 << 20


def _new_id() -> str:
    return new_process_id(time.time_ns() // 1_000_000, os.urandom(RANDOM_BYTES))


def _lend(server: OutliveServer, process_id: str, fd: int) -> socket.socket:
    """Hand a descriptor to the keeper; the connection must stay open until the process has it."""
    connection = connect_unix(Layout(str(server.state_dir)).keeper_socket)
    connection.settimeout(10.0)
    message = encode_message({"op": "lend", "id": process_id, "req": 1})
    connection.sendmsg([message], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))])
    reply, _ = decode_message(connection.recv(65536))
    assert reply["ok"], reply
    return connection


@pytest.mark.promise("S0.3.block", "S0.19.release")
async def test_output_beyond_the_limit_waits_until_what_was_delivered_is_released(client: RpcClient) -> None:
    total = 8_000_000
    params = {"command": f"head -c {total} /dev/zero | tr '\\0' x", "output": "none", "detach": True}
    started = await client.request("execute", **{**params, "output_limit": _MB, "on_limit": "block"})
    process_id, got = started["process_id"], 0
    while got < total:
        page = await client.request(
            "read", process_id=process_id, cursor=f"{got}.0", limit=262144, encoding="base64"
        )
        assert not any(chunk.get("gap") for chunk in page["chunks"])
        got = int(page["cursor"].partition(".")[0])
        await client.request("release", process_id=process_id, cursor=f"{got}.0")
    ended = await client.request("wait", process_id=process_id, wait_s=20)
    assert (ended["exit_code"], ended["stdout_bytes"]) == (0, total)


@pytest.mark.promise("S0.19.release")
async def test_of_other_processes_nothing_is_released(client: RpcClient) -> None:
    started = await client.request("execute", command="head -c 100000 /dev/zero", detach=True, output="none")
    ended = await client.request("wait", process_id=started["process_id"], wait_s=20)
    await client.request("release", process_id=started["process_id"], cursor="100000.0", unbound=True)
    assert not (await client.request("get", process_id=ended["process_id"]))["gaps"]


@pytest.mark.promise("S0.3.block-unread")
async def test_without_a_reader_any_more_it_goes_on_when_that_is_said(client: RpcClient) -> None:
    params = {"command": "head -c 8000000 /dev/zero", "output": "none", "detach": True}
    started = await client.request("execute", **{**params, "output_limit": _MB, "on_limit": "block"})
    process_id = started["process_id"]
    assert (await client.request("wait", process_id=process_id, wait_s=0.3))["timed_out"]
    await client.request("release", process_id=process_id, unbound=True)
    ended = await client.request("wait", process_id=process_id, wait_s=20)
    assert (ended["exit_code"], ended["stdout_bytes"], ended["gaps"]) == (0, 8_000_000, False)


@pytest.mark.promise("S0.19.close-output")
async def test_a_closed_output_gives_its_writer_sigpipe(client: RpcClient) -> None:
    started = await client.request("execute", command="yes; echo $? >&2", output="none", detach=True)
    process_id = started["process_id"]
    for _ in range(2):  # repeating it is a success
        await client.request("close_output", process_id=process_id, type="stdout")
    ended = await client.request("wait", process_id=process_id, wait_s=20)
    page = await client.request("read", process_id=process_id, cursor=f"{ended['stdout_bytes']}.0")
    assert [chunk["data"] for chunk in page["chunks"]] == [f"{128 + signal.SIGPIPE}\n"]


@pytest.mark.promise("S0.19.signal-group")
async def test_a_signal_to_the_group_spares_what_has_left_it(client: RpcClient) -> None:
    line = (
        "setsid sh -c 'trap \"echo left got it\" USR1; echo a; sleep 1 & wait' & trap 'echo main got it; "
        "exit 3' USR1; sh -c 'trap \"echo child got it; exit\" USR1; echo b; sleep 5 & wait' & while :; "
        "do sleep 0.05; done"
    )
    started = await client.request("execute", command=line, detach=True, output="none")
    process_id = started["process_id"]
    text = ""
    while "a" not in text or "b" not in text:
        text = "".join(
            chunk["data"] for chunk in (await client.request("read", process_id=process_id))["chunks"]
        )
    await client.request("signal", process_id=process_id, signal="USR1", whole_group=True)
    ended = await client.request("wait", process_id=process_id, wait_s=20)
    assert ended["exit_code"] == 3
    await client.request("wait", process_id=process_id, wait_s=20, until="closed")
    text = "".join(chunk["data"] for chunk in (await client.request("read", process_id=process_id))["chunks"])
    assert "main got it" in text
    assert "child got it" in text
    assert "left got it" not in text


@pytest.mark.promise("S0.3.lent")
async def test_a_lent_input_is_read_by_the_command_alone(client: RpcClient, server: OutliveServer) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"first\nsecond\n")
    process_id = _new_id()
    with _lend(server, process_id, reading):
        params = {"argv": ["sh", "-c", "read x; echo got $x"], "stdin": "lent", "process_id": process_id}
        await client.request("execute", **{**params, "detach": True})
    ended = await client.request("wait", process_id=process_id, wait_s=20)
    assert ended["exit_code"] == 0
    os.close(writing)
    assert os.read(reading, 100) == b"second\n"
    os.close(reading)


@pytest.mark.promise("S0.3.lent")
async def test_an_input_that_nobody_lent_is_said_and_nothing_runs(client: RpcClient) -> None:
    error = await client.failure("execute", argv=["cat"], stdin="lent", process_id=_new_id())
    assert error.reason == "stdin_lost"


@pytest.mark.promise("S0.3.environment")
async def test_the_environment_can_be_all_there_is_and_words_any_bytes(client: RpcClient) -> None:
    params = {
        "argv": ["L3Vzci9iaW4vZW52"],  # /usr/bin/env
        "env": {"VkFS": "/w=="},  # VAR=\xff
        "inherit_env": False,
        "words": "base64",
        "detach": True,
    }
    started = await client.request("execute", **params)
    await client.request("wait", process_id=started["process_id"], wait_s=20)
    page = await client.request("read", process_id=started["process_id"])
    text = "".join(chunk["data"] for chunk in page["chunks"])
    assert "VAR=\ufffd\n" in text
    assert {line.partition("=")[0] for line in text.splitlines()} == {
        "VAR",
        "OUTLIVE_STATE_DIR",
        "OUTLIVE_PROCESS_ID",
    }


@pytest.mark.promise("S0.19.read.times")
async def test_a_page_says_when_its_pieces_were_written(client: RpcClient) -> None:
    started = await client.request(
        "execute", command="echo one; sleep 0.4; echo two", detach=True, output="none"
    )
    ended = await client.request("wait", process_id=started["process_id"], wait_s=20)
    page = await client.request("read", process_id=started["process_id"], times=True)
    times = [datetime.fromisoformat(chunk["time"]) for chunk in page["chunks"]]
    assert (times[1] - times[0]).total_seconds() > 0.2
    assert times[0] >= datetime.fromisoformat(ended["started_at"])
    assert all(
        "time" not in chunk
        for chunk in (await client.request("read", process_id=started["process_id"]))["chunks"]
    )
