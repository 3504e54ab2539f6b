"""Our own terminal while a command has one of its own behind it: raw mode, size, and everything as it was
before.

What a command draws on our terminal: `Screen`, which can hold it back while a Ctrl-Z is looked after.

The command's own terminal, seen from outside: what its Ctrl-Z means now. Reads /proc and the terminal's
settings.

When a full-screen program leaves its screen: `LeaveWatch`, bytes in, bytes out. Sans I/O.

Ctrl-Z makes such a program put the terminal back, stop itself, and draw everything anew once it goes on.
Behind a terminal of its own, with no shell above it, it cannot stop (the kernel does not stop orphaned
process groups, setpgid(2)) and draws anew at once. That part is held back until we are in the foreground
again.
"""

import contextlib
import os
import signal
import termios
import threading
from collections.abc import Callable, Iterator
from typing import NamedTuple

from outlive.kernel.processes import has_in_mask, stat_fields, terminal_of

_LEAVES = (b"\x1b[?1049l", b"\x1b[?1047l", b"\x1b[?47l")  # xterm: back from the alternate screen
_ENTERS = (b"\x1b[?1049h", b"\x1b[?1047h", b"\x1b[?47h")
_LONGEST = max(map(len, _LEAVES))


class LeaveWatch:
    """Watches output from the moment when Ctrl-Z was typed.

    Attributes:
        has_left: The program left its screen.
        has_entered: It came back to it; that and everything behind it is held back.
    """

    def __init__(self) -> None:
        self.has_left = self.has_entered = False
        self._tail = b""
        self._held = b""

    def take(self, data: bytes) -> bytes:
        """Return what of all that came may be shown now."""
        if self.has_entered:
            self._held += data
            return b""
        data = self._held + data
        self._held = b""
        start = 0
        if not self.has_left:
            seen = self._tail + data
            ends = [seen.find(mark) + len(mark) for mark in _LEAVES if mark in seen]
            self._tail = seen[-_LONGEST:]
            if not ends:
                return data
            self.has_left = True
            start = max(0, min(ends) - (len(seen) - len(data)))
        places = [place for mark in _ENTERS if (place := data.find(mark, start)) >= 0]
        if places:
            self.has_entered = True
            cut = min(places)
        else:
            cut = len(data) - _unfinished(data)
        self._held = data[cut:]
        return data[:cut]

    def rest(self) -> bytes:
        """Return what was held back; nothing is held any more."""
        held, self._held = self._held, b""
        return held


def _unfinished(data: bytes) -> int:
    """Return how many bytes at the end may be the beginning of a mark."""
    return max(
        (size for mark in _ENTERS for size in range(1, len(mark)) if data.endswith(mark[:size])), default=0
    )


_CC = 6  # place of the control characters in what tcgetattr returns


class OwnTerminal:
    """The terminal at a descriptor.

    May be used from any thread; `restore` may be called any number of times.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._before = termios.tcgetattr(descriptor)
        self._lock = threading.Lock()
        self._is_over = False
        self._is_changed = self.is_raw = False

    def make_raw(self) -> None:
        """Pass every key on as it is (cfmakeraw(3)): the command's own terminal makes of it what is to be
        made.
        """
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
        """Set it as it was found; with `for_good` nothing makes it raw again."""
        with self._lock:
            self._is_over = self._is_over or for_good
            if self._is_changed:
                self.is_raw = self._is_changed = False
                self._set(self._before)

    def _set(self, attributes: list[object]) -> None:
        # Without SIGTTOU a process in the background may set its terminal, too (tty_ioctl(4)); a terminal
        # that was hung up takes nothing any more.
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


class Screen:
    """Passes output on to `show`, through a `LeaveWatch` while there is one. Used by two threads."""

    def __init__(self, show: Callable[[bytes], bool]) -> None:
        """Show by `show`, which says whether anybody can see it."""
        self._show = show
        self._lock = threading.Lock()
        self._watch: LeaveWatch | None = None

    def take(self, data: bytes) -> bool:
        """Show what may be shown."""
        with self._lock:
            return self._show(data if self._watch is None else self._watch.take(data))

    @contextlib.contextmanager
    def watched(self, watch: LeaveWatch) -> Iterator[None]:
        """Show through `watch` while the block runs, and what it has held back behind it."""
        with self._lock:
            self._watch = watch
        try:
            yield
        finally:
            with self._lock:
                self._watch = None
                self._show(watch.rest())


_LFLAG, _INNER_TERMINAL_CC = 3, 6


class InnerTerminal(NamedTuple):
    """One look at it.

    `suspend_key`: the byte that suspends, b"" where there is none. `makes_signal`: the terminal makes SIGTSTP
    of it; else the program reads it as a key. `has_own_jobs`: a shell inside looks after its jobs itself.
    """

    suspend_key: bytes
    makes_signal: bool
    has_own_jobs: bool


def look_at(pid: int) -> InnerTerminal | None:
    """Return what is known of the terminal of the command with that main process; None when it has none (any
    more).
    """
    fields = stat_fields(pid)
    try:
        with terminal_of(pid) as fd:
            flags = termios.tcgetattr(fd)
    except (OSError, termios.error):
        return None
    key = flags[_INNER_TERMINAL_CC][termios.VSUSP]
    return InnerTerminal(
        suspend_key=key if isinstance(key, bytes) and key != b"\0" else b"",
        makes_signal=bool(flags[_LFLAG] & termios.ISIG),
        has_own_jobs=fields[5] != fields[2],
    )


def ignores_stop(pid: int) -> bool:
    """Tell whether a process ignores SIGTSTP, as shells do."""
    return has_in_mask(pid, b"SigIgn", signal.SIGTSTP)
