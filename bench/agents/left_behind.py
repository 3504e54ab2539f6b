"""What a task has left running: processes that carry the run's mark in their environment and are none of the
server's.
"""

import contextlib
import os
import signal
import time
from collections.abc import Collection, Sequence
from pathlib import Path

MARK = "BENCH_AGENTS_MARK"
# What has been told to end needs a moment: a server that answers before its last process is gone is not
# blamed for it.
_SETTLE_S = 1.0


def left_behind(mark: str, *, own: Collection[int], own_words: Sequence[str]) -> list[str]:
    """Return the command lines of what still runs after a moment (blocks up to a second).

    `own` are the pids of the server itself, `own_words` what names its programs.
    """
    deadline = time.monotonic() + _SETTLE_S
    while True:
        found = [
            line
            for pid, line in marked_processes(mark).items()
            if pid not in own and not any(word in line for word in own_words)
        ]
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.05)


def end_marked(mark: str) -> None:
    """Kill everything that carries the mark, by its pid, until nothing does (blocks)."""
    deadline = time.monotonic() + 5
    while (found := marked_processes(mark)) and time.monotonic() < deadline:
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


def await_end(pid: int) -> None:
    """Wait until a process is gone, for some seconds at most (blocks)."""
    deadline = time.monotonic() + 10
    while Path(f"/proc/{pid}/environ").exists() and time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return
        time.sleep(0.02)


def marked_processes(mark: str) -> dict[int, str]:
    """Return the command line of each living process with the mark in its environment, by pid."""
    wanted = f"{MARK}={mark}".encode()
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        with contextlib.suppress(OSError):
            folder = Path("/proc", name)
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                found[int(name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    return found
