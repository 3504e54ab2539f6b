"""The size of a terminal's window now, as the kernel tells: `window_size`. Reads only."""

import fcntl
import os
import struct
import termios

from outlive.engine.process import Process

__all__ = ["window_size"]

_SIZE = struct.Struct("HHHH")  # struct winsize (ioctl_tty(2)): rows, columns, pixels
_DEFAULT = (24, 80)


def window_size(process: Process) -> tuple[int, int]:
    """Return rows and columns; 24 and 80 for a terminal that is closed. Blocking, some microseconds."""
    if process.pid is None or process.is_ended:
        return _DEFAULT
    try:
        fd = os.open(f"/proc/{process.pid}/fd/0", os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return _DEFAULT
    try:
        rows, cols, _, _ = _SIZE.unpack(fcntl.ioctl(fd, termios.TIOCGWINSZ, bytes(_SIZE.size)))
    except OSError:
        return _DEFAULT
    finally:
        os.close(fd)
    return (rows, cols) if rows and cols else _DEFAULT
