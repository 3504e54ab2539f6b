"""nohup: output goes on, and nothing else is known afterwards."""

import os
import signal
import subprocess
from pathlib import Path

from tests.comparison.trial import EXIT_CODE, Trial, until, wait_for_end
from tests.support.processes import is_alive


def _started(trial: Trial) -> tuple[subprocess.Popen[bytes], int, Path]:
    """Type `nohup … &` into a shell; return the shell, the command's pid, and the file with its output."""
    out = trial.folder / "nohup.out"
    noted = trial.folder / "pid"
    typed = f"nohup sh -c '{trial.script()}' >'{out}' 2>&1 & echo $! >'{noted}'; wait"
    shell = subprocess.Popen(["bash", "-c", typed], stdin=subprocess.DEVNULL, start_new_session=True)
    until(lambda: out.read_text() if out.exists() else "", "before")
    return shell, int(noted.read_text()), out


def _kill(shell: subprocess.Popen[bytes]) -> None:
    """End the shell as a terminal that goes away would: SIGHUP to its processes; then itself, by SIGKILL."""
    os.killpg(shell.pid, signal.SIGHUP)
    shell.kill()
    shell.wait()


def test_nohup_keeps_output_when_its_caller_dies(trial: Trial) -> None:
    shell, pid, out = _started(trial)
    trial.child_in(out.read_text())
    _kill(shell)
    assert is_alive(pid)
    trial.open_gate()
    until(out.read_text, "after")
    wait_for_end(pid)


def test_nohup_keeps_no_exit_code(trial: Trial) -> None:
    """All that is left of the command is its output."""
    shell, pid, out = _started(trial)
    child = trial.child_in(out.read_text())
    _kill(shell)
    trial.open_gate()
    wait_for_end(pid)
    assert {path.name for path in trial.folder.iterdir()} == {"gate", "nohup.out", "pid"}
    assert out.read_text().split() == ["child", str(child), "before", "after"]
    assert str(EXIT_CODE) not in out.read_text().replace(str(child), "")


def test_ending_what_nohup_started_leaves_its_setsid_child(trial: Trial) -> None:
    """Its whole process group is ended, which is all that a shell can name."""
    shell, pid, out = _started(trial)
    child = trial.child_in(out.read_text())
    os.killpg(shell.pid, signal.SIGKILL)
    shell.wait()
    wait_for_end(pid)
    assert is_alive(child)
