"""A viewer of a terminal: `viewing` connects one, `Seen` is what it was sent."""

import contextlib
import json
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import anyio
import websockets
from websockets.asyncio.client import ClientConnection

from tests.attacks.attacking import Requests
from tests.support.server import OutliveServer

CONTROLLED = "outlive.terminal.v1"
PATIENCE_S = 60.0


def start(server: OutliveServer, command: str, *, token: str | None = None, **options: object) -> str:
    """Start a command on a terminal and return its process id."""
    known: dict[str, object] = {"pty": True, "stdin": "pipe", **options}
    return str(Requests(server, token).start(command, **known)["process_id"])


def written(server: OutliveServer, process_id: str) -> bytes:
    """Return what lies in the log of a process's terminal."""
    return (server.state_dir / "processes" / process_id / "out").read_bytes()


def address(server: OutliveServer, name: str, **query: object) -> str:
    """Return where a process's terminal is."""
    return f"ws://127.0.0.1:{server.port}/ws/terminal/{name}?{urlencode(query)}"


@dataclass(slots=True)
class Seen:
    """One connected viewer and everything that it was sent."""

    socket: ClientConnection
    output: bytearray = field(default_factory=bytearray)
    messages: list[dict[str, Any]] = field(default_factory=list)
    order: list[str] = field(default_factory=list)  # "output", or the messages' types; one of a kind in a row

    async def take(self) -> bool:
        """Take one frame; False when the connection has ended."""
        try:
            frame = await self.socket.recv()
        except websockets.ConnectionClosed:
            return False
        if isinstance(frame, bytes):
            self.output += frame
            kind = "output"
        else:
            message = json.loads(frame)
            self.messages.append(message)
            kind = message["type"]
        if self.order[-1:] != [kind]:
            self.order.append(kind)
        return True

    async def until(self, holds: Callable[[], bool]) -> None:
        """Take frames until something holds."""
        with anyio.fail_after(PATIENCE_S):
            while not holds():
                assert await self.take(), (bytes(self.output[-500:]), self.messages)

    async def until_shown(self, text: bytes) -> None:
        """Take frames until the output has a text in it."""
        await self.until(lambda: text in self.output)

    async def until_told(self, kind: str) -> dict[str, Any]:
        """Take frames until there is a message of a kind; return the newest one."""
        await self.until(lambda: any(one["type"] == kind for one in self.messages))
        return [one for one in self.messages if one["type"] == kind][-1]

    async def until_told_anew(self, kind: str) -> dict[str, Any]:
        """Take frames until there is one more message of a kind; return it."""
        before = len(self.messages)
        await self.until(lambda: any(one["type"] == kind for one in self.messages[before:]))
        return [one for one in self.messages if one["type"] == kind][-1]

    async def until_over(self) -> tuple[int | None, str | None]:
        """Take everything; return how the connection was closed."""
        with anyio.fail_after(PATIENCE_S * 2):
            while await self.take():
                pass
        return self.socket.close_code, self.socket.close_reason

    async def say(self, kind: str, **members: object) -> None:
        """Send a control message."""
        await self.socket.send(json.dumps({"type": kind, **members}))


def _small(server: OutliveServer, size: int) -> socket.socket:
    peer = socket.socket()
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, size)
    peer.connect(("127.0.0.1", server.port))
    return peer


@contextlib.asynccontextmanager
async def viewing(
    server: OutliveServer,
    name: str,
    *,
    controlled: bool = True,
    token: str | None = None,
    send_buffer: int | None = None,
    **query: object,
) -> AsyncIterator[Seen]:
    """Yield a connected viewer; of one that speaks control messages, the greeting has been taken.

    `send_buffer` (bytes) makes the kernel hold little of what the server does not take.
    """
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    async with websockets.connect(
        address(server, name, **query),
        subprotocols=[websockets.Subprotocol(CONTROLLED)] if controlled else None,
        additional_headers=headers,
        max_size=None,
        sock=_small(server, send_buffer) if send_buffer else None,
    ) as connection:
        assert connection.subprotocol == (CONTROLLED if controlled else None)
        seen = Seen(connection)
        if controlled:
            await seen.until_told("hello")
        yield seen
