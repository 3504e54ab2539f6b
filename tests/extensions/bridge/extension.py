"""An extension of document 003, literally: it answers the four requests as the document shows, and nothing
else.

It dials, and dials again some seconds after it was cut off. What it is asked to type is kept, not run: an
extension of the document cannot see what comes of it either.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed

Message = dict[str, Any]
_NOTE = "Note: Direct output capture requires custom pseudoterminal implementation."
PATIENCE_S = 60.0


class DocumentExtension:
    """One VS Code window with its terminals, by id; `executed` has (terminal id, command) in the order they
    came.
    """

    def __init__(self) -> None:
        self.terminals: dict[str, str] = {}
        self.executed: list[tuple[str, str]] = []
        self.received: list[Message] = []
        self.connections = 0
        self.socket: ClientConnection | ServerConnection | None = None
        self._changed = asyncio.Condition()

    async def serve(self, socket: ClientConnection | ServerConnection) -> None:
        """Answer until the socket closes."""
        self.socket = socket
        self.connections += 1
        await self._tell()
        try:
            async for frame in socket:
                message: Message = json.loads(frame)
                self.received.append(message)
                for answer in self.answers(message):
                    await socket.send(answer)
                await self._tell()
        except ConnectionClosed:
            pass
        finally:
            self.socket = None
            await self._tell()

    def answers(self, message: Message) -> list[str]:
        """Return the frames that answer a request."""
        request_id, data = message["id"], message.get("data", {})
        match message["type"]:
            case "ping":
                return [json.dumps({"type": "pong", "id": request_id})]
            case "create_terminal":
                name = data.get("terminalName") or f"MCP Terminal {len(self.terminals) + 1}"
                self.terminals[request_id] = name
                return [_answer("terminal_created", request_id, terminalId=request_id, terminalName=name)]
            case "execute":
                terminal_id = data.get("terminalId")
                if (
                    terminal_id not in self.terminals
                ):  # without a known one it makes one, named by the request
                    terminal_id = request_id
                    self.terminals[terminal_id] = f"MCP Terminal {len(self.terminals) + 1}"
                self.executed.append((terminal_id, data["command"]))
                return [
                    _answer("success", request_id, output=f"Command executed: {data['command']}\n{_NOTE}")
                ]
            case "close_terminal":
                terminal_id = data["terminalId"]
                if self.terminals.pop(terminal_id, None) is None:
                    return [_answer("error", request_id, error=f"Terminal {terminal_id} not found")]
                return [_answer("success", request_id, output=f"Terminal {terminal_id} closed")]
            case other:
                return [_answer("error", request_id, error=f"Unknown message type: {other}")]

    async def until(self, is_so: Callable[[], bool], *, patience_s: float = PATIENCE_S) -> None:
        """Return when something is so; looked at after every message, connect and disconnect."""
        async with asyncio.timeout(patience_s), self._changed:
            await self._changed.wait_for(is_so)

    async def say(self, frame: str | bytes) -> None:
        """Send one frame as it is."""
        assert self.socket is not None, "it is not connected"
        await self.socket.send(frame)

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()


@contextlib.asynccontextmanager
async def dialling(
    url: str,
    extension: DocumentExtension | None = None,
    *,
    redial_s: float = 0.1,
    **options: Any,  # noqa: ANN401 -- what the library takes
) -> AsyncIterator[DocumentExtension]:
    """Have an extension dial `url`, and dial again, while the block runs.

    It is connected when the block begins.
    """
    window = extension or DocumentExtension()

    async def dial() -> None:
        while True:
            with contextlib.suppress(OSError, ConnectionClosed, EOFError):
                async with connect(url, proxy=None, compression=None, max_size=None, **options) as socket:
                    await window.serve(socket)
            await asyncio.sleep(redial_s)

    task = asyncio.create_task(dial())
    try:
        before = window.connections
        await window.until(lambda: window.connections > before)
        yield window
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _answer(kind: str, request_id: str, **data: str) -> str:
    return json.dumps({"type": kind, "id": request_id, "data": data})
