"""The plain way to stream a command over WebSocket: readline, json.dumps and one send per line.

A complete little server with the same messages as ours (promises S0.1 to S0.9), written the way one
writes it first. It is the yardstick of the benchmarks and must stay plain: do not make it faster.
"""

import asyncio
import json
import os
import shutil
import signal
import sys
import uuid
from typing import Any

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

_MAX_LINE_CHARS = 8192
_SIGNALS = {"PAUSE": signal.SIGSTOP, "RESUME": signal.SIGCONT, "CANCEL": signal.SIGTERM}
_STATUS = {"PAUSE": "paused", "RESUME": "resumed", "CANCEL": "cancelled"}


class _Peer:
    """One connection and the one process that it may run at a time."""

    def __init__(self, connection: ServerConnection) -> None:
        self._connection = connection
        self._process: asyncio.subprocess.Process | None = None

    async def serve(self) -> None:
        """Answer requests until the peer leaves, then end what it started."""
        await self._notify("connected", {"session_id": str(uuid.uuid4()), "version": "1.0.0"})
        try:
            async with asyncio.TaskGroup() as tasks:
                try:
                    async for text in self._connection:
                        await self._answer(json.loads(text), tasks)
                finally:
                    self._signal(signal.SIGKILL)
        except* ConnectionClosed:
            pass

    async def _answer(self, request: dict[str, Any], tasks: asyncio.TaskGroup) -> None:
        params = request.get("params", {})
        match request.get("method"):
            case "execute" if self._process is not None:
                await self._refuse(request["id"], code=-32602, message="A process is already running")
            case "execute":
                self._process = await _start(params)
                state = {"status": "started", "pid": self._process.pid, "pgid": self._process.pid}
                await self._send({"jsonrpc": "2.0", "id": request["id"], "result": state})
                tasks.create_task(self._stream(self._process))
            case "control" if self._process is None:
                await self._refuse(request["id"], code=-32003, message="No process is running")
            case "control":
                verb = params["type"]
                self._signal(_SIGNALS[verb])
                await self._send({"jsonrpc": "2.0", "id": request["id"], "result": {"status": _STATUS[verb]}})
            case _:
                await self._refuse(request.get("id"), code=-32601, message="Unknown method")

    async def _stream(self, process: asyncio.subprocess.Process) -> None:
        state = {"pid": process.pid, "pgid": process.pid, "error": None}
        await self._notify("process.started", {"status": "started", "exit_code": None, **state})
        assert process.stdout is not None
        assert process.stderr is not None
        await asyncio.gather(
            self._forward(process.stdout, "stdout"),
            self._forward(process.stderr, "stderr"),
        )
        code = await process.wait()
        self._process = None
        status = "failed" if code else "completed"
        await self._notify("process.completed", {"status": status, "exit_code": code, **state})

    async def _forward(self, stream: asyncio.StreamReader, kind: str) -> None:
        while line := await stream.readline():
            text = line.decode("utf-8", errors="replace")
            is_long = len(text) > _MAX_LINE_CHARS
            if is_long:
                text = text[:_MAX_LINE_CHARS] + "...\n"
            await self._notify("process.output", {"type": kind, "data": text, "truncated": is_long})

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            os.killpg(self._process.pid, number)

    async def _notify(self, method: str, params: dict[str, object]) -> None:
        await self._send({"jsonrpc": "2.0", "method": method, "params": params})

    async def _refuse(self, request_id: object, *, code: int, message: str) -> None:
        error = {"code": code, "message": message}
        await self._send({"jsonrpc": "2.0", "id": request_id, "error": error})

    async def _send(self, message: dict[str, object]) -> None:
        await self._connection.send(json.dumps(message))


async def _start(params: dict[str, Any]) -> asyncio.subprocess.Process:
    shell = shutil.which("bash") or "/bin/sh"
    return await asyncio.create_subprocess_exec(
        *(params.get("argv") or [shell, "-c", params["command"]]),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )


async def _handle(connection: ServerConnection) -> None:
    await _Peer(connection).serve()


async def main(port: int) -> None:
    """Serve on a loopback port (0: any free one) until killed; print the port when listening."""
    async with serve(_handle, "127.0.0.1", port) as server:
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
