"""tag, rm and prune against a real server: labels change, what has ended is forgotten, what runs stays."""

import json
import subprocess
from datetime import timedelta

import pytest

from outlive.cli.verbs.prune import Pruning
from outlive.client import Client, InvalidRequest, Process
from tests.cli.terminals import on_a_terminal
from tests.support.processes import Gate
from tests.support.server import OutliveServer, run_outlive


def _outlive(served: OutliveServer, *words: str) -> subprocess.CompletedProcess[str]:
    return run_outlive(*words, state_dir=served.state_dir)


def _closed(process: Process) -> Process:
    assert process.wait(30, until="closed").is_closed
    return process


def _known(client: Client, *processes: Process) -> list[str]:
    all_of_them = {info.process_id for info in client.list(limit=1000)}
    return [process.process_id for process in processes if process.process_id in all_of_them]


def test_tags_are_set_and_taken_away(served: OutliveServer, client: Client) -> None:
    process = _closed(client.start("true", tags={"a": "1", "b": "2"}))
    done = _outlive(served, "tag", process.process_id, "a=3", "b-", "c=x=y", "d-")
    assert (done.returncode, done.stderr) == (0, f"{process.process_id} has a=3 c=x=y\n")
    assert process.info().tags == {"a": "3", "c": "x=y"}
    told = json.loads(_outlive(served, "tag", "--json", process.process_id, "a-", "c-").stdout)
    assert told["process"]["tags"] == {}
    for word in ("nonsense", "=x", "-"):
        refused = _outlive(served, "tag", process.process_id, "--", word)
        assert (refused.returncode, "neither" in refused.stderr) == (1, True), word
    assert process.info().tags == {}


def test_rm_forgets_what_has_ended_and_what_runs_only_by_force(
    served: OutliveServer, client: Client, gate: Gate
) -> None:
    ended, running = _closed(client.start("true")), client.start(gate.wait)
    refused = _outlive(served, "rm", ended.process_id, running.process_id)
    assert refused.returncode == 1
    assert running.process_id in refused.stderr
    assert "still runs" in refused.stderr
    assert _known(client, ended, running) == [running.process_id]
    assert not (served.state_dir / "processes" / ended.process_id).exists()
    done = _outlive(served, "rm", "--force", "--json", running.process_id)
    assert done.returncode == 0, done.stderr
    outcome = {"name": running.process_id, "process_id": running.process_id, "ok": True, "error": None}
    assert json.loads(done.stdout) == {"processes": [outcome]}
    assert _known(client, running) == []


def test_a_group_is_forgotten_but_not_who_runs_in_it(
    served: OutliveServer, client: Client, gate: Gate
) -> None:
    ended, running = _closed(client.start("true", group="rm")), client.start(gate.wait, group="rm")
    assert _outlive(served, "rm", "--group", "rm").returncode == 0
    assert _known(client, ended, running) == [running.process_id]
    assert _outlive(served, "rm", "--group", "rm", "--force").returncode == 0
    assert _known(client, running) == []


def test_prune_says_what_goes_and_removes_it_only_when_told_to(
    served: OutliveServer, client: Client, gate: Gate
) -> None:
    words = ("prune", "--tag", "p=1")
    loud = _closed(client.start("seq 1 100000", tags={"p": "1"}))
    failed = _closed(client.start(["/bin/sh", "-c", "kill -9 $$"], tags={"p": "1"}))
    other, running = _closed(client.start("true")), client.start(gate.wait, tags={"p": "1"})
    tried = _outlive(served, *words, "--dry-run")
    assert tried.returncode == 0
    assert loud.process_id[-6:] in tried.stdout
    assert running.process_id[-6:] not in tried.stdout
    assert "2 processes, " in tried.stdout
    nobody_asked = _outlive(served, *words)
    assert (nobody_asked.returncode, "--yes" in nobody_asked.stderr) == (1, True)
    assert _outlive(served, *words, "--older-than", "1h", "--yes").stderr == "Nothing to remove.\n"
    assert _known(client, loud, failed, other, running) == [
        one.process_id for one in (loud, failed, other, running)
    ]
    some = json.loads(_outlive(served, *words, "--state", "signaled", "--yes", "--json").stdout)
    assert (some["removed"], some["dry_run"]) == ([failed.process_id], False)
    rest = json.loads(_outlive(served, *words, "--older-than", "0s", "--yes", "--json").stdout)
    assert rest["removed"] == [loud.process_id]
    assert rest["processes"] == [{"process_id": loud.process_id, "bytes": rest["bytes"]}]
    assert rest["bytes"] >= 588_895  # seq's output, in whole blocks
    assert _known(client, loud, failed, other, running) == [other.process_id, running.process_id]


@pytest.mark.parametrize(("typed", "goes"), [("y\n", True), ("\n", False)])
def test_prune_asks_on_a_terminal(served: OutliveServer, client: Client, typed: str, *, goes: bool) -> None:
    process = _closed(client.start("true", tags={"asked": typed.strip()}))
    with on_a_terminal("prune", "--tag", f"asked={typed.strip()}", state_dir=served.state_dir) as screen:
        screen.until("Remove 1 process for good? [y/N]")
        screen.type(typed)
        if goes:
            screen.until("1 process removed")
        assert screen.end() == (0 if goes else 1)
    assert bool(_known(client, process)) is not goes


def test_what_has_left_something_running_is_not_pruned(served: OutliveServer, client: Client) -> None:
    process = client.start("sleep 1000 & exit 0", tags={"left": "1"})
    assert process.wait(30).is_complete
    kept = json.loads(_outlive(served, "prune", "--tag", "left=1", "--yes", "--json").stdout)
    assert (kept["processes"], kept["removed"]) == ([], [])
    process.cancel(0)
    _closed(process)


def test_an_age_counts_from_the_end(client: Client) -> None:
    info = _closed(client.start("true")).info()
    assert info.ended_at is not None
    wanted = Pruning.parse(older_than="1h", states=[], group=None, tags=[])
    assert not wanted.takes(info, info.ended_at + timedelta(seconds=3599))
    assert wanted.takes(info, info.ended_at + timedelta(seconds=3600))
    for text in ("x", "1y", ""):
        with pytest.raises(InvalidRequest, match="--older-than"):
            Pruning.parse(older_than=text, states=[], group=None, tags=[])
