"""Run inside of a command: tries every verb of every door on processes of its token's principal, and notes
the answers.

Arguments: the folder of `websockets`, and a JSON object of what there is (see `test_reaching`). Each answer
is the slug of the refusal, or "ok"; a refusal of another kind stands there as it is. Nothing of outlive's is
imported.
"""

import http.client
import json
import os
import sys
from collections.abc import Callable
from typing import Any

sys.path.append(sys.argv[1])
from websockets.sync.client import connect

_at: dict[str, Any] = json.loads(sys.argv[2])
_AUTH = {"Authorization": f"Bearer {_at['token']}"}


def _request(port: str, method: str, path: str, body: object = None, **headers: str) -> tuple[int, str]:
    raw = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    kind = {"Content-Type": "application/json"} if raw is not None else {}
    connection = http.client.HTTPConnection("127.0.0.1", _at["ports"][port], timeout=30)
    connection.request(method, path, body=raw, headers={**kind, **_AUTH, **headers})
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def _rest(method: str, path: str, body: object = None) -> str:
    status, content = _request("rest", method, path, body)
    return "ok" if status < 300 else str(json.loads(content).get("slug") or json.loads(content).get("error"))


def _rpc(method: str, **params: object) -> str:
    with connect(f"ws://127.0.0.1:{_at['ports']['jsonrpc']}/ws/mcp", additional_headers=_AUTH) as socket:
        socket.send(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))
        while True:
            message = json.loads(socket.recv(timeout=30))
            if message.get("id") == 1:
                return "ok" if "result" in message else str(message["error"]["data"]["reason"])


def _socket(process_id: str, message: str | bytes, *, then: str = "") -> str:
    address = f"ws://127.0.0.1:{_at['ports']['rest']}/ws/terminal/{process_id}{then}"
    with connect(address, additional_headers=_AUTH, subprotocols=["outlive.terminal.v1"]) as socket:  # type: ignore[list-item]
        socket.send(message)
        socket.send(json.dumps({"type": "where"}))
        said = "ok"
        try:
            while True:  # a notice comes before the answer to what was asked after it, or soon behind that
                frame = socket.recv(timeout=2)
                if isinstance(frame, str) and (told := json.loads(frame)).get("type") == "notice":
                    said = str(told["reason"])
        except TimeoutError:
            return said


def _modern(method: str, about: str, /, **params: object) -> tuple[int, str]:
    """Ask as MCP revision 2026-07-28 says; `about` is the tool, or the task."""
    meta: dict[str, Any] = {
        "io.modelcontextprotocol/clientInfo": {"name": "attack", "version": "1"},
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {
            "extensions": {"io.modelcontextprotocol/tasks": {}} if method.startswith("tasks/") else {}
        },
    }
    asked = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
    headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": about}
    headers["Accept"] = "application/json, text/event-stream"
    return _request("mcp", "POST", "/mcp", asked, **headers)


def _tool(name: str, **arguments: object) -> str:
    status, content = _modern("tools/call", name, name=name, arguments=arguments)
    lines = [one[6:] for one in content.splitlines() if one.startswith("data: ")] or [content]
    message = json.loads(lines[-1])
    if status >= 300 or "error" in message:
        return f"{status} {content[:300]}"
    text = json.dumps(message["result"])
    if not message["result"].get("isError"):
        return "ok"
    return "profile_too_weak" if "weaker than" in text else text


def _cancel_task(task_id: str) -> str:
    _, content = _modern("tasks/cancel", task_id, taskId=task_id)
    if "weaker than" in content:
        return "profile_too_weak"
    return "ok" if '"result"' in content else content[:300]


def _cancel_request(request_id: object) -> str:
    """Cancel another client's tools/call, in its session."""
    asked = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": request_id}}
    status, content = _request("mcp", "POST", "/mcp", asked, **{"Mcp-Session-Id": _at["session_id"]})
    if status < 300:
        return "ok"
    return "profile_too_weak" if (status, "weaker than" in content) == (403, True) else content[:300]


def _of_process(one: str, pid: int) -> dict[str, str]:
    v1 = f"/v1/processes/{one}"
    return {
        "POST stdin": _rest("POST", f"{v1}/stdin", b"x\n"),
        "POST stdin?eof": _rest("POST", f"{v1}/stdin?eof=true", b""),
        "POST resize": _rest("POST", f"{v1}/resize", {"rows": 5, "cols": 6}),
        "POST signal": _rest("POST", f"{v1}/signal", {"signal": "CONT"}),
        "PATCH": _rest("PATCH", v1, {"tags": {"mark": "rest"}}),
        **{f"POST {one}": _rest("POST", f"{v1}/control", {"action": one}) for one in ("pause", "resume")},
        "write": _rpc("write", process_id=one, data="x\n"),
        "resize": _rpc("resize", process_id=one, rows=7, cols=8),
        "signal": _rpc("signal", process_id=one, signal="CONT", whole_tree=True),
        "relabel": _rpc("relabel", process_id=one, tags={"mark": "rpc"}),
        "release": _rpc("release", process_id=one, cursor="0"),
        **{one_: _rpc("control", process_id=one, action=one_) for one_ in ("PAUSE", "RESUME")},
        "ws text": _socket(one, b"x\n"),
        "ws resize": _socket(one, json.dumps({"type": "resize", "rows": 9, "cols": 10})),
        "ws opening": _socket(one, b"", then="?rows=11&cols=12"),
        "ws signal": _socket(one, json.dumps({"type": "signal", "name": "CONT"})),
        "mcp send": _tool("send", id=one, text="x\n"),
        "mcp pause": _tool("control", id=one, action="pause"),
        "mcp resume": _tool("control", id=one, action="resume"),
        "mcp signal": _tool("control", id=one, action="signal", signal="CONT"),
        "ws eof": _socket(one, json.dumps({"type": "eof"})),
        "close_stdin": _rpc("close_stdin", process_id=one),
        "rerun": _rpc("rerun", process_id=one),
        "POST rerun": _rest("POST", f"{v1}/rerun", {}),
        "POST files": _rest("POST", f"{v1}/files?name=planted-{os.getpid()}&folder=/tmp", b"x"),
    }


def _of_line(one: str) -> dict[str, str]:
    """Try to move what waits for its group's turn."""
    return {
        "move": _rpc("move", process_id=one, places=-1),
        "POST move": _rest("POST", f"/v1/processes/{one}/move", {"places": -1}),
    }


def _of_terminals(one: str, other: str, third: str) -> dict[str, str]:
    # Each execute has a terminal of its own: the one after it would find that busy for a moment.
    v1 = f"/v1/terminals/{one}"
    return {
        "terminal POST execute": _rest("POST", f"{v1}/execute", {"command": "echo broken in"}),
        "terminal_execute": _rpc("terminal_execute", terminal_id=other, command="echo broken in"),
        "terminal POST input": _rest("POST", f"{v1}/input", {"text": "x"}),
        "terminal POST resize": _rest("POST", f"{v1}/resize", {"rows": 5, "cols": 6}),
        "terminal_write": _rpc("terminal_write", terminal_id=one, keys=["ctrl-c"]),
        "terminal_resize": _rpc("terminal_resize", terminal_id=one, rows=7, cols=8),
        "mcp terminal_execute": _tool("terminal_execute", terminal_id=third, command="echo broken in"),
        "mcp terminal_write": _tool("terminal_write", terminal_id=one, keys=["ctrl-c"]),
        "mcp terminal_resize": _tool("terminal_resize", terminal_id=one, rows=7, cols=8),
    }


def _of_services(folder: str) -> dict[str, str]:
    """Try to change services, one of which lives: what it declares, its end, and its next start."""
    at: dict[str, Any] = {"folder": folder}
    anew: dict[str, Any] = {**at, "services": {"web": {"command": "echo broken in", "profile": "sealed"}}}
    found = {}
    for verb, body in (("up", anew), ("restart", at), ("down", at)):
        found[f"rpc services {verb}"] = _rpc(f"services_{verb}", **body)
        found[f"rest services {verb}"] = _rest("POST", f"/v1/services/{verb}", body)
    return found


def _ends(processes: dict[str, list[Any]], terminals: list[str]) -> dict[str, str]:
    """Try what ends something, each on a process of its own."""
    back_end = "/api/async/process"
    ways: dict[str, Callable[[str, int], str]] = {
        "POST cancel": lambda one, _: _rest(
            "POST", f"/v1/processes/{one}/control", {"action": "cancel", "grace": 0}
        ),
        "DELETE": lambda one, _: _rest("DELETE", f"/v1/processes/{one}?force=true"),
        "terminate": lambda one, _: _rest("POST", f"{back_end}/terminate/{one}/"),
        "terminate_by_pid": lambda _, pid: _rest("POST", f"{back_end}/terminate_by_pid/?pid={pid}"),
        "CANCEL": lambda one, _: _rpc("control", process_id=one, action="CANCEL", grace=0),
        "remove": lambda one, _: _rpc("remove", process_id=one, force=True),
        "close_output": lambda one, _: _rpc("close_output", process_id=one, type="stdout"),
        "mcp cancel": lambda one, _: _tool("control", id=one, action="cancel", grace=0),
        "mcp stop": lambda one, _: _tool("stop", ids=[one], grace=0),
        "mcp terminate_process": lambda _, pid: _tool("terminate_process", pid=pid),
        "mcp tasks/cancel": lambda one, _: _cancel_task(one),
        "mcp notifications/cancelled": lambda _, __: _cancel_request(_at["request_id"]),
    }
    found = {name: way(*processes[name]) for name, way in ways.items()}
    closes: tuple[tuple[str, Callable[[str], str]], ...] = (
        ("terminal DELETE", lambda one: _rest("DELETE", f"/v1/terminals/{one}")),
        ("terminal_close", lambda one: _rpc("terminal_close", terminal_id=one)),
        ("mcp terminal_close", lambda one: _tool("terminal_close", terminal_id=one)),
    )
    return found | {name: way(one) for (name, way), one in zip(closes, terminals, strict=True)}


_found = (
    _of_process(*_at["process"])
    | _of_line(_at["queued"])
    | _of_terminals(*_at["terminals"])
    | _of_services(_at["services"])
    | _ends(_at["ended"], _at["terminals"])
)
with open(_at["out"] + ".new", "w", encoding="utf-8") as _file:
    json.dump(_found, _file)
os.rename(_at["out"] + ".new", _at["out"])
