"""The eleven ways out of a process tree: after a stop nobody is left, after a pause nobody runs."""

import shutil
import subprocess
from pathlib import Path

import pytest

from outlive.protocols.keeper import CauseCode
from tests.keeper.client import until
from tests.keeper.house import House, is_paused, sh
from tests.support.escapes import CASES, PID_NAMESPACE, UNSHARE
from tests.support.processes import Marker, is_alive, with_cmdline


def _may_unshare() -> bool:
    tried = shutil.which("unshare") and subprocess.run([*UNSHARE, "true"], check=False, capture_output=True)
    return bool(tried and tried.returncode == 0)


def _start(house: House, marker: Marker, case: str) -> str:
    escape = CASES[case]
    if case == PID_NAMESPACE and not _may_unshare():
        pytest.skip("this user may not make a PID namespace")
    process_id = house.start(*sh(escape.line.replace("SLEEP", marker.sleep)))
    until(lambda: len(marker.pids()) == escape.count, f"{escape.count} marked processes")
    return process_id


def _tree(house: House, process_id: str) -> list[int]:
    """Return everything below the shim, as the kernel sees it now."""
    found, todo = [], [house.shim_of(process_id)]
    while todo:
        pid = todo.pop()
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            todo += [int(child) for child in children.read_text().split()]
        found.append(pid)
    return [pid for pid in found[1:] if is_alive(pid)]


@pytest.mark.parametrize("case", CASES)
def test_after_a_stop_nobody_is_left(house: House, marker: Marker, case: str) -> None:
    process_id = _start(house, marker, case)
    house.client.ask("stop", id=process_id, cause=int(CauseCode.CANCEL), grace_s=0.3)
    house.client.wait_closed(process_id)
    until(lambda: not marker.pids(), "the end of every marked process")
    until(lambda: house.status()["processes"] == 0, "the keeper to let go")


@pytest.mark.parametrize("case", CASES)
def test_after_a_pause_nobody_runs_and_after_a_resume_all_do(house: House, marker: Marker, case: str) -> None:
    process_id = _start(house, marker, case)
    stays = CASES[case].stays
    if not stays:
        house.client.wait_done(process_id)
    else:
        before = set(marker.pids())
        house.client.ask("pause", id=process_id)
        running = [pid for pid in _tree(house, process_id) if not is_paused(pid)]
        assert running == []
        assert set(marker.pids()) == before
        assert all(map(is_paused, before))
        house.client.ask("resume", id=process_id)
        until(lambda: not any(map(is_paused, marker.pids())), "the marked processes to go on")
    house.client.ask("stop", id=process_id, cause=int(CauseCode.CANCEL), grace_s=0.0)
    until(lambda: not marker.pids(), "the end of every marked process")


def test_a_fork_bomb_is_outrun(house: House, tmp_path: Path) -> None:
    """Each process starts the next and ends: a walk alone would always come too late."""
    alive = tmp_path / "alive"
    script = tmp_path / "hop.sh"
    script.write_text(f"echo x >> {alive}\nsetsid sh $0 &\n")
    process_id = house.start(*sh(f"setsid sh {script} & sleep 60"))
    until(lambda: alive.exists() and alive.stat().st_size > 40, "the chain to run")
    house.client.ask("stop", id=process_id, cause=int(CauseCode.CANCEL), grace_s=0.0)
    house.client.wait_closed(process_id)
    assert with_cmdline(str(script)) == []
