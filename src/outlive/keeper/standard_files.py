"""Where the keeper's processes stand in the world: their first three descriptors, and the log that the third one is."""

import contextlib
import os
import time

from outlive.core.layout import Layout

__all__ = ["log", "use_standard_files"]


def log(text: str) -> None:
    """Write one line to the keeper's log (descriptor 2)."""
    line = f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} [{os.getpid()}] {text}\n"
    with contextlib.suppress(OSError):
        os.write(2, line.encode())


def use_standard_files(layout: Layout) -> None:
    """Point descriptors 0 and 1 to /dev/null and 2 to the keeper's log, in any working folder but a user's."""
    os.chdir("/")
    os.umask(0o077)
    null = os.open("/dev/null", os.O_RDWR)
    target = os.open(layout.keeper_log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for number, source in ((0, null), (1, null), (2, target)):
        os.dup2(source, number)
    for fd in {null, target} - {0, 1, 2}:
        os.close(fd)
