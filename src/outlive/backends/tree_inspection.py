"""Looking at a process tree of this machine through /proc. Blocking, some milliseconds: run it in a thread.

The tree is what the shim holds: the command, what it started, and what of that became a daemon. Reads only.
Whether it waits for input alone is cheaper to ask: `input_inspection`.
"""

import contextlib
import termios

from outlive.backends.input_inspection import input_wait_of
from outlive.backends.proc_files import living_main, living_tree, terminal_of
from outlive.core.process import NOTHING, Observation


def observe_tree(folder: str, *, has_stdin: bool) -> Observation:
    """Return what the process of a folder and its tree look like now; nothing for one that has ended.

    Args:
        folder: The process's folder.
        has_stdin: Whether it has an input that it could wait for.
    """
    import psutil  # noqa: PLC0415 -- start-up time: 51 ms, paid only by a caller that asks (decision 6)

    living = living_tree(folder)
    if living is None:
        return NOTHING
    record, pids = living
    seen: list[int] = []
    ports: set[int] = set()
    threads, cpu_s, memory_bytes = 0, 0.0, 0
    for pid in pids:
        with contextlib.suppress(psutil.Error):
            one = psutil.Process(pid)
            with one.oneshot():
                if one.status() == psutil.STATUS_ZOMBIE:
                    continue
                seen.append(pid)
                times = one.cpu_times()
                cpu_s += times.user + times.system + times.children_user + times.children_system
                memory_bytes += one.memory_info().rss
                threads += one.num_threads()
            ports.update(
                connection.laddr.port
                for connection in one.net_connections(kind="tcp")
                if connection.status == psutil.CONN_LISTEN
            )
    wait = input_wait_of(record, pids) if has_stdin else None
    return Observation(
        pids=tuple(seen),
        threads=threads,
        cpu_s=round(cpu_s, 2),  # the kernel counts in ticks of 10 ms
        memory_bytes=memory_bytes,
        ports=tuple(sorted(ports)),
        waiting="no" if wait is None or not wait.is_certain else wait.kind,
    )


def window_size(folder: str) -> tuple[int, int] | None:
    """Return rows and columns of the terminal that the process of a folder was started in; None where there is none."""
    record = living_main(folder)
    if record is not None:
        with contextlib.suppress(OSError, termios.error), terminal_of(record.pid) as fd:
            return termios.tcgetwinsize(fd)
    return None
