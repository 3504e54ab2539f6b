"""One caller of the seven terminal calls for each door: the same words in, the same members out."""

import json
from abc import ABC, abstractmethod
from typing import Any

import anyio
import anyio.to_thread

from tests.mcp_http.raw_caller import RawCaller
from tests.rest.rest_caller import RestCaller
from tests.support.rpc import RpcFailure, connect
from tests.support.server import OutliveServer

DOORS = ("mcp", "jsonrpc", "rest")
Members = dict[str, Any]


class Refused(Exception):
    """A call was refused; `text` is all that was said about it."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class Caller(ABC):
    """A principal at one door of a server, which may die and come again."""

    def __init__(self, server: OutliveServer) -> None:
        self._server = server

    @abstractmethod
    async def call(self, name: str, **arguments: object) -> Members:
        """Make a call by its name without "terminal_"; return the members of the answer."""

    async def create(self, **arguments: object) -> str:
        """Open a terminal."""
        return str((await self.call("create", **arguments))["terminal_id"])

    async def run(self, terminal_id: str, command: str, **arguments: object) -> Members:
        """Run a command."""
        return await self.call("execute", terminal_id=terminal_id, command=command, **arguments)

    async def ready(self, terminal_id: str, **arguments: object) -> Members:
        """Read until the terminal is at its prompt."""
        with anyio.fail_after(20):
            while True:
                text = await self.call("read", terminal_id=terminal_id, **arguments)
                if text["state"] == "ready":
                    return text
                await anyio.sleep(0.02)


class _Mcp(Caller):
    async def call(self, name: str, **arguments: object) -> Members:
        def ask() -> Members:
            caller = RawCaller.begin(self._server.mcp_url)
            answer = caller.call(f"terminal_{name}", 1, official=True, **arguments)
            result: Members = answer.json["result"]
            return result

        result = await anyio.to_thread.run_sync(ask)
        if result["isError"]:
            raise Refused(result["content"][0]["text"])
        members: Members = result["structuredContent"]
        return members


class _JsonRpc(Caller):
    async def call(self, name: str, **arguments: object) -> Members:
        async with connect(self._server.url) as client:
            try:
                return await client.request(f"terminal_{name}", **arguments)
            except RpcFailure as failure:
                raise Refused(json.dumps(failure.error)) from failure


_PATHS = {
    "list": ("GET", ""),
    "create": ("POST", ""),
    "execute": ("POST", "/execute"),
    "read": ("GET", "/output"),
    "write": ("POST", "/input"),
    "resize": ("POST", "/resize"),
    "close": ("DELETE", ""),
}


class _Rest(Caller):
    async def call(self, name: str, **arguments: object) -> Members:
        method, path = _PATHS[name]
        terminal_id = arguments.pop("terminal_id", None)
        place = f"/v1/terminals{'' if terminal_id is None else f'/{terminal_id}'}{path}"

        def ask() -> Members:
            caller = RestCaller(self._server.rest_url)
            if method == "POST":
                answer = caller.send(method, place, arguments)
            else:
                answer = caller.send(method, place, None, headers=None, **arguments)
            if answer.status >= 400:
                raise Refused(answer.body.decode())
            return answer.json

        return await anyio.to_thread.run_sync(ask)


def caller_of(door: str, server: OutliveServer) -> Caller:
    """Return a caller at a door."""
    if door == "mcp":
        return _Mcp(server)
    return _JsonRpc(server) if door == "jsonrpc" else _Rest(server)
