"""Standard input and output as the relay holds them: whole lines in, whole lines out, and nothing else on stdout.

A library that prints something would break the protocol, so descriptors 0 and 1 are replaced for the rest of the program.
"""

import os
import threading
from collections.abc import Iterator


class Pipes:
    """The host's two pipes, which the rest of this process can no longer reach.

    Writing is safe from any thread; a host that does not read makes writers wait. Once it has closed its end, messages are
    dropped silently.
    """

    def __init__(self) -> None:
        """Take descriptors 0 and 1; other code then reads nothing from 0, and prints to stderr through 1."""
        while (nothing := os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)) <= 2:
            pass  # the host has closed 0, 1 or 2: it is filled, so that no file opened later takes its place
        self._reader = os.dup(0)
        self._writer = os.dup(1)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.dup2(2, 1)
        for descriptor in (self._reader, self._writer):
            os.set_blocking(descriptor, True)
        self._lock = threading.Lock()
        self._is_open = True

    def lines(self) -> Iterator[bytes]:
        """Yield the host's lines, of any length, until it closes its end; blank ones are skipped."""
        with open(self._reader, "rb", closefd=False) as file:
            for line in file:
                if line.strip():
                    yield line

    def write(self, message: bytes) -> None:
        """Write one message on a line of its own; returns when the pipe has all of it."""
        # JSON has line breaks between tokens only, where a blank means the same (RFC 8259, section 2).
        left = memoryview(message.strip().replace(b"\r", b" ").replace(b"\n", b" ") + b"\n")
        with self._lock:
            try:
                while self._is_open and left:
                    left = left[os.write(self._writer, left) :]
            except OSError:
                self._is_open = False
