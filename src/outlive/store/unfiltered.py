"""What is kept beside a line with a final filter (`make | tail -30`), read from its process's folder:
`look_unfiltered`.

Three things lie there, each written while the line ran: `filter`, what was expected (the line's shell, before
the line); `unfiltered/out`, the bytes that entered the filter (`native/filter`), an output log of one stream;
`codes`, the exit codes of the last pipeline (the shell, at its end). The line's own processes could write
there as well: nothing here is trusted further than their output is.
"""

import contextlib
import fcntl
import os
import stat
import time

from outlive.core.values import dataclass
from outlive.store.folder import UNFILTERED

_COPIER_S, _LOOK_S = 1.0, 0.002  # it has microseconds of work left, on a machine with much to do some ms
_MOST_BYTES = 4096  # of a small file: the exit codes of some thousand stages


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfiltered:
    """What stood before the final filter of a command that has ended.

    `exit_code_before` is that of the last command before the filter (128 + N when signal N ended it), None
    when it is not known. `size` are the bytes that entered the filter, None when none were kept; the log in
    the folder `unfiltered` has them.
    """

    exit_code_before: int | None
    size: int | None


def look_unfiltered(folder: str) -> Unfiltered | None:
    """Return what is kept in a process's folder; None when nothing is. Blocking: for a thread."""
    stages, is_only = _expected(folder)
    if not stages:
        return None
    codes = _codes(folder)
    size = None
    with contextlib.suppress(OSError):
        # A pipe or a link that the line has put there would make a reader wait, or read another file.
        fd = os.open(f"{folder}/{UNFILTERED}/out", os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        with open(fd, "rb") as file:
            if codes:  # the shell has ended, the copier is about to
                _wait_unlocked(fd)
            found = os.fstat(file.fileno())
            size = found.st_size if stat.S_ISREG(found.st_mode) else None
    # Where nothing was copied another pipeline may have been the last: `cd nowhere && make | tail` ends with
    # the first one.
    is_ours = len(codes) == stages and (is_only or size is not None)
    if size is None and not is_ours:
        return None
    return Unfiltered(exit_code_before=codes[-2] if is_ours else None, size=size)


def _wait_unlocked(fd: int) -> None:
    """Wait until no copier writes into a log any more; the line's own processes may hold it longer."""
    until = time.monotonic() + _COPIER_S
    while time.monotonic() < until:
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_LOOK_S)
        else:
            return


def _expected(folder: str) -> tuple[int, bool]:
    """Return how many stages the last pipeline has, and whether no other has as many; (0, False) where
    nothing is kept.
    """
    words = _content(f"{folder}/filter").rstrip(b"\n").split(b",")
    if len(words) != 3 or not all(map(bytes.isdigit, words)) or int(words[1]) < 2:
        return 0, False
    return int(words[1]), words[2] == b"1"


def _codes(folder: str) -> list[int]:
    """Return the exit codes of the last pipeline; none where the trap wrote none, or could not finish."""
    *codes, end = _content(f"{folder}/codes").split() or [b""]
    return [*map(int, codes)] if end == b"end" and all(map(bytes.isdigit, codes)) else []


def _content(path: str) -> bytes:
    # The command may write there: what is no plain file must not make a reader wait.
    with contextlib.suppress(OSError):
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
        with open(fd, "rb") as file:
            return file.read(_MOST_BYTES)
    return b""
