"""One control at each door: an operation and its members as JSON-RPC names them go in, a verdict comes out.

Verdicts are those of `tests.doors.starts`. The process, or the terminal, is named in the way of each door.
"""

from collections.abc import Callable, Mapping
from typing import Any

from outlive.client import Client, OutliveError
from tests.docs.wire import Wire
from tests.doors.starts import ACCEPTED, REFUSED, Members
from tests.mcp_http.raw_caller import RawCaller
from tests.rest.rest_caller import RestCaller

# Operation, id of the process or the terminal, members.
ControlDoor = Callable[[str, str, Members], str | None]

_TERMINAL_PATHS = {"create": ("POST", ""), "execute": ("POST", "/execute"), "read": ("GET", "/output")} | {
    "write": ("POST", "/input"),
    "resize": ("POST", "/resize"),
}
_PATHS = {
    "control": ("POST", "/v1/processes/{}/control"),
    "signal": ("POST", "/v1/processes/{}/signal"),
    "resize": ("POST", "/v1/processes/{}/resize"),
    "relabel": ("PATCH", "/v1/processes/{}"),
    "wait": ("GET", "/v1/processes/{}/wait"),
    "approve": ("POST", "/v1/approvals/{}/approve"),
    "deny": ("POST", "/v1/approvals/{}/deny"),
}


def json_rpc_controls(wire: Wire) -> ControlDoor:
    """The methods; PAUSE, RESUME and CANCEL are in capitals there (promise S0.10)."""

    def ask(operation: str, name: str, members: Members) -> str:
        asked = dict(members)
        if isinstance(action := asked.get("action"), str):
            asked["action"] = action.upper()
        if operation != "terminal_create":
            asked["terminal_id" if operation.startswith("terminal_") else "process_id"] = name
        answer = wire.call(operation, **asked)
        return str(answer["data"]["reason"]) if "code" in answer and "data" in answer else ACCEPTED

    return ask


def rest_controls(rest: RestCaller) -> ControlDoor:
    """The routes; what is asked of a GET stands in the address, where null cannot be said."""

    def ask(operation: str, name: str, members: Members) -> str | None:
        if operation.startswith("terminal_"):
            method, rest_of_it = _TERMINAL_PATHS[operation.removeprefix("terminal_")]
            path = "/v1/terminals" if operation == "terminal_create" else f"/v1/terminals/{name}{rest_of_it}"
        else:
            method, path = _PATHS[operation][0], _PATHS[operation][1].format(name)
        if method == "GET":
            query = {{"wait_s": "timeout"}.get(member, member): value for member, value in members.items()}
            if "unknown" in query or None in query.values():
                return None
            answer = rest.send(method, path, **query)
        else:
            answer = rest.send(method, path, dict(members))
        return ACCEPTED if answer.status < 300 else str(answer.json["slug"])

    return ask


def tool_controls(tools: RawCaller) -> ControlDoor:
    """`control` and `wait` of the lean set, and the terminal tools."""

    def ask(operation: str, name: str, members: Members) -> str | None:
        asked: Mapping[str, Any]
        if operation.startswith("terminal_"):
            tool, asked = (
                operation,
                {**members, **({} if operation == "terminal_create" else {"terminal_id": name})},
            )
        elif operation == "control":
            tool, asked = "control", {"id": name, **members}
        elif operation == "signal" and not members.keys() & {"whole_tree", "unknown"}:
            if members.get("signal") is None:
                return (
                    None  # it interrupts, which ends what others of these tests use (promise S4.13.lenient)
                )
            tool, asked = "control", {"id": name, "action": "signal", **members}
        elif operation == "wait" and not members.keys() & {"until", "unknown"}:
            tool, asked = "wait", {"ids": [name], **members}
        else:
            return None
        return REFUSED if tools.call(tool, **asked).json["result"]["isError"] else ACCEPTED

    return ask


def client_controls(client: Client) -> ControlDoor:
    """The methods of a process, where the signature takes the values."""

    def ask(operation: str, name: str, members: Members) -> str | None:
        typed: dict[str, dict[str, Any]] = {
            "resize": {"rows": int, "cols": int},
            "signal": {"signal": (int, str), "whole_tree": bool},
        }
        wanted = typed.get(operation)
        if wanted is None or any(type(members.get(one)) is bool for one in ("rows", "cols", "signal")):
            return None
        needed = {"rows", "cols"} if operation == "resize" else {"signal"}
        if not needed <= members.keys() <= wanted.keys():
            return None
        if not all(isinstance(value, wanted[one]) for one, value in members.items()):
            return None
        try:
            process = client.get(name)
            if operation == "resize":
                process.resize(members["rows"], members["cols"])
            else:
                process.signal(members["signal"], whole_tree=members.get("whole_tree", False))
        except OutliveError as error:
            return error.code
        return ACCEPTED

    return ask
