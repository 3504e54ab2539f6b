"""Every program in examples/ runs."""

import re
import subprocess
from pathlib import Path

import pytest
from anyio import to_thread

from tests.docs.consoles import Console
from tests.docs.pages import ROOT
from tests.support.processes import wait_state_folder_empty
from tests.support.server import OutliveServer

_EXAMPLES = ROOT / "examples"


def test_every_example_is_executed_here() -> None:
    assert {path.name for path in _EXAMPLES.iterdir() if path.suffix == ".py"} == {
        "client_follow.py",
        "client_jobs.py",
        "client_many.py",
        "client_survive.py",
        "jsonrpc_client.py",
        "survive.py",
    }


@pytest.mark.promise("S0.18")
async def test_the_example_client_runs(server: OutliveServer, tmp_path: Path) -> None:
    command = f"python '{_EXAMPLES}/jsonrpc_client.py' --url {server.url} 'echo one; echo two >&2; exit 4'"
    ran = await to_thread.run_sync(lambda: Console(tmp_path).run(command, PYTHONWARNINGS="error"))
    assert ran.returncode == 4, ran.stderr
    assert "one\n" in ran.stdout
    assert "two\n" in ran.stdout
    assert ran.stdout.endswith("The command failed with exit code 4\n")


@pytest.mark.thorough
@pytest.mark.promise("S0.14.resume", "S0.14.once", "S0.14.clock")
async def test_the_demonstration_survives_and_leaves_nothing(tmp_path: Path) -> None:
    """It restarts its own server with SIGKILL, and judges by itself.

    Here it is also held to its own words.
    """
    command = f"python '{_EXAMPLES}/survive.py' --lines 60 --pause 0.05"
    ran = await to_thread.run_sync(
        lambda: Console(tmp_path).run(command, PYTHONWARNINGS="error", TMPDIR=str(tmp_path))
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert re.findall(r"^line (\d+) of 60$", ran.stdout, re.MULTILINE) == [str(n) for n in range(1, 61)]
    assert re.search(r"^## server \(pid \d+\) ended by SIGKILL$", ran.stdout, re.MULTILINE)
    assert re.search(r"^## no server runs; the command \(pid \d+\) goes on$", ran.stdout, re.MULTILINE)
    assert re.search(r"^## connected again, cursor [1-9]\d*\.0$", ran.stdout, re.MULTILINE)
    assert await to_thread.run_sync(wait_state_folder_empty, tmp_path) == {}
    assert await to_thread.run_sync(lambda: list(tmp_path.iterdir())) == []


async def _run(folder: Path, words: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = f"python '{_EXAMPLES}'/{words}"
    return await to_thread.run_sync(lambda: Console(folder).run(command, PYTHONWARNINGS="error", **env))


@pytest.mark.thorough
@pytest.mark.promise("C.start", "C.follow")
async def test_the_client_survives_in_its_example_and_leaves_nothing(tmp_path: Path) -> None:
    ran = await _run(tmp_path, "client_survive.py", TMPDIR=str(tmp_path))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert re.findall(r"^line (\d+)$", ran.stdout, re.MULTILINE) == [str(n) for n in range(1, 41)]
    assert len(re.findall(r"^## outlive: starting the server", ran.stdout, re.MULTILINE)) == 2
    assert re.search(r"^## server \(pid \d+\) killed, cursor [1-9]\d*\.0$", ran.stdout, re.MULTILINE)
    assert ran.stdout.endswith("All 40 lines came once.\n")
    assert await to_thread.run_sync(wait_state_folder_empty, tmp_path) == {}
    assert await to_thread.run_sync(lambda: list(tmp_path.iterdir())) == []


async def test_the_following_example_shows_a_command_and_comes_back_to_it(
    server: OutliveServer, tmp_path: Path
) -> None:
    state = {"OUTLIVE_STATE_DIR": str(server.state_dir)}
    ran = await _run(tmp_path, "client_follow.py 'echo one; echo two >&2; exit 4'", **state)
    assert (ran.returncode, ran.stdout) == (4, "one\n")
    first, second = ran.stderr.splitlines()
    assert second == "two"
    again = await _run(tmp_path, f"client_follow.py --attach {first.split()[1]}", **state)
    assert (again.returncode, again.stdout, again.stderr) == (4, ran.stdout, ran.stderr)
    missing = await _run(tmp_path, "client_follow.py --attach nothing", **state)
    assert (missing.returncode, "List the processes" in missing.stderr) == (1, True)


async def test_the_job_queue_runs_each_job_once_however_often_it_is_called(
    server: OutliveServer, tmp_path: Path
) -> None:
    state = {"OUTLIVE_STATE_DIR": str(server.state_dir)}
    words = (
        f"client_jobs.py --queue {tmp_path.name} 'echo a >> log; true' 'echo b >> log; exit 3' 'echo "
        "c >> log'"
    )
    for _ in range(2):
        ran = await _run(tmp_path, words.replace("log", str(tmp_path / "log")), **state)
        assert ran.returncode == 0, ran.stderr
        assert [line.split()[:3] for line in ran.stdout.splitlines()] == [
            ["0", "exit", "0"],
            ["1", "exit", "3"],
            ["2", "exit", "0"],
        ]
    assert sorted((tmp_path / "log").read_text()) == sorted("a\nb\nc\n")


async def test_many_commands_run_at_once_and_end_together(server: OutliveServer, tmp_path: Path) -> None:
    state = {"OUTLIVE_STATE_DIR": str(server.state_dir)}
    ran = await _run(tmp_path, "client_many.py 50", **state)
    assert (ran.returncode, ran.stdout) == (0, "50 commands, sum 2450\n"), ran.stderr
    ran = await _run(tmp_path, "client_many.py 50 --fail 17", **state)
    assert (ran.returncode, ran.stdout) == (1, "number 17 ended with 3\n"), ran.stderr
