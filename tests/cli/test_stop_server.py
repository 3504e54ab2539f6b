"""`outlive stop-server`, `keeper stop` that takes the server along, and which signals are a purpose."""

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from outlive.core.layout import Layout
from outlive.kernel.locks import holder_of
from outlive.kernel.state_files import is_stopped
from tests.cli.launching import environment
from tests.house.sources import ROOT
from tests.support.processes import end, wait_state_folder_empty
from tests.support.server import OutliveServer, end_keeper, outlive_command, run_outlive

pytestmark = pytest.mark.thorough

_PATIENCE_S = 60.0


@pytest.fixture
def state_dir(tmp_path: Path) -> Iterator[Path]:
    """A state folder whose server a client has started; nothing of it is left afterwards."""
    folder = tmp_path / "state"
    assert _outlive(folder, "run", "--", "true").returncode == 0
    yield folder
    if pid := _server(folder):
        end(pid)
    end_keeper(folder)
    assert wait_state_folder_empty(folder) == {}


def _outlive(state_dir: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*outlive_command(), *words],
        env=environment({"OUTLIVE_STATE_DIR": str(state_dir)}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_PATIENCE_S,
        check=False,
    )


def _server(state_dir: Path) -> int | None:
    return holder_of(Layout(str(state_dir)).server_lock)


def _wait_gone(pid: int) -> None:
    subprocess.run(["tail", "-f", f"--pid={pid}", os.devnull], timeout=_PATIENCE_S, check=True)


@pytest.mark.promise("C.owner.stopped")
def test_the_server_ends_on_purpose_what_runs_lives_on_and_the_next_call_finds_one(state_dir: Path) -> None:
    command = _outlive(state_dir, "run", "-d", "--", "sleep", "600").stdout.strip()
    pid = _server(state_dir)
    said = _outlive(state_dir, "stop-server")
    assert (said.returncode, said.stderr) == (0, f"The server (pid {pid}) has ended.\n")
    assert is_stopped(Layout(str(state_dir)))
    again = _outlive(state_dir, "stop-server", "--json")
    assert json.loads(again.stdout) == {"stopped": False, "pid": None}
    shown = _outlive(state_dir, "ps", "-q")
    assert (shown.returncode, shown.stdout.strip()) == (0, command)
    assert not is_stopped(Layout(str(state_dir)))


@pytest.mark.promise("C.owner.stopped")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_a_server_that_a_client_has_started_is_no_purpose(
    state_dir: Path, number: signal.Signals
) -> None:
    """A logout sends it, and a machine short of memory."""
    layout = Layout(str(state_dir))
    for words in (("ps",), ("wait", "@last"), ("logs", "@last"), ("stop", "--all"), ("df",)):
        pid = _server(state_dir)
        assert pid
        os.kill(pid, number)
        _wait_gone(pid)
        assert not is_stopped(layout)
        said = _outlive(state_dir, *words)
        assert said.returncode == 0, (words, said)
        if words[0] == "logs":  # needs no server
            _outlive(state_dir, "ps")


@pytest.mark.promise("C.owner.stopped")
def test_the_keeper_takes_the_server_along_and_says_so(state_dir: Path) -> None:
    pid = _server(state_dir)
    said = _outlive(state_dir, "keeper", "stop")
    assert (said.returncode, said.stderr) == (
        0,
        f"The server (pid {pid}) has ended.\nThe keeper has ended.\n",
    )
    assert wait_state_folder_empty(state_dir) == {}


@pytest.mark.promise("C.owner.stopped")
def test_where_the_keeper_is_not_to_end_the_server_stays(state_dir: Path) -> None:
    assert _outlive(state_dir, "run", "-d", "--", "sleep", "600").returncode == 0
    pid = _server(state_dir)
    said = _outlive(state_dir, "keeper", "stop", "--json")
    assert said.returncode == 1
    assert "`outlive keeper stop --kill`" in said.stderr
    assert json.loads(said.stdout)["processes"] == 1
    assert _server(state_dir) == pid


@pytest.mark.promise("C.owner.stopped")
def test_uninstalling_as_the_readme_says_leaves_no_process(tmp_path: Path) -> None:
    """The lines are typed as they are printed; the package is not removed from under the tests."""
    line = re.search(r"^\* \*\*Uninstall:\*\* (.*)$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert line is not None
    typed = re.findall(r"`([^`]+)`", line[1])
    assert typed[-1] == "pipx uninstall outlive"
    home, state_dir = tmp_path / "home", tmp_path / "state"
    home.mkdir()
    (program,) = outlive_command()
    env = environment({"OUTLIVE_STATE_DIR": str(state_dir), "HOME": str(home), "XDG_CONFIG_HOME": str(home)})
    env["PATH"] = f"{Path(program).parent}:{env['PATH']}"
    done = None
    for words in ("outlive run -d -- sleep 600", "outlive run -- true", *typed[:-1]):
        done = subprocess.run(
            ["/bin/sh", "-c", words],
            env=env,
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
            check=False,
        )
        assert "Traceback" not in done.stderr
    assert done is not None
    assert done.stderr.endswith("The keeper has ended.\n")
    assert wait_state_folder_empty(state_dir) == {}


@pytest.mark.promise("C.owner.stopped")
def test_a_server_that_hangs_is_named_and_killed_only_where_that_is_asked(state_dir: Path) -> None:
    pid = _server(state_dir)
    assert pid
    keeper = json.loads(_outlive(state_dir, "keeper", "status", "--json").stdout)
    others = [keeper[part]["pid"] for part in ("guardian", "supervisor")]
    for one in (*others, pid):  # they would continue it
        os.kill(one, signal.SIGSTOP)
    said = _outlive(state_dir, "stop-server")
    assert said.returncode == 1
    assert f"(pid {pid}) is stopped by a signal (SIGSTOP)" in said.stderr
    assert "--kill" in said.stderr
    assert _server(state_dir) == pid
    killed = _outlive(state_dir, "stop-server", "--kill")
    for one in others:
        os.kill(one, signal.SIGCONT)
    assert (killed.returncode, killed.stderr) == (0, f"The server (pid {pid}) has ended.\n")
    assert _server(state_dir) is None


@pytest.mark.promise("C.owner.service")
def test_a_units_server_is_left_to_its_unit(tmp_path: Path) -> None:
    unit = tmp_path / "systemd" / "user" / "outlive.service"
    unit.parent.mkdir(parents=True)
    unit.write_text("# a unit")
    with OutliveServer(tmp_path / "state", env={"OUTLIVE_SERVICE_UNIT": str(unit)}) as server:
        for words in (("stop-server",), ("stop-server", "--kill"), ("keeper", "stop", "--kill")):
            said = run_outlive(*words, state_dir=server.state_dir)
            assert said.returncode == 1
            assert "belongs to the unit outlive.service" in said.stderr
            assert "`systemctl --user stop outlive.service`" in said.stderr
        assert server.is_running


@pytest.mark.promise("C.owner.stopped")
def test_a_server_that_is_being_started_ends_where_a_stop_has_come_meanwhile(state_dir: Path) -> None:
    assert _outlive(state_dir, "stop-server").returncode == 0
    said = _outlive(state_dir, "serve", "--self-started")  # as the guardian would have called it before
    assert said.returncode == 1
    assert "was stopped on purpose while it started" in said.stderr
    assert _server(state_dir) is None


@pytest.mark.promise("C.owner.stopped")
def test_clients_that_start_a_server_during_a_stop_get_one_or_are_told(state_dir: Path) -> None:
    with ThreadPoolExecutor(6) as aside:
        calls = [aside.submit(_outlive, state_dir, "ps", "-q") for _ in range(12)]
        stops = [aside.submit(_outlive, state_dir, "stop-server") for _ in range(6)]
        for one in stops:
            assert one.result().returncode == 0, one.result()
        for one in calls:
            said = one.result()
            assert said.returncode == 0 or "stopped on purpose" in said.stderr, said
    assert _outlive(state_dir, "keeper", "stop", "--kill").returncode == 0
    assert wait_state_folder_empty(state_dir) == {}


@pytest.mark.promise("C.owner.stopped")
def test_a_mark_that_is_a_folder_is_named(state_dir: Path) -> None:
    assert _outlive(state_dir, "stop-server").returncode == 0
    mark = Path(Layout(str(state_dir)).server_stopped)
    mark.unlink()
    mark.mkdir()
    for words in (("ps",), ("serve",)):
        said = _outlive(state_dir, *words)
        assert said.returncode == 1
        assert said.stderr.startswith(("outlive: starting", f"outlive: {mark} cannot be removed: "))
        assert f"outlive: {mark} cannot be removed: Is a directory.\n" in said.stderr
        assert "Traceback" not in said.stderr
    mark.rmdir()
    assert _outlive(state_dir, "ps").returncode == 0
    mark.mkdir()
    assert _outlive(state_dir, "stop-server").returncode == 0
    assert mark.is_file()  # what was there was set aside


@pytest.mark.promise("C.owner.stopped")
def test_a_folder_of_another_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "identity").write_text("9 7.0\n")
    said = _outlive(tmp_path, "stop-server")
    assert said.returncode == 1
    assert "is of format 9, made by outlive 7.0" in said.stderr
