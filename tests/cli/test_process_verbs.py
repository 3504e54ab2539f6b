"""ps, inspect, wait, logs, send, pause, resume, stop, kill and signal against a real server, as a person
types them.
"""

import json
import shutil
import subprocess
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from outlive.cli.columns import table
from outlive.cli.tables import age, outcome
from outlive.client import Client, Process
from outlive.protocols.frames import decode_idx
from tests.cli.launching import environment
from tests.cli.terminals import on_a_terminal
from tests.support.processes import Gate
from tests.support.server import OutliveServer, outlive_command, run_outlive


def _outlive(served: OutliveServer, *words: str) -> subprocess.CompletedProcess[str]:
    return run_outlive(*words, state_dir=served.state_dir)


def _ended(process: Process) -> Process:
    assert process.wait(30).is_complete
    return process


def _listed(served: OutliveServer, *words: str) -> list[str]:
    done = _outlive(served, "ps", "--json", *words)
    assert done.returncode == 0, done.stderr
    return [one["process_id"] for one in json.loads(done.stdout)["processes"]]


def test_ps_lists_what_lives_and_all_of_it_on_demand(
    served: OutliveServer, client: Client, gate: Gate
) -> None:
    ended = _ended(client.start("exit 3", tags={"t": "ps"}))
    live = client.start(f"{gate.wait}; true", tags={"t": "ps"}, group="ps")
    shown = _outlive(served, "ps")
    assert live.process_id[-6:] in shown.stdout
    assert "running" in shown.stdout
    assert ended.process_id[-6:] not in shown.stdout
    assert _listed(served, "--all", "--tag", "t=ps") == [live.process_id, ended.process_id]
    assert _listed(served, "--group", "ps") == [live.process_id]
    everything = _outlive(served, "ps", "-a").stdout
    assert "exit 3" in everything
    gate.open()
    _ended(live)


def test_a_state_has_the_word_that_it_has_at_each_door_for_people(client: Client) -> None:
    """Issue 38, 4: what I stopped was "stopped, TERM", and a program that crashed "killed by SEGV"."""
    crashed = _ended(client.start("kill -SEGV $$")).info()
    assert outcome(crashed) == "crashed (SEGV)"
    assert outcome(replace(crashed, exit_signal=9)) == "killed (KILL)"
    assert outcome(replace(crashed, cause="cancel")) == "stopped"
    ended = replace(crashed, state="exited", exit_signal=None)
    words = [outcome(replace(ended, exit_code=code, cause=cause)) for code, cause in _ENDS]
    assert words == ["finished", "failed (exit 3)", "timed out", "stopped"]
    running = replace(crashed, state="running", exit_signal=None, ended_at=None)
    assert outcome(replace(running, waiting="input")) == "asks for input"
    assert outcome(replace(running, waiting="input", is_at_prompt=True)) == "running"
    assert outcome(replace(running, state="queued", waits_for="approval")) == "needs approval"


_ENDS = ((0, None), (3, None), (0, "timeout"), (143, "cancel"))


def test_start_continues_what_is_paused(served: OutliveServer, client: Client, gate: Gate) -> None:
    """Issue 38, 4: pueue's `start`; it was answered "lives already"."""
    process = client.start(f"{gate.wait}; true")
    process.pause()
    words = [*outlive_command(), "--state-dir", str(served.state_dir), "start", process.process_id]
    started = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert (started.returncode, process.info().state) == (0, "running"), started.stderr
    gate.open()
    _ended(process)


def test_flags_stand_in_any_form_and_order(served: OutliveServer, client: Client) -> None:
    _ended(client.start("true", tags={"t": "same"}))
    long = json.loads(_outlive(served, "ps", "--all", "--json", "--limit", "50").stdout)
    assert long == json.loads(_outlive(served, "ps", "-an50", "--json").stdout)
    assert long == json.loads(_outlive(served, "ps", "--limit=50", "--json", "-a").stdout)


@pytest.mark.thorough
def test_a_process_is_called_by_its_id_the_ids_end_or_its_pid(
    served: OutliveServer, client: Client, gate: Gate
) -> None:
    process = client.start(f"{gate.wait}; exit 4")
    for name in (process.process_id, process.process_id[-7:], str(process.pid)):
        told = json.loads(_outlive(served, "inspect", "--json", name).stdout)
        assert told["processes"][0]["process_id"] == process.process_id
    gate.open()
    waited = _outlive(served, "wait", process.process_id[-7:])
    assert waited.returncode == 4
    assert "failed (exit 4)" in _outlive(served, "inspect", process.process_id).stdout
    unknown = _outlive(served, "inspect", "zzzzzzzz")
    assert unknown.returncode == 1
    assert "outlive ps --all" in unknown.stderr


def test_inspect_shows_nothing_that_a_terminal_would_obey(
    served: OutliveServer, client: Client, tmp_path: Path
) -> None:
    """Folder, tags, group and command are what other programs chose."""
    folder = tmp_path / "a\x1b]0;title\x07b"
    folder.mkdir()
    process = client.start("true \x1b[31m", cwd=folder, tags={"t": "\x1b[2J"}, group="g\x1b[1m")
    _ended(process)
    shown = _outlive(served, "inspect", process.process_id).stdout
    assert "title" in shown
    assert not set(shown) & {chr(number) for number in range(32)} - {"\n"}
    missing = _outlive(served, "run", "--cwd", "/no/such/\x1b[31m", "--", "true").stderr
    assert "\x1b" not in missing


def test_wait_exits_as_the_process_did(served: OutliveServer, client: Client, gate: Gate) -> None:
    signaled = client.start("kill -TERM $$")
    assert _outlive(served, "wait", signaled.process_id).returncode == 128 + 15
    never = client.start(gate.wait)
    late = _outlive(served, "wait", "--timeout", "0.2", never.process_id)
    assert late.returncode == 124
    gate.open()
    assert _outlive(served, "wait", never.process_id, signaled.process_id).returncode == 128 + 15


@pytest.mark.thorough
def test_wait_shows_at_a_terminal_how_far_it_is_and_nothing_elsewhere(
    served: OutliveServer, client: Client, gate: Gate
) -> None:
    first, second = _ended(client.start("true")), client.start(gate.wait)
    names = (first.process_id, second.process_id)
    with on_a_terminal("wait", *names, state_dir=served.state_dir) as screen:
        assert "waiting" in screen.until("1/2")
        gate.open()
        assert screen.end() == 0
    elsewhere = _outlive(served, "wait", *names)
    assert (elsewhere.stdout.count("\n"), elsewhere.stderr) == (2, "")


@pytest.mark.thorough
def test_logs_show_streams_apart_the_last_lines_and_matching_lines(
    served: OutliveServer, client: Client
) -> None:
    process = _ended(client.start("seq 1 5000; echo mistake 77 >&2"))
    whole = _outlive(served, "logs", process.process_id)
    assert whole.stdout == "".join(f"{number}\n" for number in range(1, 5001))
    assert whole.stderr == "mistake 77\n"
    assert (
        _outlive(served, "logs", "--tail", "2", "--stream", "stdout", process.process_id).stdout
        == "4999\n5000\n"
    )
    found = _outlive(served, "logs", "--grep", "77", process.process_id)
    assert found.stdout == "".join(f"{number}\n" for number in range(1, 5001) if "77" in str(number))
    assert found.stderr == "mistake 77\n"
    assert _outlive(served, "logs", "--grep", "MISTAKE", process.process_id).returncode == 1
    assert _outlive(served, "logs", "--grep", "MISTAKE", "-i", process.process_id).returncode == 0
    around = _outlive(served, "logs", "--grep", "2500", "-C", "1", process.process_id)
    assert around.stdout == "--\n2499\n2500\n2501\n"
    assert _outlive(served, "logs", "--stream", "nonsense", process.process_id).returncode == 2


def test_logs_tell_when_each_line_was_written_and_take_several(
    served: OutliveServer, client: Client, gate: Gate
) -> None:
    """Issue 38, 4: `logs --timestamps` and `logs a b`."""
    first = client.start(f"printf 'one\nha'; {gate.wait}; echo lf")
    with first.follow() as output:
        next(output)
    gate.open()
    _ended(first)
    second = _ended(client.start("echo two"))
    began, ended = first.info().created_at, datetime.now(UTC)
    for flags in ([], ["-f"]):
        lines = _outlive(served, "logs", "--timestamps", *flags, first.process_id).stdout.splitlines()
        assert [line.split(" ", 1)[1] for line in lines] == ["one", "half"]
        moments = [datetime.fromisoformat(line.split(" ", 1)[0]) for line in lines]
        assert began - timedelta(seconds=1) <= min(moments) <= max(moments) <= ended
    both = _outlive(served, "logs", first.process_id, second.process_id)
    assert both.stdout == "one\nhalf\ntwo\n"
    assert both.stderr == f"==> {first.process_id} <==\n==> {second.process_id} <==\n"
    assert _outlive(served, "logs", "-f", first.process_id, second.process_id).returncode == 2


def test_logs_follow_to_the_end(served: OutliveServer, client: Client, gate: Gate) -> None:
    process = client.start(f"echo first; {gate.wait}; echo last")
    gate.open()
    assert _outlive(served, "logs", "-f", process.process_id).stdout == "first\nlast\n"


@pytest.mark.thorough
def test_the_quick_and_the_thorough_way_to_a_log_say_the_same(served: OutliveServer, client: Client) -> None:
    process = _ended(client.start("seq 1 3000; echo err 7 >&2"))
    for words in (["--tail", "3"], ["--grep", "7"], ["--json"], ["--since", "5"], ["--grep", "7", "--json"]):
        quick = _outlive(served, "logs", process.process_id, *words)
        slow = _outlive(served, "logs", process.process_id, *words, "--context=0")
        assert (quick.returncode, quick.stdout, quick.stderr) == (0, slow.stdout, slow.stderr)
        assert quick.stdout


@pytest.mark.thorough
def test_a_log_needs_no_server(tmp_path: Path) -> None:
    """Also where the end of an id, of letters alone, might be a name."""
    with OutliveServer(tmp_path / "state") as server:
        with Client(server.state_dir, start_server=False) as client:
            process = _ended(client.start("echo kept"))
        server.kill()
        worded = f"{process.process_id[:-6]}server"
        folders = server.state_dir / "processes"
        shutil.copytree(folders / process.process_id, folders / worded, ignore=lambda *_: ["sock"])
        for name in (process.process_id, process.process_id[-6:], "server"):
            done = _outlive(server, "logs", "--no-start", name)
            assert (done.returncode, done.stdout) == (0, "kept\n"), done.stderr
        assert _outlive(server, "logs", "--no-start", "zzzzzz").returncode == 1


@pytest.mark.thorough
def test_logs_begin_at_a_moment(served: OutliveServer, client: Client) -> None:
    """The moments are those that the keeper has noted for what was really written."""
    process = _ended(client.start("echo early; sleep 0.3; echo later >&2; sleep 0.3; echo last"))
    index = served.state_dir / "processes" / process.process_id / "idx"
    times = [record.time_ns for record in decode_idx(index.read_bytes())]
    assert len(times) == 3
    for place, shown in enumerate(["early\nlast\n", "last\n", "last\n"]):
        moment = datetime.fromtimestamp(times[place] / 1e9, tz=UTC).isoformat()
        done = _outlive(served, "logs", "--since", moment, process.process_id)
        assert (done.stdout, done.stderr) == (shown, "later\n" if place < 2 else "")
        followed = _outlive(served, "logs", "-f", "--since", moment, process.process_id)
        assert followed.stdout == shown
    moment = datetime.fromtimestamp(times[1] / 1e9, tz=UTC).isoformat()
    assert _outlive(served, "logs", "--since", moment, "--grep", "early", process.process_id).returncode == 1
    tail = _outlive(served, "logs", "--since", moment, "--tail", "1", process.process_id)
    assert (tail.stdout, tail.stderr) == ("last\n", "")
    tail = _outlive(served, "logs", "--since", moment, "--tail", "100", process.process_id)
    assert (tail.stdout, tail.stderr) == ("last\n", "later\n")
    assert "early" in _outlive(served, "logs", "--since", "1h", process.process_id).stdout
    assert _outlive(served, "logs", "--since", "0s", process.process_id).returncode == 0
    refused = _outlive(served, "logs", "--since", "yesterday", process.process_id)
    assert (refused.returncode, "14:30" in refused.stderr) == (1, True)


def test_matching_lines_are_followed_to_the_end(served: OutliveServer, client: Client, gate: Gate) -> None:
    process = client.start(f"echo hit 1; echo miss; {gate.wait}; echo hit 2; printf 'hit 3'")
    with subprocess.Popen(
        [*outlive_command(), "logs", "-f", "--grep", "hit", process.process_id],
        env=environment({"OUTLIVE_STATE_DIR": str(served.state_dir)}),
        stdout=subprocess.PIPE,
        text=True,
    ) as following:
        assert following.stdout is not None
        assert following.stdout.readline() == "hit 1\n"  # while it runs
        gate.open()
        assert following.stdout.read() == "hit 2\nhit 3\n"
    assert following.returncode == 0
    assert _outlive(served, "logs", "-f", "--grep", "nowhere", process.process_id).returncode == 1


def test_logs_as_json_are_a_line_for_each_piece(served: OutliveServer, client: Client) -> None:
    process = _ended(client.start("printf 'a\\303'; sleep 0.15; printf '\\244b\\n'; echo err >&2"))
    pieces = [
        json.loads(line)
        for line in _outlive(served, "logs", "--json", process.process_id).stdout.splitlines()
    ]
    assert "".join(one["data"] for one in pieces if one["type"] == "stdout") == "aäb\n"
    assert pieces[-1] == {"type": "stderr", "data": "err\n", "end": 4}
    (match,) = _outlive(served, "logs", "--json", "--grep", "äb", process.process_id).stdout.splitlines()
    told = {"type": "stdout", "offset": 0, "end": 4, "line": "aäb", "before": [], "after": []}
    assert json.loads(match) == told


@pytest.mark.thorough
def test_send_writes_text_keys_and_the_end(served: OutliveServer, client: Client) -> None:
    process = client.start("cat", stdin="pipe")
    assert _outlive(served, "send", process.process_id, "hello world").returncode == 0
    assert _outlive(served, "send", process.process_id, "-n", "no newline").returncode == 0
    assert _outlive(served, "send", process.process_id, "--eof").returncode == 0
    _ended(process)
    assert _outlive(served, "logs", process.process_id).stdout == "hello world\nno newline"
    for words, part in ((("--key", "nonsense"), "enter"), ((), "nothing to send")):
        refused = _outlive(served, "send", process.process_id, *words)
        assert refused.returncode == 1
        assert part in refused.stderr


def test_a_group_is_paused_resumed_and_stopped(served: OutliveServer, client: Client) -> None:
    members = [client.start("sleep 1000", group="verbs") for _ in range(2)]
    for verb, state in (("pause", "paused"), ("resume", "running")):
        done = _outlive(served, verb, "--group", "verbs")
        assert done.returncode == 0, done.stderr
        assert [process.info().state for process in members] == [state, state]
    assert _outlive(served, "stop", "--grace", "5", "--group", "verbs").returncode == 0
    assert [_ended(process).info().exit_signal for process in members] == [15, 15]
    assert [process.info().cause for process in members] == ["cancel", "cancel"]


def test_signal_and_kill_reach_the_process(served: OutliveServer, client: Client, tmp_path: Path) -> None:
    heard = tmp_path / "heard"
    process = client.start(f"trap 'touch {heard}' USR1; echo ready; while :; do sleep 0.05; done")
    with process.follow() as items:
        next(iter(items))
    assert _outlive(served, "signal", "USR1", process.process_id).returncode == 0
    for _ in range(200):
        if heard.exists():
            break
        process.wait(0.05)
    assert heard.exists()
    assert _outlive(served, "kill", process.process_id).returncode == 0
    info = _ended(process).info()
    assert (info.exit_signal in {9, 15}, info.cause) == (True, "cancel")


def test_one_failure_of_several_is_told_and_the_others_are_done(
    served: OutliveServer, client: Client
) -> None:
    process = client.start("sleep 1000")
    done = _outlive(served, "kill", "zzzzzzzz", process.process_id)
    assert done.returncode == 1
    assert "zzzzzzzz" in done.stderr
    info = _ended(process).info()
    assert (info.exit_signal in {9, 15}, info.cause) == (True, "cancel")


@pytest.mark.parametrize("words", [("stop",), ("stop", "x", "--group", "g"), ("stop", "--tag", "nonsense")])
def test_what_a_verb_is_about_is_said_in_exactly_one_way(
    served: OutliveServer, words: tuple[str, ...]
) -> None:
    done = _outlive(served, *words)
    assert done.returncode == 2
    assert "Error: " in done.stderr


def test_no_start_fails_where_no_server_runs(tmp_path: Path) -> None:
    for words in (("ps", "--no-start"), ("inspect", "x", "--no-start")):
        done = run_outlive(*words, state_dir=tmp_path / "nobody")
        assert done.returncode == 1
        assert "No server answers" in done.stderr


def test_tables_and_ages_are_plain_text() -> None:
    assert table([("A", "LONG", "C"), ("xyz", "1", "c d")]) == ["A    LONG  C", "xyz  1     c d"]
    now = datetime(2026, 1, 2, tzinfo=UTC)
    spans = {0.25: "0.2s", 12: "12s", 61: "1m", 3700: "1h", 90000: "1d"}
    assert [age(now - timedelta(seconds=seconds), now) for seconds in spans] == list(spans.values())
