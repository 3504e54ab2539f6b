"""outlive audit against a real server: what every door did is there, the chain fits, a change is found."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from outlive.client import Client, OutliveError
from tests.mcp_http.raw_caller import RawCaller
from tests.rest.rest_caller import RestCaller
from tests.support.raw import http_get
from tests.support.server import OutliveServer, run_outlive

pytestmark = pytest.mark.thorough


def _show(served: OutliveServer, *words: str) -> list[dict[str, Any]]:
    done = run_outlive("audit", "show", "--json", *words, state_dir=served.state_dir)
    assert (done.returncode, done.stderr) == (0, "")
    return [json.loads(line) for line in done.stdout.splitlines()]


def _until(served: OutliveServer, wanted: set[tuple[str, str]]) -> list[dict[str, Any]]:
    """Return all entries once these (what, door) are among them: they are written a moment later."""
    deadline = time.monotonic() + 20
    while True:
        entries = _show(served)
        missing = wanted - {(entry["what"], entry.get("door", "")) for entry in entries}
        if not missing:
            return entries
        assert time.monotonic() < deadline, missing


def test_a_plain_run_is_a_start_and_no_look_at_secrets(served: OutliveServer) -> None:
    """Issue 38, 4: each `outlive run` wrote `read_raw`."""
    assert run_outlive("run", "echo", "hi", state_dir=served.state_dir).stdout
    entries = _until(served, {("start", "jsonrpc"), ("exit", "jsonrpc")})
    assert "read_raw" not in {entry["what"] for entry in entries}


def test_every_door_is_in_the_log(served: OutliveServer, client: Client) -> None:
    process = client.start("cat", stdin="pipe")
    process.pause()
    process.resume()
    process.write(b"words that nobody logs\n")
    process.signal("CONT")
    process.cancel(grace_s=1)
    process.wait(30, until="closed")
    with pytest.raises(OutliveError):
        process.pause()
    with pytest.raises(OutliveError):
        client.start(["/no/such/program"])
    rest = RestCaller(served.rest_url)
    of_rest = rest.call("POST", "/v1/processes", {"command": "sleep 60"}, expect=201).json["process_id"]
    rest.call("POST", f"/v1/processes/{of_rest}/control", {"action": "cancel", "grace": 1})
    rest.call("GET", f"/v1/processes/{of_rest}/wait", until="closed")
    rest.call("DELETE", f"/v1/processes/{of_rest}")
    RawCaller.begin(served.mcp_url).call("execute_linux_shell_command", cmd="exit 3")
    refused = http_get(served.port, "/v1/processes?token=uvwxyz", headers={"Origin": "http://evil.example"})
    assert refused.status == 403
    entries = _until(
        served,
        {("remove", "rest"), ("exit", "mcp"), ("access", "guard"), ("start", "jsonrpc")},
    )
    mine = [entry for entry in entries if entry.get("process_id") == process.process_id]
    whats = [(entry["what"], entry.get("decision")) for entry in mine]
    for what in ("start", "pause", "resume", "write", "signal", "cancel"):
        assert (what, "allowed") in whats, whats
    assert ("exit", None) in whats
    assert ("pause", "failed") in whats
    assert {entry["principal"] for entry in mine} == {entries[1]["principal"]}
    assert "words that nobody logs" not in json.dumps(entries)
    failed = [entry for entry in entries if entry["what"] == "start" and entry["decision"] == "failed"]
    assert (failed[0]["reason"], failed[0]["command"]) == ("not_found", "/no/such/program")
    (access,) = [entry for entry in entries if entry["what"] == "access"]
    assert (access["reason"], access["path"]) == ("foreign_origin", "/v1/processes")
    assert "uvwxyz" not in json.dumps(access)
    assert [entry["exit"] for entry in entries if entry["what"] == "exit" and entry["door"] == "mcp"] == [3]
    assert entries[0]["what"] == "server_started"


def test_entries_are_chosen_and_shown_as_lines(served: OutliveServer, client: Client) -> None:
    process = client.start("echo chosen")
    process.wait(30, until="closed")
    deadline = time.monotonic() + 20
    while len(chosen := _show(served, "--process", process.process_id[-12:])) < 2:
        assert time.monotonic() < deadline
    assert [entry["what"] for entry in chosen] == ["start", "exit"]
    assert _show(served, "--since", "2099-01-01T00:00Z") == []
    assert _show(served, "--principal", "nobody") == []
    assert len(_show(served, "--since", "1h", "--principal", chosen[0]["principal"])) >= 2
    done = run_outlive("audit", "show", "--process", process.process_id, state_dir=served.state_dir)
    first, last = done.stdout.splitlines()
    assert first.endswith('command="echo chosen"')
    assert " exit=0 " in last
    wrong = run_outlive("audit", "show", "--since", "12.0", state_dir=served.state_dir)
    assert (wrong.returncode, "no time" in wrong.stderr) == (2, True)


def test_a_changed_log_is_found(served: OutliveServer, client: Client) -> None:
    client.start("true").wait(30, until="closed")
    whole = run_outlive("audit", "verify", state_dir=served.state_dir)
    assert (whole.returncode, whole.stderr) == (0, "")
    head = whole.stdout.splitlines()[-1].removeprefix("head ")
    known = run_outlive("audit", "verify", "--json", "--head", head, state_dir=served.state_dir)
    assert json.loads(known.stdout)["whole"] is True
    wrong = run_outlive("audit", "verify", "--head", "nonsense", state_dir=served.state_dir)
    assert (wrong.returncode, "NUMBER:DIGEST" in wrong.stderr) == (2, True)
    served.stop()
    last = _show(served)[-1]
    assert last["what"] == "server_stopped"
    (path,) = (served.state_dir / "audit").glob("*.jsonl")
    path.write_bytes(path.read_bytes().replace(b'"command":"true"', b'"command":"rm x"', 1))
    changed = run_outlive("audit", "verify", state_dir=served.state_dir)
    assert changed.returncode == 1
    assert "was changed" in changed.stdout
    told = json.loads(run_outlive("audit", "verify", "--json", state_dir=served.state_dir).stdout)
    assert told["whole"] is False
    assert len(told["breaks"]) == 2, "its MAC is wrong, and the chain breaks"


@pytest.mark.promise("A.audit.begin")
def test_a_broken_log_is_set_aside_and_a_new_one_says_so(own_server: OutliveServer) -> None:
    state_dir = own_server.state_dir
    with Client(state_dir, start_server=False) as client:
        client.start("true").wait(30)
    running = run_outlive("audit", "begin", state_dir=state_dir)
    assert (running.returncode, "already serves" in running.stderr) == (1, True)
    own_server.stop()
    whole = run_outlive("audit", "begin", state_dir=state_dir)
    assert (whole.returncode, "is whole" in whole.stderr) == (1, True)
    (log,) = (state_dir / "audit").glob("*.jsonl")
    log.write_bytes(log.read_bytes().replace(b'"true"', b'"else"'))
    changed = log.read_bytes()
    assert run_outlive("audit", "verify", state_dir=state_dir).returncode == 1
    begun = run_outlive("audit", "begin", "--json", state_dir=state_dir)
    assert begun.returncode == 0, begun.stderr
    told = json.loads(begun.stdout)
    assert (Path(told["set_aside"]) / log.name).read_bytes() == changed
    assert (Path(told["set_aside"]) / "audit.key").exists()
    (first,) = [json.loads(line) for line in _shown(state_dir)]
    assert (first["n"], first["reason"], first["set_aside"]) == (
        1,
        "begun_anew",
        Path(told["set_aside"]).name,
    )
    assert first["breaks"]
    own_server.start()
    own_server.stop()
    assert run_outlive("audit", "verify", "--head", told["head"], state_dir=state_dir).returncode == 0
    assert len(_shown(state_dir)) > 1


def _shown(state_dir: Path) -> list[str]:
    return run_outlive("audit", "show", "--json", state_dir=state_dir).stdout.splitlines()
