"""One start at each door: members as JSON-RPC names them go in, a verdict comes out.

A verdict is "accepted" or the error's slug. MCP tools name no slug in their answers (promise S1.7), and
neither does the exit code of the command line: there it is "refused". None: the door has no such option.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from outlive.client import Client, OutliveError
from tests.docs.wire import Wire
from tests.mcp_http.raw_caller import RawCaller
from tests.rest.rest_caller import RestCaller
from tests.support.server import run_outlive

ACCEPTED, REFUSED = "accepted", "refused"
Members = Mapping[str, Any]
Door = Callable[[Members], str | None]

_RUN = {
    "cwd",
    "env",
    "env_secrets",
    "profile",
    "limits",
    "backend",
    "image",
    "isolation",
    "umask",
    "timeout",
} | {
    "grace",
    "tags",
    "group",
    "group_limit",
    "unknown",
}
_START = _RUN | {
    "stdin",
    "pty",
    "rows",
    "cols",
    "merge",
    "output_limit",
    "on_limit",
    "after_exit",
    "grant",
    "project",
    "key",
}


def _has(members: Members, *names: str, options: set[str]) -> bool:
    return members.keys() <= {*names, *options}


def json_rpc(wire: Wire) -> Door:
    """`execute`: a script comes with the interpreter as argv, so it is no third way there."""

    def start(members: Members) -> str | None:
        asked = dict(members)
        if "script" in asked:
            if "argv" in asked:
                return None
            asked |= {} if "command" in asked else {"argv": ["/bin/bash"]}
        answer = wire.call("execute", **asked, detach=True, concurrent=True, output="none")
        return str(answer["data"]["reason"]) if "code" in answer else ACCEPTED

    return start


def rest_door(rest: RestCaller) -> Door:
    """POST /v1/processes."""

    def start(members: Members) -> str:
        answer = rest.send("POST", "/v1/processes", dict(members))
        return ACCEPTED if answer.status in {200, 201} else str(answer.json["slug"])

    return start


def _tool(tools: RawCaller, name: str, arguments: Members) -> str:
    result = tools.call(name, **arguments).json["result"]
    return REFUSED if result["isError"] else ACCEPTED


def lean(tools: RawCaller) -> Door:
    """`run`, one of the tools for agents."""

    def start(members: Members) -> str | None:
        if not _has(members, "command", "argv", "script", "stdin", "pty", "key", options=_RUN):
            return None
        return _tool(tools, "run", {**members, "wait_s": 0})

    return start


def command_tools(tools: RawCaller) -> Door:
    """`command_execute`, and `command_execute_script` for a script."""

    def start(members: Members) -> str | None:
        if _has(members, "command", options=_RUN) and "command" in members:
            return _tool(tools, "command_execute", {**members, "background": True})
        if _has(members, "script", options=_RUN) and "script" in members:
            asked = {name: value for name, value in members.items() if name != "script"}
            asked |= {"script_content": members["script"], "background": True}
            return _tool(tools, "command_execute_script", asked)
        return None

    return start


def shell_tool(tools: RawCaller) -> Door:
    """`execute_linux_shell_command`."""

    def start(members: Members) -> str | None:
        if "command" not in members or not _has(members, "command", options=_RUN):
            return None
        asked = {name: value for name, value in members.items() if name != "command"}
        return _tool(
            tools, "execute_linux_shell_command", asked | {"cmd": members["command"], "background": True}
        )

    return start


def python_client(client: Client) -> Door:
    """`Client.start`, which has a type for each option: what has another one is not tried."""

    def start(members: Members) -> str | None:
        asked = dict(members)
        command = asked.pop("command", None) or asked.pop("argv", None)
        if isinstance(members.get("argv"), str) or not _is_typed(command, asked):
            return None
        renamed = {
            {"timeout": "timeout_s", "grace": "grace_s"}.get(name, name): asked[name] for name in asked
        }
        try:
            client.start(command, **renamed)
        except OutliveError as error:
            return error.code
        return ACCEPTED

    return start


def _is_typed(command: object, options: Members) -> bool:
    """Tell whether the client's signature takes them; its umask is a number."""
    words = command if isinstance(command, list) else [command]
    if not all(isinstance(word, str) for word in words) or not options.keys() <= _START - {
        "unknown",
        "umask",
    }:
        return False
    maps = [options.get(name, {}) for name in ("env", "env_secrets", "tags", "limits")]
    if not all(isinstance(one, dict) for one in maps) or not isinstance(options.get("cwd"), str | None):
        return False
    return all(isinstance(value, str | None) for one in maps[:3] for value in one.values())


_NUMBERS = {"timeout", "group_limit", "grace"}
_TEXTS = {"group", "cwd", "profile", "backend", "image", "isolation", "grant", "key"}


def cli(state_dir: Path) -> Door:
    """`outlive run -d`, where every value is a word: a number and its text are the same there."""

    def start(members: Members) -> str | None:
        words = ["run", "-d", "--no-start"]
        for name, value in members.items():
            if name == "command" and isinstance(value, str):
                words += ["-c", value]
            elif name == "tags" and isinstance(value, dict):
                words += [word for key, one in value.items() for word in ("--tag", f"{key}={one}")]
            elif name == "limits" and isinstance(value, dict):
                words += [word for key, one in value.items() for word in ("--limit", f"{key}={one}")]
            elif (name in _TEXTS and isinstance(value, str)) or (
                name in _NUMBERS and type(value) in {int, float}
            ):
                words.append(f"--{name.replace('_', '-')}={value}")
            else:
                return None
        is_sayable = not any("\0" in word for word in words) and "-c" in words
        if not is_sayable or any(isinstance(one, int) for one in members.get("tags", {}).values()):
            return None
        done = run_outlive(*words, state_dir=state_dir)
        return REFUSED if done.returncode else ACCEPTED

    return start
