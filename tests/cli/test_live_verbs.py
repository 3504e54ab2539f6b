"""stats and events against a real server: what trees use, and what happens, on a terminal and as lines."""

import json
import subprocess
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import pytest

from outlive.cli.completion import complete_words
from outlive.cli.verbs.events import event_line
from outlive.cli.verbs.stats import Look, Sample
from outlive.client import Client, ProcessEvent, ProcessStats
from outlive.core.lifecycle import ENDED, State
from outlive.protocols.jsonrpc.answers import EVENT_NAMES
from tests.cli.launching import environment
from tests.cli.terminals import on_a_terminal
from tests.support.processes import Gate
from tests.support.server import OutliveServer, outlive_command, run_outlive


class _Lines:
    """A verb that prints lines until it is interrupted."""

    def __init__(self, *words: str, state_dir: Path) -> None:
        self._process = subprocess.Popen(
            [*outlive_command(), *words, "--state-dir", str(state_dir)],
            env=environment({}),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._process.kill()
        self._process.communicate()

    def next(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        told = json.loads(self._process.stdout.readline())
        assert isinstance(told, dict)
        return told

    def listening(self) -> None:
        """Wait until it has said that it listens."""
        assert self._process.stderr is not None
        assert "from now on" in self._process.stderr.readline()


@pytest.mark.thorough
def test_stats_tell_what_the_trees_that_live_use(served: OutliveServer, client: Client, gate: Gate) -> None:
    busy = client.start("while :; do :; done", tags={"s": "1"})
    reader = client.start("cat", stdin="pipe", tags={"s": "1"})
    client.start("true").wait(30)
    told = json.loads(run_outlive("stats", "--no-stream", "--json", state_dir=served.state_dir).stdout)
    by_id = {one["process_id"]: one for one in told["processes"]}
    assert {busy.process_id, reader.process_id} <= set(by_id)
    assert by_id[busy.process_id]["pids"][0] == busy.pid
    assert by_id[busy.process_id]["cpu_percent"] > 0
    assert by_id[reader.process_id]["waiting"] == "input"
    assert by_id[reader.process_id]["memory_bytes"] > 0
    shown = run_outlive("stats", "--no-stream", "--tag", "s=1", state_dir=served.state_dir).stdout
    head, *rows = shown.splitlines()
    assert head.split()[:4] == ["ID", "STATE", "CPU", "MEMORY"]
    assert [row.split()[0] for row in rows] == [reader.process_id[-6:], busy.process_id[-6:]]
    named = run_outlive("stats", "--no-stream", "--json", busy.process_id, state_dir=served.state_dir)
    assert [one["process_id"] for one in json.loads(named.stdout)["processes"]] == [busy.process_id]
    both = run_outlive("stats", busy.process_id, "--group", "g", state_dir=served.state_dir)
    assert (both.returncode, "not both" in both.stderr) == (2, True)
    for process in (busy, reader):
        process.cancel(0)


def test_stats_draw_again_in_the_same_place_on_a_terminal(
    served: OutliveServer, client: Client, gate: Gate
) -> None:
    process = client.start(gate.wait)
    words = ("stats", "--interval", "0.1", process.process_id)
    with on_a_terminal(*words, state_dir=served.state_dir) as screen:
        shown = screen.until(process.process_id[-6:], times=3)
        assert shown.count("\x1b[2J") == 1
        assert shown.count("\x1b[H") >= 3
        assert screen.interrupt() == 130


def test_stats_go_on_as_lines_of_json(served: OutliveServer, client: Client, gate: Gate) -> None:
    process = client.start(gate.wait, group="lines")
    words = ("stats", "--json", "--interval", "0.1", "--group", "lines")
    with _Lines(*words, state_dir=served.state_dir) as lines:
        for _ in range(3):
            assert [one["process_id"] for one in lines.next()["processes"]] == [process.process_id]
        gate.open()
        while lines.next()["processes"]:
            pass


def test_the_processors_share_is_what_was_used_since_the_look_before(client: Client, gate: Gate) -> None:
    info = replace(client.start(gate.wait).info(), stats=None)
    stats = ProcessStats(pids=(1,), threads=1, cpu_s=10.0, memory_bytes=1, ports=(), waiting=None)
    before = Sample(replace(info, stats=stats), 100.0)
    later = Sample(replace(info, stats=replace(stats, cpu_s=13.0)), 102.0)
    assert Look.between(before, later).cpu_percent == 150.0
    assert Look.between(None, later).cpu_percent is None
    assert Look.between(later, Sample(before.info, 104.0)).cpu_percent == 0.0
    assert Look.between(Sample(info, 1.0), later).cpu_percent is None


def test_events_are_told_as_they_happen_and_across_a_killed_server(
    own_server: OutliveServer, gate: Gate
) -> None:
    with Client(own_server.state_dir, start_server=False) as client:
        process = client.start(gate.wait, tags={"e": "1"})
        words = ("events", "--json", "--no-start", "--tag", "e=1", "--event", "paused", "--event", "ended")
        with _Lines(*words, state_dir=own_server.state_dir) as lines:
            lines.listening()
            process.pause()
            told = lines.next()
            assert (told["event"], told["process_id"]) == ("paused", process.process_id)
            assert told["process"]["tags"] == {"e": "1"}
            own_server.restart()
            assert (told := lines.next())["event"] == "missed"
            assert told["missed"] == 0
            process.resume()
            gate.open()
            assert (told := lines.next())["event"] == "ended"
            assert told["process"]["exit_code"] == 0


def test_events_of_one_process_are_told_to_people(served: OutliveServer, client: Client, gate: Gate) -> None:
    process = client.start(f"{gate.wait}; exit 3", group="people")
    with on_a_terminal("events", process.process_id, state_dir=served.state_dir) as screen:
        screen.until("from now on")
        gate.open()
        shown = screen.until("closed")
        assert f"{process.process_id[-6:]}  failed (exit 3)" in shown
        assert "group=people" in shown
        assert screen.interrupt() == 130


def test_a_misspelt_event_is_refused(served: OutliveServer) -> None:
    done = run_outlive("events", "--event", "exploded", state_dir=served.state_dir)
    assert (done.returncode, "exploded" in done.stderr) == (2, True)


def test_the_words_that_the_verbs_offer_are_those_that_there_are() -> None:
    """Written out there, because completing must not import what they come from."""
    for option, words in (("--event", EVENT_NAMES), ("--state", [state.value for state in State])):
        assert [word for word, _ in complete_words(["events", option, ""])] == list(words)
    assert {word for word, _ in complete_words(["prune", "--state", ""])} == {state.value for state in ENDED}


def test_what_is_missing_is_said_in_words() -> None:
    at = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    lines = [event_line(ProcessEvent(event="missed", at=at, missed=count)) for count in (0, 7)]
    assert "some events may be missing here" in lines[0]
    assert "7 events are missing here" in lines[1]
    assert event_line(ProcessEvent(event="rejected", at=at, reason="not_found")).endswith(
        "rejected   not_found"
    )
