"""The scope extension for ready-made frames, on real sockets: it leans on uvicorn's inside, so it is held here."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import websockets
from starlette.types import Receive, Scope, Send

from outlive.frontends.raw_websocket import EXTENSION
from tests.frontends.serving import served
from tests.support.raw import open_raw_websocket, read_frame

_TEXT = 0x81
Extension = dict[str, Any]


class _Stage:
    """An ASGI application that plays one scene on each WebSocket and keeps what came of it."""

    def __init__(self, scene: Callable[[Extension, Receive, Send], Awaitable[None]]) -> None:
        self._scene = scene
        self.over = asyncio.Event()
        self.extension: Extension = {}

    async def until_stuck(self) -> None:
        """Return when the client has been given more than it takes."""
        while not self.extension or self.extension["writable"].is_set():  # noqa: ASYNC110 -- the event is its contrary
            await asyncio.sleep(0.01)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.extension = scope["extensions"][EXTENSION]
        assert (await receive())["type"] == "websocket.connect"
        try:
            await self._scene(self.extension, receive, send)
        finally:
            self.over.set()


def _frame(payload: bytes) -> bytes:
    length = len(payload)
    head = bytes([_TEXT, length]) if length < 126 else bytes([_TEXT, 126]) + length.to_bytes(2, "big")
    return head + payload


async def test_many_frames_leave_in_one_write(tmp_path: Path) -> None:
    async def scene(raw: Extension, receive: Receive, send: Send) -> None:
        await send({"type": "websocket.accept"})
        await raw["send"](b"".join(_frame(b"line %d" % number) for number in range(100)))
        await send({"type": "websocket.send", "text": "plain"})
        raw["write"](_frame("grün".encode()))
        await receive()

    async with (
        served(_Stage(scene), tmp_path) as at,
        asyncio.timeout(10),
        websockets.connect(f"ws://127.0.0.1:{at.port}/") as client,
    ):
        assert [await client.recv() for _ in range(100)] == [f"line {number}" for number in range(100)]
        assert [await client.recv(), await client.recv()] == ["plain", "grün"]
        assert client.protocol.extensions == []  # per-message deflate is off, whatever the client offers


async def test_frames_are_refused_before_the_handshake_and_after_the_close(tmp_path: Path) -> None:
    async def scene(raw: Extension, receive: Receive, send: Send) -> None:
        assert raw["is_closed"]()
        with pytest.raises(ConnectionAbortedError):
            raw["write"](_frame(b"too early"))
        await send({"type": "websocket.accept"})
        assert not raw["is_closed"]()
        await send({"type": "websocket.close", "code": 1000})
        assert raw["is_closed"]()
        with pytest.raises(ConnectionAbortedError):
            await raw["send"](_frame(b"too late"))

    stage = _Stage(scene)
    async with served(stage, tmp_path) as at, asyncio.timeout(10):
        async with websockets.connect(f"ws://127.0.0.1:{at.port}/") as client:
            with pytest.raises(websockets.ConnectionClosedOK):
                await client.recv()
        await stage.over.wait()


async def test_a_client_that_vanishes_wakes_a_waiting_sender(tmp_path: Path) -> None:
    refused = asyncio.Event()

    async def scene(raw: Extension, receive: Receive, send: Send) -> None:
        await send({"type": "websocket.accept"})
        block = _frame(b"x" * 60000)
        try:
            while True:
                await raw["send"](block)
        except ConnectionAbortedError:
            refused.set()

    stage = _Stage(scene)
    async with served(stage, tmp_path) as at, asyncio.timeout(10):
        peer, _ = await asyncio.to_thread(open_raw_websocket, at.port, receive_buffer=4096)
        await stage.until_stuck()
        assert not refused.is_set()
        # A reset instead of an orderly end: the client's kernel forgets the connection.
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        peer.close()
        await refused.wait()


async def test_a_client_that_does_not_read_makes_writers_wait_and_loses_nothing(tmp_path: Path) -> None:
    blocks = 200
    block = _frame(b"y" * 60000)

    async def scene(raw: Extension, receive: Receive, send: Send) -> None:
        await send({"type": "websocket.accept"})
        for _ in range(blocks):
            await raw["send"](block)
        await receive()

    stage = _Stage(scene)
    async with served(stage, tmp_path) as at, asyncio.timeout(20):
        peer, _ = await asyncio.to_thread(open_raw_websocket, at.port, receive_buffer=4096)
        with peer:
            await stage.until_stuck()
            received = await asyncio.to_thread(lambda: [read_frame(peer)[1] for _ in range(blocks)])
            assert received == [b"y" * 60000] * blocks


async def _send_for_ever(client: websockets.ClientConnection, text: str) -> None:
    while True:
        await client.send(text)


async def test_a_message_over_the_limit_closes_with_1009_and_one_below_passes(tmp_path: Path) -> None:
    async def scene(raw: Extension, receive: Receive, send: Send) -> None:
        await send({"type": "websocket.accept"})
        while (message := await receive())["type"] == "websocket.receive":
            await send({"type": "websocket.send", "text": str(len(message["text"]))})

    async with (
        served(_Stage(scene), tmp_path, max_message_bytes=4 << 20) as at,
        asyncio.timeout(20),
        websockets.connect(f"ws://127.0.0.1:{at.port}/", max_size=None) as client,
    ):
        await client.send("z" * (3 << 20))
        assert await client.recv() == str(3 << 20)
        with pytest.raises(websockets.ConnectionClosedError) as caught:
            await _send_for_ever(
                client, "z" * (5 << 20)
            )  # the refusal arrives although nobody reads all this
        assert caught.value.rcvd is not None
        assert caught.value.rcvd.code == 1009
