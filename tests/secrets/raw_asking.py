"""Asks for a process's secrets at every door, and prints what came of each: run by a person, or inside of a
command.

Argument: a JSON object of what there is (see `test_raw_reads`). Prints {door: [slug of the refusal or "ok",
whether the secret was seen]}.
"""

import http.client
import json
import os
import pty
import subprocess
import sys
from typing import Any

from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

_at: dict[str, Any] = json.loads(sys.argv[1])
_AUTH = {"Authorization": f"Bearer {_at['token']}"}
_ONE = f"/v1/processes/{_at['process']}"
_Answer = tuple[str, bool]


def _has_secret(said: str | bytes) -> bool:
    return _at["secret"] in (said if isinstance(said, str) else said.decode("utf-8", "replace"))


def _rest(path: str) -> _Answer:
    connection = http.client.HTTPConnection("127.0.0.1", _at["ports"]["rest"], timeout=30)
    connection.request("GET", path, headers=_AUTH)
    answer = connection.getresponse()
    body = answer.read().decode()
    return ("ok" if answer.status == 200 else json.loads(body)["slug"]), _has_secret(body)


def _rpc(method: str, **params: object) -> _Answer:
    with connect(f"ws://127.0.0.1:{_at['ports']['jsonrpc']}/ws/mcp", additional_headers=_AUTH) as socket:
        socket.send(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))
        said, seen = "", False
        while not said or (said == "ok" and method in {"attach", "execute"}):
            text = str(socket.recv(timeout=30))
            message = json.loads(text)
            seen = seen or _has_secret(text)
            if message.get("id") == 1:
                said = "ok" if "result" in message else message["error"]["data"]["reason"]
            if message.get("method") == "process.completed":
                break
        return said, seen


def _socket(path: str, *protocols: str) -> _Answer:
    address, seen = f"ws://127.0.0.1:{_at['ports']['rest']}{path}", False
    try:
        with connect(address, additional_headers=_AUTH, subprotocols=list(protocols) or None) as socket:  # type: ignore[arg-type]
            for message in socket:
                seen = seen or _has_secret(message)
    except InvalidStatus as error:
        body = (error.response.body or b"").decode()
        return json.loads(body).get("slug") or json.loads(body)["error"], _has_secret(body)
    return "ok", seen


def _command_line(*words: str) -> _Answer:
    """Run the command line at a terminal, or without one where it should show a token."""
    environment = {**os.environ, "OUTLIVE_TOKEN": _at["token"]}
    command = [*_at["outlive"], *words]
    if not _at["at_terminal"]:
        done = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
        said, code = done.stdout + done.stderr, done.returncode
    else:
        pid, ours = pty.fork()
        if pid == 0:
            os.execve(command[0], command, environment)
        said = b""
        try:
            while more := os.read(ours, 65536):
                said += more
        except OSError:  # that is how Linux tells that the other side is closed
            pass
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    refused = "scope_missing" if b"ecrets" in said and code else said.decode("utf-8", "replace")
    return ("ok" if code == 0 else refused), _has_secret(said)


def _all() -> dict[str, _Answer]:
    process = _at["process"]
    found = {
        "rest output": _rest(f"{_ONE}/output?raw=true"),
        "rest bytes": _rest(f"{_ONE}/output?raw=true&format=raw"),
        "rest range": _rest(f"{_ONE}/output?raw=true&stream=stdout&start=0&end=60"),
        "rest follow": _rest(f"{_ONE}/follow?raw=true"),
        "rest follow socket": _socket(f"{_ONE}/follow?raw=true"),
        "rest approvals": _rest("/v1/approvals?raw=true"),
        "jsonrpc read": _rpc("read", process_id=process, raw=True),
        "jsonrpc attach": _rpc("attach", process_id=process, raw=True),
        "jsonrpc execute": _rpc("execute", command=_at["line"], raw=True),
        "jsonrpc approvals": _rpc("approvals", raw=True),
        "terminal": _socket(f"/ws/terminal/{process}?raw=1", "outlive.terminal.v1"),
        "cli logs": _command_line("logs", "--raw", "--state-dir", _at["state_dir"], process),
        "cli logs matching": _command_line(
            "logs", "--raw", "--grep", "ghp", "--state-dir", _at["state_dir"], process
        ),
    }
    return {door: (said, seen) for door, (said, seen) in found.items()}


found = json.dumps(_all())
if out := _at.get("out"):
    with open(f"{out}.new", "w") as file:
        file.write(found)
    os.rename(f"{out}.new", out)
print(found)
