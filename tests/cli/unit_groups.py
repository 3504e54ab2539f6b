"""What a unit of systemd is to the kernel, without systemd: a program in a POSIX session and control group of
its own.

`kill` ends everything in it, as `KillMode=control-group` and `systemctl kill` do.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tests.support.processes import all_pids, descendants, end, is_alive, stat

# The named hierarchy where systemd itself keeps its units on version 1, and the place of version 2.
_HIERARCHIES = ("/sys/fs/cgroup/systemd", "/sys/fs/cgroup/unified", "/sys/fs/cgroup")
_PATIENCE_S = 60.0
_POLL_S = 0.01


def can_make_groups() -> bool:
    """Tell whether this user may make control groups (root, where they are mounted for writing)."""
    return _hierarchy() is not None


def _hierarchy() -> Path | None:
    for place in map(Path, _HIERARCHIES):
        probe = place / f"outlive-test-{os.getpid()}"
        with contextlib.suppress(OSError):
            probe.mkdir()
            try:
                if (probe / "cgroup.procs").exists():
                    return place
            finally:
                probe.rmdir()
    return None


def wait_until(holds: Callable[[], bool]) -> None:
    """Wait for what nobody announces (blocks, for a bounded time)."""
    deadline = time.monotonic() + _PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(_POLL_S)


class Unit:
    """A started program with all that descends from it, leads its POSIX session, or lies in its control
    group.
    """

    def __init__(self, words: list[str], env: Mapping[str, str], group: Path | None) -> None:
        self.group = group
        enter = f'echo $$ > "{group}/cgroup.procs"; ' if group else ""
        self.process = subprocess.Popen(
            ["/bin/sh", "-c", f'{enter}exec "$@"', "sh", *words],
            env=dict(env),
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    @property
    def pids(self) -> set[int]:
        """Everything that belongs to the unit now."""
        leader = self.process.pid
        inside = {
            pid for pid in all_pids() if (found := stat(pid)) and leader in {found.posix_session, found.pgid}
        }
        if self.group is not None:
            inside |= {int(word) for word in (self.group / "cgroup.procs").read_text().split()}
        elif self.process.poll() is None:
            inside |= {leader, *descendants(leader)}
        return {pid for pid in inside if is_alive(pid)}

    def kill(self) -> set[int]:
        """Kill everything in it until nothing is left; return the pids (blocks)."""
        killed: set[int] = set()
        deadline = time.monotonic() + _PATIENCE_S
        while inside := self.pids:
            assert time.monotonic() < deadline, inside
            killed |= inside
            for pid in inside:
                end(pid)
            self.process.poll()
        self.process.wait(_PATIENCE_S)
        return killed

    def stop(self) -> int:
        """Send TERM to the main process alone, as `KillMode=process` does; return its exit code (blocks)."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(_PATIENCE_S)


@contextlib.contextmanager
def unit(name: str, *words: str, env: Mapping[str, str], with_group: bool) -> Iterator[Unit]:
    """Start a unit; nothing of it, nor its control group, is left afterwards."""
    group = None
    if with_group:
        hierarchy = _hierarchy()
        assert hierarchy is not None
        group = hierarchy / f"outlive-test-{os.getpid()}-{name}"
        group.mkdir()
    started = Unit([shutil.which(words[0]) or words[0], *words[1:]], env, group)
    try:
        yield started
    finally:
        started.kill()
        if group is not None:
            group.rmdir()
