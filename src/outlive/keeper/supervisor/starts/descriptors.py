"""The ends of a command's pipes and terminal: the keeper's in `ManagedProcess.fds`, the command's by the shim's letters.

This module only opens them; `launcher` and `container_links` hand them over.
"""

import os
import termios

from outlive.keeper.supervisor.managed_process import ManagedProcess

_IUTF8 = 0o040000  # termios(3); Python has no name for this flag


def _pipe(kept: ManagedProcess, letter: str, *, keeper_reads: bool) -> int:
    read_end, write_end = os.pipe2(os.O_CLOEXEC)
    ours, theirs = (read_end, write_end) if keeper_reads else (write_end, read_end)
    os.set_blocking(ours, False)
    kept.fds[letter] = ours
    return theirs


def lost_of(kept: ManagedProcess) -> str | None:
    """Return the name of something that was handed over for a start and is lost; None when nothing is."""
    if kept.spec.stdin == "lent" and kept.lent < 0:
        return "stdin"
    return "secrets" if kept.spec.secrets and kept.secrets is None else None


def in_memory(content: bytes) -> int:
    """Return a file without a name, in memory and on no disk (memfd_create(2))."""
    fd = os.memfd_create("outlive", os.MFD_CLOEXEC)
    os.pwrite(fd, content, 0)
    return fd


def open_ends(kept: ManagedProcess) -> dict[str, int]:
    """Open pipes or terminal; return the command's own ends. After an OSError only the keeper's ends in `kept.fds` are open."""
    ends: dict[str, int] = {}
    try:
        if kept.spec.stdio == "pty":
            _open_terminal(kept, ends)
        else:
            if kept.spec.stdin == "pipe":
                ends["I"] = _pipe(kept, "i", keeper_reads=False)
            elif kept.spec.stdin == "lent":
                ends["I"] = os.dup(kept.lent)
            else:
                ends["I"] = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
            for stream, letter in zip(kept.streams, "oe", strict=False):
                ends[letter.upper()] = _pipe(kept, letter, keeper_reads=True)
                stream.source = kept.fds[letter]
        if kept.secrets:
            ends["S"] = in_memory(kept.secrets)
    except OSError:
        for fd in ends.values():
            os.close(fd)
        raise
    return ends


def _open_terminal(kept: ManagedProcess, ends: dict[str, int]) -> None:
    if kept.spec.stdin == "lent":
        ends["I"] = os.dup(kept.lent)
    stream = kept.streams[0]
    relay_read, stream.relay = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    kept.fds.update(r=relay_read, w=stream.relay)
    if kept.spec.container:
        return  # a container opens its own terminal: one of another mount namespace has no name there
    master, ends["T"] = os.openpty()
    kept.fds["m"] = master
    os.set_blocking(master, False)
    set_window_size(master, kept.spec.rows, kept.spec.cols)
    flags = termios.tcgetattr(master)  # on Linux both sides have the same attributes
    flags[0] |= _IUTF8  # without it, erasing a character of a line removes one byte of it
    termios.tcsetattr(master, termios.TCSANOW, flags)
    stream.source = master


def set_window_size(terminal: int, rows: int, cols: int) -> None:
    """Set a terminal's size; its foreground process group gets SIGWINCH (tty_ioctl(4) TIOCSWINSZ)."""
    termios.tcsetwinsize(terminal, (rows, cols))
