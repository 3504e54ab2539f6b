"""Connecting: the endpoint, the first message, session ids, the limit, keep-alive."""

import json
import uuid

import anyio
import pytest
from anyio import to_thread
from websockets.asyncio.client import connect as open_websocket
from websockets.exceptions import ConnectionClosed

from tests.support.fixtures import ServerFactory
from tests.support.raw import open_raw_websocket, read_frame
from tests.support.rpc import RpcClient, connect
from tests.support.server import OutliveServer

pytestmark = pytest.mark.anyio

_TEXT, _PING = 0x1, 0x9


@pytest.mark.promise("S0.1")
async def test_the_endpoint_speaks_json_rpc_in_text_frames(server: OutliveServer) -> None:
    """S0.1: ws://127.0.0.1:<port>/ws/mcp, JSON-RPC 2.0, text frames."""
    assert server.url.endswith("/ws/mcp")
    peer, head = await to_thread.run_sync(open_raw_websocket, server.port)
    with peer:
        assert head.startswith(b"HTTP/1.1 101")
        opcode, payload = await to_thread.run_sync(read_frame, peer)
    assert opcode == _TEXT
    assert json.loads(payload)["jsonrpc"] == "2.0"


@pytest.mark.promise("S0.2", "S0.20")
async def test_the_first_message_is_connected_and_names_the_session(client: RpcClient) -> None:
    """S0.2: connected {session_id (uuid4), version, capabilities, resumed, processes}."""
    first = client.messages[0]
    assert first["method"] == "connected"
    assert first["jsonrpc"] == "2.0"
    assert "id" not in first
    assert {"session_id", "version", "capabilities", "resumed", "processes"} <= set(client.hello)
    parsed = uuid.UUID(client.session_id)
    assert (parsed.version, str(parsed)) == (4, client.session_id)
    assert isinstance(client.hello["version"], str)
    assert client.hello["resumed"] is False
    assert client.hello["processes"] == []


@pytest.mark.promise("S0.2", "S0.13")
async def test_every_connection_gets_a_session_of_its_own(server: OutliveServer) -> None:
    """S0.2, S0.13: two connections, two session ids."""
    async with connect(server.url) as one, connect(server.url) as other:
        assert one.session_id != other.session_id


@pytest.mark.promise("S0.1")
async def test_the_url_of_the_ipv4_address_and_of_localhost_both_work(server: OutliveServer) -> None:
    """S0.1: `localhost`, which document 000 uses, may resolve to either family."""
    async with connect(server.url.replace("127.0.0.1", "localhost")) as client:
        assert (await client.run("echo here")).stdout == "here\n"


@pytest.mark.promise("S0.15", "S0.11", "S0.11.hint")
async def test_the_session_above_the_limit_is_told_so_and_closed_with_1013(serve: ServerFactory) -> None:
    """S0.15: the next one gets -32001 with id null and close 1013; the others go on.

    A freed place is free.
    """
    server = await to_thread.run_sync(lambda: serve(MAX_SESSIONS=2))
    async with connect(server.url) as first:
        async with connect(server.url) as second:
            async with open_websocket(server.url, proxy=None) as third:
                with anyio.fail_after(15):
                    refusal = json.loads(await third.recv())
                    with pytest.raises(ConnectionClosed) as closed:
                        await third.recv()
            assert refusal["id"] is None
            assert refusal["error"]["code"] == -32001
            assert refusal["error"]["data"]["reason"]
            assert refusal["error"]["data"]["hint"]
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1013
            assert (await first.run("echo one")).stdout == "one\n"
            assert (await second.run("echo two")).stdout == "two\n"
        with anyio.fail_after(15):
            await _connect_until_welcome(server.url)


async def _connect_until_welcome(url: str) -> None:
    """Try until the server has noticed that a place is free."""
    while True:
        async with open_websocket(url, proxy=None) as socket:
            if json.loads(await socket.recv()).get("method") == "connected":
                return
        await anyio.sleep(0.05)


@pytest.mark.promise("S0.15")
async def test_a_hundred_sessions_fit_by_default(serve: ServerFactory) -> None:
    """S0.15: at most 100 sessions by default, so 100 fit and one more does not."""
    server = await to_thread.run_sync(serve)
    async with anyio.create_task_group() as holders:
        leave = anyio.Event()
        joined = 0
        everybody = anyio.Event()

        async def hold() -> None:
            nonlocal joined
            async with connect(server.url):
                joined += 1
                if joined == 100:
                    everybody.set()
                await leave.wait()

        for _ in range(100):
            holders.start_soon(hold)
        with anyio.fail_after(30):
            await everybody.wait()
            async with open_websocket(server.url, proxy=None) as one_more:
                assert json.loads(await one_more.recv())["error"]["code"] == -32001
        leave.set()


@pytest.mark.promise("S0.21")
async def test_a_websocket_ping_is_answered_while_a_process_streams(client: RpcClient) -> None:
    """S0.21: keep-alive works by WebSocket frames, also in the middle of output."""
    result = await client.execute("seq 1 20000")
    with anyio.fail_after(15):
        pong = await client.socket.ping()
        run = await client.finish(result)
        await pong
    assert len(run.lines) == 20000


@pytest.mark.promise("S0.21")
async def test_a_client_that_answers_no_application_message_stays(client: RpcClient) -> None:
    """S0.21: nothing the server sends as JSON asks for an answer."""
    await client.run("echo one; echo two")
    asked = [message for message in client.messages if "method" in message and "id" in message]
    assert asked == []
    await client.barrier()


@pytest.mark.slow
@pytest.mark.promise("S0.21")
async def test_the_server_keeps_an_idle_connection_alive_with_ping_frames(server: OutliveServer) -> None:
    """S0.21: an idle connection sees a ping frame, and nothing else."""
    peer, _ = await to_thread.run_sync(open_raw_websocket, server.port)
    with peer:
        peer.settimeout(90)
        assert (await to_thread.run_sync(read_frame, peer))[0] == _TEXT
        with anyio.fail_after(90):
            opcode, _ = await to_thread.run_sync(read_frame, peer)
    assert opcode == _PING
