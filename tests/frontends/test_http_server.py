"""The HTTP service on its own sockets: both families, peers' uids, a quick end, answers for what nobody
knows.
"""

import asyncio
import contextlib
import gc
import http.client
import json
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import websockets
from starlette.routing import Route, Router, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from outlive.core.errors import ConfigInvalid
from outlive.server.access.guard import Guard
from outlive.server.http.boundary import ErrorBoundary
from outlive.server.http.front_page import JsonDocument, health_route, unknown_path
from outlive.server.http.http_server import HttpProtocol
from outlive.server.http.listeners import Listeners, open_port
from tests.frontends.serving import entry, served
from tests.support.raw import Answer, http_get, open_raw_websocket, upgrade

_NOBODY = 65534


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("anything.example", timeout=10)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(10)
        self.sock.connect(self._path)


def _get_unix(path: str, *, uid: int | None = None, headers: dict[str, str] | None = None) -> tuple[int, Any]:
    connection = _UnixConnection(path)
    with _acting_as(uid):  # the kernel notes the peer's effective uid at connect (SO_PEERCRED, unix(7))
        connection.connect()
    connection.request("GET", "/", headers=headers or {})
    answer = connection.getresponse()
    body = json.loads(answer.read())
    connection.close()
    return answer.status, body


@contextlib.contextmanager
def _acting_as(uid: int | None) -> Iterator[None]:
    own = os.geteuid()
    if uid is not None:
        os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(own)


async def _talk(websocket: WebSocket) -> None:
    await websocket.accept()
    await websocket.receive()


def _application() -> ASGIApp:
    routes = [
        Route("/", JsonDocument(lambda: {"name": "outlive"})),
        health_route(lambda: {"status": "ok"}),
        WebSocketRoute("/ws", _talk),
    ]
    return Guard(ErrorBoundary(Router(routes, default=unknown_path(routes))), entry(Path("/nowhere")))


def _upgrade_whole(port: int, *, host: str | None = None, headers: dict[str, str] | None = None) -> Answer:
    """Ask for a WebSocket and return the whole answer, body included."""
    wanted = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
    wanted |= {"Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="} | (headers or {})
    return http_get(port, "/ws", headers=wanted, host=host)


def _json_of(answer: Answer) -> dict[str, str]:
    body: dict[str, str] = json.loads(answer.text.split("\r\n\r\n", 1)[1])
    return body


async def test_both_families_answer_on_one_number(tmp_path: Path) -> None:
    def ask(host: str) -> int:
        connection = http.client.HTTPConnection(host, at.port, timeout=10)
        connection.request("GET", "/health")
        status = connection.getresponse().status
        connection.close()
        return status

    async with served(_application(), tmp_path) as at, asyncio.timeout(10):
        assert await asyncio.to_thread(ask, "127.0.0.1") == 200
        if _has_ipv6():
            assert await asyncio.to_thread(ask, "::1") == 200


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.mark.skipif(not _has_ipv6(), reason="this machine has no ::1")
def test_a_number_taken_on_either_family_is_taken() -> None:
    """Node tries ::1 first: a foreign listener there would be met instead of us."""
    with socket.socket(socket.AF_INET6) as other:
        other.bind(("::1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(ConfigInvalid, match=f"Port {port} on .::1. is taken"):
            open_port("127.0.0.1", port)


def test_a_port_can_be_taken_again_at_once_after_a_connection() -> None:
    """A restarted server meets connections in TIME_WAIT."""
    with Listeners() as first:
        first.add_port("x", "127.0.0.1", 0)
        port = first.ports["x"]
        with socket.create_connection(("127.0.0.1", port)):
            peer, _ = first.sockets[0].accept()
            peer.close()
    with Listeners() as second:
        second.add_port("x", "127.0.0.1", port)


async def test_responses_carry_no_server_name_and_a_date(tmp_path: Path) -> None:
    async with served(_application(), tmp_path) as at, asyncio.timeout(10):
        answer = await asyncio.to_thread(http_get, at.port, "/health")
        assert answer.status == 200
        assert "server:" not in answer.text.lower()
        assert "date:" in answer.text.lower()


async def test_small_packets_leave_at_once(tmp_path: Path) -> None:
    """TCP_NODELAY: without it an answer waits up to 40 ms (measured on a peer: 48 ms against 4.4)."""
    seen: list[int] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        owner = getattr(receive, "__self__")  # noqa: B009 -- the connection that uvicorn bound it to
        sock = owner.transport.get_extra_info("socket")
        seen.append(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        await receive()
        await send({"type": "websocket.accept"})

    async with (
        served(app, tmp_path) as at,
        asyncio.timeout(10),
        websockets.connect(f"ws://127.0.0.1:{at.port}/"),
    ):
        assert seen
        assert all(seen)


@pytest.mark.promise("A.origin", "A.host")
async def test_refusals_carry_their_status_on_routes_and_upgrades(tmp_path: Path) -> None:
    async with served(_application(), tmp_path) as at, asyncio.timeout(20):
        for ask in (http_get, _upgrade_whole):
            answer = await asyncio.to_thread(ask, at.port, host="evil.example")
            assert answer.status == 421
            assert _json_of(answer)["error"] == "foreign_host"
            answer = await asyncio.to_thread(ask, at.port, headers={"Origin": "http://evil.example"})
            assert answer.status == 403
            body = _json_of(answer)
            assert body["error"] == "foreign_origin"
            assert set(body) == {"error", "message", "hint"}


async def test_unknown_paths_say_what_is_there(tmp_path: Path) -> None:
    async with served(_application(), tmp_path) as at, asyncio.timeout(10):
        answer = await asyncio.to_thread(http_get, at.port, "/nothing")
        assert answer.status == 404
        assert "/health" in _json_of(answer)["hint"]
        answer = await asyncio.to_thread(upgrade, at.port)  # this application has no /ws/mcp
        assert answer.status == 404
        answer = await asyncio.to_thread(http_get, at.port, "/ws")
        assert answer.status == 426
        assert _json_of(answer)["error"] == "websocket_needed"


async def test_other_methods_are_refused(tmp_path: Path) -> None:
    def post() -> tuple[int, str | None]:
        connection = http.client.HTTPConnection("127.0.0.1", at.port, timeout=10)
        connection.request("POST", "/health", body=b"x" * 100)
        answer = connection.getresponse()
        answer.read()
        connection.close()
        return answer.status, answer.getheader("allow")

    async with served(_application(), tmp_path) as at, asyncio.timeout(10):
        assert await asyncio.to_thread(post) == (405, "GET, HEAD")


async def test_the_unix_socket_lets_our_own_uid_in_whatever_the_host(tmp_path: Path) -> None:
    async with served(_application(), tmp_path) as at, asyncio.timeout(10):
        assert os.stat(at.unix_path).st_mode & 0o777 == 0o600
        status, body = await asyncio.to_thread(_get_unix, at.unix_path)
        assert (status, body) == (200, {"name": "outlive"})
        status, body = await asyncio.to_thread(
            _get_unix, at.unix_path, headers={"Origin": "http://localhost"}
        )
        assert (status, body["error"]) == (403, "foreign_origin")


@pytest.mark.root("only root can act as another user")
async def test_the_unix_socket_refuses_other_users(tmp_path: Path) -> None:
    """By the peer's uid, even when file modes would let it in."""
    async with served(_application(), tmp_path) as at, asyncio.timeout(10):
        for path in (at.unix_path, *map(str, tmp_path.parents), str(tmp_path)):
            if path.startswith(("/tmp", str(tmp_path.parents[1]))):
                os.chmod(path, 0o777)  # noqa: S103 -- to show that modes are not what refuses
        # On this loop's own thread: the effective uid belongs to the whole process.
        connecting = asyncio.to_thread(_get_unix, at.unix_path, uid=_NOBODY)
        status, body = await connecting
        assert (status, body["error"]) == (403, "foreign_user")


def _app_that_fails(after: Callable[[Send], Awaitable[None]] | None = None) -> ASGIApp:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        if after is not None:
            await after(send)
        raise RuntimeError("a secret detail")

    return ErrorBoundary(app)


async def test_an_unexpected_failure_tells_a_reference_and_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        async with served(_app_that_fails(), tmp_path) as at, asyncio.timeout(10):
            answer = await asyncio.to_thread(http_get, at.port, "/")
            assert answer.status == 500
            assert "secret" not in answer.text
            assert "Traceback" not in answer.text
            assert (await asyncio.to_thread(upgrade, at.port)).status == 500
    references = {record.__dict__["reference"] for record in caplog.records if "reference" in record.__dict__}
    assert _json_of(answer)["message"].split()[-1].strip(").") in references


async def test_a_failure_on_an_open_websocket_closes_it_with_1011(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def accept(send: Send) -> None:
        await send({"type": "websocket.accept"})

    with caplog.at_level(logging.ERROR):
        async with (
            served(_app_that_fails(accept), tmp_path) as at,
            asyncio.timeout(10),
            websockets.connect(f"ws://127.0.0.1:{at.port}/") as client,
        ):
            with pytest.raises(websockets.ConnectionClosedError) as caught:
                await client.recv()
            assert caught.value.rcvd is not None
            assert caught.value.rcvd.code == 1011
            assert "reference" in caught.value.rcvd.reason


@pytest.mark.thorough
async def test_the_end_of_service_tells_clients_and_does_not_wait_for_those_that_do_not_read(
    tmp_path: Path,
) -> None:
    async def flood(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        if scope["path"] == "/flood":
            while True:
                await send({"type": "websocket.send", "bytes": bytes(60000)})
        await receive()

    async with asyncio.timeout(10):
        async with contextlib.AsyncExitStack() as stack:
            at = await stack.enter_async_context(served(flood, tmp_path))
            polite = await websockets.connect(f"ws://127.0.0.1:{at.port}/")
            deaf = await websockets.connect(f"ws://127.0.0.1:{at.port}/flood", max_queue=1)
        with pytest.raises(websockets.ConnectionClosedError) as caught:
            await polite.recv()
        assert caught.value.rcvd is not None
        assert caught.value.rcvd.code == 1012
        deaf.transport.abort()
        await deaf.wait_closed()


@pytest.mark.thorough
async def test_a_request_that_the_end_of_service_cuts_off_is_no_failure(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    begun = asyncio.Event()

    async def work(_scope: Scope, _receive: Receive, _send: Send) -> None:
        begun.set()
        await asyncio.Event().wait()

    async with asyncio.timeout(10):
        async with served(work, tmp_path) as at:
            reader, writer = await asyncio.open_connection("127.0.0.1", at.port)
            writer.write(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            await begun.wait()
        assert await reader.read() == b""
        writer.close()
    assert "Exception" not in caplog.text


async def test_a_handshake_leaves_nothing_that_only_the_garbage_collector_finds(tmp_path: Path) -> None:
    """The HTTP protocol of uvicorn and its parser refer to each other."""

    async def accept(_scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        await receive()

    gc.collect()
    gc.disable()
    try:
        async with served(accept, tmp_path) as at:
            connection, _ = await asyncio.to_thread(open_raw_websocket, at.port)
            assert not [one for one in gc.get_objects() if isinstance(one, HttpProtocol)]
            connection.close()
    finally:
        gc.enable()
