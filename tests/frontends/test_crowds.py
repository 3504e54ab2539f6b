"""What the HTTP service does about callers who ask too much at once, on real sockets."""

import asyncio
import contextlib
import json
import re
import socket
from pathlib import Path

import pytest
import uvloop
from starlette.routing import Route, Router, WebSocketRoute
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as ASGIScope
from starlette.websockets import WebSocket

from outlive.policy.access import Access, Scope
from outlive.server.http.front_page import JsonDocument, health_route, unknown_path
from outlive.server.limiters import RateLimiter, counting
from tests.frontends.serving import admitted, served
from tests.support.raw import http_get

_REQUEST = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
_MASKED = 0x80


def _application(rate: float | None = None) -> ASGIApp:
    async def echo(websocket: WebSocket) -> None:
        await websocket.accept()
        async for text in websocket.iter_text():
            await websocket.send_text(str(len(text)))

    routes = [
        Route("/", JsonDocument(lambda: {"name": "outlive"})),
        health_route(lambda: {"status": "ok"}),
        WebSocketRoute("/ws", echo),
    ]
    app = Router(routes, default=unknown_path(routes))
    paced = RateLimiter(app, counting(rate), free_paths=frozenset({"/health"}))
    return admitted(paced, Access(principal="me", scope=Scope.RUN))


def _exchange(port: int, request: bytes, *, patience_s: float = 10) -> bytes:
    """Send bytes and return everything that comes until the connection ends or is silent for a while."""
    received = b""
    with socket.create_connection(("127.0.0.1", port), timeout=patience_s) as connection:
        try:
            connection.sendall(request)
            while chunk := connection.recv(1 << 16):
                received += chunk
        except (TimeoutError, ConnectionError):
            pass
    return received


def _frame(payload: bytes, opcode: int = 0x81) -> bytes:
    size = len(payload)
    if size < 126:
        return bytes([opcode, _MASKED | size]) + bytes(4) + payload
    return bytes([opcode, _MASKED | 127]) + size.to_bytes(8, "big") + bytes(4) + payload


def _converse(port: int, frames: bytes, answers: int) -> list[str]:
    """Open a WebSocket, send all frames at once, and return the short text messages that come back."""
    upgrade = (
        b"GET /ws HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
    )
    with (
        socket.create_connection(("127.0.0.1", port), timeout=20) as connection,
        connection.makefile("rb") as lines,
    ):
        connection.sendall(upgrade)
        while lines.readline().strip():
            pass
        connection.sendall(frames)
        texts: list[str] = []
        while len(texts) < answers:
            opcode, size = lines.read(2)
            payload = lines.read(size)
            if opcode == 0x81:
                texts.append(payload.decode())
        return texts


async def test_a_head_that_does_not_end_is_refused(tmp_path: Path) -> None:
    async with served(_application(), tmp_path) as at, asyncio.timeout(20):
        endless = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n" + b"X-A: " + b"a" * 1000 + b"\r\n"
        answer = await asyncio.to_thread(_exchange, at.port, endless + b"X-B: b\r\n" * 40_000)
        assert (
            answer.startswith(b"HTTP/1.1 431 ") or not answer
        )  # the rest of what was sent may reset the connection
        assert (await asyncio.to_thread(http_get, at.port, "/health")).status == 200


async def test_a_few_pipelined_requests_are_answered_in_order(tmp_path: Path) -> None:
    async with served(_application(), tmp_path) as at, asyncio.timeout(20):
        last = _REQUEST.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
        asked = _REQUEST * 3 + _REQUEST.replace(b"/health", b"/nowhere") + last
        answers = await asyncio.to_thread(_exchange, at.port, asked)
    assert re.findall(rb"HTTP/1.1 ([0-9]+)", answers) == [b"200", b"200", b"200", b"404", b"200"]


async def test_who_pipelines_thousands_is_thrown_out(tmp_path: Path) -> None:
    async with served(_application(), tmp_path) as at, asyncio.timeout(20):
        answers = await asyncio.to_thread(_exchange, at.port, _REQUEST * 5000)
        assert answers.count(b"HTTP/1.1 200") < 5000
        assert (await asyncio.to_thread(http_get, at.port, "/health")).status == 200


async def test_thousands_of_small_frames_are_all_answered_in_order_while_others_are_served(
    tmp_path: Path,
) -> None:
    frames = b"".join(_frame(b"x" * (number % 7)) + _frame(b"", 0x89) for number in range(20_000))
    async with served(_application(), tmp_path) as at, asyncio.timeout(40):
        asked = 0
        while not asked:  # a thread that is late with its question has another chance, until patience is over
            loud = asyncio.create_task(asyncio.to_thread(_converse, at.port, frames, 20_000))
            while not loud.done():
                assert (await asyncio.to_thread(http_get, at.port, "/health")).status == 200
                asked += not loud.done()
            assert await loud == [str(number % 7) for number in range(20_000)]
    assert asked >= 1


@pytest.mark.parametrize("size", [4000, 4096, 4097, 100_000, 1_000_000])
async def test_a_message_of_any_length_arrives_whole(tmp_path: Path, size: int) -> None:
    frames = _frame(b"y" * size) + _frame(b"") + _frame(b"y" * size)
    async with served(_application(), tmp_path) as at, asyncio.timeout(20):
        assert await asyncio.to_thread(_converse, at.port, frames, 3) == [str(size), "0", str(size)]


async def test_who_asks_too_often_is_told_when_to_come_back_and_still_sees_how_the_server_feels(
    tmp_path: Path,
) -> None:
    async with served(_application(rate=0.25), tmp_path) as at, asyncio.timeout(20):
        assert (await asyncio.to_thread(http_get, at.port, "/")).status == 200
        answer = await asyncio.to_thread(http_get, at.port, "/")
        head, body = answer.text.split("\r\n\r\n", 1)
        assert answer.status == 429
        assert "retry-after: 4" in head.lower()
        assert json.loads(body)["error"] == "rate_limited"
        assert (await asyncio.to_thread(http_get, at.port, "/health")).status == 200


def test_connections_that_came_together_are_accepted_within_a_few_turns_of_the_loop(tmp_path: Path) -> None:
    """Of a socket libuv accepts one in each turn: who comes behind fifty would wait for fifty turns."""
    crowd = 48

    async def turns_until_accepted(count: int) -> int:
        accepted = 0

        async def counting_app(_scope: ASGIScope, _receive: Receive, _send: Send) -> None:
            nonlocal accepted
            accepted += 1

        async with served(counting_app, tmp_path) as at:
            with contextlib.ExitStack() as stack:
                for _ in range(count):  # the kernel takes them while the loop is kept waiting
                    one = stack.enter_context(socket.create_connection(("127.0.0.1", at.port), timeout=5))
                    one.sendall(_REQUEST)
                turns = 0
                async with asyncio.timeout(20):
                    while accepted < count:
                        await asyncio.sleep(0)
                        turns += 1
        return turns

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        few, many = runner.run(turns_until_accepted(1)), runner.run(turns_until_accepted(crowd))
    assert many - few < crowd / 2
