"""Signals that reach us and are meant for the command: taken one by one in a thread, with the process that
sent them.

Signals between our own start and the command's: `EarlySignals` keeps them for it, and gives up when that
takes long.

Ctrl-Z: the command's tree is paused, our terminal put back, we stop; `fg` or `bg` undo all that.

Ending as the command did: with its exit code, or by the signal that it died of.
"""

import contextlib
import os
import resource
import signal
import threading
from collections.abc import Callable
from typing import NamedTuple

from outlive.cli.foreground.terminal import OwnTerminal, ignores_stop
from outlive.cli.output import hint_of, say, show_error
from outlive.client import Completion, OutliveError, Process

TIMED_OUT = 124  # as timeout(1)
OURS_FAILED = 125  # as timeout(1), docker-run(1): not the command failed, but what was to run it
CANNOT_EXECUTE = 126  # as shells (POSIX, 2.8.2)
NOT_FOUND = 127


def exit_as(process: Process, completion: Completion) -> tuple[int, int]:
    """Return (exit code, signal to die of or 0) for a command that has ended; says what a code cannot say."""
    if completion.output_lost:
        say(f"outlive: {completion.error or 'Some of the output is lost.'}")
    if completion.error is not None:
        cause = None
        with contextlib.suppress(OutliveError):
            cause = process.info().cause
        if cause == "timeout":
            return TIMED_OUT, 0
    if completion.exit_signal is not None:
        return 128 + completion.exit_signal, completion.exit_signal
    if completion.exit_code is not None:
        return completion.exit_code, 0
    say(f"outlive: {completion.error or 'Nobody can know how the command ended.'}")
    return OURS_FAILED, 0


def failed_start(error: OutliveError, program: str) -> int:
    """Say why a command was not started, in the words of a shell where it has some; return the exit code."""
    match error.code:
        case "not_found":
            text = "No such file or directory" if "/" in program else "command not found"
            say(f"outlive: {program}: {text}")
            if any(mark in program for mark in " |&;<>$`"):
                say("  For a shell line there is -c: outlive run -c 'LINE'.")
            return NOT_FOUND
        case "permission_denied" if "cwd" not in error.details:
            is_folder = os.path.isdir(program) and "/" in program
            say(f"outlive: {program}: {'Is a directory' if is_folder else 'Permission denied'}")
            return CANNOT_EXECUTE
        case "argument_too_long":
            say(f"outlive: {program}: Argument list too long")
            return CANNOT_EXECUTE
    error.hint = hint_of(error, verb="run")
    show_error(error)
    return OURS_FAILED


def die_of(number: int) -> None:
    """End this process by a signal, as the command was, without a core file; for the main thread."""
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    die_here(number)


def die_here(number: int) -> None:
    """Do the same in any thread, where the signal does what it usually does.

    Returns only where that is nothing.
    """
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if number == signal.SIGKILL:
        os.kill(os.getpid(), number)
    else:  # to this very thread: another one waits for the signals of the process
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        signal.pthread_kill(threading.get_ident(), number)


ENDING = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT})

# What ends or wakes a program that gets it, besides what cannot be caught. Left alone: SIGCHLD, the signals
# of background terminals, SIGPIPE (our own writes cause it), and 32 and 33, which the C library keeps for
# itself.
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


class Received(NamedTuple):
    """One signal; `by_kernel`: a terminal made it (Ctrl-C, a lost line), for the whole foreground group."""

    number: int
    by_kernel: bool


class Signals:
    """Takes signals in a thread of its own, from `begin` on.

    Before, they wait (or, before `hold`, do what they do).

    `hold` comes before any other thread is started: each inherits what is blocked.
    """

    def __init__(self) -> None:
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

    With `whole_group` the others of our process group, too, as a terminal does: a shell waits for all of a
    job.
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


_PATIENCE_S = 3.0  # a start takes milliseconds, unless the server has to be started or hangs


class EarlySignals:
    """Takes all signals from now on; what comes before `pass_on` is handed over then.

    A process that wants to end us meanwhile waits three seconds at most.
    """

    def __init__(self, terminal: OwnTerminal | None) -> None:
        """Take signals; `terminal` is put back before this program dies."""
        self._terminal = terminal
        self._lock = threading.Lock()
        self._waiting: list[Received] = []
        self._heed: Callable[[Received], None] | None = None
        signals = Signals()
        signals.hold()
        signals.begin(self._take)

    def pass_on(self, heed: Callable[[Received], None]) -> None:
        """Hand over what has come, and from now on everything, to `heed`."""
        while True:
            with self._lock:
                if not self._waiting:
                    self._heed = heed
                    return
                received = self._waiting.pop(0)
            heed(received)

    def _take(self, received: Received) -> None:
        with self._lock:
            heed = self._heed
            if heed is None:
                self._waiting.append(received)
        if heed is not None:
            heed(received)
        elif received.number in ENDING:
            timer = threading.Timer(_PATIENCE_S, self._give_up, [received.number])
            timer.daemon = True
            timer.start()

    def _give_up(self, number: int) -> None:
        with self._lock:
            if self._heed is not None:
                return
        if self._terminal is not None:
            self._terminal.restore(for_good=True)
        die_here(number)
        os._exit(128 + number)


class Suspension:
    """Stops us together with the command. Any thread may ask for it; one stops, the others return at once."""

    def __init__(self, process: Process, terminal: OwnTerminal | None, *, is_elsewhere: bool = False) -> None:
        """Suspend `process`; `terminal` is ours, if it may be raw.

        On another machine it cannot be seen what it ignores.
        """
        self._is_elsewhere = is_elsewhere
        self._process = process
        self._terminal = terminal
        self._turn = threading.Lock()

    def suspend(self, *, whole_group: bool) -> None:
        """Stop, and return when we go on; a command that ignores SIGTSTP goes on, and so do we."""
        pid = self._process.pid
        is_deaf = pid is None or (not self._is_elsewhere and ignores_stop(pid))
        if is_deaf or not self._turn.acquire(blocking=False):
            return
        try:
            with contextlib.suppress(
                OutliveError
            ):  # it has ended: then there is nothing to pause, and we end, too
                self._process.pause()
            was_raw = self._terminal is not None and self._terminal.is_raw
            if self._terminal is not None:
                self._terminal.restore()
            stop_here(whole_group=whole_group)
            if self._terminal is not None and was_raw and self._terminal.is_ours:
                self._terminal.make_raw()
            with contextlib.suppress(OutliveError):
                self._process.resume()
        finally:
            self._turn.release()
