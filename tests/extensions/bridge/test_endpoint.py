"""Where the bridge is served: at `/` of its own port and of the Unix socket, and nowhere else."""

import json
import socket

import pytest
from websockets.asyncio.client import unix_connect

from tests.extensions.bridge.extension import dialling
from tests.extensions.bridge.knocking import Door
from tests.support.fixtures import ServerFactory
from tests.support.server import OutliveServer

pytestmark = pytest.mark.anyio


def _upgrade(port: int, path: str) -> tuple[int, dict[str, str]]:
    """Ask for a WebSocket over a bare socket; return the status and the body's members."""
    head = (
        f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", port), timeout=30) as peer:
        peer.sendall(head.encode())
        with peer.makefile("rb") as answer:
            status = int(answer.readline().split()[1])
            length = 0
            while (line := answer.readline().strip()) != b"":
                name, _, value = line.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
            return status, json.loads(answer.read(length)) if length else {}


@pytest.mark.promise("S3.1.port")
async def test_a_path_that_is_no_endpoint_of_a_port_is_refused_with_the_right_ones(
    bridge: OutliveServer,
) -> None:
    ports = bridge.ready["ports"]
    for door in ("jsonrpc", "mcp", "rest"):
        for path in ("/", "/ws", "/ws/"):
            status, told = _upgrade(ports[door], path)
            assert (status, told["error"]) == (404, "unknown_path"), (door, path)
            assert "/ws/mcp" in told["hint"]
            assert str(ports["bridge"]) in told["hint"]
        assert _upgrade(ports[door], "/ws/mcp")[0] == 101
    assert _upgrade(ports["bridge"], "/")[0] == 101
    assert _upgrade(ports["bridge"], "/ws")[0] == 404


@pytest.mark.promise("S3.1.port")
async def test_extensions_dial_the_bridge_port_and_the_unix_socket(bridge: OutliveServer, door: Door) -> None:
    async with dialling(bridge.bridge_url):
        assert (await door("create", name="by port"))["terminal_name"] == "by port"
    async with unix_connect(str(bridge.state_dir / "server.sock"), "ws://localhost/") as line:
        await (await line.ping())


@pytest.mark.promise("S3.1.port")
async def test_without_a_bridge_port_the_refusal_names_the_option(serve: ServerFactory) -> None:
    """A port of the bridge that somebody else has is none, either."""
    status, told = _upgrade(serve("--bridge-port", "off").port, "/")
    assert status == 404
    assert "--bridge-port" in told["hint"]
