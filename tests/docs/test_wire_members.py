"""No member goes over the wire that the documents do not have: calls at each door, compared with
docs/messages.md and OpenAPI.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from outlive.frontends.jsonrpc.methods import methods
from outlive.protocols.jsonrpc.members import NOTIFICATIONS, ProcessMembers
from tests.docs.references import ALL_TOOLS, SentMember, result_members, sent_members, tool_members
from tests.docs.wire import NAMED_BY_CALLERS, Wire, members
from tests.mcp_http.raw_caller import RawCaller
from tests.rest.rest_caller import RestCaller
from tests.support.server import OutliveServer

_UNKNOWN = "0" * 26
_ERROR = {"code", "message", "data", "data.reason", "data.hint"}
_DETAILS = "data."  # whatever else an error knows; the page says so
_TOKEN = "Xr5tUv7wXy9zAb1cDe3fGh5iJk7lMn9oPq1r"
_PRINTS_A_KEY = f"t=ghp; echo $t'_{_TOKEN}'"
_SLEEPS_WITH_A_KEY = f"sleep 60; true ghp_{_TOKEN}"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OutliveServer]:
    """A server of these tests' own."""
    home = tmp_path_factory.mktemp("wm")
    environment = {"HOME": str(home), "SHELL": "/bin/bash"}
    with OutliveServer(home / "state", args=["--redact", "all"], env=environment) as server:
        yield server


def _with_parts(told: Mapping[str, SentMember]) -> set[str]:
    """Return the paths of members whose own members stand in backticks within their kind."""
    found = set(told)
    for name, member in told.items():
        path = [name]
        last = ""
        for part in re.findall(r"`[a-z_]+`|[()]", member.kind):
            if part == "(":
                path.append(last)
            elif part == ")":
                path.pop()
            else:
                last = part.strip("`")
                found.add(".".join(filter(None, [*path, last])))
    return found


_A_PROCESS = _with_parts(sent_members(ProcessMembers))


def _below(name: str) -> set[str]:
    return {f"{name}.{one}" for one in _A_PROCESS}


def _told_result(method: str) -> set[str]:
    told = _with_parts(result_members(method))
    return told | (_below("processes") if method == "list" else set())


def _told_notification(name: str) -> set[str]:
    told = _with_parts(sent_members(NOTIFICATIONS[name]))
    if name == "connected":
        told |= _below("processes")
    return told | (_below("process") if name == "event" else set())


def _live_once(wire: Wire) -> None:
    """Start, look at, steer and end processes in every way."""
    wire.call("events")
    line = f"{_PRINTS_A_KEY}; echo b >&2; exit 3"
    first = wire.call("execute", command=line, tags={"a": "b"}, profile="guarded")
    process_id = first["process_id"]
    wire.until("process.completed", process_id=process_id)
    for method in ("get", "read", "wait", "attach", "relabel", "remove"):
        wire.call(method, process_id=process_id)
    second = wire.call("execute", command="cat", stdin="pipe", concurrent=True)["process_id"]
    wire.call("get", process_id=second, stats=True)
    wire.call("write", process_id=second, data="x\n")
    wire.call("signal", process_id=second, signal="CONT")
    for action in ("PAUSE", "RESUME"):
        wire.call("control", process_id=second, type=action)
    wire.call("close_stdin", process_id=second)
    wire.until("process.completed", process_id=second)
    third = wire.call("execute", command=_SLEEPS_WITH_A_KEY, pty=True, concurrent=True)["process_id"]
    wire.call("get", process_id=third)
    wire.call("resize", process_id=third, rows=30, cols=90)
    queued = {"group": "one", "group_limit": 1, "concurrent": True}
    bound = {"on_limit": "block", "output_limit": 65536}
    fourth = wire.call("execute", command="seq 20000; sleep 60", **bound, **queued)["process_id"]
    fifth = wire.call("execute", command="true", **queued)["process_id"]
    wire.call("release", process_id=fourth, cursor="10.0")
    wire.call("close_output", process_id=fourth, type="stdout")
    for method in ("list", "nodes", "approvals"):
        wire.call(method)
    for process_id in (fifth, fourth, third):
        wire.call("control", process_id=process_id, type="CANCEL")
        wire.until("process.completed", process_id=process_id)


def _use_terminal(call: Callable[..., Any]) -> None:
    terminal_id = call("terminal_create")["terminal_id"]
    call("terminal_list")
    call("terminal_execute", terminal_id=terminal_id, command=_PRINTS_A_KEY, wait_s=20)
    call("terminal_read", terminal_id=terminal_id)
    call("terminal_write", terminal_id=terminal_id, text="true\n")
    call("terminal_resize", terminal_id=terminal_id, rows=30, cols=90)
    call("terminal_close", terminal_id=terminal_id)


@pytest.mark.thorough
def test_json_rpc_sends_no_member_that_is_not_in_the_documents(served: OutliveServer) -> None:
    with Wire.dialled(served.url) as wire:
        _live_once(wire)
        _use_terminal(wire.call)
        wire.call("get", process_id=_UNKNOWN)
    surplus = {method: seen - _told_result(method) for method, seen in wire.results.items()}
    surplus |= {name: seen - _told_notification(name) for name, seen in wire.notified.items()}
    assert wire.errors >= _ERROR
    surplus["error"] = {one for one in wire.errors - _ERROR if not one.startswith(_DETAILS)}
    assert {name: sorted(extra) for name, extra in surplus.items() if extra} == {}
    # And the other way round: what is told of a result that always has the same members does come.
    hiding: set[str] = set()
    for method in methods():
        told = result_members(method)
        if method in wire.results:
            assert {name for name, one in told.items() if one.is_always} <= wire.results[method], method
        if "redacted" in told and methods()[method].result is not ProcessMembers:
            hiding.add(method)
    assert {method for method, seen in wire.results.items() if "redacted" in seen} >= hiding | {"get"}
    assert "chunks.redacted" in wire.results["read"]
    assert "redacted" in wire.notified["process.output"]


@pytest.mark.thorough
def test_mcp_tools_answer_no_member_that_is_not_in_the_documents(
    served: OutliveServer, tmp_path: Path
) -> None:
    caller = RawCaller.begin(served.mcp_url)
    seen: dict[str, set[str]] = {}

    def call(name: str, **arguments: object) -> dict[str, Any]:
        result = caller.call(name, len(seen) + 1, official=True, **arguments).json["result"]
        structured: dict[str, Any] = result.get("structuredContent") or {}
        seen.setdefault(name, set()).update(members(structured))
        assert set(result) <= {"content", "structuredContent", "isError", "resultType"}, name
        return structured

    _use_terminal(call)
    ended = call("command_execute", command=_PRINTS_A_KEY, cwd=str(tmp_path))
    call("command_execute", command=_SLEEPS_WITH_A_KEY, background=True)
    call("command_execute_script", script_content=_PRINTS_A_KEY)
    call("command_get_status", command_id=ended["id"])
    call("command_list_history")
    call("execute_linux_shell_command", cmd="echo c")
    call("execute_background_linux_shell_command", cmd="sleep 60")
    call("list_processes")
    call("list")
    told = {str(tool["name"]): set(tool_members(tool)) for tool in ALL_TOOLS}
    surplus = {name: sorted(found - told[name]) for name, found in seen.items()}
    assert {name: extra for name, extra in surplus.items() if extra} == {}
    for name, found in seen.items():
        assert [one for one in told[name] - found if one.endswith("redacted")] == [], name


def _schema_members(schema: Mapping[str, Any], schemas: Mapping[str, Any], path: str = "") -> Iterator[str]:
    if "$ref" in schema:
        schema = schemas[schema["$ref"].rpartition("/")[2]]
    for one in (*schema.get("anyOf", ()), *schema.get("oneOf", ()), *schema.get("allOf", ())):
        yield from _schema_members(one, schemas, path)
    if "items" in schema:
        yield from _schema_members(schema["items"], schemas, path)
    for name, told in schema.get("properties", {}).items():
        here = f"{path}.{name}" if path else name
        yield here
        if name not in NAMED_BY_CALLERS:
            yield from _schema_members(told, schemas, here)


@pytest.mark.thorough
def test_rest_answers_no_member_that_is_not_in_openapi(served: OutliveServer) -> None:
    rest = RestCaller(served.rest_url)
    document = rest.call("GET", "/openapi.json").json
    surplus: dict[str, list[str]] = {}

    def call(method: str, path: str, template: str, body: object = None) -> Any:  # noqa: ANN401 -- JSON
        answer = rest.send(method, path, body).json
        content = document["paths"][template][method.lower()]["responses"]
        schemas = document["components"]["schemas"]
        told = {
            name
            for one in content.values()
            for media, form in one.get("content", {}).items()
            if "json" in media
            for name in _schema_members(form["schema"], schemas)
        }
        if extra := set(members(answer)) - told:
            surplus[f"{method} {template}"] = sorted(extra)
        return answer

    one, terminal = "/v1/processes/{process_id}", "/v1/terminals/{terminal_id}"
    started = call(
        "POST", "/v1/processes", "/v1/processes", {"command": f"cat; true ghp_{_TOKEN}", "stdin": "pipe"}
    )
    at = f"/v1/processes/{started['process_id']}"
    call("POST", f"{at}/signal", f"{one}/signal", {"signal": "CONT"})
    call("POST", f"{at}/control", f"{one}/control", {"action": "cancel"})
    call("GET", f"{at}/wait", f"{one}/wait")
    call("GET", f"{at}/output", f"{one}/output")
    call("GET", f"{at}/output?grep=x", f"{one}/output")
    call("GET", at, one)
    call("PATCH", at, one, {"tags": {"a": "b"}})
    call("GET", "/v1/processes?limit=1", "/v1/processes")
    call("DELETE", at, one)
    call("GET", at, one)  # a problem
    opened = call("POST", "/v1/terminals", "/v1/terminals", {})
    there = f"/v1/terminals/{opened['terminal_id']}"
    call("POST", f"{there}/execute", f"{terminal}/execute", {"command": _PRINTS_A_KEY, "wait_s": 20})
    call("GET", f"{there}/output", f"{terminal}/output")
    call("GET", there, terminal)
    call("GET", "/v1/terminals", "/v1/terminals")
    call("DELETE", there, terminal)
    ran = call("POST", "/api/sync/execute/", "/api/sync/execute/", {"command": _PRINTS_A_KEY})
    background = "/api/async/execute/background/"
    call("POST", background, background, {"command": _SLEEPS_WITH_A_KEY})
    call("GET", f"/v1/processes/{ran['process_id']}/output", f"{one}/output")
    call("GET", f"/v1/processes/{ran['process_id']}/output?grep=ghp", f"{one}/output")
    call("GET", f"/api/async/process/{ran['process_id']}/", "/api/async/process/{process_id}/")
    call("GET", "/api/async/processes/list/", "/api/async/processes/list/")
    for path in ("/healthz", "/readyz"):
        call("GET", path, path)
    assert surplus == {}
