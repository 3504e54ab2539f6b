"""The ends of a command's pipes and terminal: the keeper's own in `ManagedProcess.fds`, the command's by the shim's letters."""

import os
import termios

from outlive.keeper.supervisor.managed_process import ManagedProcess

_IUTF8 = 0o040000  # termios(3); Python has no name for it


def _pipe(kept: ManagedProcess, letter: str, *, keeper_reads: bool) -> int:
    read_end, write_end = os.pipe2(os.O_CLOEXEC)
    ours, theirs = (read_end, write_end) if keeper_reads else (write_end, read_end)
    os.set_blocking(ours, False)
    kept.fds[letter] = ours
    return theirs


def lost_of(kept: ManagedProcess) -> str | None:
    """Name what was handed over for a start and is not there any more."""
    if kept.spec.stdin == "lent" and kept.lent < 0:
        return "stdin"
    return "secrets" if kept.spec.secrets and kept.secrets is None else None


def in_memory(content: bytes) -> int:
    """Return a file that has no name and no place on any disk (memfd_create(2))."""
    fd = os.memfd_create("outlive", os.MFD_CLOEXEC)
    os.pwrite(fd, content, 0)
    return fd


def open_ends(kept: ManagedProcess) -> dict[str, int]:
    """Open pipes or terminal; return the command's own ends. An OSError leaves the keeper's ends in `kept.fds` only."""
    ends: dict[str, int] = {}
    try:
        (_open_terminal if kept.spec.stdio == "pty" else _open_pipes)(kept, ends)
        if kept.secrets:
            ends["S"] = in_memory(kept.secrets)
    except OSError:
        for fd in ends.values():
            os.close(fd)
        raise
    return ends


def _open_pipes(kept: ManagedProcess, ends: dict[str, int]) -> None:
    if kept.spec.stdin == "pipe":
        ends["I"] = _pipe(kept, "i", keeper_reads=False)
    elif kept.spec.stdin == "lent":
        ends["I"] = os.dup(kept.lent)
    else:
        ends["I"] = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
    for stream, letter in zip(kept.streams, "oe", strict=False):
        ends[letter.upper()] = _pipe(kept, letter, keeper_reads=True)
        stream.source = kept.fds[letter]


def _open_terminal(kept: ManagedProcess, ends: dict[str, int]) -> None:
    if kept.spec.stdin == "lent":
        ends["I"] = os.dup(kept.lent)
    stream = kept.streams[0]
    relay_read, stream.relay = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    kept.fds.update(r=relay_read, w=stream.relay)
    if kept.spec.container:
        return  # it opens one of its own: a terminal of another mount namespace has no name there
    master, ends["T"] = os.openpty()
    kept.fds["m"] = master
    os.set_blocking(master, False)
    set_window_size(master, kept.spec.rows, kept.spec.cols)
    flags = termios.tcgetattr(master)  # of the pair, on Linux
    flags[0] |= _IUTF8  # else erasing a character in a line takes one byte of it
    termios.tcsetattr(master, termios.TCSANOW, flags)
    stream.source = master


def set_window_size(terminal: int, rows: int, cols: int) -> None:
    """Set a terminal's size; its foreground process group gets SIGWINCH (tty_ioctl(4) TIOCSWINSZ)."""
    termios.tcsetwinsize(terminal, (rows, cols))
