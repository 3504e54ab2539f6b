"""A run of the tests that is interrupted leaves nothing behind: no process, no folder.

And touches nothing of others.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.keeper.client import until
from tests.support.processes import Marker, all_pids, end, of_state_folder
from tests.support.run_watcher import carries, members

pytestmark = pytest.mark.thorough

_ROOT = Path(__file__).parents[2]
_PATIENCE_S = 90.0


@pytest.fixture
def bystander(marker: Marker) -> Iterator["subprocess.Popen[bytes]"]:
    """A process of another run, of the same name as what is ended."""
    with subprocess.Popen(marker.sleep.split()) as process:
        yield process
        process.kill()


@pytest.mark.parametrize(
    ("workers", "who", "number"),
    [
        (2, "controller", signal.SIGKILL),
        (2, "everybody", signal.SIGKILL),
        (0, "controller", signal.SIGKILL),
        (0, "controller", signal.SIGINT),
        (2, "controller", signal.SIGINT),
        (2, "everybody", signal.SIGINT),
        (0, "group", signal.SIGINT),
        (2, "group", signal.SIGINT),
        (2, "group, and again", signal.SIGINT),
    ],
)
def test_nothing_is_left_of_a_run_that_was_interrupted(
    tmp_path: Path, bystander: "subprocess.Popen[bytes]", workers: int, who: str, number: signal.Signals
) -> None:
    """By its controller's end, its workers' ends too, or Ctrl-C, which a terminal sends to the whole group:
    servers are in it.
    """
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout=0"]
    words += ["-n", str(workers)] if workers else []
    with (tmp_path / "said").open("wb") as said:
        run = subprocess.Popen(
            [*words, "tests/support/interrupted_run.py"],
            cwd=_ROOT,
            env={**os.environ, "INTERRUPTED_RUN": str(tmp_path)},
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            process_group=0,
        )
    wanted = max(1, workers)
    until(lambda: len(list(tmp_path.glob("*.json"))) >= wanted, "the tests to wait", patience_s=_PATIENCE_S)
    found = [json.loads(path.read_text()) for path in tmp_path.glob("*.json")]
    mark = found[0]["mark"].encode()
    folders = [folder for one in found for folder in one["folders"]]
    assert len(members(mark, folders)) > 5 * wanted
    victims = {
        "controller": [run.pid],
        "everybody": {run.pid, *(one["worker"] for one in found)},
        "group": [-run.pid],  # kill(2)
    }
    for pid in victims[who.partition(",")[0]]:
        os.kill(pid, number)
    if who.endswith("again"):
        try:
            run.wait(0.5)
        except subprocess.TimeoutExpired:
            os.kill(-run.pid, number)
    run.wait(_PATIENCE_S)
    until(lambda: not members(mark, folders), "the end of all that carries the mark", patience_s=_PATIENCE_S)
    for one in found:
        assert not Marker(seconds=one["seconds"]).pids()
        assert not of_state_folder(Path(one["state"]))
        # Where pytest has ended by itself, it keeps the folders of its newest runs.
        removed = one["folders"][1:] if number == signal.SIGINT else one["folders"]
        until(lambda removed=removed: not any(map(os.path.exists, removed)), "the folders to be removed")  # type: ignore[misc] # bound at once
    assert bystander.poll() is None


def test_this_run_is_marked_and_watched(marker: Marker) -> None:
    """What is started with an environment of its own alone is found by its parents."""
    mark = os.environ["TEST_RUN_OF_OUTLIVE"].rpartition(":")[2].encode()
    process = subprocess.Popen(["/usr/bin/env", "-i", *marker.sleep.split()])
    try:
        until(marker.pids, "the process")
        assert not carries(process.pid, mark)
        assert any(mark in Path(f"/proc/{pid}/cmdline").read_bytes() for pid in all_pids() if _is_there(pid))
    finally:
        end(process.pid)
        process.wait()


def _is_there(pid: int) -> bool:
    return os.path.exists(f"/proc/{pid}/cmdline")
