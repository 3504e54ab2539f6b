"""`outlive run --key` and names like p7, from outside: each folder has its own, and a key runs a command
once.
"""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from outlive.cli.completion import complete_words
from outlive.client import Client, StartOptions
from outlive.client.results import ProcessInfo
from outlive.core.identity import RANDOM_BYTES, new_process_id
from tests.support.processes import Gate
from tests.support.server import OutliveServer, outlive_command, run_outlive


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository of a test's own."""
    folder = tmp_path / "repository"
    (folder / ".git").mkdir(parents=True)
    (folder / "below").mkdir()
    return folder


def _in(folder: Path, served: OutliveServer, *words: str) -> subprocess.CompletedProcess[str]:
    return run_outlive(*words, state_dir=served.state_dir, cwd=folder)


def _once(folder: Path, served: OutliveServer, line: str, *flags: str) -> subprocess.CompletedProcess[str]:
    return _in(folder, served, "run", "--key", "build", *flags, "-c", line)


@pytest.mark.promise("C.run.key")
def test_a_key_runs_a_command_once_in_its_project(
    served: OutliveServer, project: Path, tmp_path: Path
) -> None:
    line = f"echo x >> '{tmp_path}/count'; echo made; echo warned >&2; exit 3"
    first = _once(project, served, line)
    assert (first.returncode, first.stdout, first.stderr) == (3, "made\n", "warned\n")
    again = _once(project, served, line)
    assert (again.returncode, again.stdout) == (3, "made\n")
    assert again.stderr.startswith("outlive: p1 ran ")
    assert again.stderr.endswith(" ago with this key, not again\nwarned\n")
    assert (tmp_path / "count").read_text() == "x\n"
    detached = json.loads(_once(project, served, line, "-d", "--json").stdout)
    assert (detached["short_id"], detached["repeated"]) == ("p1", True)


@pytest.mark.promise("C.run.key")
def test_two_folders_have_each_their_own_key(served: OutliveServer, project: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    assert _once(project, served, "pwd").stdout == f"{project}\n"
    assert _once(other, served, "pwd").stdout == f"{other}\n"
    assert _once(tmp_path, served, "pwd", "--cwd", str(other)).stderr.startswith("outlive: p1 ran ")


@pytest.mark.promise("C.run.key")
def test_a_key_with_another_command_is_refused_with_a_hint(served: OutliveServer, project: Path) -> None:
    _once(project, served, "true")
    refused = _once(project, served, "false")
    assert refused.returncode == 125
    assert "belongs to another command: true\n  Use another key, or read the result of p1." in refused.stderr


@pytest.mark.promise("C.run.key")
def test_a_removed_process_gives_its_key_free(served: OutliveServer, project: Path) -> None:
    _once(project, served, "true")
    assert _in(project, served, "rm", "p1").returncode == 0
    assert _once(project, served, "exit 7").returncode == 7


@pytest.mark.promise("C.run.key")
def test_a_known_key_leaves_standard_input_to_the_next_reader(served: OutliveServer, project: Path) -> None:
    """The descriptor that was lent for a start is given back when nothing starts."""
    _once(project, served, "true")
    words = [*outlive_command(), "run", "--state-dir", str(served.state_dir), "--key", "build", "-c", "true"]
    script = 'read -r first; "$@"; read -r second; echo "$first $second"'
    done = subprocess.run(
        ["sh", "-c", script, "sh", *words],
        cwd=project,
        input="one\ntwo\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == "one two\n"


@pytest.mark.promise("C.run.key")
def test_a_run_that_is_asked_for_again_after_kills_goes_on_with_the_same_process(
    own_server: OutliveServer, project: Path, gate: Gate, tmp_path: Path
) -> None:
    line = f"echo x >> '{tmp_path}/count'; echo begun; {gate.wait}; echo ended; exit 5"
    words = [*outlive_command(), "run", "--state-dir", str(own_server.state_dir)]
    words += ["--key", "build", "-c", line]
    with subprocess.Popen(words, cwd=project, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == b"begun\n"
        first.send_signal(signal.SIGKILL)
    own_server.restart()  # kills it, too
    with subprocess.Popen(
        words, cwd=project, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL
    ) as again:
        assert again.stdout is not None
        assert again.stdout.readline() == b"begun\n"
        gate.open()
        out, err = again.communicate(timeout=60)
    assert (out, again.returncode) == (b"ended\n", 5)
    assert err == b"outlive: p1 started before with this key, not again\n"
    assert (tmp_path / "count").read_text() == "x\n"


def _named(folder: Path, served: OutliveServer, *words: str) -> list[str]:
    done = _in(folder, served, *words, "--json")
    assert done.returncode == 0, done.stderr
    return [process["process_id"] for process in json.loads(done.stdout)["processes"]]


def _started(
    client: Client, project: Path, command: str = "true", process_id: str | None = None
) -> ProcessInfo:
    wanted: StartOptions = {"project": str(project)}
    if process_id is not None:
        wanted["process_id"] = process_id
    return client.start(command, **wanted).wait(20)


@pytest.mark.promise("C.names")
def test_a_short_id_is_a_process_of_the_current_folders_project(
    served: OutliveServer, client: Client, project: Path, tmp_path: Path
) -> None:
    own, other = _started(client, project), _started(client, tmp_path)
    for name in ("p1", "P1"):
        assert _named(project / "below", served, "inspect", name) == [own.process_id]
        assert _named(tmp_path, served, "inspect", name) == [other.process_id]
    assert _in(project, served, "inspect", "p2").returncode == 1


@pytest.mark.promise("C.names")
def test_a_short_id_comes_before_an_id_that_ends_so_and_is_never_the_end_of_one_by_chance(
    served: OutliveServer, client: Client, project: Path, tmp_path: Path
) -> None:
    looks_so = new_process_id(time.time_ns(), os.urandom(RANDOM_BYTES))[:-2] + "p1"
    _started(client, tmp_path, "echo looks so", process_id=looks_so)
    _started(client, tmp_path, "true", process_id=looks_so[:-6] + "p12345")
    own = _started(client, project, "echo own")
    assert _named(project, served, "inspect", "p1") == [own.process_id]
    assert _in(project, served, "logs", "p1").stdout == "own\n"
    nowhere = tmp_path / "nowhere"
    nowhere.mkdir()
    for verb in ("inspect", "logs", "stop", "wait"):
        refused = _in(nowhere, served, verb, "p1")
        assert (refused.returncode, refused.stdout) == (1, "")
        assert "outlive ps --all" in refused.stderr
    assert _named(nowhere, served, "inspect", "p12345") == [looks_so[:-6] + "p12345"]


@pytest.mark.promise("C.names")
def test_every_verb_takes_short_ids(served: OutliveServer, client: Client, project: Path, gate: Gate) -> None:
    live = client.start(f"echo hello; {gate.wait}; exit 4", project=str(project), stdin="pipe")
    for words in (("pause",), ("resume",), ("signal", "CONT"), ("tag", "p1", "a=b"), ("send", "p1", "text")):
        done = _in(project, served, *words, *(() if "p1" in words else ("p1",)))
        assert done.returncode == 0, (words, done.stderr)
    gate.open()
    assert _in(project, served, "wait", "p1").returncode == 4
    assert _in(project, served, "attach", "p1").returncode == 4
    assert _in(project, served, "logs", "-f", "p1").stdout == "hello\n"
    assert live.info().tags == {"a": "b"}
    assert _in(project, served, "rm", "p1").returncode == 0


@pytest.mark.promise("C.names")
def test_ps_shows_short_ids_of_this_project_and_lists_it_alone_on_demand(
    served: OutliveServer, client: Client, project: Path, tmp_path: Path
) -> None:
    own, other = _started(client, project, "echo own"), _started(client, tmp_path, "echo other")
    rows = [row.split() for row in _in(project, served, "ps", "-a").stdout.splitlines()]
    assert rows[0][:3] == ["ID", "NAME", "STATE"]
    assert next(row for row in rows if row[-1] == "own")[:2] == [own.process_id[-6:], "p1"]
    assert next(row for row in rows if row[-1] == "other")[:2] == [other.process_id[-6:], "finished"]
    assert _named(project / "below", served, "ps", "-a", "--project") == [own.process_id]
    shown = json.loads(_in(project, served, "ps", "-a", "--project", "--json").stdout)["processes"][0]
    assert (shown["short_id"], shown["project"], shown["key"]) == ("p1", str(project), None)


@pytest.mark.promise("C.names")
def test_shells_complete_short_ids_of_this_project(
    served: OutliveServer, client: Client, project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _started(client, project, "echo \x1b[1mone")
    _started(client, project, "echo two")
    monkeypatch.chdir(project)
    here = ["--state-dir", str(served.state_dir)]
    offered = [("p2", "echo two"), ("p1", "echo [1mone")]
    assert [name for name, _ in complete_words(["stop", *here, "p9", ""])] == ["p2", "p1"]
    assert dict(complete_words(["logs", *here, "p"]))["p2"] == offered[0][1]
    assert "\x1b" not in dict(complete_words(["logs", *here, "p"]))["p1"]
    assert complete_words(["attach", *here, "p1", ""]) == []
    assert complete_words(["logs", "--state-dir", str(tmp_path / "none"), ""]) == []


@pytest.mark.thorough
@pytest.mark.promise("C.names.echo", "W.names", "W.names.unique")
def test_a_name_is_what_every_verb_takes_and_says(served: OutliveServer, project: Path, gate: Gate) -> None:
    started = _in(project, served, "run", "-d", "--name", "web", "--json", "-c", f"echo hello; {gate.wait}")
    view = json.loads(started.stdout)
    assert (view["name"], view["short_id"]) == ("web", "p1")
    label = f"web ({view['process_id'][-6:]})"
    for verb, said in (("pause", "is paused"), ("resume", "goes on"), ("tag", "")):
        done = _in(project, served, verb, "web", *(["a=b"] if verb == "tag" else []))
        assert done.returncode == 0, done.stderr
        assert done.stderr.startswith(f"{label} {said}: echo hello" if said else "")
    assert _in(project, served, "logs", "web").stdout == "hello\n"
    refused = _in(project, served, "run", "--name", "web", "--", "true")
    assert refused.returncode == 125
    assert view["process_id"] in refused.stderr
    assert "--replace" in refused.stderr
    again = _in(project, served, "run", "-d", "--name", "web", "--replace", "-c", "sleep 60")
    assert again.returncode == 0, again.stderr
    assert "stopped" in _in(project, served, "inspect", "p1").stdout
    stopped = _in(project, served, "stop", "@last")
    assert stopped.stderr == f"web ({again.stdout.strip()[-6:]}) is being stopped: sleep 60\n"
    _in(project, served, "wait", "web")
    assert (
        _in(project, served, "rm", "web").stderr
        == f"web ({again.stdout.strip()[-6:]}) is removed: sleep 60\n"
    )
    # The other one of that name is what it means now; elsewhere it is said where it is.
    assert _named(project, served, "inspect", "web") == [view["process_id"]]
    assert _in(project / "below", served, "rm", "web").returncode == 0


@pytest.mark.promise("W.names")
def test_a_name_of_another_folder_is_said_and_not_taken(
    served: OutliveServer, project: Path, tmp_path: Path, gate: Gate
) -> None:
    process_id = _in(project, served, "run", "-d", "--name", "db", "-c", gate.wait).stdout.strip()
    refused = _in(tmp_path, served, "stop", "db")
    assert (refused.returncode, process_id in refused.stderr, str(project) in refused.stderr) == (
        1,
        True,
        True,
    )
    assert _named(project, served, "ps") == [process_id]


@pytest.mark.promise("V.cli")
def test_all_is_this_project_and_what_is_beyond_it_is_asked_about(
    served: OutliveServer, project: Path, tmp_path: Path, client: Client
) -> None:
    """Issue 38, 4: `stop --all` ended everything of every project."""
    own = client.start("sleep 1000", project=str(project), grace_s=1)
    other = client.start("sleep 1000", project=str(tmp_path / "other"), grace_s=1)
    stopped = _in(project, served, "stop", "--all")
    assert stopped.returncode == 0
    assert "of other projects" in stopped.stderr
    assert _in(project, served, "wait", "--all").returncode == 0
    assert own.wait(20).cause == "cancel"
    assert other.info().state == "running"
    assert _in(project, served, "stop", "--all", "--yes").returncode == 0
    assert other.wait(20).cause == "cancel"


@pytest.mark.promise("V.cli")
def test_a_process_gets_another_name(served: OutliveServer, project: Path, client: Client) -> None:
    """Issue 38, 4: and `retry1` may be one, though an id may end so."""
    process = client.start("true", name="first", project=str(project))
    renamed = _in(project, served, "rename", "first", "retry1")
    assert (renamed.returncode, process.info().name) == (0, "retry1"), renamed.stderr
    assert _in(project, served, "wait", "retry1").returncode == 0
    wrong = _in(project, served, "rename", "retry1", "p7")
    assert (wrong.returncode, "cannot be called 'p7'" in wrong.stderr) == (1, True)


@pytest.mark.promise("V.cli")
def test_a_word_that_is_a_name_and_the_end_of_another_id_is_refused_with_both(
    served: OutliveServer, project: Path, client: Client, gate: Gate
) -> None:
    other = client.start(
        ["true"],
        project=str(project),
        process_id=f"{new_process_id(time.time_ns(), bytes(RANDOM_BYTES))[:20]}retry1",
    )
    named = client.start(f"{gate.wait}; true", name="retry1", project=str(project))
    refused = _in(project, served, "stop", "retry1")
    assert refused.returncode == 1
    assert all(one.process_id in refused.stderr for one in (other, named))
    gate.open()
