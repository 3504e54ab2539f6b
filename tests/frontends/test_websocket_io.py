"""The scope extension for ready-made frames, on real sockets: it leans on uvicorn's inside, so it is held
here.
"""

import asyncio
import random
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import websockets
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import Receive, Scope, Send
from websockets.frames import Frame, Opcode

from outlive.server.http.uvicorn_parts import ClientDisconnected, Config, ServerState
from outlive.server.http.websocket_io import EXTENSION, Inbox, RawWebSocketProtocol
from tests.frontends.serving import served
from tests.support.raw import masked_header, open_raw_websocket, read_frame

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


async def _send_raw(raw: Extension, frames: bytes) -> None:
    await raw["writable"].wait()
    raw["write"](frames)


def _frame(payload: bytes) -> bytes:
    length = len(payload)
    head = bytes([_TEXT, length]) if length < 126 else bytes([_TEXT, 126]) + length.to_bytes(2, "big")
    return head + payload


async def test_many_frames_leave_in_one_write(tmp_path: Path) -> None:
    async def scene(raw: Extension, receive: Receive, send: Send) -> None:
        await send({"type": "websocket.accept"})
        await _send_raw(raw, b"".join(_frame(b"line %d" % number) for number in range(100)))
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
            await _send_raw(raw, _frame(b"too late"))

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
                await _send_raw(raw, block)
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
            await _send_raw(raw, block)
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


class _Transport(asyncio.Transport):
    """Keeps what is written, and whether it reads."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.is_read = True
        self.pauses = 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += bytes(data)

    def pause_reading(self) -> None:
        self.is_read = False
        self.pauses += 1

    def resume_reading(self) -> None:
        self.is_read = True

    def is_closing(self) -> bool:
        return False

    def close(self) -> None:
        """Stay open: what follows the close frame is looked at."""

    def can_write_eof(self) -> bool:
        return False


class _Connection:
    """A connection in memory whose application takes one message after the other."""

    def __init__(self) -> None:
        config = Config(_accept_all, log_config=None, ws_per_message_deflate=False, ws_max_size=100_000)
        config.load()
        self.transport = _Transport()
        self.protocol = RawWebSocketProtocol(config, ServerState(), {}, asyncio.get_running_loop())
        self.protocol.connection_made(self.transport)

    async def ask(self) -> None:
        """Ask for the upgrade."""
        self.protocol.data_received(
            b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        )
        assert (await self.protocol.receive())["type"] == "websocket.connect"

    async def open(self) -> None:
        """Shake hands."""
        await self.ask()
        await self.protocol.send({"type": "websocket.accept"})
        self.protocol.stop_keepalive()

    async def all(self) -> list[dict[str, Any]]:
        """Take the messages that are there."""
        messages: list[dict[str, Any]] = []
        while True:
            while self.protocol._rest and self.protocol.queue.empty():
                self.protocol._parse_rest()  # as the application does, which asks for the next one
            if self.protocol.queue.empty():
                return messages
            messages.append(await self.protocol.receive())


async def _accept_all(scope: Scope, receive: Receive, send: Send) -> None:
    await asyncio.Event().wait()


def _masked(opcode: Opcode, payload: bytes, *, fin: bool = True) -> bytes:
    return Frame(opcode, payload, fin=fin).serialize(mask=True)


_FRAMES = st.lists(
    st.one_of(
        st.text(max_size=200).map(lambda text: [("text", _masked(Opcode.TEXT, text.encode()), text)]),
        st.binary(max_size=20).map(lambda data: [("bytes", _masked(Opcode.BINARY, data), data)]),
        st.binary(min_size=1, max_size=9).map(
            lambda data: [("bytes", _masked(Opcode.BINARY, data * 8_000), data * 8_000)]
        ),
        st.binary(min_size=1, max_size=9).map(
            lambda data: [("bytes", masked_header(2, len(data) * 500) + data * 500, data * 500)]
        ),
        st.binary(max_size=20).map(lambda data: [("", _masked(Opcode.PING, data), "")]),
        st.text(max_size=20).map(
            lambda text: [
                ("", _masked(Opcode.TEXT, b"in parts: ", fin=False), ""),
                ("", _masked(Opcode.PONG, b""), ""),
                ("text", _masked(Opcode.CONT, text.encode()), "in parts: " + text),
            ]
        ),
    ),
    max_size=8,
)


@pytest.mark.thorough
@given(groups=_FRAMES, seed=st.integers(0, 1000), is_cut=st.booleans())
def test_messages_are_the_same_however_the_bytes_come(
    groups: list[list[tuple[str, bytes, Any]]], seed: int, *, is_cut: bool
) -> None:
    """By hand or by the parser: whole frames in packets of their own, and packets cut anywhere."""
    frames = [frame for group in groups for frame in group]
    pieces = [wire for _, wire, _ in frames]
    if is_cut:
        whole, chance = b"".join(pieces), random.Random(seed)
        cuts = sorted(chance.randrange(len(whole) + 1) for _ in range(6)) if whole else []
        pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True) if a < b]

    async def play() -> list[tuple[str, Any]]:
        connection = _Connection()
        await connection.open()
        for piece in pieces:
            connection.protocol.data_received(piece)
        messages = await connection.all()
        connection.protocol.connection_lost(ConnectionResetError())
        for task in connection.protocol.tasks:
            task.cancel()
        assert connection.transport.is_read
        return [
            (kind, message[kind]) for message in messages for kind in ("text", "bytes") if kind in message
        ]

    expected = [(kind, content) for kind, _, content in frames if kind]
    assert asyncio.run(play()) == expected


async def test_a_large_binary_message_does_not_pass_the_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a process is to read comes in such messages; one that is not taken yet stops the reading."""
    connection = _Connection()
    await connection.open()

    def parse(_data: bytes) -> None:
        raise AssertionError("the complete parser has seen it")

    monkeypatch.setattr(connection.protocol.conn, "receive_data", parse)
    payload = random.Random(1).randbytes(90_000)
    wire = _masked(Opcode.BINARY, payload) + masked_header(2, 500) + payload[:500]
    for at in range(0, len(wire), 20_000):
        assert connection.transport.is_read
        connection.protocol.data_received(wire[at : at + 20_000])
    assert not connection.transport.is_read
    assert [message["bytes"] for message in await connection.all()] == [payload, payload[:500]]
    assert connection.transport.is_read
    connection.protocol.connection_lost(None)


async def test_nothing_is_paused_for_a_message_that_is_awaited_and_one_that_waits_stops_the_reading() -> None:
    connection = _Connection()
    await connection.open()
    pauses = connection.transport.pauses
    protocol = connection.protocol
    for number in range(3):
        taking = asyncio.create_task(protocol.receive())
        await asyncio.sleep(0)
        protocol.data_received(_masked(Opcode.TEXT, b"%d" % number))
        assert (await taking)["text"] == str(number)
    assert connection.transport.pauses == pauses
    protocol.data_received(_masked(Opcode.TEXT, b"nobody waits"))
    assert not connection.transport.is_read
    assert (await protocol.receive())["text"] == "nobody waits"
    assert connection.transport.is_read


async def test_a_text_that_is_no_text_and_one_behind_the_close_are_refused_as_ever() -> None:
    connection = _Connection()
    await connection.open()
    await connection.protocol.send({"type": "websocket.close", "code": 1000})
    connection.protocol.data_received(_masked(Opcode.TEXT, b"too late"))
    assert [message["type"] for message in await connection.all()] == ["websocket.disconnect"]
    connection = _Connection()
    await connection.open()
    connection.protocol.data_received(_masked(Opcode.TEXT, b"\xff"))
    (ending,) = await connection.all()
    assert (ending["type"], ending["code"]) == ("websocket.disconnect", 1007)
    connection = _Connection()
    await connection.open()
    connection.protocol.data_received(_masked(Opcode.TEXT, b"begun", fin=False))
    connection.protocol.data_received(_masked(Opcode.TEXT, b"no continuation"))
    (ending,) = await connection.all()
    assert (ending["type"], ending["code"]) == ("websocket.disconnect", 1002)


async def test_what_is_answered_after_a_stop_during_the_upgrade_is_dropped() -> None:
    """The stop has answered (503).

    A door that decides afterwards finds its caller gone, and nothing is logged.
    """
    connection = _Connection()
    await connection.ask()
    connection.protocol.shutdown()
    assert connection.transport.written.startswith(b"HTTP/1.1 503 ")
    with pytest.raises(ClientDisconnected):
        await connection.protocol.send({"type": "websocket.accept"})
    with pytest.raises(ClientDisconnected):
        await connection.protocol.send(
            {"type": "websocket.http.response.start", "status": 401, "headers": []}
        )


async def test_an_inbox_keeps_its_messages_when_who_waits_gives_up() -> None:
    inbox = Inbox(asyncio.get_running_loop())
    waiting = asyncio.create_task(inbox.get())
    await asyncio.sleep(0)
    with pytest.raises(AssertionError):
        await inbox.get()
    assert inbox.put_nowait("first"), "it was awaited"
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not inbox.put_nowait("second"), "no one waits"
    assert [await inbox.get(), await inbox.get()] == ["first", "second"]
    assert inbox.empty()
