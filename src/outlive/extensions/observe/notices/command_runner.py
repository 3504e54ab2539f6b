"""Runs one program for `NotifyCommand`: `python -I -S FILE DEADLINE_S PROGRAM [ARGUMENT ...]`.

The first line of stdin is the program's whole stdin; the end of stdin is the end of the server. The exit code
is 0 when the program's is 0 within the deadline. Otherwise stdout says why in its first line, and has the end
of the program's stderr behind it. In each case nothing of the program is left: as a subreaper this process
inherits all that the program has started, daemons included.

A process of its own, because the server must adopt no orphans and cannot end anything once it was killed.
"""

import contextlib
import os
import select
import signal
import sys
import time
from pathlib import Path

# Run by its path: neither site packages nor the environment decide what is imported.
sys.path.insert(0, str(Path(__file__).resolve().parents[4]))

from outlive.kernel.calls import become_subreaper
from outlive.kernel.processes import children

_STDIN = 0
_TAIL_BYTES = 4096  # of stderr: its last line is among them


def _main() -> int:
    deadline = time.monotonic() + float(sys.argv[1])
    become_subreaper()
    content = sys.stdin.buffer.readline()
    if not content.endswith(b"\n"):  # the server has ended before it had sent all of it
        return _failed("the notice did not come whole")
    try:
        pid, stderr = _spawn(sys.argv[2:], content)
    except OSError as error:
        return _failed(f"it cannot be started: {error.strerror}")
    try:
        code, tail = _awaited(pid, stderr, deadline)
    finally:
        _end_all()
    if code == 0:
        return 0
    return _failed(f"no end within {float(sys.argv[1]):.0f} s" if code is None else _named(code), tail)


def _spawn(words: list[str], content: bytes) -> tuple[int, int]:
    """Start the program; return its pid and where its stderr is read.

    Its stdin is a file in memory: a program that reads none of it blocks nothing.
    """
    stdin = os.memfd_create("notice")
    os.write(stdin, content)
    os.lseek(stdin, 0, os.SEEK_SET)
    reading, writing = os.pipe()
    actions = [
        (os.POSIX_SPAWN_DUP2, stdin, 0),
        (os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0),
        (os.POSIX_SPAWN_DUP2, writing, 2),
    ]
    # Python ignores these two signals, and a program would inherit that.
    usual = (signal.SIGPIPE, signal.SIGXFSZ)
    pid = os.posix_spawnp(words[0], words, os.environ, file_actions=actions, setsid=True, setsigdef=usual)
    os.close(writing)
    os.set_blocking(reading, False)
    return pid, reading


def _awaited(pid: int, stderr: int, deadline: float) -> tuple[int | None, bytes]:
    """Return the exit code (None: the time is up, or the server is gone) and the end of stderr."""
    end = os.pidfd_open(pid)
    poll = select.poll()
    for fd in (_STDIN, stderr, end):
        poll.register(fd, select.POLLIN)
    tail = b""
    while (left := deadline - time.monotonic()) > 0:
        ready = {fd for fd, _ in poll.poll(left * 1000)}
        if _STDIN in ready:
            break
        if ready:  # also at its end: what it has written last may have come after this poll has looked
            chunk = _read(stderr)
            tail = (tail + (chunk or b""))[-_TAIL_BYTES:]
            if chunk == b"" and stderr in ready:
                poll.unregister(stderr)
        # What it leaves behind may hold its stderr open, and write for ever: that is not waited for.
        if end in ready:
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), tail
    return None, tail


def _read(fd: int) -> bytes | None:
    """Return what is there, all that a pipe holds; None: nothing, and it is still open."""
    try:
        return os.read(fd, 1 << 16)
    except BlockingIOError:
        return None


def _end_all() -> None:
    """Kill every process below this one.

    Only children are signalled: the pid of a child is not reused before it is reaped.
    """
    while True:
        is_any = False
        for pid in children(os.getpid()):
            with contextlib.suppress(PermissionError):  # another user's, as by sudo
                os.kill(pid, signal.SIGKILL)
                is_any = True
        try:
            # A child that dies leaves its own children to us: again, until there are none.
            reaped, _ = os.waitpid(-1, 0 if is_any else os.WNOHANG)
        except ChildProcessError:
            return
        if not reaped:
            return


def _named(code: int) -> str:
    return f"exit code {code}" if code > 0 else f"it was ended by signal {-code}"


def _failed(why: str, tail: bytes = b"") -> int:
    sys.stdout.buffer.write(why.encode() + b"\n" + tail)
    return 1


if __name__ == "__main__":
    sys.exit(_main())
