"""Python programs that run a command and count its lines: the plain way, and by our client, both forms.

    python -m bench.peers.readers plain|blocking|asyncio URL COMMAND

Prints one line of JSON: lines, and nanoseconds from the request to the completion.
"""

import asyncio
import json
import sys
import time
from collections.abc import Callable
from types import MappingProxyType

from websockets.sync.client import connect

from outlive.client import AsyncClient, Client, Output


def _read_plainly(url: str, command: str) -> tuple[int, int]:
    """Read one message a line, as one writes it first."""
    lines = 0
    with connect(url, compression=None, proxy=None, max_size=None) as websocket:
        websocket.recv()
        begun = time.perf_counter_ns()
        request = {"jsonrpc": "2.0", "id": 1, "method": "execute", "params": {"command": command}}
        websocket.send(json.dumps(request))
        while True:
            message = json.loads(websocket.recv())
            match message.get("method"):
                case "process.output":
                    lines += message["params"]["data"].count("\n")
                case "process.completed":
                    return lines, time.perf_counter_ns() - begun


def _read_blocking(url: str, command: str) -> tuple[int, int]:
    lines = 0
    with Client(url=url) as client:
        client.list(limit=1)
        begun = time.perf_counter_ns()
        for item in client.start(command).follow():
            lines += item.data.count(b"\n") if isinstance(item, Output) else 0
        return lines, time.perf_counter_ns() - begun


def _read_asyncio(url: str, command: str) -> tuple[int, int]:
    async def read() -> tuple[int, int]:
        lines = 0
        async with AsyncClient(url=url) as client:
            await client.list(limit=1)
            begun = time.perf_counter_ns()
            process = await client.start(command)
            async for item in process.follow():
                lines += item.data.count(b"\n") if isinstance(item, Output) else 0
            return lines, time.perf_counter_ns() - begun

    return asyncio.run(read())


READERS: MappingProxyType[str, Callable[[str, str], tuple[int, int]]] = MappingProxyType(
    {"plain": _read_plainly, "blocking": _read_blocking, "asyncio": _read_asyncio}
)


if __name__ == "__main__":
    kind, url, command = sys.argv[1:]
    lines, elapsed_ns = READERS[kind](url, command)
    print(json.dumps({"lines": lines, "elapsed_ns": elapsed_ns}))
