"""Looking at process trees of this machine through /proc.

Blocking, below a millisecond for most trees: run it in a thread.

The tree is what the shim holds: the command, what it started, and what of that became a daemon. Reads only.
Whether it waits for input alone is cheaper to ask: `input_inspection`.
"""

import contextlib
import os
import termios
from collections.abc import Iterable

from outlive.backends.input_inspection import input_wait_of
from outlive.backends.living_trees import living_main, living_tree
from outlive.core.process import NOTHING, Observation
from outlive.kernel.processes import stat_fields, terminal_of
from outlive.kernel.sockets import ListeningPorts

_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
# Fields of /proc/PID/stat (proc(5)), counted from the third one.
_STATE, _THREADS, _RSS = 0, 17, 21
_TIMES = slice(11, 15)  # of the process and of its children that were waited for: user and system


def observe_trees(folders: Iterable[str], *, has_stdin: bool) -> list[Observation]:
    """Return what processes and their trees look like now; nothing for one that has ended.

    Args:
        folders: The processes' folders.
        has_stdin: Whether they have inputs that they could wait for.
    """
    ports = ListeningPorts()
    return [_look(folder, ports, has_stdin=has_stdin) for folder in folders]


def _look(folder: str, listening: ListeningPorts, *, has_stdin: bool) -> Observation:
    living = living_tree(folder)
    if living is None:
        return NOTHING
    record, pids = living
    seen: list[int] = []
    ports: set[int] = set()
    threads, ticks, pages = 0, 0, 0
    is_busy = False
    for pid in pids:
        fields = stat_fields(pid)
        if not fields or fields[_STATE] == b"Z":
            continue
        seen.append(pid)
        is_busy |= fields[_STATE] in {b"R", b"D"}
        ticks += sum(map(int, fields[_TIMES]))
        pages += int(fields[_RSS])
        threads += int(fields[_THREADS])
        ports |= listening.of(pid)
    wait = input_wait_of(record, pids) if has_stdin else None
    return Observation(
        pids=tuple(seen),
        threads=threads,
        cpu_s=round(ticks / _TICKS_A_SECOND, 2),
        memory_bytes=pages * _PAGE_BYTES,
        ports=tuple(sorted(ports)),
        waiting="no" if wait is None or not wait.is_certain else wait.kind,
        is_at_prompt=wait is not None and wait.is_at_prompt,
        is_busy=is_busy,
    )


def window_size(folder: str) -> tuple[int, int] | None:
    """Return rows and columns of the terminal that the process of a folder was started in; None where there
    is none.
    """
    record = living_main(folder)
    if record is not None:
        with contextlib.suppress(OSError, termios.error), terminal_of(record.pid) as fd:
            return termios.tcgetwinsize(fd)
    return None
