"""Lists at every door where thousands have finished, and others have thousands running: the event loop is not
held up.

How long it is held is counted, not timed: the most calls of functions between two turns of the event loop.
"""

import asyncio
import json
import os
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from http.client import HTTPConnection
from pathlib import Path
from types import FrameType

import pytest
from websockets.sync.client import unix_connect

from outlive.app import Application
from outlive.config import resolve
from outlive.core.layout import Layout
from outlive.core.process import Owner
from outlive.engine import Process
from outlive.store.registry import Registry
from tests.frontends.serving import Served, served
from tests.keeper.house import House
from tests.store.rows import a_row

_FINISHED = 20_000
_RUNNING = 2_000
_PAGE = 50
_TURN = asyncio.Handle._run.__code__
_Door = Callable[[], bytes]


class _LongestTurn:
    """Counts what the event loop's thread calls, from each turn's begin; BlockBuster watches what it waits
    for.
    """

    def __init__(self) -> None:
        self.calls = 0
        self._calls = 0

    @contextmanager
    def counted(self) -> Iterator[None]:
        sys.setprofile(self._note)
        try:
            yield
        finally:
            sys.setprofile(None)

    def _note(self, frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code is _TURN:
            self._calls = 0
        elif event in {"call", "c_call"}:
            self._calls += 1
            self.calls = max(self.calls, self._calls)


async def _finish(layout: Layout, count: int, owner: Owner) -> None:
    """Write rows of finished processes, as if servers before had run them."""
    now = datetime.now(tz=UTC)
    async with Registry(layout.registry) as registry:
        registry.put(
            *(a_row(one, owner=owner, created_at=now, ended_at=now, is_detached=True) for one in range(count))
        )
        await registry.flush()


class _UnixConnection(HTTPConnection):
    """HTTP over a Unix socket: there the server knows its caller without looking for it in /proc."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=20)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self._path)


def _http(at: Served, path: str, message: object = None, session: str = "") -> tuple[str, bytes]:
    """Return the MCP session and the body of an answer."""
    with closing(_UnixConnection(at.unix_path)) as peer:
        headers = {"Content-Type": "application/json", "Mcp-Session-Id": session} if message else {}
        headers = {name: text for name, text in headers.items() if text}
        peer.request("POST" if message else "GET", path, json.dumps(message) if message else None, headers)
        answer = peer.getresponse()
        body = answer.read()
        assert answer.status == 200, body
        return answer.headers.get("Mcp-Session-Id", ""), body


def _doors(at: Served) -> dict[str, _Door]:
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    session, _ = _http(at, "/mcp", {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello})

    def rpc() -> bytes:
        with unix_connect(at.unix_path, uri="ws://localhost/ws/mcp") as peer:
            peer.send(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "list", "params": {"limit": _PAGE}}))
            while True:
                message = peer.recv(timeout=20)
                if isinstance(message, str) and json.loads(message).get("id") == 1:
                    return message.encode()

    def rest(query: str) -> _Door:
        return lambda: _http(at, f"/v1/processes?limit={_PAGE}{query}")[1]

    def mcp(tool: str, **arguments: object) -> _Door:
        params = {"name": tool, "arguments": arguments}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        return lambda: _http(at, "/mcp", message, session)[1]

    return {
        "jsonrpc list": rpc,
        "rest": rest(""),
        "rest by text": rest("&q=echo"),
        "mcp list": mcp("list", all=True, limit=_PAGE),
        "mcp list_processes": mcp("list_processes"),
        "mcp command_list_history": mcp("command_list_history", limit=_PAGE),
    }


async def _longest_turns(house: House, *, finished: int, running: int) -> dict[str, int]:
    """Return the calls in the longest turn while each door lists, where others have so many running."""
    layout = Layout(str(house.state_dir))
    await _finish(layout, finished, Owner(principal=f"uid:{os.getuid()}"))
    flags = {"state_dir": layout.root, "retention_count": str(2 * _FINISHED), "audit_off": "on"}
    settings = resolve(flags, {}, working_folder="/").settings
    # The product makes it before there is an event loop.
    application = await asyncio.to_thread(Application, settings, layout, working_folder="/")
    async with (
        application as app,
        served(app.asgi, house.state_dir) as at,
    ):
        table = app._engine._table.processes
        for one in range(running):
            row = a_row(_FINISHED + one, owner=Owner(principal="uid:other", connection_id="c"))
            table.enter(Process.from_stored(row, "/nowhere"))
        turns = {}
        for name, ask in (await asyncio.to_thread(_doors, at)).items():
            shown = await asyncio.to_thread(ask)  # what serves a door is loaded by its first request
            assert (b"echo %d" % (finished - 1) in shown) == (name != "mcp list_processes"), name
            turns[name] = await _least(ask)
        return turns


async def _least(ask: _Door) -> int:
    """Return the least of some longest turns: what else the server does now and then is no part of a list."""
    found = []
    for _ in range(5):
        longest = _LongestTurn()
        with longest.counted():
            await asyncio.to_thread(ask)
        found.append(longest.calls)
    return min(found)


@pytest.fixture
def houses(tmp_path: Path) -> Iterator[tuple[House, House]]:
    """Two keepers, started outside of the event loop."""
    with House(tmp_path / "short") as short, House(tmp_path / "long") as long:
        yield short, long


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.promise("W.list.flat")
async def test_no_list_holds_the_event_loop_for_what_has_finished_or_what_others_run(
    houses: tuple[House, House],
) -> None:
    short = await _longest_turns(houses[0], finished=2 * _PAGE, running=1)
    long = await _longest_turns(houses[1], finished=_FINISHED, running=_RUNNING)
    # A look at each would be as many calls at least.
    assert {door: calls for door, calls in long.items() if calls > short[door] + _RUNNING // 2} == {}
