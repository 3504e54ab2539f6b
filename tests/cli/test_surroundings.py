"""Where outlive is called: folders without a path, a project's own Python, and what its server works in."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlive.client import Client, Output
from outlive.core.layout import Layout
from outlive.kernel.locks import holder_of
from tests.mcp_stdio.hosting import leave_nothing
from tests.support.server import OutliveServer, outlive_command, run_outlive


@pytest.fixture
def no_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A state folder that no server serves; what a client starts there takes free ports, and is gone
    afterwards.
    """
    for name in ("OUTLIVE_JSONRPC_PORT", "OUTLIVE_MCP_PORT", "OUTLIVE_REST_PORT", "OUTLIVE_BRIDGE_PORT"):
        monkeypatch.setenv(name, "0")
    yield tmp_path / "state"
    leave_nothing(tmp_path / "state")


def test_what_a_project_sets_for_its_python_is_none_of_ours_and_reaches_commands(
    no_server: Path, tmp_path: Path
) -> None:
    """Its modules, its standard library and its warnings; also in the server that this starts."""
    for name in ("json", "types", "typing", "msgspec", "selectors"):
        (tmp_path / f"{name}.py").write_text(f"raise SystemExit('this is the project's {name}')")
    foreign = {"PYTHONPATH": str(tmp_path), "PYTHONWARNINGS": "error", "PYTHONHOME": sys.base_prefix}
    line = "echo $PYTHONPATH $PYTHONWARNINGS $PYTHONHOME"
    done = run_outlive("run", "-c", line, state_dir=no_server, env=foreign, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, f"{tmp_path} error {sys.base_prefix}\n"), done.stderr
    detached = run_outlive("run", "-d", "-c", line, state_dir=no_server, env=foreign, cwd=tmp_path)
    assert detached.returncode == 0, detached.stderr


@pytest.mark.parametrize("words", [["ps"], ["logs"], ["up", "-d"], ["down"], ["doctor"], ["terminal", "new"]])
def test_no_verb_needs_the_path_of_its_folder(
    served: OutliveServer, tmp_path: Path, words: list[str]
) -> None:
    done = _from_removed(served.state_dir, tmp_path, words)
    assert "fault of outlive" not in done.stderr
    assert "Traceback" not in done.stderr


def test_a_command_runs_in_a_folder_that_was_removed(served: OutliveServer, tmp_path: Path) -> None:
    """As from a shell there, and not in any other one."""
    done = _from_removed(served.state_dir, tmp_path, ["run", "--", "readlink", "/proc/self/cwd"])
    assert (done.returncode, done.stdout) == (0, f"{tmp_path}/gone (deleted)\n"), done.stderr


def _from_removed(state_dir: Path, tmp_path: Path, words: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a verb in a folder that is removed before it begins."""
    (tmp_path / "gone").mkdir()
    return subprocess.run(
        ["sh", "-c", 'rmdir "$PWD"; exec "$@"', "sh", *outlive_command(), *words],
        cwd=tmp_path / "gone",
        env={**os.environ, "OUTLIVE_STATE_DIR": str(state_dir)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_commands_of_a_server_that_a_client_starts_begin_at_home(
    no_server: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever folder its starter was in."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(tmp_path)
    with Client(no_server) as client:
        process = client.start("pwd")
        assert process.wait(60).exit_code == 0
        text = b"".join(one.data for one in process.follow() if isinstance(one, Output))
        assert text == f"{home}\n".encode()


@pytest.mark.root("a server's memory and descriptors are closed to its user")
def test_a_server_that_a_client_starts_works_in_the_root(no_server: Path) -> None:
    """Its starter's folder can be removed, and its file system be unmounted."""
    with Client(no_server) as client:
        client.list(limit=1)
    assert os.readlink(f"/proc/{holder_of(Layout(str(no_server)).server_lock)}/cwd") == "/"
