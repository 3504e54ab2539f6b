"""`outlive up`, `down`, `restart` and `logs` as a user of foreman, overmind or process-compose tries them."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from outlive.client import Client, ServiceInfo
from tests.support.server import OutliveServer, outlive_command, run_outlive

pytestmark = pytest.mark.promise("V.cli")

_PATIENCE_S = 60.0


@pytest.fixture
def project(tmp_path: Path, served: OutliveServer) -> Iterator[Path]:
    """A project's folder; its services are stopped at the end."""
    folder = tmp_path / "shop"
    (folder / ".git").mkdir(parents=True)
    yield folder
    with Client(served.state_dir, start_server=False) as client:
        for stack in client.services.list(str(folder)):
            client.services.down(stack.folder, grace_s=0)


def _write(folder: Path, text: str, name: str = "outlive.processes.toml") -> None:
    (folder / name).write_text(text)


def _run(folder: Path, served: OutliveServer, *words: str) -> subprocess.CompletedProcess[str]:
    return run_outlive(*words, state_dir=served.state_dir, cwd=folder)


@contextmanager
def _foreground(
    folder: Path, served: OutliveServer, *words: str
) -> Iterator[tuple["subprocess.Popen[str]", Callable[[str], str]]]:
    """Run a verb beside the test; yield it and what reads its lines up to one that contains a text."""
    environment = {**os.environ, "OUTLIVE_STATE_DIR": str(served.state_dir)}
    process = subprocess.Popen(
        [*outlive_command(), *words],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    read = process.stdout.readline
    unseen: list[str] = []  # lines of several services come in any order

    def until(text: str) -> str:
        for line in unseen:
            if text in line:
                unseen.remove(line)
                return line
        while line := read():
            if text in line:
                return line
            unseen.append(line)
        raise AssertionError(f"{text!r} was never printed")

    with process:
        try:
            yield process, until
        finally:
            if process.poll() is None:
                process.kill()


def _services(
    folder: Path, served: OutliveServer, claim: Callable[[dict[str, ServiceInfo]], bool]
) -> dict[str, ServiceInfo]:
    """Return the services once a claim holds."""
    deadline = time.monotonic() + _PATIENCE_S
    with Client(served.state_dir, start_server=False) as client:
        revision: int | None = None
        found: dict[str, ServiceInfo] = {}
        while time.monotonic() < deadline:
            (stack,) = client.services.list(str(folder), revision=revision, wait_s=5)
            found = {one.name: one for one in stack.services}
            if claim(found):
                return found
            revision = stack.revision
    raise AssertionError(found)


_SHOP = """
[services.db]
command = "echo db is up; exec sleep 600"
ready = { text = "db is up" }

[services.web]
command = "echo web sees $KIND; exec sleep 600"
environment = { KIND = "shop" }
after = "db"
"""


@pytest.mark.thorough
def test_up_d_returns_when_all_are_ready_and_down_when_all_have_ended(
    project: Path, served: OutliveServer
) -> None:
    _write(project, _SHOP)
    (project / "deeper").mkdir()
    up = _run(project / "deeper", served, "up", "-d")
    assert (up.returncode, sorted(up.stdout.splitlines())) == (0, ["db  is ready", "web  is ready"])
    listed = _run(project, served, "ps", "--project")
    assert listed.stdout.count("running") == 2
    # It is ready as soon as it runs, before it has printed anything.
    assert _run(project, served, "wait", "--for", "text=web sees", "web").returncode == 0
    assert _run(project, served, "logs").stdout == "db  | db is up\nweb | web sees shop\n"
    again = json.loads(_run(project, served, "up", "-d", "--json").stdout)
    assert [(one["name"], one["state"]) for one in again["services"]] == [("db", "ready"), ("web", "ready")]
    down = _run(project, served, "down")
    assert (down.returncode, down.stdout) == (0, "web  stopped\ndb  stopped\n")
    assert _run(project, served, "ps", "--project").stdout == ""


def test_up_d_says_which_services_will_not_be_ready(project: Path, served: OutliveServer) -> None:
    _write(
        project,
        (
            '[services.move]\ncommand="exit 3"\nready={exit=true}\n[services.web]\ncommand="sleep 9"\n'
            'after="move"\n'
        ),
    )
    up = _run(project, served, "up", "-d")
    assert (up.returncode, sorted(up.stdout.splitlines())) == (
        1,
        ["move  failed (exit 3)", "web  waits for move, in vain"],
    )


def test_up_d_says_what_is_not_ready_when_the_time_is_up(project: Path, served: OutliveServer) -> None:
    _write(project, '[services.web]\ncommand="sleep 600"\nready={text="never"}\n')
    up = _run(project, served, "up", "-d", "--timeout", "0.5")
    assert up.returncode == 124
    assert "web  runs, and is not ready yet" in up.stderr
    assert "1 of 1 are not ready" in up.stderr


def test_up_shows_the_output_of_all_and_ctrl_c_stops_them(project: Path, served: OutliveServer) -> None:
    _write(project, _SHOP + "\n[services.odd]\ncommand=\"printf 'no newline'; sleep 0.2\"\n")
    with _foreground(project, served, "up") as (process, until):
        assert until("db is up") == "db  | db is up\n"
        assert until("web sees") == "web | web sees shop\n"
        assert until("web | *") == "web | * is ready\n"
        process.send_signal(signal.SIGINT)
        until("stopping the services")
        until("db  | * stopped")
        assert process.wait(_PATIENCE_S) == 130
    assert {one.state for one in _services(project, served, lambda _: True).values()} <= {"stopped", "done"}


def test_a_second_ctrl_c_kills(project: Path, served: OutliveServer) -> None:
    _write(
        project,
        '[services.deaf]\ncommand="trap \'\' TERM; echo up; while :; do sleep 0.1; done"\ngrace="1h"\n',
    )
    with _foreground(project, served, "up") as (process, until):
        until("deaf | up")
        process.send_signal(signal.SIGINT)
        until("stopping the services")
        process.send_signal(signal.SIGINT)
        until("killing them")
        until("deaf | * stopped")
        assert process.wait(_PATIENCE_S) == 130


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGKILL])
def test_services_outlive_a_closed_terminal_and_a_killed_up(
    project: Path, served: OutliveServer, number: signal.Signals
) -> None:
    _write(project, _SHOP)
    with _foreground(project, served, "up") as (process, until):
        until("web | *")
        process.send_signal(number)
        assert process.wait(_PATIENCE_S) == -number
    found = _services(project, served, lambda _: True)
    assert {one.state for one in found.values()} == {"ready"}


def test_up_ends_with_the_first_failure_once_all_have_ended(project: Path, served: OutliveServer) -> None:
    _write(project, "ok: true\nbad: echo $PORT; exit 7\n", "Procfile")
    with _foreground(project, served, "up") as (process, until):
        assert until("bad | 5") == "bad | 5100\n"
        assert process.wait(_PATIENCE_S) == 7


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_both_files_are_read_as_windows_editors_write_them(
    project: Path, served: OutliveServer, encoding: str
) -> None:
    text = "web: echo $PORT-$KEY-$EMPTY.\r\nwork: echo $PORT\r\n"
    (project / "Procfile").write_bytes(text.encode(encoding))
    (project / ".env").write_bytes("PORT=3000\r\nKEY='a\r\nb'\r\nEMPTY= # none\r\n".encode(encoding))
    with _foreground(project, served, "up") as (_, until):
        assert until("web  | 3000") == "web  | 3000-a b-.\n"
        assert until("work | 3") == "work | 3100\n"


def test_the_callers_port_is_the_first(project: Path, served: OutliveServer) -> None:
    _write(project, "web: echo $PORT; sleep 600\n", "Procfile")
    done = run_outlive(
        "up", "-d", state_dir=served.state_dir, cwd=project, env={**os.environ, "PORT": "4321"}
    )
    assert done.returncode == 0, done.stderr
    assert _run(project, served, "logs", "web").stdout == "4321\n"


def test_a_bad_line_of_variables_names_itself_and_fails_its_service_only(
    project: Path, served: OutliveServer
) -> None:
    _write(
        project,
        '[services.web]\ncommand="sleep 600"\nenv_file="bad.env"\n[services.db]\ncommand="sleep 600"\n',
    )
    (project / "bad.env").write_text("A='one\ntwo'\nhunter2\n")
    done = _run(project, served, "up", "-d")
    assert "db  is ready" in done.stdout
    assert "bad.env: line 3 is not NAME=VALUE" in done.stdout
    assert "hunter2" not in done.stdout + done.stderr


def test_a_watcher_that_leaves_at_the_end_of_its_input_stays_and_asks_nothing(
    project: Path, served: OutliveServer
) -> None:
    """As `tailwindcss --watch`; a job reads its end."""
    _write(
        project,
        '[services.watch]\ncommand="echo watching; cat; echo left"\nready={text="watching"}\n'
        '[services.job]\ncommand="cat; echo done"\nready={exit=true}\n',
    )
    assert _run(project, served, "up", "-d").returncode == 0
    with Client(served.state_dir, start_server=False) as client:
        process_id = _services(project, served, lambda _: True)["watch"].process_id
        assert process_id is not None
        watcher = client.get(process_id)
        assert not watcher.wait(1.5, until="question").is_complete
        info = watcher.info(stats=True)
    assert (info.state, info.waiting) == ("running", None)
    assert info.stats is not None
    assert info.stats.waiting is None


def test_output_goes_on_after_a_restart(project: Path, served: OutliveServer) -> None:
    _write(
        project,
        '[services.web]\ncommand="echo run; sleep 0.2; exit 1"\nrestart="always"\nbackoff={first="0.2s"}\n',
    )
    with _foreground(project, served, "up") as (process, until):
        for _ in range(3):
            until("web | run")
        assert "starts again in" in until("web | * exit 1")
        process.send_signal(signal.SIGTERM)
        assert process.wait(_PATIENCE_S) == 143


@pytest.mark.thorough
def test_logs_f_follows_all_services_across_a_restart(project: Path, served: OutliveServer) -> None:
    _write(project, _SHOP)
    _run(project, served, "up", "-d")
    with _foreground(project, served, "logs", "-f") as (process, until):
        until("db  | db is up")
        until("web | web sees shop")
        restarted = _run(project, served, "restart", "db")
        assert (restarted.returncode, restarted.stdout) == (0, "db  is ready\n")
        until("db  | db is up")
        _run(project, served, "down")
        assert process.wait(_PATIENCE_S) == 0


_TALK = """
[services.one]
command = "echo first error; echo fine; echo ERROR >&2; echo done; exec sleep 600"
ready = { text = "done" }
limits = { memory = "1G", files = 77 }

[services.two]
command = "ulimit -n; echo no error here; echo done; exec sleep 600"
ready = { text = "done" }
"""


@pytest.mark.thorough
def test_logs_of_all_take_what_logs_of_one_take(project: Path, served: OutliveServer) -> None:
    _write(project, _TALK)
    assert _run(project, served, "up", "-d").returncode == 0

    def said(*words: str) -> tuple[int, list[str]]:
        done = _run(project, served, "logs", *words)
        return done.returncode, done.stdout.splitlines()

    assert said("--grep", "error") == (0, ["one | first error", "two | no error here"])
    assert said("--grep", "error", "-i", "--stream", "stderr") == (0, ["one | ERROR"])
    assert said("--grep", "fine", "-C", "1") == (
        0,
        ["one | --", "one | first error", "one | fine", "one | done"],
    )
    assert said("--grep", "no such text") == (1, [])
    assert said("--tail", "1", "--stream", "stdout") == (0, ["one | done", "two | done"])
    assert len(said("--since", "1h ago")[1]) == 7
    assert said("--since", "1.1") == (2, [])
    with _foreground(project, served, "logs", "-f", "--grep", "ERROR", "-i") as (process, until):
        assert until("first") == "one | first error\n"
        _run(project, served, "down")
        assert process.wait(_PATIENCE_S) == 0
        assert process.stdout is not None
        assert "done" not in process.stdout.read()


@pytest.mark.parametrize("words", [(), ("-f",), ("-f", "--grep", "wh"), ("-f", "--grep", "absent")])
def test_logs_of_all_say_what_is_missing_and_their_exit_code_does(
    project: Path, served: OutliveServer, words: tuple[str, ...]
) -> None:
    _write(project, '[services.one]\ncommand = "echo whole"\nready = { exit = true }\n')
    assert _run(project, served, "up", "-d").returncode == 0
    said = _run(project, served, "logs", *words)
    assert (said.returncode, said.stderr) == (int("absent" in words), "")
    process_id = _services(project, served, lambda _: True)["one"].process_id
    os.truncate(served.state_dir / "processes" / str(process_id) / "out", 2)
    said = _run(project, served, "logs", *words)
    assert (said.returncode, "one | * 4 bytes of its output are lost" in said.stderr) == (3, True), said


def test_a_service_has_limits_of_its_own(project: Path, served: OutliveServer) -> None:
    _write(project, _TALK.replace("echo first", "ulimit -n; echo first"))
    assert _run(project, served, "up", "-d").returncode == 0
    assert _run(project, served, "logs", "one").stdout.startswith("77\n")
    assert not _run(project, served, "logs", "two").stdout.startswith("77\n")


def test_what_a_person_stops_by_its_process_stays_stopped(project: Path, served: OutliveServer) -> None:
    _write(project, '[services.web]\ncommand="sleep 600"\nrestart="always"\nbackoff={first=0.05}\n')
    _run(project, served, "up", "-d")
    process_id = _services(project, served, lambda _: True)["web"].process_id
    assert process_id is not None
    assert _run(project, served, "stop", process_id).returncode == 0
    found = _services(project, served, lambda one: one["web"].state == "stopped")
    assert found["web"].process_id == process_id


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, ["outlive.processes.toml", "Procfile"]),
        ("[services.web]\ncomand='x'", ["line 2", "'comand'", "Did you mean 'command'"]),
        ("[services.p7]\ncommand='x'", ["line 1", "'p7' looks like an id", "'p-7'"]),
        ("[services.web]\ncommand='x'\nafter='wbe'", ["line 3", "'wbe'", "Did you mean 'web'"]),
    ],
)
def test_a_mistake_in_the_file_is_named(
    project: Path, served: OutliveServer, text: str | None, words: list[str]
) -> None:
    if text is not None:
        _write(project, text)
    done = _run(project, served, "up", "-d")
    assert done.returncode == 1
    for word in words:
        assert word in done.stderr


def test_a_service_that_there_is_not_is_named(project: Path, served: OutliveServer) -> None:
    _write(project, _SHOP)
    _run(project, served, "up", "-d")
    for verb in (["down", "wbe"], ["up", "-d", "wbe"]):
        done = _run(project, served, *verb)
        assert (done.returncode, "Did you mean 'web'" in done.stderr) == (1, True), done.stderr


def test_another_file_is_read_where_it_is_named(project: Path, served: OutliveServer, tmp_path: Path) -> None:
    _write(project, "one: echo at $PWD; sleep 600", "Other")
    up = _run(tmp_path, served, "up", "-d", "-f", "shop/Other")
    assert up.stdout == "one  is ready\n"
    assert _run(project, served, "logs", "one").stdout == f"at {project}\n"
    assert _run(tmp_path, served, "down", "-f", "shop/Other").stdout == "one  stopped\n"


def test_a_dry_run_of_another_folder_reads_its_file_and_starts_nothing(
    project: Path, served: OutliveServer, tmp_path: Path
) -> None:
    """Issue 38, 4: foreman's `check` and `start -d FOLDER`."""
    _write(project, "web: ./serve\njob: exit 3\n", "Procfile")
    words = ("up", "--dry-run", "-f", str(project))
    dry = run_outlive(*words, state_dir=served.state_dir, cwd=tmp_path)
    assert (dry.returncode, dry.stdout) == (0, "job: exit 3\nweb: ./serve\n")
    with Client(served.state_dir, start_server=False) as client:
        assert not client.services.list(str(project))


def test_ps_shows_how_often_a_service_was_started_again_and_what_rests(
    project: Path, served: OutliveServer
) -> None:
    _write(
        project,
        '[services.web]\ncommand="test -e once && exec sleep 600; touch once; exit 1"\n'
        'restart="on-failure"\nbackoff={first=0.05}\n'
        '[services.bad]\ncommand="exit 3"\nrestart="always"\nbackoff={first="1h", most="1h"}\n',
    )
    _run(project, served, "up", "-d", "--no-wait")
    _services(project, served, lambda one: one["web"].restarts == 1 and one["web"].state == "ready")
    _services(project, served, lambda one: one["bad"].state == "backing_off")
    listed = _run(project, served, "ps", "--project")
    assert "running, restarts 1" in listed.stdout
    assert "service bad: exit 3; starts again in 3" in listed.stderr
