"""Every program in examples/ runs."""

import re
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


@pytest.mark.promise("S0.14.resume", "S0.14.once", "S0.14.clock")
async def test_the_demonstration_survives_and_leaves_nothing(tmp_path: Path) -> None:
    """It restarts its own server with SIGKILL, and judges by itself; here it is also held to its own words."""
    command = f"python '{_EXAMPLES}/survive.py' --lines 60 --pause 0.05"
    ran = await to_thread.run_sync(
        lambda: Console(tmp_path).run(command, PYTHONWARNINGS="error", TMPDIR=str(tmp_path))
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert re.findall(r"^line (\d+) of 60$", ran.stdout, re.MULTILINE) == [str(n) for n in range(1, 61)]
    assert re.search(r"^## server \(pid \d+\) ended by SIGKILL$", ran.stdout, re.MULTILINE)
    assert re.search(r"^## nobody serves; the command \(pid \d+\) goes on$", ran.stdout, re.MULTILINE)
    assert re.search(r"^## connected again, cursor [1-9]\d*\.0$", ran.stdout, re.MULTILINE)
    assert await to_thread.run_sync(wait_state_folder_empty, tmp_path) == {}
    assert await to_thread.run_sync(lambda: list(tmp_path.iterdir())) == []
