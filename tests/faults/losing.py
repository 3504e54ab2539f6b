"""Losing output for certain: the shim and the supervisor of a command end while its output lies in the
pipe.
"""

import os
import signal
from pathlib import Path

from outlive.kernel.state_files import read_end
from tests.keeper.client import until
from tests.support.processes import Gate, end, stat
from tests.support.server import OutliveServer

LOST_BYTES = 3893


def losing_line(gate: Gate, *, code: int = 0) -> str:
    """Return a command that writes 6 bytes which are kept and, once the gate is open, some that will be
    lost.
    """
    return f"echo early; {gate.wait}; head -c {LOST_BYTES} /dev/zero | tr '\\0' x; exit {code}"


def lose_output(server: OutliveServer, gate: Gate, *, pid: int, process_id: str) -> None:
    """Open the gate while the supervisor is stopped, and let shim and supervisor end when the command has."""
    folder = Path(server.state_dir) / "processes" / process_id
    until(lambda: (folder / "out").stat().st_size == 6, "the first output")
    command = stat(pid)
    supervisor = server.keeper_status().supervisor_pid
    assert command is not None
    assert supervisor is not None
    os.kill(supervisor, signal.SIGSTOP)
    gate.open()
    until(lambda: read_end(str(folder)), "the shim's record of the end")
    for victim in (command.ppid, supervisor):
        end(victim)
