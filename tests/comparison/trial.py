"""The command that every program of the comparison is given, and what is asked of it afterwards."""

import os
import re
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tests.support.processes import PATIENCE_S, is_alive

EXIT_CODE = 7  # one that no program returns by accident


class Trial:
    """A command that has a child in a POSIX session of its own, waits at a gate, and ends with an exit code
    of its own.
    """

    def __init__(self, folder: Path) -> None:
        """Make the gate; `folder` is empty, and the command may be started anywhere."""
        self.folder = folder
        self._gate = folder / "gate"
        os.mkfifo(self._gate)
        self._ours = os.open(
            self._gate, os.O_RDWR
        )  # opened for both, it never waits for the other end (fifo(7))
        self._children: list[int] = []

    def script(self, *, gate: str = "") -> str:
        """Return it for `sh -c`; `gate` is the gate's path where the command runs."""
        return (
            "setsid sleep 600 & echo child $!; echo before; "
            f"read -r _ <{gate or self._gate}; echo after; exit {EXIT_CODE}"
        )

    def open_gate(self) -> None:
        """Let the command go on to its end."""
        os.write(self._ours, b"\n")

    def child_in(self, output: str) -> int:
        """Return the pid of the child in a session of its own, which the command has printed."""
        found = re.search(r"^child (\d+)\s*$", output, re.MULTILINE)
        assert found is not None, output
        self._children.append(int(found[1]))
        return self._children[-1]

    def close(self) -> None:
        """End what the program of the trial has left."""
        os.close(self._ours)
        for pid in self._children:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def until(look: Callable[[], str], text: str) -> str:
    """Look again and again until a text is there; return all that was seen (blocks)."""
    deadline = time.monotonic() + PATIENCE_S
    while text not in (seen := look()):
        assert time.monotonic() < deadline, f"{text!r} did not come:\n{seen}"
        time.sleep(0.02)
    return seen


def wait_for_end(pid: int) -> None:
    """Wait until a process that is not ours to reap has ended (blocks)."""
    deadline = time.monotonic() + PATIENCE_S
    while is_alive(pid):
        assert time.monotonic() < deadline, f"{pid} lives"
        time.sleep(0.02)
