"""A cancel that comes before there is anything to end: before the tool begins, while the command starts."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Message

from outlive.config import Settings
from outlive.core.command import Command
from outlive.core.layout import Layout
from outlive.core.process import Owner
from outlive.engine import Engine, Process, ProcessFilter
from outlive.frontends.mcp.http.endpoint import McpEndpoint
from outlive.frontends.mcp.http.methods import McpRequest, Result
from outlive.frontends.mcp.tools import Caller, Toolbox
from outlive.policy.access import Access, Scope
from outlive.server.access.guard import ACCESS
from tests.mcp_http.raw_caller import BACKGROUND
from tests.support.processes import Marker, wait_for

_PRINCIPAL = "early"
_ACCESS = Access(principal=_PRINCIPAL, scope=Scope.RUN)


class _HeldToolbox(Toolbox):
    """The real tools, whose background starts wait at a gate."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine, Settings())
        self.reached, self.gate = asyncio.Event(), asyncio.Event()

    async def start_background(self, arguments: Mapping[str, object], caller: Caller) -> Process:
        self.reached.set()
        await self.gate.wait()
        return await super().start_background(arguments, caller)


@dataclass(slots=True)
class _House:
    """A door without a socket: requests are ASGI calls."""

    service: McpEndpoint
    toolbox: _HeldToolbox
    session_id: str = ""
    answers: list[asyncio.Task["_Answer"]] = field(default_factory=list)
    access: Access = _ACCESS  # whose the next requests are

    def post(self, accept: str = "application/json", **message: Any) -> "asyncio.Task[_Answer]":  # noqa: ANN401 -- JSON
        """Begin a request; its answer is awaited where the test wants it."""
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        headers = {"content-type": "application/json", "accept": accept, "mcp-session-id": self.session_id}
        task = asyncio.create_task(_ask(self.service, body, headers, self.access))
        self.answers.append(task)
        return task

    def call(
        self,
        name: str,
        accept: str = "application/json",
        **arguments: object,
    ) -> "asyncio.Task[_Answer]":
        params: dict[str, object] = {"name": name, "arguments": arguments}
        return self.post(accept, id=7, method="tools/call", params=params)

    async def cancel(self, *, status: int = 204) -> None:
        params = {"requestId": "7", "reason": "too early"}
        assert (await self.post(method="notifications/cancelled", params=params)).status == status


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes


async def _ask(service: McpEndpoint, body: bytes, headers: Mapping[str, str], access: Access) -> _Answer:
    incoming: asyncio.Queue[Message] = asyncio.Queue()
    incoming.put_nowait({"type": "http.request", "body": body})
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    raw = [(name.encode(), text.encode()) for name, text in headers.items() if text]
    scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": raw, "state": {ACCESS: access}}
    async with asyncio.timeout(20):
        await service(scope, incoming.get, send)
    known = {name.decode(): text.decode() for name, text in sent[0]["headers"]}
    return _Answer(sent[0]["status"], known, b"".join(message["body"] for message in sent[1:]))


@pytest.fixture
async def house(engine: Engine, tmp_path: Path) -> AsyncIterator[_House]:
    """A door that has just been opened, with a session of an earlier server."""
    toolbox = _HeldToolbox(engine)
    earlier = _House(McpEndpoint(toolbox, Layout(str(tmp_path)), max_message_bytes=1 << 20), toolbox)
    await earlier.service.open()
    opened = await earlier.post(id=0, method="initialize")
    await earlier.service.close()
    toolbox = _HeldToolbox(engine)
    house = _House(McpEndpoint(toolbox, Layout(str(tmp_path)), max_message_bytes=1 << 20), toolbox)
    house.session_id = opened.headers["mcp-session-id"]
    await house.service.open()
    yield house
    await house.service.close()
    await asyncio.gather(*house.answers, return_exceptions=True)


async def _started(engine: Engine, marker: Marker) -> list[str]:
    records = await engine.queries.list(ProcessFilter(principal=_PRINCIPAL))
    return [record.command for record in records if marker.seconds in record.command]


@pytest.mark.promise("S4.6", "S4.6.result")
async def test_a_cancel_before_the_tool_begins_keeps_the_command_from_starting(
    house: _House, engine: Engine, marker: Marker, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, method = asyncio.Event(), house.service.methods["tools/call"]

    async def held(request: McpRequest) -> Result:
        await gate.wait()
        return await method.answer(request)

    monkeypatch.setitem(house.service.methods, "tools/call", replace(method, answer=held))
    called = house.call("execute_linux_shell_command", cmd=marker.sleep)
    await asyncio.sleep(0)  # it is received
    await house.cancel()
    gate.set()
    answer = json.loads((await called).body)
    assert answer["result"]["content"][0]["text"] == "[Process was terminated]"
    assert (answer["id"], answer["result"]["isError"]) == (7, True)
    assert await _started(engine, marker) == []


@pytest.mark.promise("S4.6", "S4.6.result")
async def test_a_cancel_just_before_the_start_ends_what_then_starts(
    house: _House, engine: Engine, marker: Marker
) -> None:
    called = house.call(BACKGROUND, "text/event-stream", cmd=f"exec {marker.sleep}")
    async with asyncio.timeout(10):
        await house.toolbox.reached.wait()
    await house.cancel()
    house.toolbox.gate.set()
    events = (await called).body.decode().split("\n\n")
    assert events[0].startswith("event: process_started\n")
    last = json.loads(events[-2].partition("data: ")[2])
    assert last["result"]["content"][0]["text"] == "[Process was terminated]\n[exit code -15]"
    assert last["result"]["isError"] is True
    assert await _started(engine, marker) == [f"exec {marker.sleep}"]
    assert marker.pids() == []


@pytest.mark.promise("A.reach_inside")
@pytest.mark.parametrize("profile", ["guarded", "open"])
async def test_what_lives_in_a_stronger_profile_cancels_no_request_that_may_start_anything(
    house: _House, engine: Engine, marker: Marker, profile: str
) -> None:
    """No process has the request's weaker profile yet.

    It was marked as cancelled, and ended what it started.
    """
    home = await engine.starts.start(
        Command(line="sleep 60", profile=profile), owner=Owner(principal=_PRINCIPAL)
    )
    called = house.call(BACKGROUND, "text/event-stream", cmd=f"exec {marker.sleep}")
    async with asyncio.timeout(10):
        await house.toolbox.reached.wait()
    house.access = replace(_ACCESS, inside=home.process_id)
    is_equal = profile == "open"
    await house.cancel(status=204 if is_equal else 403)
    house.toolbox.gate.set()
    if is_equal:
        assert "[Process was terminated]" in (await called).body.decode()
    else:
        (pid,) = await wait_for(marker, 1)
        await house.cancel(status=403)
        assert marker.pids() == [pid]
        house.access = _ACCESS
        await house.cancel()
        await called
    assert marker.pids() == []
    await engine.controls.end(home, grace_s=0, note="")


@pytest.mark.promise("S4.6")
async def test_a_cancel_of_an_answered_request_harms_no_later_one(house: _House) -> None:
    """The same id again, as `curl` users have it: the table forgets what was answered."""
    for _ in range(2):
        answer = json.loads((await house.call("execute_linux_shell_command", cmd="echo on")).body)
        assert answer["result"]["content"][0]["text"] == "on"
        await house.cancel()
