"""The first three descriptors of the keeper's processes, and the log file that the third one is."""

import contextlib
import os
import stat
import time

from outlive.core.layout import Layout

_KEEPER_LOG = "/keeper.log"
_OLD, _DELETED = ".old", " (deleted)"
_LOG_BYTES = 1024 * 1024  # of a log file; then it becomes the old one, in place of the one before


def log(text: str) -> None:
    """Write one line to the keeper's log (descriptor 2)."""
    with contextlib.suppress(OSError):
        keep_log_short(_KEEPER_LOG)
    line = f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} [{os.getpid()}] {text}\n"
    with contextlib.suppress(OSError):
        os.write(2, line.encode())


def keep_log_short(name: str) -> None:
    """Replace descriptor 2 by a new file if it is a log that has grown too long.

    All processes that share the log do so.

    `name` is the end of the log's path: if descriptor 2 was pointed to another program's file, that file is
    left alone. So a log never takes more than two files of 1 MiB, whatever makes it grow.

    Raises:
        OSError: The log stays as it is.
    """
    found = os.fstat(2)
    if found.st_size < _LOG_BYTES or not stat.S_ISREG(found.st_mode):
        return
    # Another process may have renamed the file that is still open here: both suffixes lead back to the log's
    # own path.
    path = os.readlink("/proc/self/fd/2").removesuffix(_DELETED).removesuffix(_OLD)
    if not path.endswith(name):
        return
    with contextlib.suppress(FileNotFoundError):
        if os.stat(path).st_ino == found.st_ino:  # otherwise another process has already renamed it
            os.rename(path, path + _OLD)
    fresh = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        if os.path.sameopenfile(1, 2):
            os.dup2(fresh, 1)
        os.dup2(fresh, 2)
    finally:
        os.close(fresh)


def use_standard_files(layout: Layout) -> None:
    """Point descriptors 0 and 1 to /dev/null and 2 to the keeper's log, and leave the user's working
    folder.
    """
    # A working folder keeps its file system busy, and the umask is for the keeper's own files.
    os.chdir("/")
    os.umask(0o077)
    null = os.open("/dev/null", os.O_RDWR)
    try:
        target = os.open(layout.keeper_log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    except OSError:  # a full or read-only disk: go on without a log
        target = null
    for number, source in ((0, null), (1, null), (2, target)):
        os.dup2(source, number)
    for fd in {null, target} - {0, 1, 2}:
        os.close(fd)
