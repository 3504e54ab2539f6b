"""One owner of the doors: what clients start obeys the operator, yields to the operator, and leaves a stopped
server alone.
"""

import json
import os
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest

from outlive.client import BackendUnavailable, Client, CommandRefused, Output
from outlive.core.layout import Layout
from outlive.kernel.locks import holder_of
from tests.cli.launching import environment
from tests.support.processes import wait_state_folder_empty
from tests.support.server import OutliveServer, end_keeper, free_port, outlive_command

_PATIENCE_S = 60.0
_WITHOUT_SERVER_S = (
    1.5  # a client that may start a server does so when the one that was there is gone for a second
)


@pytest.fixture
def state_dir(tmp_path: Path) -> Iterator[Path]:
    """A state folder that no server serves yet; whatever was started there is gone afterwards."""
    folder = tmp_path / "state"
    yield folder
    _end_server(folder)
    end_keeper(folder)
    assert wait_state_folder_empty(folder) == {}


def _server_pid(state_dir: Path) -> int | None:
    return holder_of(Layout(str(state_dir)).server_lock)


def _end_server(state_dir: Path, number: signal.Signals = signal.SIGTERM) -> None:
    """End whichever server there is, and wait for its end."""
    if not (pid := _server_pid(state_dir)):
        return
    pidfd = os.pidfd_open(pid)
    try:
        signal.pidfd_send_signal(pidfd, number)
        done = subprocess.run(["tail", "-f", f"--pid={pid}", os.devnull], timeout=_PATIENCE_S, check=True)
        assert done.returncode == 0
    finally:
        os.close(pidfd)


def _outlive(
    *words: str, state_dir: Path, cwd: Path | None = None, **env: str
) -> subprocess.CompletedProcess[str]:
    """Run a command line as a person does, in an environment without doors of its own."""
    return subprocess.run(
        [*outlive_command(), *words],
        env=environment({"OUTLIVE_STATE_DIR": str(state_dir), "OUTLIVE_JSONRPC_PORT": "off", **env}),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_PATIENCE_S,
        check=False,
    )


@pytest.mark.thorough
@pytest.mark.promise("C.owner.rules")
def test_a_server_that_a_client_starts_obeys_the_operators_rules_and_serves_the_same_doors(
    tmp_path: Path,
) -> None:
    """After a crash, with a client whose own environment would allow everything."""
    args = ("--deny", "touch", "--profile", "guarded")
    with OutliveServer(tmp_path / "state", args=args) as server:
        server.kill()
        refused = _outlive(
            "run", "-c", "touch x", state_dir=server.state_dir, OUTLIVE_DENY="", OUTLIVE_POLICY_OPAQUE="allow"
        )
        assert refused.returncode != 0
        assert "touch" in refused.stderr
        assert _server_pid(server.state_dir) not in {None, server.pid}
        allowed = _outlive(
            "run",
            "--",
            "grep",
            "NoNewPrivs",
            "/proc/self/status",
            state_dir=server.state_dir,
            OUTLIVE_PROFILE="open",
        )
        assert allowed.stdout.split() == ["NoNewPrivs:", "1"], allowed.stderr
        with urllib.request.urlopen(f"{server.rest_url}/healthz", timeout=_PATIENCE_S) as answer:  # noqa: S310 -- ours
            assert answer.status == 200
        _end_server(server.state_dir)


@pytest.mark.thorough
@pytest.mark.promise("C.owner.rules")
def test_the_operators_key_lies_in_no_file_and_without_it_no_port_is_opened(tmp_path: Path) -> None:
    with OutliveServer(tmp_path / "state", env={"MCP_API_KEY": "key-of-the-operator"}) as server:
        path = server.state_dir / "operator.json"
        assert path.stat().st_mode & 0o777 == 0o600
        for written in server.state_dir.rglob("*"):
            assert not written.is_file() or b"key-of-the-operator" not in written.read_bytes()
        url = server.rest_url
        server.kill()
        assert _outlive("ps", state_dir=server.state_dir).returncode == 0
        with pytest.raises(urllib.error.URLError, match="refused"):
            urllib.request.urlopen(f"{url}/health", timeout=_PATIENCE_S)  # noqa: S310 -- our own
        _end_server(server.state_dir)


@pytest.mark.promise("C.owner.rules")
def test_without_the_operators_rules_no_server_starts(tmp_path: Path) -> None:
    """A file that cannot be read is no reason to allow everything."""
    with OutliveServer(tmp_path / "state", args=("--deny", "touch")) as server:
        server.kill()
        (server.state_dir / "operator.json").write_text('{"settings": {"deny"')
        said = _outlive("run", "--", "true", state_dir=server.state_dir)
        assert said.returncode != 0
        assert "operator.json" in said.stderr
        assert _server_pid(server.state_dir) is None


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("OUTLIVE_DENY", "'x", "a rule has no quotes"),
        ("OUTLIVE_REDACT_EXTRA", "(", "a parenthesis is not closed"),
        ("OUTLIVE_JSONRPC_PORT", "abc", "a port is a number"),
    ],
)
def test_a_setting_that_lets_no_server_start_is_said_by_who_starts_it(
    state_dir: Path, name: str, text: str, says: str
) -> None:
    """It was started again and again for half a minute, and then said to be missing."""
    said = _outlive("ps", state_dir=state_dir, cwd=state_dir.parent, **{name: text})
    assert said.returncode == 1
    assert said.stderr.count("starting the server") == 1
    assert "The server does not start: " in said.stderr
    assert says in said.stderr


@pytest.mark.thorough
@pytest.mark.promise("C.owner.rules")
def test_a_project_may_tighten_what_the_operator_said_and_no_more(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    with OutliveServer(tmp_path / "state", args=("--profile", "guarded", "--max-processes", "7")) as server:
        server.kill()
        (project / ".outlive.toml").write_text('profile = "open"\nmax_processes = 2\n')
        env = environment({"OUTLIVE_STATE_DIR": str(server.state_dir)})
        words = [*outlive_command(), "run", "-d", "sleep", "600"]
        for wanted in (0, 0, 125):
            done = subprocess.run(
                words, env=env, cwd=project, capture_output=True, timeout=_PATIENCE_S, check=False
            )
            assert done.returncode == wanted, done.stderr
        with Client(server.state_dir, start_server=False) as client:
            assert {info.profile for info in client.list()} == {"guarded"}
        _end_server(server.state_dir)


@pytest.mark.thorough
@pytest.mark.promise("C.owner.rules")
def test_the_rules_of_the_operators_project_hold_wherever_a_client_starts_a_server(tmp_path: Path) -> None:
    """The file in the client's folder may tighten them; what would loosen or replace them is left alone."""
    project, other = _folders(tmp_path)
    (project / ".outlive.toml").write_text('deny = ["touch"]\nmax_processes = 7\n')
    (other / ".outlive.toml").write_text('deny = ["rm"]\nmax_processes = 1\n')
    with OutliveServer(tmp_path / "state", cwd=project) as server:
        server.kill()
        refused = _outlive("run", "-c", "touch x", state_dir=server.state_dir, cwd=other)
        assert refused.returncode != 0
        assert "touch" in refused.stderr
        assert not (other / "x").exists()
        assert _server_pid(server.state_dir) not in {None, server.pid}
        assert _outlive("run", "-c", "rm -f x", state_dir=server.state_dir, cwd=other).returncode == 0
        for wanted in (0, 125):
            done = _outlive("run", "-d", "sleep", "600", state_dir=server.state_dir, cwd=other)
            assert done.returncode == wanted, done.stderr
        _end_server(server.state_dir)
    settings = json.loads((server.state_dir / "operator.json").read_text())["settings"]
    assert settings["max_processes"] == "7"


@pytest.mark.thorough
@pytest.mark.promise("C.owner.rules")
def test_what_the_operator_named_by_a_relative_path_is_found_from_a_clients_folder(tmp_path: Path) -> None:
    """Elsewhere the same words name other files: there they would be other rules."""
    project, other = _folders(tmp_path)
    (project / "rules.toml").write_text('deny = ["touch"]\n')
    (other / "rules.toml").write_text("")
    env = {"OUTLIVE_CONFIG": "rules.toml"}
    with OutliveServer(
        tmp_path / "state", args=("--sandbox-folders", ".,below"), env=env, cwd=project
    ) as server:
        server.kill()
        refused = _outlive("run", "-c", "touch x", state_dir=server.state_dir, cwd=other)
        assert refused.returncode != 0
        assert "touch" in refused.stderr
        assert not (other / "x").exists()
        _end_server(server.state_dir)
    settings = json.loads((server.state_dir / "operator.json").read_text())["settings"]
    assert settings["sandbox_folders"] == f"{project}/.,{project}/below"


def _folders(tmp_path: Path) -> tuple[Path, Path]:
    """Make the operator's folder and a client's."""
    project, other = tmp_path / "project", tmp_path / "other"
    project.mkdir()
    other.mkdir()
    return project, other


@pytest.mark.promise("C.owner.yield")
def test_a_server_that_a_client_started_yields_to_the_operators(state_dir: Path, tmp_path: Path) -> None:
    """A command and a follower go on; the operator's rules count from then on."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    with Client(state_dir) as client:
        process = client.start(f"echo before; read line < {gate}; echo $line")
        follow = process.follow()
        first = next(follow)
        assert isinstance(first, Output)
        own = _server_pid(state_dir)
        with OutliveServer(state_dir, args=("--deny", "touch")) as server:
            assert server.pid != own
            assert _server_pid(state_dir) == server.pid
            gate.write_text("after\n")
            rest = b"".join(item.data for item in follow if isinstance(item, Output))
            assert first.data + rest == b"before\nafter\n"
            with pytest.raises(CommandRefused):
                client.start("touch x")


@pytest.mark.promise("C.owner.yield")
def test_two_operators_refuse_each_other(own_server: OutliveServer) -> None:
    said = _outlive("serve", state_dir=own_server.state_dir)
    assert said.returncode == 1
    assert f"pid {own_server.pid}" in said.stderr
    assert own_server.is_running


@pytest.mark.thorough
@pytest.mark.promise("C.owner.stopped")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_after_a_stop_on_purpose_every_new_call_finds_a_server_and_none_that_was_connected(
    own_server: OutliveServer, number: signal.Signals
) -> None:
    folder = own_server.state_dir
    with Client(folder, patience_s=1) as client:
        ended = client.start("echo done")
        assert ended.wait(_PATIENCE_S).exit_code == 0
        own_server.stop(number)
        shown = _outlive("logs", ended.process_id, state_dir=folder)
        assert (shown.returncode, shown.stdout) == (0, "done\n")  # from the files
        with pytest.raises(BackendUnavailable, match="stopped on purpose"):
            client.list()
        assert _server_pid(folder) is None
        assert client.start("exit 3").wait(_PATIENCE_S).exit_code == 3
    for words in (
        ("ps",),
        ("wait", ended.process_id),
        ("inspect", ended.process_id),
        ("stats", "--no-stream"),
        ("run", "--", "true"),
    ):
        assert _outlive("stop-server", state_dir=folder).returncode == 0
        assert _server_pid(folder) is None
        said = _outlive(*words, state_dir=folder)
        assert said.returncode == 0, (words, said)
    assert _outlive("stop-server", state_dir=folder).returncode == 0
    with Client(folder) as other:
        assert other.list()
    _end_server(folder, signal.SIGKILL)
    assert _outlive("ps", state_dir=folder).returncode == 0
    _end_server(folder)


@pytest.mark.thorough
@pytest.mark.promise("C.owner.stopped")
def test_a_follower_waits_for_the_operators_next_server(own_server: OutliveServer, tmp_path: Path) -> None:
    """It starts none, so that none refuses the operator's: not even after the second for which it waits for
    any server.
    """
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    said: list[str] = []
    with ThreadPoolExecutor(1) as aside, Client(own_server.state_dir, say=said.append) as client:
        process = client.start(f"echo before; read line < {gate}; echo $line")
        with process.follow() as follow:
            assert isinstance(next(follow), Output)
            rest = aside.submit(lambda: [item.data for item in follow if isinstance(item, Output)])
            own_server.stop()
            assert not wait(
                [rest], timeout=_WITHOUT_SERVER_S
            ).done  # it asks again and again, and does not give up
            assert said == []
            assert _server_pid(own_server.state_dir) is None
            own_server.start()
            assert _server_pid(own_server.state_dir) == own_server.pid
            gate.write_text("after\n")
            assert b"".join(rest.result(_PATIENCE_S)) == b"after\n"


@pytest.mark.promise("C.owner.stopped")
def test_what_a_finished_run_left_running_brings_no_server_back(
    own_server: OutliveServer, tmp_path: Path
) -> None:
    """Its late output is carried on by a helper, which ends; the output is in the log."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    run = subprocess.Popen(
        [*outlive_command(), "run", "-c", f"(read line < {gate}; echo $line) & echo $$"],
        env=environment({"OUTLIVE_STATE_DIR": str(own_server.state_dir)}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    )
    assert run.stdout is not None
    with run, run.stdout:
        assert run.wait(_PATIENCE_S) == 0
        own_server.stop()
        gate.write_text("late\n")
        run.stdout.readline()
        assert run.stdout.read() in {b"", b"late\n"}  # the helper has left: nothing holds the pipe any more
    assert _server_pid(own_server.state_dir) is None


@pytest.mark.thorough  # it waits as long as it says
@pytest.mark.promise("C.owner.service")
def test_while_a_service_owns_the_folder_clients_start_nothing_and_name_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / "systemd" / "user" / "outlive.service"
    unit.parent.mkdir(parents=True)
    unit.write_text("# a unit")
    with OutliveServer(tmp_path / "state", env={"OUTLIVE_SERVICE_UNIT": str(unit)}) as server:
        with Client(server.state_dir) as client:
            shown = client.start("env").wait(_PATIENCE_S)
            assert shown.exit_code == 0
        server.kill()
        for words in (("ps",), ("run", "--", "true")):
            said = _outlive(*words, state_dir=server.state_dir)
            assert said.returncode != 0
            assert "outlive.service" in said.stderr
            assert "systemctl --user start outlive.service" in said.stderr
        assert _server_pid(server.state_dir) is None
        unit.unlink()  # `outlive service uninstall`
        assert _outlive("ps", state_dir=server.state_dir).returncode == 0
        _end_server(server.state_dir)


@pytest.mark.promise("C.owner.service")
def test_a_client_waits_for_a_service_that_comes_back(tmp_path: Path) -> None:
    unit = tmp_path / "outlive.service"
    unit.write_text("# a unit")
    with OutliveServer(tmp_path / "state", env={"OUTLIVE_SERVICE_UNIT": str(unit)}) as server:
        server.stop()
        ps = subprocess.Popen(
            [*outlive_command(), "ps", "--json"],
            env=environment({"OUTLIVE_STATE_DIR": str(server.state_dir)}),
            stdout=subprocess.PIPE,
        )
        with ps:
            server.start()
            assert ps.stdout is not None
            assert json.loads(ps.stdout.read()) == {"processes": []}
        assert ps.returncode == 0
        assert _server_pid(server.state_dir) == server.pid


@pytest.mark.thorough
def test_a_port_that_another_program_took_meanwhile_keeps_no_server_from_starting(tmp_path: Path) -> None:
    """Asked for by name it ends `outlive serve`; a server that a client starts goes without that door."""
    with OutliveServer(tmp_path / "state") as server:
        server.kill()
        with socket.socket() as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            other.bind(("127.0.0.1", server.port))
            other.listen()
            assert _outlive("ps", state_dir=server.state_dir).returncode == 0
        _end_server(server.state_dir)
    assert free_port() != server.port
