"""What the kernel tells about a live process tree: listening ports, and whether it waits for input. Best effort.

Reads /proc in a thread: some milliseconds, never on the event loop. What another user owns is not seen.
"""

import asyncio
import contextlib
import os
from dataclasses import dataclass

import psutil

from outlive.engine import Process

__all__ = ["Probe", "is_listening", "probe"]

_LISTEN = "0A"  # the state's number in /proc/net/tcp (include/net/tcp_states.h)
# The number of read(2) by machine: /proc/PID/syscall shows it with the descriptor behind it.
_READ = {"x86_64": "0", "aarch64": "63"}.get(os.uname().machine)


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """Ports that a tree listens on, ascending, and whether one of its processes reads the input."""

    ports: tuple[int, ...] = ()
    waits_for_input: bool = False


async def probe(process: Process) -> Probe:
    """Look at a process's tree now; an ended process shows nothing."""
    pid = process.record.pid
    if pid is None or process.is_ended:
        return Probe()
    return await asyncio.to_thread(_look, pid, has_stdin=process.has_stdin)


def _look(pid: int, *, has_stdin: bool) -> Probe:
    ports: set[int] = set()
    waits = False
    try:
        main = psutil.Process(pid)
        tree = [main, *main.children(recursive=True)]
    except psutil.Error:
        return Probe()
    for one in tree:
        with contextlib.suppress(psutil.Error):
            for connection in one.net_connections(kind="tcp"):
                if connection.status == psutil.CONN_LISTEN:
                    ports.add(connection.laddr.port)
        waits = waits or (has_stdin and _reads_input(one.pid))
    return Probe(ports=tuple(sorted(ports)), waits_for_input=waits)


def _reads_input(pid: int) -> bool:
    """Tell whether a process is inside read(0, …)."""
    try:
        with open(f"/proc/{pid}/syscall", encoding="ascii") as file:
            words = file.read().split()
    except OSError:
        return False
    return _READ is not None and words[:2] == [_READ, "0x0"]


async def is_listening(port: int) -> bool:
    """Tell whether anything on this machine listens on a TCP port; never connects to it."""
    return await asyncio.to_thread(_is_listening, port)


def _is_listening(port: int) -> bool:
    wanted = f":{port:04X}"
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError), open(table, encoding="ascii") as file:
            for row in file:
                words = row.split(maxsplit=4)
                if len(words) > 3 and words[3] == _LISTEN and words[1].endswith(wanted):
                    return True
    return False
