"""What a command finds itself in, with a step that changes nothing and without: side by side, on real
processes.
"""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.runner.shims import KINDS, Shim

_LOOK = """
grep -E '^(Umask|State|NoNewPrivs|Seccomp:|SigPnd|SigBlk|SigIgn|SigCgt|Shd|Cap|Groups|Uid|Gid|THP|CoreDumping|Cpus_allowed:)' /proc/self/status
grep -v '^Max pending' /proc/self/limits
cat /proc/self/oom_score_adj /proc/self/timerslack_ns /proc/self/coredump_filter /proc/self/cgroup
ls /proc/self/fd
for fd in 0 1 2; do grep flags /proc/self/fdinfo/$fd; readlink /proc/self/fd/$fd | sed 's/[0-9]*//g'; done
pwd; env | sort; umask; nice
ps -o pid=,pgid=,sid= -p $$ | awk '{ print $1 == $2, $1 == $3 }'
"""  # noqa: E501 -- lines of a table, or of another language


@pytest.mark.parametrize("stdio", ["pipes", "merge", "pty"])
def test_a_command_finds_the_same_world_however_it_was_started(
    shims: Callable[..., Shim], stdio: str, tmp_path: Path
) -> None:
    """Signals, mask, descriptors, POSIX session, limits, umask, folder, environment: side by side."""
    seen = []
    for kind in KINDS:
        shim = shims(kind)
        env = {"PATH": os.environ["PATH"], "EMPTY": "", "ODD": "a=b", "LANG": "C"}
        shim.spawn("/bin/sh", "-c", _LOOK, cwd=str(tmp_path), env=env, stdio=stdio)
        shim.spawned()
        assert shim.ended() == ["exited", "0", "1"]
        os.close(shim.held.pop("w", shim.held.pop("i", -1)))
        lines = shim.read("m" if stdio == "pty" else "o").decode().splitlines()
        assert len(lines) > 40, lines
        seen.append(lines)
    assert seen[0] == seen[1]


def test_nothing_is_ignored_or_blocked_in_a_command(shims: Callable[..., Shim]) -> None:
    """Not even what whoever started the shim ignored: that survives execve(2)."""
    for number in (signal.SIGUSR1, signal.SIGPIPE, signal.SIGRTMIN):
        signal.signal(number, signal.SIG_IGN)
    try:
        shim = shims("plain")
    finally:
        for number in (signal.SIGUSR1, signal.SIGRTMIN):
            signal.signal(number, signal.SIG_DFL)
    shim.spawn("/bin/sh", "-c", "grep -E '^Sig(Ign|Blk|Pnd)' /proc/self/status")
    shim.spawned()
    shim.ended()
    assert {int(line.split()[1], 16) for line in os.read(shim.held["o"], 4096).splitlines()} == {0}
