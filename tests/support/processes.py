"""Looking at real processes through /proc: who lives, who is stopped, who belongs to a state folder.

Never asks the product: what the kernel says is what the product's answers are compared with.
"""

import os
import signal
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import anyio

PATIENCE_S = 60.0
_POLL_S = 0.01
_LONGEST_PAUSE_S = 0.2


@dataclass(frozen=True, slots=True)
class ProcessStat:
    """One line of /proc/<pid>/stat, the fields tests ask for; `start_ticks` makes the pid an identity."""

    pid: int
    state: str
    ppid: int
    pgid: int
    posix_session: int
    start_ticks: int


def all_pids() -> list[int]:
    """Return every pid that /proc shows."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def stat(pid: int) -> ProcessStat | None:
    """Return what the kernel says about `pid`, None when there is no such process (proc_pid_stat(5))."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text[text.rindex(")") + 2 :].split()  # the name may contain blanks and parentheses
    return ProcessStat(
        pid=pid,
        state=fields[0],
        ppid=int(fields[1]),
        pgid=int(fields[2]),
        posix_session=int(fields[3]),
        start_ticks=int(fields[19]),
    )


def cpu_ticks(pid: int) -> int:
    """Return the processor time that a process has taken, its threads together, in ticks of 10 ms
    (proc_pid_stat(5)).
    """
    text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    fields = text[text.rindex(")") + 2 :].split()
    return int(fields[11]) + int(fields[12])


def is_alive(pid: int) -> bool:
    """Tell whether `pid` still executes: a zombie does not."""
    found = stat(pid)
    return found is not None and found.state not in "ZX"


def is_stopped(pid: int) -> bool:
    """Tell whether `pid` makes no progress: stopped by a signal, or in a frozen cgroup."""
    found = stat(pid)
    return found is not None and (found.state in "Tt" or _is_frozen(pid))


def _is_frozen(pid: int) -> bool:
    for line in _read(f"/proc/{pid}/cgroup").decode().splitlines():
        number, controllers, path = line.split(":", 2)
        if number == "0":
            for root in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified"):
                if b"frozen 1" in _read(f"{root}{path}/cgroup.events"):
                    return True
        elif "freezer" in controllers and b"FROZEN" in _read(f"/sys/fs/cgroup/freezer{path}/freezer.state"):
            return True
    return False


def descendants(pid: int) -> list[int]:
    """Return the pids of everything below `pid` by parentage, `pid` itself not included."""
    children: dict[int, list[int]] = {}
    for found in filter(None, map(stat, all_pids())):
        children.setdefault(found.ppid, []).append(found.pid)
    below: list[int] = []
    todo = [pid]
    while todo:
        for child in children.get(todo.pop(), []):
            below.append(child)
            todo.append(child)
    return below


def with_cmdline(text: str) -> list[int]:
    """Return the living processes whose command line contains `text`."""
    needle = text.encode()
    return [
        pid
        for pid in all_pids()
        if pid != os.getpid()
        and needle in _read(f"/proc/{pid}/cmdline").replace(b"\0", b" ")
        and is_alive(pid)
    ]


def of_state_folder(state_dir: Path) -> dict[int, str]:
    """Return pid -> command line of every living process that belongs to a state folder.

    A process belongs to it when its environment carries OUTLIVE_STATE_DIR for it, or its command line names
    it.
    """
    root = os.fsencode(state_dir)
    marker = b"\0OUTLIVE_STATE_DIR=" + root + b"\0"
    found: dict[int, str] = {}
    for pid in all_pids():
        cmdline = _read(f"/proc/{pid}/cmdline")
        environment = b"\0" + _read(f"/proc/{pid}/environ") + b"\0"
        if pid != os.getpid() and (marker in environment or root in cmdline) and is_alive(pid):
            found[pid] = cmdline.replace(b"\0", b" ").decode(errors="replace")[:200]
    return found


def pause_after(looked_s: float, *, least_s: float) -> float:
    """Return how long to pause after a look that took so much processor time: a fifth of a core is spent on
    looking at most.

    A look through /proc or a question to a server takes milliseconds, which what is waited for needs more.
    Seconds all.
    """
    return min(_LONGEST_PAUSE_S, max(least_s, 4 * looked_s))


def wait_state_folder_empty(state_dir: Path, *, patience_s: float = PATIENCE_S) -> dict[int, str]:
    """Wait until nothing of the state folder lives; return what still does when patience ends (blocks)."""
    deadline = time.monotonic() + patience_s
    while (left := of_state_folder(state_dir)) and time.monotonic() < deadline:
        time.sleep(_POLL_S * 5)
    return left


def memory_peak_bytes(pid: int) -> int:
    """Return the largest resident size that `pid` ever had."""
    return _memory_bytes(pid, "VmHWM:")


def own_memory_bytes(pid: int) -> int:
    """Return the resident memory of `pid` that no file is behind: of a keeper, too, whose maps are closed to
    its user.
    """
    return _memory_bytes(pid, "RssAnon:")


def _memory_bytes(pid: int, name: str) -> int:
    for line in _read(f"/proc/{pid}/status").decode().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"no process {pid}")


def end(pid: int) -> None:
    """Kill `pid` if it still lives; through a pidfd, so that a reused pid is not hit in between."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    except ProcessLookupError:
        pass
    finally:
        os.close(descriptor)


async def poll_until(holds: Callable[[], bool], *, patience_s: float = PATIENCE_S) -> None:
    """Wait until something holds that the kernel does not announce: look again and again, for a bounded
    time.
    """
    with anyio.fail_after(patience_s):
        while True:  # /proc and files have no events to wait for
            begun = time.process_time()
            if holds():
                return
            await anyio.sleep(pause_after(time.process_time() - begun, least_s=_POLL_S))


async def wait_dead(*pids: int, patience_s: float = PATIENCE_S) -> None:
    """Wait until none of `pids` executes any more."""
    await poll_until(lambda: not any(map(is_alive, pids)), patience_s=patience_s)


async def wait_file(path: Path, *, patience_s: float = PATIENCE_S) -> None:
    """Wait until `path` exists (a command's way to tell a test how far it is)."""
    await poll_until(path.exists, patience_s=patience_s)


async def wait_for(marker: "Marker", count: int, *, patience_s: float = PATIENCE_S) -> list[int]:
    """Wait until exactly `count` processes carry the marker; return their pids."""
    await poll_until(lambda: len(marker.pids()) == count, patience_s=patience_s)
    return marker.pids()


@dataclass(slots=True)
class Marker:
    """A duration for `sleep` that nobody else uses: finds a command's processes however they escaped."""

    seconds: str = field(default_factory=lambda: f"86400.{uuid.uuid4().int % 10**12:012d}")

    @property
    def sleep(self) -> str:
        """The shell command that carries the mark."""
        return f"sleep {self.seconds}"

    def pids(self) -> list[int]:
        """Return the living `sleep` processes with the mark (a shell that merely mentions it is none)."""
        return [
            pid
            for pid in with_cmdline(self.seconds)
            if _read(f"/proc/{pid}/cmdline").split(b"\0")[:2] == [b"sleep", self.seconds.encode()]
        ]


@dataclass(frozen=True, slots=True)
class Gate:
    """A file a command waits for, so that a test says when it goes on, server or no server."""

    path: Path

    @property
    def wait(self) -> str:
        """The shell command that waits until the gate is open."""
        return f"until [ -e '{self.path}' ]; do sleep 0.02; done"

    def open(self) -> None:
        """Let the command go on."""
        self.path.touch()


def _read(path: str) -> bytes:
    try:
        # Without a buffer and a Path it takes half the time: each look for what is left reads two files of
        # each process.
        with open(path, "rb", buffering=0) as file:
            return file.read()
    except OSError:
        return b""  # gone meanwhile, or not ours to read
