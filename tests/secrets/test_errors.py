"""An error may repeat any word of its request: no door sends a secret back in one."""

import json
import os
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from websockets.sync.client import unix_connect

from tests.mcp_http.raw_caller import request
from tests.rest.rest_caller import RestCaller
from tests.support.server import OutliveServer, outlive_command

SECRET = "Qr5tUv7wXy9zAb1cDe3fGh5iJk7lMn9oPq1r"
TOKEN = f"ghp_{SECRET}"  # as a person pastes it by mistake, in the place of any word

pytestmark = [pytest.mark.thorough, pytest.mark.promise("A.redacted")]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OutliveServer]:
    with OutliveServer(tmp_path_factory.mktemp("served") / "state") as server:
        yield server


def _check(answer: str) -> None:
    assert SECRET not in answer, answer
    assert SECRET[:12] not in answer, answer  # nor its beginning: a sentence may cut a long word


@pytest.mark.parametrize(
    ("method", "params"),
    [
        (TOKEN, {}),
        ("list", {"since": TOKEN}),
        ("get", {"process_id": TOKEN}),
        ("execute", {"command": "true", "name": f"{TOKEN} "}),
        ("execute", {"command": "true", "cwd": f"/nowhere/{TOKEN}"}),
        ("execute", {"command": "true", "isolation": TOKEN}),
        ("execute", {"argv": [TOKEN]}),
        ("execute", {"command": "true", "profile": TOKEN}),
        ("execute", {"command": "true", "backend": TOKEN}),
        ("execute", {"command": "true", "env_secrets": {f"{TOKEN}=": "x"}}),
        ("attach", {"process_id": "x", "cursor": TOKEN}),
        ("terminal_create", {"shell": TOKEN}),
    ],
)
def test_json_rpc_sends_no_secret_back(served: OutliveServer, method: str, params: dict[str, Any]) -> None:
    with unix_connect(f"{served.state_dir}/server.sock", uri="ws://localhost/ws/mcp") as peer:
        peer.send(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))
        while '"id":1' not in (answer := str(peer.recv(timeout=20))):
            pass
        assert '"error"' in answer, answer
        _check(answer)


def test_a_value_of_the_request_is_hidden_in_its_error(served: OutliveServer) -> None:
    """It looks like no secret: only the request says that it is one."""
    value = "correct-horse-battery"
    params = {"command": "true", "name": f"1{value}", "env_secrets": {"A": value}}
    with unix_connect(f"{served.state_dir}/server.sock", uri="ws://localhost/ws/mcp") as peer:
        peer.send(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "execute", "params": params}))
        while '"id":1' not in (answer := str(peer.recv(timeout=20))):
            pass
    assert '"error"' in answer
    assert value not in answer


def test_a_returning_client_sees_no_secret_of_its_address(served: OutliveServer) -> None:
    for query in (f"cursor={TOKEN}", f"output={TOKEN}", f"cursor=a:{TOKEN},b:1"):
        uri = f"ws://localhost/ws/mcp?{query}"
        with unix_connect(f"{served.state_dir}/server.sock", uri=uri) as peer:
            _check(str(peer.recv(timeout=20)))


@pytest.mark.parametrize(
    ("method", "path", "body", "headers"),
    [
        ("GET", f"/v1/processes?since={TOKEN}", None, {}),
        ("GET", f"/v1/processes?limit={TOKEN}", None, {}),
        ("GET", f"/v1/processes/{TOKEN}", None, {}),
        ("GET", f"/v1/processes/{TOKEN}/output?cursor={TOKEN}", None, {}),
        ("POST", "/v1/processes", {"command": "true", "name": f"{TOKEN} "}, {}),
        ("POST", "/v1/processes", {"command": "true", "stdin": TOKEN}, {}),
        ("POST", "/v1/processes", b"{}", {"Content-Type": TOKEN}),
        ("POST", "/v1/processes", {TOKEN: 1}, {}),
    ],
)
def test_rest_sends_no_secret_back(
    served: OutliveServer, method: str, path: str, body: object, headers: dict[str, str]
) -> None:
    answer = RestCaller(served.rest_url).send(method, path, body, headers=headers)
    assert answer.status >= 400
    _check(answer.body.decode())


@pytest.mark.parametrize(
    ("method", "params"),
    [
        (TOKEN, {}),
        ("tools/call", {"name": TOKEN, "arguments": {}}),
        ("tools/call", {"name": "run", "arguments": {"command": "true", "stdin": TOKEN, TOKEN: 1}}),
        ("tools/call", {"name": "read", "arguments": {"id": TOKEN}}),
        ("tools/call", {"name": "stop", "arguments": {"ids": [TOKEN, "p99"]}}),
        ("tools/call", {"name": "control", "arguments": {"id": TOKEN, "action": TOKEN}}),
        ("resources/read", {"uri": f"outlive://{TOKEN}"}),
        ("prompts/get", {"name": TOKEN}),
    ],
)
def test_mcp_sends_no_secret_back(served: OutliveServer, method: str, params: dict[str, Any]) -> None:
    for version in (
        {},
        {"MCP-Protocol-Version": "2025-11-25", "Accept": "application/json, text/event-stream"},
    ):
        message = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        headers = {"Content-Type": "application/json", **version}
        answer = request(f"{served.mcp_url}?tools=lean", "POST", body=message, headers=headers)
        _check(answer.body.decode())


@pytest.mark.parametrize(
    "words",
    [["logs", TOKEN], ["run", "--cwd", f"/nowhere/{TOKEN}", "true"], ["list", "--since", TOKEN], [TOKEN]],
)
def test_the_command_line_prints_no_secret_back(served: OutliveServer, words: list[str]) -> None:
    done = subprocess.run(
        [*outlive_command(), *words],
        env={**os.environ, "OUTLIVE_STATE_DIR": str(served.state_dir)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode
    _check(done.stdout + done.stderr)
