"""A command in a sandbox, with a token, tries every verb of every door on what its principal runs with fewer
bounds.
"""

import http.client
import json
import shlex
import shutil
import time
from pathlib import Path
from typing import Any, cast

import pytest
import websockets

from outlive.config import Settings
from outlive.engine import Engine
from outlive.frontends.jsonrpc.methods import methods
from outlive.frontends.mcp.tools.table import TOOL_SETS
from outlive.frontends.rest.service import RestService
from outlive.operations.table import all_operations
from outlive.policy.access import Scope
from outlive.protocols.mcp.tasks import TaskCall
from tests.attacks.attacking import Requests, create_token
from tests.escapes.scene import SYSTEM_PYTHON
from tests.support.server import OutliveServer

pytestmark = pytest.mark.walls

_SCRIPT = Path(__file__).with_name("reaching.py")
_IN_FLIGHT = "mcp notifications/cancelled"
_ENDS = (
    "POST cancel",
    "DELETE",
    "terminate",
    "terminate_by_pid",
    "CANCEL",
    "remove",
    "close_output",
    "mcp cancel",
    "mcp stop",
    "mcp terminate_process",
    "mcp tasks/cancel",
    _IN_FLIGHT,
)
_SERVICE_VERBS = ("up", "restart", "down")
_PATIENCE_S = 120.0
_ONE, _TERMINAL, _ASYNC = "/v1/processes/{process_id}", "/v1/terminals/{terminal_id}", "/api/async"
# Every verb that changes something that runs, and how the attack calls its attempts.
_ATTEMPTS: dict[tuple[str, ...], tuple[str, ...]] = {
    ("control",): ("PAUSE", "RESUME", "CANCEL"),
    **{
        (name,): (name,)
        for name in (
            *("write", "close_stdin", "close_output", "release", "resize", "signal", "relabel", "remove"),
            *("move", "rerun"),
            *("terminal_execute", "terminal_write", "terminal_resize", "terminal_close"),
        )
    },
    ("PATCH", _ONE): ("PATCH",),
    ("DELETE", _ONE): ("DELETE",),
    **{("POST", f"{_ONE}/{name}"): (f"POST {name}",) for name in ("move", "rerun", "files")},
    ("POST", f"{_ONE}/control"): ("POST pause", "POST resume", "POST cancel"),
    ("POST", f"{_ONE}/signal"): ("POST signal",),
    ("POST", f"{_ONE}/resize"): ("POST resize",),
    ("POST", f"{_ONE}/stdin"): ("POST stdin", "POST stdin?eof"),
    ("DELETE", _TERMINAL): ("terminal DELETE",),
    **{
        ("POST", f"{_TERMINAL}/{name}"): (f"terminal POST {name}",) for name in ("execute", "input", "resize")
    },
    ("POST", f"{_ASYNC}/process/terminate_by_pid"): ("terminate_by_pid",),
    ("POST", f"{_ASYNC}/process/terminate/{{process_id}}"): ("terminate",),
    ("mcp", "control"): ("mcp pause", "mcp resume", "mcp cancel", "mcp signal"),
    **{
        ("mcp", name): (f"mcp {name}",)
        for name in (
            *("terminate_process", "send", "stop"),
            *("terminal_execute", "terminal_write", "terminal_resize", "terminal_close"),
        )
    },
    ("WEBSOCKET", "/ws/terminal"): ("ws text", "ws resize", "ws opening", "ws signal", "ws eof"),
    **{(f"services_{verb}",): (f"rpc services {verb}",) for verb in _SERVICE_VERBS},
    **{("POST", f"/v1/services/{verb}"): (f"rest services {verb}",) for verb in _SERVICE_VERBS},
    ("mcp", "tasks/cancel"): ("mcp tasks/cancel",),
    ("mcp", "notifications/cancelled"): (_IN_FLIGHT,),
}
# Messages of a WebSocket, and MCP's own ways to cancel, stand in no table of scopes.
_WITHOUT_SCOPE: set[tuple[str, ...]] = {
    *(("WEBSOCKET", "/ws/terminal"), ("mcp", "tasks/cancel"), ("mcp", "notifications/cancelled"))
}
# What starts something: the profile of that is chosen anew (`test_calling_back`).
_STARTS: set[tuple[str, ...]] = {
    *(("execute",), ("terminal_create",), ("POST", "/v1/processes"), ("POST", "/v1/terminals")),
    *(("POST", f"{_ASYNC}/execute/background"), ("POST", "/api/sync/execute")),
    *(("mcp", name) for name in ("command_execute", "command_execute_script", "run", "terminal_create")),
    *(("mcp", f"execute_{name}linux_shell_command") for name in ("", "background_")),
}
# What opens files at all: refused to a caller that lives in a stronger profile than open
# (`tests/extensions/fleet/test_files`).
_FILES: set[tuple[str, ...]] = {
    *((f"file_{name}",) for name in ("open", "look", "list", "read", "digest", "write", "make", "drop")),
    *(("file_close",), ("GET", "/v1/files"), ("GET", "/v1/files/content"), ("PUT", "/v1/files/content")),
}
# What nothing inside may do at all, whatever its token allows (`tests/policy/test_access`,
# `tests/extensions/fleet/test_placing`), or only looks.
_APPROVALS: set[tuple[str, ...]] = {
    *(("approvals",), ("approve",), ("deny",), ("GET", "/v1/approvals")),
    *((name,) for name in ("audit", "settings", "checks")),
    *(("GET", f"/v1/{name}") for name in ("audit", "settings", "checks")),
    *(("POST", f"/v1/approvals/{{process_id}}/{name}") for name in ("approve", "deny")),
    *((f"node_{name}",) for name in ("add", "drain", "resume", "adopt", "remove", "invite", "join", "leave")),
    *(("POST", f"/v1/nodes/{{name}}/{name}") for name in ("drain", "resume", "adopt", "invite")),
    *(("POST", "/v1/nodes"), ("DELETE", "/v1/nodes/{name}"), ("POST", "/v1/gateways")),
    ("DELETE", "/v1/gateways/{gateway}"),
}


class _Scene:
    """What a principal runs in the profile open, and one command of it, in another profile, that reaches for
    all of it.
    """

    def __init__(self, server: OutliveServer, name: str) -> None:
        self._server = server
        self._token = create_token(server, "admin", name=name)
        self.ask = Requests(server, self._token)
        self.victim = self.ask.start("sleep 600", stdin="pipe", pty=True, profile="open")
        self.ended = {one: self.ask.start("sleep 600", profile="open") for one in _ENDS if one != _IN_FLIGHT}
        line = {"profile": "open", "group": f"line-{name}", "group_limit": 1}
        _, self.queued = (self.ask.start("sleep 600", **line) for _ in range(2))
        self.session_id = ""
        folder = server.state_dir / "processes" / self.ended["mcp tasks/cancel"]["process_id"]
        # As a call of `run` that takes long leaves it.
        (folder / "task").write_bytes(TaskCall(tool="run").encode())
        self._begin_call()
        made = [self.ask("POST", "/v1/terminals", body={"profile": "open"}) for _ in range(3)]
        self.terminals = [one.body["terminal_id"] for one in made]
        self.services = str(server.state_dir.parent / f"services-{name}")
        self._bring_up()

    def _bring_up(self) -> None:
        """Have a service live whose profile is open."""
        Path(self.services).mkdir()
        declared = {"web": {"command": "sleep 600", "profile": "open"}}
        self.ask("POST", "/v1/services/up", body={"folder": self.services, "services": declared})
        deadline = time.monotonic() + _PATIENCE_S
        while self.service()["state"] != "ready":
            assert time.monotonic() < deadline, "the service does not run"
            time.sleep(0.05)

    def service(self) -> dict[str, Any]:
        """Return what the service does."""
        listed = self.ask("GET", "/v1/services").body["stacks"]
        (stack,) = (one for one in listed if one["folder"] == self.services)
        (service,) = stack["services"]
        return dict(service)

    def _begin_call(self) -> None:
        """Have a client call a tool in an MCP session of its own; the call is in flight until `close`."""
        self._client = http.client.HTTPConnection("127.0.0.1", self._server.ready["ports"]["mcp"], timeout=30)
        self._post("initialize")
        opened = self._client.getresponse()
        opened.read()
        self.session_id = opened.getheader("Mcp-Session-Id", "")
        line = f"sleep 600; : {self.session_id[:8]}"
        self._post("tools/call", name="run", arguments={"command": line, "profile": "open", "wait_s": 300})
        deadline = time.monotonic() + _PATIENCE_S
        while not (found := [one for one in self._active() if one["command"] == line]):
            assert time.monotonic() < deadline, "the call has started nothing"
            time.sleep(0.02)
        (self.ended[_IN_FLIGHT],) = found

    def _post(self, method: str, **params: object) -> None:
        """Send a request, whose id is its method."""
        body = {"jsonrpc": "2.0", "id": method, "method": method, "params": params}
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"}
        headers |= {"Mcp-Session-Id": self.session_id} if self.session_id else {}
        self._client.request("POST", "/mcp", body=json.dumps(body).encode(), headers=headers)

    def _active(self) -> list[dict[str, Any]]:
        answer = self.ask("GET", "/v1/processes?state=active&limit=100")
        found: list[dict[str, Any]] = answer.body["processes"]
        return found

    def attack(self, profile: str, folder: Path) -> dict[str, str]:
        """Have a command try everything; return what it was told."""
        out = folder / "found.json"
        at: dict[str, Any] = {
            "token": self._token,
            "ports": self._server.ready["ports"],
            "process": [self.victim["process_id"], self.victim["pid"]],
            "ended": {name: [one["process_id"], one["pid"]] for name, one in self.ended.items()},
            "terminals": self.terminals,
            "queued": self.queued["process_id"],
            "services": self.services,
            "session_id": self.session_id,
            "request_id": "tools/call",
            "out": str(out),
        }
        here = folder / "reaching.py"
        here.write_bytes(_SCRIPT.read_bytes())
        site = (
            folder / "site"
        )  # what a command in a sandbox may read: its own folder, and the system's programs
        shutil.copytree(Path(websockets.__file__).parent, site / "websockets")
        words = [SYSTEM_PYTHON, "-I", "-S", str(here), str(site), json.dumps(at)]
        started = self.ask.start(shlex.join(words), profile=profile, cwd=str(folder))
        deadline = time.monotonic() + _PATIENCE_S
        while not out.exists():
            view = self.ask("GET", f"/v1/processes/{started['process_id']}").body
            is_over = view["state"] not in {"running", "paused"} and not out.exists()
            if is_over or time.monotonic() > deadline:
                raise AssertionError(self.ask.output(started["process_id"]))
            time.sleep(0.05)
        found: dict[str, str] = json.loads(out.read_text())
        return found

    def close(self) -> None:
        """End what is left."""
        self._client.close()
        self.ask("POST", "/v1/services/down", body={"folder": self.services, "grace": 0})
        for one in self._active():
            self.ask("DELETE", f"/v1/processes/{one['process_id']}?force=true")


def test_every_verb_that_changes_something_is_tried() -> None:
    """A new one has to be named above, with its attempt."""
    service = RestService(cast("Engine", None), Settings())  # nothing is asked of it
    routes: dict[tuple[str, ...], Scope] = {
        (method, path.removesuffix("/")): scope for (method, path), scope in service.routes().items()
    }
    tools: dict[tuple[str, ...], Scope] = {("mcp", tool.name): tool.scope for tool in TOOL_SETS["all"]}
    scopes: dict[tuple[str, ...], Scope] = {(name,): all_operations()[name].scope for name in methods()}
    changing = {name for name, scope in (scopes | routes | tools).items() if scope >= Scope.RUN}
    assert changing == {*_ATTEMPTS, *_STARTS, *_FILES, *_APPROVALS} - _WITHOUT_SCOPE


@pytest.mark.thorough
@pytest.mark.promise("A.reach_inside")
@pytest.mark.timeout(240)
@pytest.mark.parametrize("profile", ["guarded", "workspace"])
def test_a_command_acts_by_no_door_on_a_process_with_a_weaker_profile(
    besieged: OutliveServer, tmp_path: Path, profile: str
) -> None:
    scene = _Scene(besieged, f"deputy-{profile}")
    try:
        found = scene.attack(profile, tmp_path)
        assert set(found) == {name for names in _ATTEMPTS.values() for name in names}
        assert {name: answer for name, answer in found.items() if answer != "profile_too_weak"} == {}
        for one in (scene.victim, *scene.ended.values()):
            view = scene.ask("GET", f"/v1/processes/{one['process_id']}").body
            assert (view["state"], view["tags"]) == ("running", {}), view
        assert scene.ask("GET", f"/v1/processes/{scene.victim['process_id']}/output").body["chunks"] == []
        assert (scene.service()["state"], scene.service()["command"]) == ("ready", "sleep 600")
        for one in scene.terminals:
            assert "broken in" not in scene.ask("GET", f"/v1/terminals/{one}/output").body["text"]
    finally:
        scene.close()


@pytest.mark.thorough
@pytest.mark.promise("A.reach_inside")
@pytest.mark.timeout(240)
def test_the_same_verbs_work_on_processes_of_its_own_profile(besieged: OutliveServer, tmp_path: Path) -> None:
    """The attack above is one: what it asks for is done where the rule does not forbid it."""
    scene = _Scene(besieged, "equal")
    try:
        found = scene.attack("open", tmp_path)
        assert {name: answer for name, answer in found.items() if answer != "ok"} == {}
    finally:
        scene.close()
