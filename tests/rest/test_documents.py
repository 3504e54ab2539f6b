"""The documented paths: exact keys, the five words, and what the registry promises through them."""

import re
from datetime import datetime
from pathlib import Path

import pytest

from tests.attacks.raw_http import raw_request
from tests.keeper.client import until
from tests.rest.rest_caller import RestCaller, curl
from tests.support.fixtures import ServerFactory
from tests.support.processes import Marker, is_alive, wait_dead, wait_file
from tests.support.rpc import connect
from tests.support.server import OutliveServer

pytestmark = pytest.mark.thorough

_LIST = "/api/async/processes/list/"
_BY_PID = "/api/async/process/terminate_by_pid/"
_BACKGROUND = "/api/async/execute/background/"
_ENTRY = [
    "pid",
    "request_id",
    "command",
    "status",
    "started_at",
    "exit_code",
    "terminated_at",
    "termination_signal",
]
_LOCAL_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}")


def _listed(rest: RestCaller, pid: int) -> dict[str, object]:
    listing = rest.call("GET", _LIST).json
    assert sorted(listing) == ["count", "processes"]
    assert listing["count"] == len(listing["processes"])
    found: list[dict[str, object]] = [entry for entry in listing["processes"] if entry["pid"] == pid]
    return found[0]


@pytest.mark.promise("S4.7.list", "S4.7.companions")
def test_a_background_command_is_listed_with_exactly_the_documented_fields(rest: RestCaller) -> None:
    started = rest.call("POST", _BACKGROUND, {"command": "sleep 60", "more": "ignored"}).json
    assert list(started) == [*_ENTRY, "process_id"]
    entry = _listed(rest, started["pid"])
    assert list(entry) == _ENTRY
    assert entry == {name: started[name] for name in _ENTRY}
    assert (entry["command"], entry["status"], entry["request_id"]) == (
        "sleep 60",
        "running",
        started["process_id"],
    )
    assert (entry["exit_code"], entry["terminated_at"], entry["termination_signal"]) == (None, None, None)
    assert _LOCAL_TIME.fullmatch(str(entry["started_at"]))
    elapsed = datetime.now() - datetime.fromisoformat(str(entry["started_at"]))  # noqa: DTZ005 -- local, as documented
    assert abs(elapsed.total_seconds()) < 60
    rest.call("POST", _BY_PID, pid=started["pid"])


@pytest.mark.promise("S4.7.terminate", "S4.7.list")
def test_termination_by_pid_answers_when_the_tree_is_gone(rest: RestCaller, marker: Marker) -> None:
    started = rest.call("POST", _BACKGROUND, {"command": f"setsid {marker.sleep} & echo ready; wait"}).json
    with rest.stream(f"/v1/processes/{started['process_id']}/follow") as response:
        while not response.readline().startswith(b"event: output"):
            pass
    ended = rest.call("POST", _BY_PID, pid=started["pid"]).json
    assert ended == {
        "success": True,
        "pid": started["pid"],
        "request_id": started["request_id"],
        "signal": "SIGTERM",
        "message": "Process terminated with SIGTERM",
    }
    assert marker.pids() == []
    entry = rest.call("GET", f"/api/async/process/{started['process_id']}/").json
    assert (entry["status"], entry["exit_code"], entry["termination_signal"]) == (
        "terminated",
        -15,
        "SIGTERM",
    )
    assert _LOCAL_TIME.fullmatch(str(entry["terminated_at"]))


@pytest.mark.promise("S4.7.terminate")
async def test_what_ignores_term_is_killed_after_the_termination_timeout(
    serve: ServerFactory, tmp_path: Path
) -> None:
    rest = RestCaller(serve(TERMINATION_TIMEOUT="0.3").rest_url)
    command = f"trap '' TERM; touch {tmp_path}/ready; while :; do sleep 0.1; done"
    started = rest.call("POST", _BACKGROUND, {"command": command}).json
    await wait_file(tmp_path / "ready")
    path = f"/api/async/process/terminate/{started['process_id']}/"
    ended = rest.call("POST", path).json
    assert (ended["signal"], ended["pid"]) == ("SIGKILL", started["pid"])
    await wait_dead(started["pid"])


@pytest.mark.promise("S4.7.terminate")
def test_an_unknown_pid_is_refused_and_nothing_is_signalled(rest: RestCaller, server: OutliveServer) -> None:
    for pid in (1, server.pid, 2**31 - 1):
        refused = rest.refused("POST", _BY_PID, status=404, pid=pid)
        assert (refused["success"], refused["slug"]) == (False, "process_not_found")
        assert refused["message"] == refused["detail"] == f"No process with pid {pid} is known."
    assert is_alive(server.pid)
    for nonsense in ({}, {"pid": "x"}, {"pid": 0}, {"pid": -1}, {"pid": 2**31}):
        assert rest.refused("POST", _BY_PID, status=422, **nonsense)["success"] is False
    ended = rest.run("true")
    assert rest.refused("POST", _BY_PID, status=409, pid=ended["pid"])["slug"] == "process_ended"


@pytest.mark.promise("S4.7.companions")
def test_a_process_is_described_with_its_output(rest: RestCaller) -> None:
    started = rest.call("POST", _BACKGROUND, {"command": "echo out; echo err >&2; exit 3"}).json
    rest.wait(started["process_id"])
    found = rest.call("GET", f"/api/async/process/{started['process_id']}/").json
    assert found == started | {
        "status": "failed",
        "exit_code": 3,
        "success": False,
        "stdout": "out\n",
        "stderr": "err\n",
        "duration": found["duration"],
        "timeout": None,
        "error": None,
    }
    assert rest.refused("GET", "/api/async/process/nobody/", status=404)["success"] is False


@pytest.mark.promise("S4.7.unfinished")
def test_a_process_that_runs_has_neither_failed_nor_succeeded(rest: RestCaller) -> None:
    started = rest.call("POST", _BACKGROUND, {"command": "echo begun; exec sleep 100"}).json
    path = f"/api/async/process/{started['process_id']}/"
    running = rest.call("GET", path).json
    assert (running["status"], running["success"], running["error"]) == ("running", None, None)
    rest.call("POST", _BY_PID, pid=started["pid"])
    assert rest.call("GET", path).json["success"] is False


@pytest.mark.promise("S4.7.companions", "W.state.rest", "W.local-time")
@pytest.mark.parametrize(
    ("body", "status", "exit_code", "is_success"),
    [
        ({"command": "echo hi"}, "completed", 0, True),
        ({"command": "echo hi; exit 7"}, "failed", 7, False),
        ({"command": "echo hi; kill -9 $$"}, "failed", -9, False),
        ({"command": "echo hi; sleep 60", "timeout": 0.2}, "timeout", -15, False),
    ],
)
def test_a_sync_command_answers_with_its_output_at_its_end(
    rest: RestCaller, body: dict[str, object], status: str, exit_code: int, is_success: bool
) -> None:
    found = rest.call("POST", "/api/sync/execute/", body).json
    assert (found["status"], found["exit_code"], found["success"]) == (status, exit_code, is_success)
    assert (found["stdout"], found["stderr"]) == ("hi\n", "")
    assert (found["output"], found["return_code"]) == (found["stdout"], exit_code)
    assert (found["error"] is None) == (status != "timeout")
    assert _LOCAL_TIME.fullmatch(found["started_at"])


@pytest.mark.promise("S4.7.companions")
def test_what_a_pipeline_writes_just_after_the_end_is_in_the_answer(rest: RestCaller) -> None:
    body = {"command": "exec > >(sleep 0.01; cat); echo FAILED; exit 1"}
    found = rest.call("POST", "/api/sync/execute/", body).json
    assert (found["exit_code"], found["stdout"]) == (1, "FAILED\n")


@pytest.mark.promise("W.state.rest")
def test_a_paused_process_is_running_here(rest: RestCaller) -> None:
    started = rest.start("sleep 60")
    rest.call("POST", f"/v1/processes/{started['process_id']}/control", {"action": "pause"})
    assert _listed(rest, started["pid"])["status"] == "running"
    rest.call("DELETE", f"/v1/processes/{started['process_id']}", force="true")


@pytest.mark.promise("S4.7.companions")
def test_large_output_is_shown_with_its_head_and_tail(serve: ServerFactory) -> None:
    rest = RestCaller(serve("--max-output-size", "1000").rest_url)
    found = rest.call("POST", "/api/sync/execute/", {"command": "seq 100000"}).json
    assert len(found["stdout"]) < 2000
    assert found["stdout"].startswith("1\n2\n")
    assert found["stdout"].endswith("100000\n")


@pytest.mark.promise("S4.7.companions")
def test_health_answers(rest: RestCaller) -> None:
    assert rest.call("GET", "/health").json["status"] == "ok"


@pytest.mark.promise("S4.7.list", "S4.5.scope")
async def test_jobs_of_every_door_are_listed_and_private_ones_are_not(
    rest: RestCaller, server: OutliveServer
) -> None:
    async with connect(server.url) as client:
        detached = await client.execute("sleep 60", detach=True)
        private = await client.execute("sleep 60", concurrent=True)
        pids = {entry["pid"] for entry in rest.call("GET", _LIST).json["processes"]}
        assert detached["pid"] in pids
        assert private["pid"] not in pids
        assert rest.refused("POST", _BY_PID, status=404, pid=private["pid"])
        rest.call("POST", _BY_PID, pid=detached["pid"])


@pytest.mark.promise("S4.7.list", "S4.7.terminate", "S4.12.restart")
def test_the_list_survives_a_killed_server(own_server: OutliveServer) -> None:
    rest = RestCaller(own_server.rest_url)
    started = rest.call("POST", _BACKGROUND, {"command": "sleep 60"}).json
    before = _listed(rest, started["pid"])
    own_server.restart()
    assert _listed(rest, started["pid"]) == before
    assert rest.call("POST", _BY_PID, pid=started["pid"]).json["success"]


@pytest.mark.promise("S4.7.list", "S4.7.terminate")
def test_the_documented_requests_work_with_curl(server: OutliveServer, rest: RestCaller) -> None:
    pid = rest.start("sleep 60")["pid"]
    listed = curl("curl http://localhost:8181/api/async/processes/list/", server.rest_url)
    assert f'"pid":{pid}' in listed
    line = f"curl -X POST 'http://localhost:8181/api/async/process/terminate_by_pid/?pid={pid}'"
    assert f'"success":true,"pid":{pid}' in curl(line, server.rest_url)


@pytest.mark.promise("S4.7.running")
def test_the_list_shows_only_what_runs_with_and_without_its_last_slash(rest: RestCaller) -> None:
    running = rest.call("POST", _BACKGROUND, {"command": "sleep 60"}).json
    ended = rest.run("true")
    for path in (_LIST, _LIST.removesuffix("/")):
        listing = rest.call("GET", path).json
        pids = [entry["pid"] for entry in listing["processes"]]
        assert running["pid"] in pids
        assert ended["pid"] not in pids
        assert {entry["status"] for entry in listing["processes"]} == {"running"}
        assert listing["count"] == len(pids)
    found = rest.call("GET", f"/api/async/process/{ended['process_id']}").json
    assert found["status"] == "completed", "what has ended is still described by its id"
    assert rest.refused("POST", _LIST.removesuffix("/"), status=405)["slug"] == "http_method_not_allowed"
    assert rest.call("POST", f"/api/async/process/terminate/{running['process_id']}").json["success"]


@pytest.mark.promise("S4.7.untyped")
def test_a_body_without_a_content_type_is_json_on_the_documented_paths(server: OutliveServer) -> None:
    """As the document's own back end took it. A raw socket: HTTP libraries add a type of their own."""
    port = server.ready["ports"]["rest"]
    body = b'{"command": "echo untyped", "timeout": 20}'
    for path in ("/api/sync/execute/", "/api/sync/execute"):
        answer = raw_request(port, f"POST {path} HTTP/1.1", body=body)
        assert (answer.status, answer.json["stdout"]) == (200, "untyped\n")
    started = raw_request(port, f"POST {_BACKGROUND} HTTP/1.1", body=body)
    assert started.status == 200
    assert (
        raw_request(port, f"POST {_BACKGROUND} HTTP/1.1", "Content-Type: text/plain", body=body).status == 415
    )
    assert raw_request(port, "POST /v1/processes HTTP/1.1", body=body).status == 415, "only there"
    for page in ("Origin: http://evil.example", "Sec-Fetch-Site: cross-site"):
        assert raw_request(port, f"POST {_BACKGROUND} HTTP/1.1", page, body=body).status == 403


@pytest.mark.promise("S4.7.running")
def test_what_a_command_has_left_running_is_listed_and_counted(rest: RestCaller, marker: Marker) -> None:
    started = rest.call(
        "POST", _BACKGROUND, {"command": f"setsid {marker.sleep} >/dev/null 2>&1 & exit 0"}
    ).json
    until(
        lambda: any(one.get("left") for one in rest.call("GET", _LIST).json["processes"]), "what it has left"
    )
    entry = _listed(rest, started["pid"])
    assert (entry["status"], entry["exit_code"], entry["left"]) == ("completed", 0, 1)
    assert rest.call("POST", _BY_PID, pid=started["pid"]).json["success"]
    until(
        lambda: not any(one.get("left") for one in rest.call("GET", _LIST).json["processes"]), "nothing left"
    )
