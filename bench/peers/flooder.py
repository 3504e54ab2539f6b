"""Somebody who wants to keep others out: `python -m bench.peers.flooder KIND PORT SECONDS [TOKEN]`.

Prints "begun" when the flood is at its height and, at its end, one JSON line with what was counted. A process
of its own, so that who measures is not slowed down by who floods.
"""

import asyncio
import base64
import contextlib
import json
import os
import resource
import struct
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence

_HOST = "127.0.0.1"
_MANY = 10_000
_GIGABYTE = 1 << 30
_BLOCK = bytes(1 << 18)


class Flood:
    """One flood: where it goes, until when, and what it counts."""

    def __init__(self, port: int, seconds: float) -> None:
        """Flood `port` for some seconds."""
        self.port = port
        self.until = time.monotonic() + seconds
        self.counted: Counter[str] = Counter()

    @property
    def is_on(self) -> bool:
        """Whether there is time left."""
        return time.monotonic() < self.until

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect."""
        reader, writer = await asyncio.open_connection(_HOST, self.port)
        self.counted["connections"] += 1
        return reader, writer

    async def websocket(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect and upgrade; the greeting is left unread."""
        reader, writer = await self.open()
        key = base64.b64encode(os.urandom(16)).decode()
        writer.write(
            f"GET /ws/mcp HTTP/1.1\r\nHost: {_HOST}:{self.port}\r\nConnection: Upgrade\r\nUpgrade: "
            "websocket\r\n"
            f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n\r\n".encode()
        )
        await reader.readuntil(b"\r\n\r\n")
        return reader, writer


def frame(payload: bytes, opcode: int = 0x81) -> bytes:
    """Return a client's frame, masked with zeros (RFC 6455, section 5.2)."""
    size = len(payload)
    if size < 126:
        head = struct.pack("!BB", opcode, 0x80 | size)
    elif size < 1 << 16:
        head = struct.pack("!BBH", opcode, 0x80 | 126, size)
    else:
        head = struct.pack("!BBQ", opcode, 0x80 | 127, size)
    return head + bytes(4) + payload


def announce() -> None:
    """Say that the flood is at its height."""
    print("begun", flush=True)


async def idle(flood: Flood) -> None:
    """Ten thousand connections that say nothing."""
    writers = []
    for _ in range(_MANY):
        with contextlib.suppress(OSError):
            writers.append((await flood.open())[1])
        if len(writers) == _MANY // 4:
            announce()
    await asyncio.sleep(max(0.0, flood.until - time.monotonic()))


async def slow_heads(flood: Flood) -> None:
    """A thousand and a half requests whose heads come byte by byte (slowloris)."""

    async def one() -> None:
        while flood.is_on:
            with contextlib.suppress(OSError):
                _, writer = await flood.open()
                writer.write(f"GET /health HTTP/1.1\r\nHost: {_HOST}:{flood.port}\r\nX: ".encode())
                while flood.is_on:
                    await asyncio.sleep(0.5)
                    writer.write(b"x")
                    await writer.drain()
            flood.counted["thrown out"] += flood.is_on

    await _side_by_side(one, 1500)


async def bodies(flood: Flood) -> None:
    """Bodies of a gigabyte, announced and not, on every path that takes one."""

    async def one(path: str, *, is_announced: bool) -> None:
        while flood.is_on:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                _, writer = await flood.open()
                length = f"Content-Length: {_GIGABYTE}" if is_announced else "Transfer-Encoding: chunked"
                writer.write(
                    f"POST {path} HTTP/1.1\r\nHost: {_HOST}:{flood.port}\r\nContent-Type: "
                    "application/json\r\n"
                    f"Accept: application/json, text/event-stream\r\n{length}\r\n\r\n".encode()
                )
                sent = 0
                while sent < _GIGABYTE and flood.is_on:
                    writer.write(_BLOCK if is_announced else b"40000\r\n" + _BLOCK + b"\r\n")
                    await writer.drain()
                    sent += len(_BLOCK)
                    flood.counted["bytes"] += len(_BLOCK)
            flood.counted["thrown out"] += flood.is_on

    announce()
    paths = ("/mcp", "/v1/processes", "/api/sync/execute/", "/health")
    await asyncio.gather(*(one(path, is_announced=way) for path in paths for way in (True, False)))


async def frames(flood: Flood) -> None:
    """Frames too large, messages of endless fragments, and a hundred thousand tiny ones at a time."""

    async def one(pieces: Sequence[bytes]) -> None:
        while flood.is_on:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                _, writer = await flood.websocket()
                while flood.is_on:
                    for piece in pieces:
                        writer.write(piece)
                        await writer.drain()
                    flood.counted["rounds"] += 1
            flood.counted["thrown out"] += flood.is_on

    announce()
    large = [struct.pack("!BBQ", 0x81, 0xFF, _GIGABYTE), bytes(4), *([_BLOCK] * 64)]
    fragments = [frame(b"x" * 60_000, 0x01), *([frame(b"x" * 60_000, 0x00)] * 300)]
    tiny = [frame(b"{}") * 10_000]
    pings = [frame(b"", 0x89) * 10_000]
    await asyncio.gather(*map(one, (large, fragments, tiny, pings)))


async def deep(flood: Flood) -> None:
    """JSON a million brackets deep, on every door."""
    text = b"[" * 500_000 + b"]" * 500_000
    params = b'{"jsonrpc":"2.0","id":1,"method":"list","params":' + text + b"}"

    async def post(path: str) -> None:
        while flood.is_on:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                reader, writer = await flood.open()
                writer.write(
                    f"POST {path} HTTP/1.1\r\nHost: {_HOST}:{flood.port}\r\nContent-Type: "
                    "application/json\r\n"
                    f"Accept: application/json, text/event-stream\r\nConnection: close\r\n"
                    f"Content-Length: {len(params)}\r\n\r\n".encode()
                    + params
                )
                status = (await reader.readline()).split()[1].decode()
                flood.counted[f"{path} {status}"] += 1
                writer.close()

    async def call() -> None:
        while flood.is_on:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                reader, writer = await flood.websocket()
                while flood.is_on:
                    writer.write(frame(params))
                    await reader.read(65536)
                    flood.counted["messages"] += 1

    announce()
    await asyncio.gather(post("/mcp"), post("/v1/processes"), post("/api/sync/execute/"), call())


async def starts(flood: Flood) -> None:
    """A hundred thousand commands, asked for as fast as the sockets take it, from fifty connections."""
    text = json.dumps(
        {"jsonrpc": "2.0", "id": 1, "method": "execute", "params": {"argv": ["true"], "concurrent": True}}
    )
    batch = frame(text.encode()) * 100

    async def one() -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            reader, writer = await flood.websocket()

            async def ask() -> None:
                for _ in range(20):
                    writer.write(batch)
                    await writer.drain()
                    flood.counted["asked"] += 100

            asking = asyncio.create_task(ask())
            while flood.is_on:
                async with asyncio.timeout_at(
                    asyncio.get_running_loop().time() + flood.until - time.monotonic()
                ):
                    received = await reader.read(1 << 18)
                flood.counted["completed"] += received.count(b'"process.completed"')
                if not received:
                    break
            asking.cancel()

    announce()
    with contextlib.suppress(TimeoutError):
        await _side_by_side(one, 50)


async def requests(flood: Flood) -> None:
    """Requests as fast as they are answered, from a hundred connections."""
    request = f"GET /v1/processes HTTP/1.1\r\nHost: {_HOST}:{flood.port}\r\n\r\n".encode() * 10

    async def one() -> None:
        while flood.is_on:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                reader, writer = await flood.open()
                while flood.is_on:
                    writer.write(request)
                    answers = await reader.read(1 << 18)
                    if not answers:
                        break
                    flood.counted["served"] += answers.count(b"HTTP/1.1 200")
                    flood.counted["told to wait"] += answers.count(b"HTTP/1.1 429")

    announce()
    await _side_by_side(one, 100)


async def _side_by_side(one: Callable[[], Awaitable[None]], count: int) -> None:
    async def run(index: int) -> None:
        if index == count - 1:
            announce()
        await one()

    await asyncio.gather(*(run(index) for index in range(count)))


KINDS: dict[str, Callable[[Flood], Coroutine[None, None, None]]] = {
    "idle": idle,
    "slow_heads": slow_heads,
    "bodies": bodies,
    "frames": frames,
    "deep": deep,
    "starts": starts,
    "requests": requests,
}


def main(kind: str, port: int, seconds: float) -> None:
    """Flood, and print what was counted."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    flood = Flood(port, seconds)

    async def run() -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds + 5):
                await KINDS[kind](flood)

    asyncio.run(run())
    print(json.dumps(flood.counted), flush=True)
    os._exit(0)  # ten thousand transports need not be closed one by one


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
