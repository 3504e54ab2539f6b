"""Tasks over HTTP: they outlive a killed server, answer only who declares them, and serve the official
client.
"""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import anyio
import pytest
from mcp import types
from mcp.client.client import Client
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.types import CallToolResult, TextContent

from tests.mcp_http.modern_caller import TASKS, ModernCaller, ended
from tests.mcp_http.raw_caller import RawCaller
from tests.support.fixtures import ServerFactory
from tests.support.processes import Gate, Marker, wait_dead, wait_for
from tests.support.server import OutliveServer

pytestmark = pytest.mark.thorough

_HASTY = ("--wait", "0.05")
_METHODS: tuple[tuple[str, dict[str, object]], ...] = (
    ("tasks/get", {}),
    ("tasks/update", {"inputResponses": {}}),
    ("tasks/cancel", {}),
)


@pytest.fixture
def hasty(serve: ServerFactory) -> OutliveServer:
    """A server that waits for 50 ms before a call becomes a task."""
    return serve(*_HASTY)


@pytest.fixture
def modern(hasty: OutliveServer) -> ModernCaller:
    """A caller that declares the extension."""
    return ModernCaller(hasty.mcp_url)


@pytest.mark.promise("M.tasks.durable", "M.tasks")
def test_a_task_outlives_killed_servers_with_its_whole_result(
    hasty: OutliveServer, modern: ModernCaller, gate: Gate
) -> None:
    """Killed twice; the command goes on and ends while there is no server, and all is there."""
    command = f"seq 1 20000; {gate.wait}; seq 20001 40000; echo err >&2; exit 7"
    created = modern.call("command_execute", command=command, max_output=1 << 20)
    assert (created["resultType"], created["status"]) == ("task", "working")
    task_id = created["taskId"]
    hasty.kill()
    hasty.start()
    assert modern.result("tasks/get", taskId=task_id)["status"] == "working"
    hasty.kill()
    gate.open()
    hasty.start()
    task = ended(modern, task_id)
    result = task["result"]["structuredContent"]
    assert result["stdout"] == "".join(f"{number}\n" for number in range(1, 40001))
    assert (result["stderr"], result["return_code"], result["completed"]) == ("err\n", 7, True)
    assert (task["status"], task["result"]["isError"]) == ("completed", False)
    assert (task["createdAt"], task["taskId"]) == (created["createdAt"], task_id)
    assert task["ttlMs"] > 29 * 86400 * 1000  # as long as the setting `retention` says, counted from the end


@pytest.mark.promise("M.tasks.cancel", "M.tasks.durable")
def test_a_task_is_cancelled_by_a_server_that_has_not_started_it(
    hasty: OutliveServer, modern: ModernCaller, marker: Marker
) -> None:
    task_id = modern.call("run", command=marker.sleep)["taskId"]
    (pid,) = anyio.run(wait_for, marker, 1)
    hasty.restart()
    assert modern.result("tasks/cancel", taskId=task_id) == {"resultType": "complete"}
    anyio.run(wait_dead, pid)
    task = ended(modern, task_id)
    assert (task["status"], task["statusMessage"]) == ("cancelled", "Cancelled by the client.")
    assert not {"result", "error"} & task.keys()
    assert modern.result("tasks/cancel", taskId=task_id) == {"resultType": "complete"}


@pytest.mark.promise("M.tasks.declared")
def test_only_who_declares_the_extension_has_tasks(modern: ModernCaller, gate: Gate) -> None:
    capabilities = modern.result("server/discover")["capabilities"]
    assert capabilities["extensions"] == {TASKS: {}}
    plain = replace(modern, extensions={})
    answered = plain.call("run", command=gate.wait)
    assert answered["resultType"] == "complete"
    assert " running, " in answered["content"][0]["text"]
    task_id = modern.call("run", command=gate.wait)["taskId"]
    for method, more in _METHODS:
        status, error = plain.error(method, taskId=task_id, **more)
        assert (status, error["code"]) == (400, -32021)
        assert error["data"] == {"requiredCapabilities": {"extensions": {TASKS: {}}}}


@pytest.mark.promise("M.tasks.declared", "M.handshake")
def test_no_handshake_revision_knows_the_extension(hasty: OutliveServer, gate: Gate) -> None:
    old = RawCaller.begin(hasty.mcp_url)
    params = {
        "protocolVersion": "2025-11-25",
        "capabilities": {"extensions": {TASKS: {}}},
        "clientInfo": {"name": "t", "version": "1"},
    }
    initialize = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    assert "extensions" not in old.post(initialize, official=True).json["result"]["capabilities"]
    running = old.call("run", official=True, command=gate.wait).text
    assert re.match(r"\[p\d+ running, ", running), running
    listed = old.call("list_processes").json["result"]["structuredContent"]["processes"]
    task_id = listed[-1]["process_id"]
    for method, more in _METHODS:
        asked = {"jsonrpc": "2.0", "id": 2, "method": method, "params": {"taskId": task_id, **more}}
        assert old.post(asked, official=True).json["error"]["code"] == -32601


@pytest.mark.promise("M.tasks.own", "M.tasks.headers")
def test_unknown_tasks_and_wrong_headers_are_refused(modern: ModernCaller, gate: Gate) -> None:
    task_id = modern.call("run", command=gate.wait)["taskId"]
    for method, more in _METHODS:
        for unknown in ("nobody", "01m7zc00000000000000000000", "../../etc"):
            status, error = modern.error(method, taskId=unknown, **more)
            assert (status, error["code"]) == (400, -32602)
        for wrong in ("run", task_id[:-1], task_id.upper()):
            lying = replace(modern, headers={"Mcp-Name": wrong})
            status, error = lying.error(method, taskId=task_id, **more)
            assert (status, error["code"]) == (400, -32020)
    for params in ({}, {"taskId": 1}, {"taskId": None}):
        assert modern.error("tasks/get", **params)[1]["code"] == -32602
    for gone in ("tasks/list", "tasks/result"):
        assert modern.error(gone, taskId=task_id) == (
            404,
            {"code": -32601, "message": "Method not found", "data": gone},
        )
    assert modern.result("tasks/get", taskId=task_id)["status"] == "working"


class _Created(types.Result):
    """A CreateTaskResult, as a client reads it."""

    result_type: Literal["task"] = "task"
    task_id: str


class _TaskParams(types.RequestParams):
    task_id: str


class _GetTask(types.Request[_TaskParams, Literal["tasks/get"]]):
    name_param = "taskId"
    method: Literal["tasks/get"] = "tasks/get"
    params: _TaskParams


class _Got(types.Result):
    status: str
    poll_interval_ms: int = 0
    result: dict[str, Any] | None = None


class _TasksExtension(ClientExtension):
    """What a host does: it polls, and its caller never learns that there was a task."""

    identifier = TASKS

    def __init__(self) -> None:
        self.seen: list[str] = []

    def claims(self) -> Sequence[ResultClaim[Any]]:
        return [ResultClaim(result_type="task", model=_Created, resolve=self._resolve)]

    async def _resolve(self, created: _Created, context: ClaimContext) -> CallToolResult:
        self.seen.append(created.task_id)
        while True:
            got = await context.session.send_request(
                _GetTask(params=_TaskParams(task_id=created.task_id)), _Got
            )
            if got.status != "working":
                return CallToolResult.model_validate(got.result)
            await asyncio.sleep(got.poll_interval_ms / 1000)


@pytest.mark.promise("M.tasks", "M.tasks.result", "M.official")
async def test_the_official_client_waits_out_a_task_unseen(hasty: OutliveServer, gate: Gate) -> None:
    extension = _TasksExtension()
    async with Client(hasty.mcp_url, mode="2026-07-28", extensions=[extension]) as client:
        results: list[CallToolResult] = []

        async def call() -> None:
            command = f"{gate.wait}; echo out; echo err >&2; exit 2"
            results.append(await client.call_tool("execute_linux_shell_command", {"cmd": command}))

        with anyio.fail_after(30):
            async with anyio.create_task_group() as group:
                group.start_soon(call)
                while not extension.seen:  # noqa: ASYNC110 -- the extension has no event to wait for
                    await anyio.sleep(0.01)
                gate.open()
    (result,) = results
    (block,) = result.content
    assert isinstance(block, TextContent)
    assert (block.text, result.is_error) == ("[exit code 2]\nout\n\nSTDERR:\nerr", True)
