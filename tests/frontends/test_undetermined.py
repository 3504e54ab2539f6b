"""Callers that cannot be told yet: they wait, are asked to come again, and are not refused.

Descriptors and threads stay few.
"""

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from starlette.routing import Router, WebSocketRoute
from starlette.types import ASGIApp
from starlette.websockets import WebSocket

from outlive.server.access import authenticator as entry_module
from outlive.server.access import peers as peers_module
from outlive.server.access.guard import Guard
from outlive.server.access.peers import Looks
from outlive.server.http.front_page import health_route
from tests.frontends.serving import entry, served
from tests.support.raw import http_get

# It asks for /health in a POSIX session of its own, so that its environment decides.
_CALLER = """
import http.client, sys
one = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
one.request("GET", "/health")
answer = one.getresponse()
print(answer.status, answer.headers["retry-after"])
"""


def _call(port: int) -> str:
    return subprocess.run(
        [sys.executable, "-I", "-S", "-c", _CALLER, str(port)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        start_new_session=True,
        timeout=30,
    ).stdout.strip()


async def _talk(websocket: WebSocket) -> None:
    await websocket.accept()
    await websocket.receive()


def _application(folder: Path) -> ASGIApp:
    routes = [health_route(lambda: {"status": "ok"}), WebSocketRoute("/ws", _talk)]
    return Guard(Router(routes), entry(folder, lambda: [(None, "p1")]))


@pytest.mark.promise("A.patience")
async def test_a_caller_that_cannot_be_told_yet_is_asked_to_come_again_and_keeps_no_other_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its environment is read for as long as the kernel likes: what makes it slow is for others to do."""
    is_readable, mine = threading.Event(), os.getpid()
    read = peers_module._environment_of
    monkeypatch.setattr(entry_module, "_DECISION_S", 0.5)
    monkeypatch.setattr(
        peers_module,
        "_environment_of",
        lambda pid: read(pid) if os.getsid(pid) == os.getsid(mine) or is_readable.wait(20) else None,
    )
    async with served(_application(tmp_path), tmp_path) as at, asyncio.timeout(60):
        for _ in range(2):
            assert await asyncio.to_thread(_call, at.port) == "503 1"
        assert (await asyncio.to_thread(http_get, at.port, "/health")).status == 200
        is_readable.set()


@pytest.mark.promise("A.patience")
async def test_looks_that_never_end_keep_few_threads_and_those_that_gave_up_are_left_out() -> None:
    looks, release = Looks(), threading.Event()
    begun: list[int] = []

    def begin() -> bool:
        begun.append(1)
        return True

    before = threading.active_count()
    stuck = [asyncio.create_task(looks.look(release.wait)) for _ in range(7)]
    async with asyncio.timeout(20):
        assert await asyncio.gather(*(looks.look(lambda: 5) for _ in range(100))) == [5] * 100
        last = asyncio.create_task(looks.look(release.wait))
        given_up = [asyncio.create_task(looks.look(begin)) for _ in range(100)]
        await asyncio.sleep(0)
        assert threading.active_count() - before <= 8
        for task in given_up:
            task.cancel()
        await asyncio.gather(*given_up, return_exceptions=True)
        release.set()
        await asyncio.gather(*stuck, last)
        assert await looks.look(lambda: 6) == 6
        assert begun == []


@pytest.mark.parametrize("error", [OSError, ValueError])
async def test_a_look_that_fails_tells_nothing(error: type[Exception]) -> None:
    def fail() -> bool:
        raise error

    async with asyncio.timeout(20):
        assert await Looks().look(fail) is None


async def test_idle_connections_hold_no_descriptor_for_their_callers(tmp_path: Path) -> None:
    """Issue 19: a pidfd lives no longer than the question that it answers, and never longer than its
    connection.
    """
    count = 100

    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    async def until(wanted: int) -> None:
        while await asyncio.to_thread(descriptors) != wanted:  # noqa: ASYNC110 - the kernel tells no event
            await asyncio.sleep(0.01)

    async with served(_application(tmp_path), tmp_path) as at, asyncio.timeout(30):
        before = await asyncio.to_thread(descriptors)
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(count)]
            for one in clients:
                one.connect(at.unix_path)
            await until(before + 3 * count)  # both ends are in this process, and the pidfd
            for one in clients:
                one.sendall(
                    b"GET /ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: upgrade\r\n"
                    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
                )
            for one in clients:
                assert (await asyncio.to_thread(one.recv, 4096)).startswith(b"HTTP/1.1 101")
            await until(before + 2 * count)
        await until(before)
        for refused in (
            b"",
            b"GET /ws HTTP/1.1\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
            b"no\r\n\r\n",
        ):
            with socket.socket(socket.AF_UNIX) as one:
                one.connect(at.unix_path)
                one.sendall(refused)
                await until(before + (3 if not refused else 1))
            await until(before)
