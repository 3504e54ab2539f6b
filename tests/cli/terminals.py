"""A command of ours in a real terminal: what it shows is read, what a person types is written."""

import contextlib
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.cli.launching import environment
from tests.support.server import outlive_command

_PATIENCE_S = 60.0
# What is typed reaches whoever is in the foreground of its session's terminal (tty_ioctl(4)).
_IN_FRONT = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], "
    "sys.argv[1:])"
)


@dataclass(slots=True)
class Screen:
    """The terminal of a running command."""

    process: subprocess.Popen[bytes]
    master: int
    shown: str = ""

    def until(self, text: str, *, times: int = 1) -> str:
        """Read until `text` has been shown so often; return everything shown so far."""
        deadline = time.monotonic() + _PATIENCE_S
        while self.shown.count(text) < times:
            assert time.monotonic() < deadline, self.shown
            if select.select([self.master], [], [], 0.1)[0]:
                try:
                    self.shown += os.read(self.master, 65536).decode()
                except OSError:  # EIO: the command has ended
                    assert self.shown.count(text) >= times, self.shown
        return self.shown

    def type(self, text: str) -> None:
        """Type."""
        os.write(self.master, text.encode())

    def interrupt(self) -> int:
        """Press Ctrl-C; return the exit code."""
        self.process.send_signal(signal.SIGINT)
        return self.end()

    def end(self) -> int:
        """Wait for the end; return the exit code."""
        return self.process.wait(_PATIENCE_S)


@contextmanager
def on_a_terminal(*words: str, state_dir: Path, descriptors: Sequence[int] = ()) -> Iterator[Screen]:
    """Run `outlive WORDS` with a terminal for everything, in its foreground. It inherits `descriptors`."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-S", "-c", _IN_FRONT, *outlive_command(), *words, "--state-dir", str(state_dir)],
        env=environment({"TERM": "xterm"}),
        stdin=slave,
        stdout=slave,
        stderr=slave,
        pass_fds=descriptors,
        start_new_session=True,
    )
    os.close(slave)
    try:
        yield Screen(process, master)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        process.wait(_PATIENCE_S)
        os.close(master)
