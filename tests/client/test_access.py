"""Doors that do not open: what a refusal means, and what is worth another attempt."""

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from anyio import to_thread
from websockets.asyncio.server import ServerConnection
from websockets.asyncio.server import serve as serve_websocket

from outlive.client import (
    AccessDenied,
    AsyncClient,
    BackendUnavailable,
    Client,
    ConfigInvalid,
    LimitExceeded,
    OutliveError,
    Output,
    ProtocolViolation,
)
from tests.support.fixtures import ServerFactory
from tests.support.processes import Gate

pytestmark = pytest.mark.anyio

_REFUSAL = json.dumps({"error": "foreign_host", "message": "Not for that Host.", "hint": "Another."})


@contextmanager
def _answering(answer: bytes) -> Iterator[tuple[str, list[bytes]]]:
    """Listen, answer each caller with the same bytes, and keep what they sent."""
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    peer, _ = listener.accept()
                except OSError:
                    return  # the test is over
                with peer:
                    heard.append(peer.recv(65536))
                    peer.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"ws://127.0.0.1:{listener.getsockname()[1]}/ws/mcp", heard
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(5)


def _http(status: str, body: str) -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return (head + body).encode()


@pytest.mark.parametrize(
    ("answer", "family", "code", "said"),
    [
        (_http("421 Misdirected Request", _REFUSAL), AccessDenied, "foreign_host", "Not for that Host."),
        (_http("403 Forbidden", "no"), AccessDenied, "foreign_origin", "HTTP 403"),
        (_http("401 Unauthorized", ""), AccessDenied, "key_missing", "HTTP 401"),
        (_http("404 Not Found", "{}"), OutliveError, "internal_error", "HTTP 404"),
        (_http("502 Bad Gateway", ""), BackendUnavailable, "server_unavailable", "No server"),
        (b"220 mail.example.net ESMTP\r\n", AccessDenied, "foreign_host", "no outlive server"),
        (b"", BackendUnavailable, "server_unavailable", "No server"),
    ],
)
@pytest.mark.parametrize("twin", ["asyncio", "blocking"])
async def test_a_refusal_is_told_with_its_reason(
    twin: str, answer: bytes, family: type[OutliveError], code: str, said: str
) -> None:
    with _answering(answer) as (url, heard), pytest.raises(family) as refused:
        await _list(url, twin)
    assert refused.value.code == code
    assert said in refused.value.message
    assert b"Authorization: Bearer secret\r\n" in heard[0]


async def _list(url: str, twin: str) -> None:
    if twin == "asyncio":
        async with AsyncClient(url=url, token="secret") as client:
            await client.list()
        return

    def block() -> None:
        with Client(url=url, token="secret") as client:
            client.list()

    await to_thread.run_sync(block)


async def test_who_finds_no_place_waits_for_one(serve: ServerFactory, gate: Gate) -> None:
    """MAX_SESSIONS: a follow more than there are places goes on when one is free."""
    server = await to_thread.run_sync(lambda: serve(MAX_SESSIONS="2"))
    async with AsyncClient(server.state_dir, start_server=False, patience_s=20) as client:
        process = await client.start(f"echo x; {gate.wait}")
        holder = process.follow()
        await anext(holder)
        waiting = asyncio.ensure_future(anext(process.follow()))
        await client.list()
        assert not waiting.done()
        await holder.close()
        assert isinstance(await waiting, Output)
        gate.open()
    async with AsyncClient(server.state_dir, start_server=False, patience_s=0.1) as client:
        process = await client.start("true")
        await anext(process.follow(), None)
        async with AsyncClient(url=server.url, patience_s=0.1) as other:
            await other.list()
            with pytest.raises(LimitExceeded) as full:
                await anext(other.attach(process.process_id))
            assert full.value.code == "connection_limit"


async def test_a_websocket_that_is_none_of_ours_is_found_out() -> None:
    async def greet(connection: ServerConnection) -> None:
        await connection.send("hello!")
        await connection.wait_closed()

    async with serve_websocket(greet, "127.0.0.1", 0) as other:
        port = next(iter(other.sockets)).getsockname()[1]
        async with AsyncClient(url=f"ws://127.0.0.1:{port}/") as client:
            with pytest.raises(ProtocolViolation):
                await client.list()


async def test_a_folder_that_cannot_be_used_is_said() -> None:
    async with AsyncClient("/dev/null/state") as client:
        with pytest.raises(ConfigInvalid) as refused:
            await client.list()
    assert refused.value.code == "state_folder"
    with pytest.raises(ValueError, match="either"):
        AsyncClient("folder", url="ws://localhost/")


async def test_the_token_opens_a_server_that_asks_for_its_key(serve: ServerFactory) -> None:
    """Over TCP only: the Unix socket belongs to one user."""
    server = await to_thread.run_sync(lambda: serve(MCP_API_KEY="a-key"))
    async with AsyncClient(url=server.url, token="a-key") as client:
        assert await client.list() == []
    async with AsyncClient(server.state_dir, start_server=False) as client:
        assert await client.list() == []
    async with AsyncClient(url=server.url, token="another") as client:
        with pytest.raises(AccessDenied) as refused:
            await client.list()
    assert refused.value.code == "key_missing"


@contextmanager
def _resetting() -> Iterator[str]:
    """Listen, and reset every connection as soon as something is sent, as a killed server's kernel does."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    caller, _ = listener.accept()
                except OSError:
                    return
                caller.recv(1)  # the rest is unread: closing resets (tcp(7))
                caller.close()

        server = threading.Thread(target=serve)
        server.start()
        yield f"ws://127.0.0.1:{listener.getsockname()[1]}/ws/mcp"
        listener.shutdown(socket.SHUT_RDWR)
        server.join(10)


def test_a_server_that_dies_in_the_handshake_is_no_answer_blocking() -> None:
    with _resetting() as url, Client(url=url, patience_s=0.2) as client:
        for _ in range(5):
            with pytest.raises(BackendUnavailable) as refused:
                client.list()
            assert refused.value.code == "server_unavailable"


async def test_a_server_that_dies_in_the_handshake_is_no_answer() -> None:
    with _resetting() as url:
        async with AsyncClient(url=url, patience_s=0.2) as client:
            for _ in range(5):
                with pytest.raises(BackendUnavailable) as refused:
                    await client.list()
                assert refused.value.code == "server_unavailable"
