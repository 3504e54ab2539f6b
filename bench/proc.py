"""What the kernel says about a process: memory, processor time, threads, descriptors, parents."""

import os
import time
from contextlib import suppress
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def _stat(pid: int) -> list[str]:
    # The name may hold spaces and brackets: fields are counted from the last bracket (proc_pid_stat(5)).
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def cpu_s(pid: int) -> float:
    """Seconds of processor time that the process has used, all threads, user and system."""
    fields = _stat(pid)
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def tree_cpu_s(pid: int) -> float:
    """The same, with its children that have ended and were waited for; 0 for a process that is gone."""
    try:
        fields = _stat(pid)
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return sum(map(int, fields[11:15])) / _TICKS_PER_S


def _idle_and_all() -> tuple[int, int]:
    ticks = [int(word) for word in Path("/proc/stat").read_text().partition("\n")[0].split()[1:]]
    return ticks[3] + ticks[4], sum(ticks)


def idle_share(seconds: float) -> float:
    """The share of all processors' time that was idle (0 to 1), looked at for so long."""
    idle, total = _idle_and_all()
    time.sleep(seconds)
    later_idle, later_total = _idle_and_all()
    return (later_idle - idle) / max(1, later_total - total)


def parent(pid: int) -> int:
    """The pid of the parent."""
    return int(_stat(pid)[1])


def _rollup(pid: int) -> dict[str, int]:
    sizes = {}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
        name, _, rest = line.partition(":")
        sizes[name] = int(rest.split()[0])
    return sizes


def own_kb(pid: int) -> int:
    """Kilobytes that belong to this process alone: what would be free if it ended."""
    sizes = _rollup(pid)
    return sum(size for name, size in sizes.items() if name.startswith("Private_"))


def resident_kb(pid: int) -> int:
    """Kilobytes in memory, shared pages included. Cheap, but the kernel may be some pages behind."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 1024


def threads(pid: int) -> int:
    """How many threads the process has."""
    return int(_stat(pid)[17])


def switches(pid: int) -> int:
    """How often the process's threads were switched to, by their own doing or not."""
    lines = [
        line
        for status in Path(f"/proc/{pid}/task").glob("*/status")
        for line in status.read_text().splitlines()
        if "voluntary_ctxt_switches:" in line
    ]
    return sum(int(line.rpartition(":")[2]) for line in lines)


def descriptors(pid: int) -> int:
    """How many descriptors the process has open."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def in_session(leader: int) -> list[int]:
    """Every process of the POSIX session that this one leads or led."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with suppress(FileNotFoundError, ProcessLookupError):
            if int(_stat(int(name))[3]) == leader:
                found.append(int(name))
    return found


def descendants(pid: int) -> set[int]:
    """Every process below `pid`, at one look; processes that come or go meanwhile may be missed."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            children.setdefault(parent(int(name)), []).append(int(name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    found: set[int] = set()
    todo = [pid]
    while todo:
        for child in children.get(todo.pop(), ()):
            if child not in found:
                found.add(child)
                todo.append(child)
    return found
