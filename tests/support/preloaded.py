"""Servers and verbs as forks of a process that has their modules loaded: nine tenths of a server's processor
time are its imports.

A run starts more than a thousand servers. What a fork is, and what it is not, stands in `preloaded_program`,
which is that process.
"""

import contextlib
import functools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

_PADDING = "-" * 8192  # room for the command lines of forks
_PATIENCE_S = 60.0


class ForkedProcess:
    """A process that is no child of ours, with those methods of `subprocess.Popen` that tests of servers
    use.
    """

    def __init__(self, pid: int, pidfd: int, *, ended: int, stdout: IO[bytes]) -> None:
        self.pid = pid
        self.stdout = stdout
        self._pidfd = pidfd
        self._ended = ended
        self._code: int | None = None

    def poll(self) -> int | None:
        """Return the exit code, None while it runs."""
        return self._look(0.0)

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            with contextlib.suppress(
                ProcessLookupError
            ):  # it has ended, and its parent has not told its exit code yet
                signal.pidfd_send_signal(self._pidfd, number)

    def wait(self, timeout: float) -> int:
        """Return the exit code once it has ended.

        Raises:
            subprocess.TimeoutExpired: It still runs.
        """
        code = self._look(timeout)
        if code is None:
            raise subprocess.TimeoutExpired([f"pid {self.pid}"], timeout)
        return code

    def _look(self, timeout: float) -> int | None:
        if self._code is None:
            poll = select.poll()
            poll.register(self._ended, select.POLLIN)
            if poll.poll(timeout * 1000):
                self._code = int(os.read(self._ended, 16))
                os.close(self._ended)
                os.close(self._pidfd)
        return self._code


class Preloaded:
    """The process that forks; ends with this one. Requests may come from several threads."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control = ours
        self._one_at_a_time = threading.Lock()
        with theirs:
            self._program = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("preloaded_program.py")), _PADDING],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
            )
        self._program.returncode = 0  # it ends with us: nobody waits for it

    def start(
        self, words: Sequence[str], *, env: Mapping[str, str], cwd: Path | None, umask: int, stderr: IO[bytes]
    ) -> ForkedProcess:
        """Start `outlive` with the words behind its name (blocks); stdin is empty, stdout a pipe."""
        request = {
            "words": list(words),
            "env": dict(env),
            "cwd": os.fspath(cwd) if cwd is not None else os.getcwd(),
            "umask": umask,
        }
        reads, writes = os.pipe()
        ended, ends = os.pipe()
        nothing = os.open(os.devnull, os.O_RDONLY)
        try:
            with self._one_at_a_time:
                self._control.settimeout(_PATIENCE_S)
                socket.send_fds(
                    self._control, [json.dumps(request).encode()], [nothing, writes, stderr.fileno(), ends]
                )
                answer, (pidfd,), _, _ = socket.recv_fds(self._control, 64, 1)
        finally:
            for file in (nothing, writes, ends):
                os.close(file)
        return ForkedProcess(int(answer), pidfd, ended=ended, stdout=os.fdopen(reads, "rb"))


@functools.cache
def preloaded() -> Preloaded:
    """Return this pytest worker's one, started when it is first asked for."""
    return Preloaded()
