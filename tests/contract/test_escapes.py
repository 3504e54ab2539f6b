"""The eleven ways out of a process tree, wherever it runs: after a cancel nobody is left, after a pause
nobody runs.
"""

import os
from pathlib import Path

import pytest

from outlive.client import Process
from tests.contract.places import Asker
from tests.extensions.fleet.pairs import PATIENCE_S, output_of, wait_until
from tests.keeper.house import is_paused
from tests.support.escapes import CASES, PID_NAMESPACE
from tests.support.processes import Marker, all_pids, is_alive


def _start(asker: Asker, marker: Marker, case: str) -> Process:
    if case == PID_NAMESPACE and asker.place.lacks("pid namespace"):
        assert b"not permitted" in output_of(asker.start("unshare -fp true"))[1]
        asker.place.skip_unless("pid namespace")
    escape = CASES[case]
    process = asker.start(["sh", "-c", escape.line.replace("SLEEP", marker.sleep)])
    wait_until(lambda: len(marker.pids()) == escape.count)
    return process


def _all_of(process: Process, marker: Marker) -> set[int]:
    """Return everything that carries the process's name or the mark, as the kernel has it."""
    name = f"OUTLIVE_PROCESS_ID={process.process_id}".encode()
    found = set(marker.pids())
    for pid in all_pids():
        try:
            words = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if name in words and is_alive(pid):
            found.add(pid)
    return found


@pytest.mark.promise("S4.12.docker")
@pytest.mark.parametrize("case", CASES)
def test_after_a_cancel_nobody_is_left(asker: Asker, marker: Marker, case: str) -> None:
    process = _start(asker, marker, case)
    process.cancel(0.3)
    process.wait(PATIENCE_S, until="closed")
    wait_until(lambda: not _all_of(process, marker))
    wait_until(lambda: process.info().descendants == 0)


@pytest.mark.parametrize("case", CASES)
def test_after_a_pause_nobody_runs_and_after_a_resume_all_do(asker: Asker, marker: Marker, case: str) -> None:
    process = _start(asker, marker, case)
    if CASES[case].stays:
        before = set(marker.pids())
        process.pause()
        assert [pid for pid in _all_of(process, marker) if not is_paused(pid)] == []
        assert set(marker.pids()) == before
        process.resume()
        wait_until(lambda: not any(map(is_paused, marker.pids())))
    else:
        process.wait(PATIENCE_S)
    process.cancel(0)
    wait_until(lambda: not _all_of(process, marker))


def test_a_fork_bomb_is_outrun(asker: Asker) -> None:
    """Each process starts the next and ends: a walk alone would always come too late."""
    alive, script = (asker.place.folder / f"{name}-{os.urandom(4).hex()}" for name in ("alive", "hop"))
    script.write_text(f"echo x >> {alive}\nsetsid sh $0 &\n")
    process = asker.start(["sh", "-c", f"setsid sh {script} & sleep 60"])
    wait_until(lambda: alive.exists() and alive.stat().st_size > 40)
    process.cancel(0)
    process.wait(PATIENCE_S, until="closed")
    size = alive.stat().st_size
    wait_until(lambda: process.info().descendants == 0)
    assert alive.stat().st_size == size
    assert [pid for pid in all_pids() if is_alive(pid) and os.fsencode(script) in _words(pid)] == []


def _words(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []
