"""The command's own terminal, seen from outside: what its Ctrl-Z means now. Reads /proc and the terminal's settings."""

import os
import signal
import termios
from dataclasses import dataclass

_LFLAG, _CC = 3, 6
_STOP_BIT = 1 << (signal.SIGTSTP - 1)


@dataclass(frozen=True, slots=True)
class InnerTerminal:
    """One look at it.

    `suspend_key`: the byte that suspends, b"" where there is none. `makes_signal`: the terminal makes SIGTSTP of it; else
    the program reads it as a key. `has_own_jobs`: a shell inside looks after its jobs itself.
    """

    suspend_key: bytes
    makes_signal: bool
    has_own_jobs: bool


def look_at(pid: int) -> InnerTerminal | None:
    """Return what is known of the terminal of the command with that main process; None when it has none (any more)."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        group, device, foreground = int(fields[2]), int(fields[4]), int(fields[5])
        minor = (device & 0xFF) | ((device >> 12) & 0xFFF00)
        fd = os.open(f"/dev/pts/{minor}", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except (OSError, IndexError, ValueError):
        return None
    try:
        flags = termios.tcgetattr(fd)
    except termios.error:
        return None
    finally:
        os.close(fd)
    key = flags[_CC][termios.VSUSP]
    return InnerTerminal(
        suspend_key=key if isinstance(key, bytes) and key != b"\0" else b"",
        makes_signal=bool(flags[_LFLAG] & termios.ISIG),
        has_own_jobs=foreground != group,
    )


def ignores_stop(pid: int) -> bool:
    """Tell whether a process ignores SIGTSTP, as shells do."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            masks = [line for line in file if line.startswith(b"SigIgn:")]
    except OSError:
        return False
    return any(int(line.split()[1], 16) & _STOP_BIT for line in masks)
