"""How a command's end is recorded: on a full disk, for want of memory, and when the record cannot be written
at all.
"""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from outlive.kernel.processes import stat_fields
from tests.runner.playing import Command, Runner, wait_until

pytestmark = pytest.mark.root("only root may mount")


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of few pages."""
    folder = tmp_path / "small"
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=16k,nr_inodes=100", "tmpfs", str(folder)]
    mounted = subprocess.run(words, check=False, capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"mount is not permitted here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def _fill(folder: Path) -> Path:
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            return ballast


def test_a_full_disk_keeps_the_zombie_until_its_end_is_recorded(
    runner: Runner, small: Path, tmp_path: Path
) -> None:
    command = Command(runner, tmp_path / "one")
    command.pid_file = small / "pid"
    command.start(("/bin/sh", "-c", "cat; exit 6"))
    started = command.pid_file.read_bytes()
    # A page is taken whole: the record grows to the end of its own first.
    with command.pid_file.open("ab") as file:
        file.write(b"#" * (4095 - len(started)) + b"\n")
    ballast = _fill(small)
    os.close(command.held.pop("i"))
    command.supervisor.send("close i")
    wait_until(lambda: stat_fields(command.pid)[0] == b"Z")
    assert command.supervisor.is_silent()
    state = command.take_over()
    assert state[3:6] == ["-", "6", "0"] or state[3] == "-", "what is not recorded is not told"
    ballast.unlink()
    assert command.ended() == ["exited", "6", "1"]
    assert command.record()[-1].startswith("exited 6 ")
    assert stat_fields(command.pid) == []
    command.release()


def test_on_a_full_disk_nothing_starts(runner: Runner, small: Path, tmp_path: Path) -> None:
    command = Command(runner, tmp_path / "one")
    command.pid_file = small / "pid"
    command.pid_file.touch()
    _fill(small)
    with pytest.raises(AssertionError, match="failed"):
        command.start(("/bin/true",))
    assert command.take_over()[3:6] == ["failed", "28", "1"]
    command.release()


@pytest.fixture
def counting(binary: Path, tmp_path: Path) -> Iterator[tuple[Runner, Callable[[str], None]]]:
    """A runner that sees a control group's counters of ours, and what sets them."""
    shown = tmp_path / "shown"
    shown.mkdir()
    (shown / "memory.events").write_text("low 0\noom 9\noom_kill 3\noom_group_kill 1\n")
    script = f'mount --bind {shown} /sys/fs/cgroup && exec "$@"'
    runner = Runner(binary, tmp_path, before=("unshare", "--mount", "sh", "-c", script, "sh"))

    def count(number: str) -> None:
        (shown / "memory.events").write_text(f"low 0\noom 9\noom_kill {number}\noom_group_kill 1\n")

    yield runner, count
    runner.discard()


def test_a_kill_for_want_of_memory_is_noted(
    counting: tuple[Runner, Callable[[str], None]], tmp_path: Path
) -> None:
    runner, count = counting
    for name, number, kill, note in (("a", "3", 9, []), ("b", "4", 9, ["oom"]), ("c", "5", 15, [])):
        command = Command(runner, tmp_path / name)
        command.start(("/bin/sleep", "300"))
        count(number)
        os.kill(command.pid, kill)
        assert command.ended() == ["signaled", str(kill), "1"]
        assert command.record()[-1].split()[3:] == note
        command.release()


def test_a_deleted_record_keeps_nobody(runner: Runner, tmp_path: Path) -> None:
    command = Command(runner, tmp_path / "one")
    command.start(("/bin/sleep", "300"))
    command.pid_file.unlink()
    os.kill(command.pid, signal.SIGTERM)
    assert command.ended() == ["signaled", "15", "1"]
    command.release()


def test_the_kernel_takes_a_command_before_the_runner_when_memory_runs_out(
    runner: Runner, tmp_path: Path
) -> None:
    before = _oom_score(runner.process.pid)
    command = Command(runner, tmp_path / "one").start(("/bin/sleep", "1000"))
    assert before == 1000 or _oom_score(command.pid) > before
    assert _oom_score(runner.process.pid) == before
    command.release()


def _oom_score(pid: int) -> int:
    return int(Path(f"/proc/{pid}/oom_score_adj").read_text())
