"""Signals that reach us and are meant for the command: taken one by one in a thread, with who sent them."""

import os
import signal
import threading
from collections.abc import Callable

ENDING = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT})

# What ends or wakes a program when somebody sends it, besides what cannot be caught. Left alone: SIGCHLD, the signals of
# background terminals, SIGPIPE (our own writes cause it), and 32 and 33, which the C library keeps for itself.
_NOT_TAKEN = {
    signal.SIGKILL,
    signal.SIGSTOP,
    signal.SIGCHLD,
    signal.SIGTTIN,
    signal.SIGTTOU,
    signal.SIGPIPE,
    signal.SIGSEGV,
    signal.SIGBUS,
    signal.SIGILL,
    signal.SIGFPE,
    signal.SIGURG,
}
_SI_KERNEL = 0x80  # sigaction(2)


class Received:
    """One signal; `by_kernel`: a terminal made it (Ctrl-C, a lost line), for the whole foreground group."""

    __slots__ = ("by_kernel", "number")

    def __init__(self, number: int, *, by_kernel: bool) -> None:
        """Keep both."""
        self.number = number
        self.by_kernel = by_kernel


class Signals:
    """Takes signals in a thread of its own, from `begin` on; before, they wait (or, before `hold`, do what they do).

    `hold` comes before any other thread is started: each inherits what is blocked.
    """

    def __init__(self) -> None:
        """Choose what is taken; what we were started with as ignored stays so (nohup(1))."""
        self._taken = {
            number
            for number in signal.valid_signals() - _NOT_TAKEN
            if number not in {32, 33} and signal.getsignal(number) is not signal.SIG_IGN
        }
        self._thread: threading.Thread | None = None

    def hold(self) -> None:
        """Let signals wait from now on."""
        for number in (signal.SIGINT, signal.SIGTERM):
            if number in self._taken:
                signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_BLOCK, self._taken)

    def begin(self, heed: Callable[[Received], None]) -> None:
        """Hand every signal to `heed`, one at a time, until the program ends."""
        self._thread = threading.Thread(target=self._run, args=(heed,), name="signals", daemon=True)
        self._thread.start()

    def _run(self, heed: Callable[[Received], None]) -> None:
        own = os.getpid()
        while True:
            info = signal.sigwaitinfo(self._taken)
            if info.si_signo == signal.SIGTSTP and info.si_pid == own and info.si_code <= 0:
                continue  # sent to our group by ourselves: see `stop_here`
            heed(Received(info.si_signo, by_kernel=info.si_code == _SI_KERNEL))


def stop_here(*, whole_group: bool) -> None:
    """Stop this process as Ctrl-Z stops a program; returns when it is continued.

    With `whole_group` the others of our process group, too, as a terminal does: a shell waits for all of a job.
    """
    if whole_group:
        os.kill(0, signal.SIGTSTP)
        # Ours among them is taken here or by the signals' thread: else it would stop us once more, later.
        signal.sigtimedwait({signal.SIGTSTP}, 0)
    before = signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTSTP})
    try:
        # To this very thread: another one waits for the signals of the process.
        signal.pthread_kill(threading.get_ident(), signal.SIGTSTP)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
