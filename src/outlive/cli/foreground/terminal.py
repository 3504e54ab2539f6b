"""Our own terminal while a command has one of its own behind it: raw mode, size, and everything as it was before."""

import contextlib
import os
import signal
import termios
import threading

_CC = 6  # place of the control characters in what tcgetattr returns


class OwnTerminal:
    """The terminal at a descriptor. May be used from any thread; `restore` may be called any number of times."""

    def __init__(self, descriptor: int) -> None:
        """Remember how it is set now; nothing is changed yet."""
        self._descriptor = descriptor
        self._before = termios.tcgetattr(descriptor)
        self._lock = threading.Lock()
        self._is_over = False
        self._is_changed = self.is_raw = False

    def make_raw(self) -> None:
        """Pass every key on as it is (cfmakeraw(3)): the command's own terminal makes of it what is to be made."""
        with self._lock:
            if self._is_over:
                return
            flags = list(termios.tcgetattr(self._descriptor))
            iflag, oflag, cflag, lflag = (int(flags[place]) for place in range(4))
            iflag &= ~(
                termios.IGNBRK
                | termios.BRKINT
                | termios.PARMRK
                | termios.ISTRIP
                | termios.INLCR
                | termios.IGNCR
                | termios.ICRNL
                | termios.IXON
            )
            lflag &= ~(termios.ECHO | termios.ECHONL | termios.ICANON | termios.ISIG | termios.IEXTEN)
            cflag = cflag & ~(termios.CSIZE | termios.PARENB) | termios.CS8
            characters = list(flags[_CC])
            characters[termios.VMIN], characters[termios.VTIME] = 1, 0
            self._set([iflag, oflag & ~termios.OPOST, cflag, lflag, *flags[4:6], characters])
            self.is_raw = self._is_changed = True

    def hush(self) -> None:
        """Echo nothing: until the command runs, what is typed is shown by its terminal, and not twice."""
        with self._lock:
            flags = list(self._before)
            flags[3] = int(flags[3]) & ~termios.ECHO
            self._set(flags)
            self._is_changed = True

    def restore(self, *, for_good: bool = False) -> None:
        """Set it as it was found; with `for_good` nobody makes it raw again."""
        with self._lock:
            self._is_over = self._is_over or for_good
            if self._is_changed:
                self.is_raw = self._is_changed = False
                self._set(self._before)

    def _set(self, attributes: list[object]) -> None:
        # Without SIGTTOU a process in the background may set its terminal, too (tty_ioctl(4)); a terminal that was
        # hung up takes nothing any more.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
        try:
            with contextlib.suppress(termios.error):
                termios.tcsetattr(self._descriptor, termios.TCSADRAIN, attributes)  # type: ignore[arg-type]
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    @property
    def is_ours(self) -> bool:
        """Whether we are in the foreground: what is typed is for us."""
        try:
            return os.tcgetpgrp(self._descriptor) == os.getpgrp()
        except OSError:
            return False

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns; 24 by 80 where it does not know them."""
        try:
            found = os.get_terminal_size(self._descriptor)
        except OSError:
            return 24, 80
        return found.lines or 24, found.columns or 80
