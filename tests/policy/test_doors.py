"""Rules and approvals through the doors of a real server: command line, REST, JSON-RPC and MCP."""

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from outlive.client import Client, CommandRefused, InvalidState, Output, Process
from tests.attacks.attacking import create_token
from tests.mcp_http.modern_caller import ModernCaller
from tests.rest.rest_caller import RestCaller
from tests.support.rpc import RpcFailure, connect
from tests.support.server import OutliveServer, outlive_command, run_outlive

pytestmark = pytest.mark.thorough

_RULES = {
    "OUTLIVE_DENY": "rm -rf *",
    "OUTLIVE_ASK": "touch,tee",
    "OUTLIVE_POLICY_OPAQUE": "allow",
    "MCP_API_KEY": "",
}


_FROM_WITHIN = """
import json, urllib.error, urllib.request
request = urllib.request.Request("{url}", b'{body}', {headers}, method="POST")
try:
    print(urllib.request.urlopen(request).status)
except urllib.error.HTTPError as error:
    print(error.code, json.load(error)["slug"])
"""


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OutliveServer]:
    """One server with rules for all tests of this module."""
    with OutliveServer(tmp_path_factory.mktemp("a") / "state", env=_RULES) as running:
        yield running


@pytest.fixture
def at_hand(asking: OutliveServer) -> Iterator[Client]:
    """A client on the Unix socket."""
    with Client(asking.state_dir, start_server=False) as opened:
        yield opened


def _outlive(server: OutliveServer, *words: str) -> subprocess.CompletedProcess[str]:
    return run_outlive(*words, state_dir=server.state_dir)


def test_the_command_line_lists_approves_and_denies(
    asking: OutliveServer, at_hand: Client, tmp_path: Path
) -> None:
    wanted = [at_hand.start(["touch", str(tmp_path / name)], title="innocent") for name in "ab"]
    listed = _outlive(asking, "approvals")
    assert f"'touch' '{tmp_path}/a'" in listed.stdout  # the words, not the title
    assert "The rule 'touch' asks" in listed.stdout
    document = json.loads(_outlive(asking, "approvals", "--json").stdout)["approvals"]
    assert [one["argv"][0] for one in document] == ["touch", "touch"]
    assert document[0]["process_id"] == wanted[0].process_id
    assert wanted[0].process_id in _outlive(asking, "inspect", wanted[0].process_id).stdout
    said = _outlive(asking, "approve", document[0]["digest"][:12])
    assert (said.returncode, said.stderr) == (0, f"{wanted[0].process_id} is approved\n")
    assert wanted[0].wait(20).exit_code == 0
    assert _outlive(asking, "deny", wanted[1].process_id, "--reason", "no", "--json").returncode == 0
    end = wanted[1].wait(20)
    assert (end.state, end.cause) == ("failed_to_start", "approval_denied")
    assert end.error is not None
    assert end.error.endswith(": no")
    assert [(tmp_path / name).exists() for name in "ab"] == [True, False]
    again = _outlive(asking, "approve", wanted[1].process_id)
    assert again.returncode == 1
    assert "approvals" in again.stderr
    assert _outlive(asking, "approvals").stderr == "Nothing waits for an approval.\n"


def test_a_command_in_the_foreground_waits_and_then_runs(asking: OutliveServer, at_hand: Client) -> None:
    words = [*outlive_command(), "run", "--", "tee"]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=_environment(asking), text=True
    ) as running:
        waiting = next(_until_listed(at_hand))
        at_hand.approve(waiting, _digest(at_hand, waiting))
        out, _ = running.communicate("fed\n", timeout=20)
    assert (out, running.returncode) == ("fed\n", 0)


def _until_listed(client: Client) -> Iterator[str]:
    with client.events(events=["approval_requested"]) as events:
        known = client.approvals()
        yield known[0].process_id if known else str(next(iter(events)).process_id)


@pytest.mark.promise("P.rules")
def test_rest_lists_approves_and_denies(asking: OutliveServer, tmp_path: Path) -> None:
    rest = _Rest(str(asking.state_dir / "server.sock"))
    made = [
        rest.call("POST", "/v1/processes", {"argv": ["touch", str(tmp_path / name)]}, expect=201)
        for name in "ab"
    ]
    assert [(one["state"], one["waits_for"]) for one in made] == [("queued", "approval")] * 2
    assert f"outlive approve {made[0]['process_id']}" in made[0]["hint"]
    listed = rest.call("GET", "/v1/approvals")["approvals"]
    assert [one["process_id"] for one in listed] == [one["process_id"] for one in made]
    yes, no = (f"/v1/approvals/{one['process_id']}" for one in made)
    rest.call("POST", f"{yes}/approve", {"digest": listed[0]["digest"]})
    rest.call("POST", f"{no}/deny", {"reason": "not here"})
    ended = [rest.call("GET", f"/v1/processes/{one['process_id']}/wait") for one in made]
    assert [one["cause"] for one in ended] == [None, "approval_denied"]
    assert ended[1]["error"].endswith(": not here")
    late = rest.call("POST", f"{yes}/approve", {"digest": listed[0]["digest"]}, expect=409)
    assert late["slug"] == "approval_settled"
    refused = rest.call("POST", "/v1/processes", {"command": "rm -rf /nonexistent"}, expect=403)
    assert refused["slug"] == "command_denied"


async def test_json_rpc_says_what_a_start_waits_for_and_what_became_of_it(
    asking: OutliveServer, at_hand: Client
) -> None:
    async with connect(asking.url) as client:
        result = await client.execute("tee")
        assert result["status"] == "queued"
        process_id = result["process_id"]
        queued = await client.notification("process.queued")
        assert queued["waits_for"] == "approval"
        assert process_id in queued["hint"]
        for method in ("approvals", "approve", "deny"):
            with pytest.raises(RpcFailure) as narrow:  # over TCP nobody is an administrator without a token
                await client.request(method, process_id=process_id, digest="0" * 64)
            assert narrow.value.reason == "scope_missing"
        await asyncio.to_thread(lambda: at_hand.approve(process_id, _digest(at_hand, process_id)))
        assert (await client.completed(process_id))["exit_code"] == 0
        denied = (await client.execute("touch /nonexistent/x"))["process_id"]
        await asyncio.to_thread(at_hand.deny, denied, "no")
        assert (await client.completed(denied))["error"].endswith(": no")
        with pytest.raises(RpcFailure) as again:
            await client.execute("touch /nonexistent/x", process_id=denied)
        assert (again.value.code, again.value.reason) == (-32002, "approval_denied")
        with pytest.raises(RpcFailure) as refused:
            await client.execute("nice rm -rf /nonexistent")
        assert (refused.value.code, refused.value.reason) == (-32002, "command_denied")


def test_mcp_tools_answer_that_it_waits_with_its_id(asking: OutliveServer, at_hand: Client) -> None:
    lean = _call(asking, "run", {"command": "tee", "wait_s": 0})
    named = at_hand.approvals()[-1].process_id
    assert named in _text(lean)
    assert "outlive approve" in _text(lean)
    shell = _call(asking, "execute_linux_shell_command", {"cmd": "tee", "wait_s": 0})
    assert "approval" in _text(shell)
    background = _call(asking, "execute_background_linux_shell_command", {"cmd": "tee"})
    assert "waits for an approval" in _text(background)
    status = _call(asking, "command_execute", {"command": "tee", "wait_s": 0})["structuredContent"]
    assert (status["completed"], status["success"]) == (False, None)
    assert "approval" in status["error"]
    for one in at_hand.approvals():
        at_hand.deny(one.process_id)


@pytest.mark.promise("P.approval")
def test_a_token_approves_by_its_scope_but_not_from_within(asking: OutliveServer, at_hand: Client) -> None:
    """The run token is too narrow.

    The admin token counts outside of what was started here, and not inside.
    """
    rest = RestCaller(asking.rest_url)
    narrow, wide = ({"Authorization": f"Bearer {create_token(asking, scope)}"} for scope in ("run", "admin"))
    waiting = at_hand.start(["tee"])
    path = f"/v1/approvals/{waiting.process_id}/approve"
    assert (
        rest.call("POST", path, {"digest": "0" * 64}, expect=403, headers=narrow).json["slug"]
        == "scope_missing"
    )
    approval = {"digest": _digest(at_hand, waiting.process_id)}
    kind = {"Content-Type": "application/json"}
    code = _FROM_WITHIN.format(
        url=f"{asking.rest_url}{path}", headers={**wide, **kind}, body=json.dumps(approval)
    )
    inside = at_hand.start([sys.executable, "-c", code])
    assert inside.wait(30).exit_code == 0
    assert _said(inside) == b"403 scope_missing\n"
    listed = rest.call("GET", "/v1/approvals", headers=wide).json["approvals"]
    assert [one["process_id"] for one in listed] == [waiting.process_id]
    rest.call("POST", path, approval, headers=wide)
    assert waiting.wait(20).exit_code == 0


def test_what_was_started_here_cannot_approve_by_its_uid(asking: OutliveServer, at_hand: Client) -> None:
    waiting = at_hand.start(["tee"])
    command = [*outlive_command(), "approve", "--no-start", waiting.process_id]
    inside = at_hand.start(command, env={**_environment(asking)}, inherit_env=False)
    assert inside.wait(60).exit_code == 1
    assert b"process that outlive has started" in _said(inside)
    assert waiting.info().waits_for == "approval"
    at_hand.deny(waiting.process_id)


@pytest.mark.promise("P.approval")
def test_what_waits_is_shown_without_its_secrets(asking: OutliveServer, at_hand: Client) -> None:
    """Words, script, reason and title, over every door that lists it.

    Who asks for the bytes themselves sees them.
    """
    key = "ghp_" + "Qr5tUv7wXy9z" * 3
    value = "canary-of-the-approval"
    secrets = {"K": value}
    rest = RestCaller(asking.rest_url)
    wide = {"Authorization": f"Bearer {create_token(asking, 'admin')}"}
    script = {"script": f"{key} {value}", "interpreter": "touch", "env_secrets": secrets}
    waiting = [
        at_hand.start(["touch", f"/nonexistent/{key}/{value}"], env_secrets=secrets).process_id,
        rest.call("POST", "/v1/processes", script, expect=201, headers=wide).json["process_id"],
    ]
    shown = {
        "command line": _outlive(asking, "approvals").stdout,
        "command line, JSON": _outlive(asking, "approvals", "--json").stdout,
        "REST": rest.call("GET", "/v1/approvals", headers=wide).body.decode(),
        "client": repr(at_hand.approvals()),
    }
    for door, text in shown.items():
        assert all(one in text for one in waiting), door
        assert text.count("ghp_****") >= 2, door
        assert key not in text, door
        assert value not in text, door
    raw = {
        "command line": run_outlive(
            "approvals",
            "--json",
            "--raw",
            state_dir=asking.state_dir,
            env={"OUTLIVE_TOKEN": create_token(asking, "admin")},
        ).stdout,
        "REST": rest.call("GET", "/v1/approvals", headers=wide, raw="true").body.decode(),
        "client": repr(at_hand.approvals(raw=True)),
    }
    for door, text in raw.items():
        assert key in text, door
        assert value in text, door
    for one in waiting:
        at_hand.deny(one)


def test_refusals_reach_the_client_with_their_family(at_hand: Client) -> None:
    with pytest.raises(CommandRefused) as refused:
        at_hand.start("rm -rf /nonexistent")
    assert refused.value.code == "command_denied"
    process = at_hand.start("true")
    with pytest.raises(InvalidState):
        at_hand.approve(process.process_id, "0" * 64)


class _Rest:
    """REST over the Unix socket, where the caller is an administrator."""

    def __init__(self, path: str) -> None:
        self._path = path

    def call(self, method: str, path: str, body: object = None, *, expect: int = 200) -> dict[str, Any]:
        """Send one request; another status than `expect` fails the test."""
        connection = HTTPConnection("localhost", timeout=30)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(self._path)
        with contextlib.closing(connection):
            raw = None if body is None else json.dumps(body)
            connection.request(method, path, raw, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            document: dict[str, Any] = json.loads(answer.read())
        assert answer.status == expect, document
        return document


def _call(server: OutliveServer, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Call a tool as a caller of the 2026-07-28 revision does: no session."""
    return ModernCaller(server.mcp_url, extensions={}).result("tools/call", name=tool, arguments=arguments)


def _digest(client: Client, process_id: str) -> str:
    return next(one.digest for one in client.approvals() if one.process_id == process_id)


def _said(process: Process) -> bytes:
    return b"".join(item.data for item in process.tail().items if isinstance(item, Output))


def _environment(server: OutliveServer) -> dict[str, str]:
    return {**os.environ, "OUTLIVE_STATE_DIR": str(server.state_dir)}


def _text(result: dict[str, Any]) -> str:
    return str(result["content"][0]["text"])
