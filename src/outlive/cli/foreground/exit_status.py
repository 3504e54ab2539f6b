"""Ending as the command did: with its exit code, or by the signal that it died of."""

import contextlib
import os
import resource
import signal
import sys
import threading

from outlive.client import Completion, OutliveError, Process
from outlive.core.hints import hint_for

TIMED_OUT = 124  # as timeout(1)
OURS_FAILED = 125  # as timeout(1), docker-run(1): not the command failed, but what was to run it
CANNOT_EXECUTE = 126  # as shells (POSIX, 2.8.2)
NOT_FOUND = 127


def exit_as(process: Process, completion: Completion) -> tuple[int, int]:
    """Return (exit code, signal to die of or 0) for a command that has ended; says what a code cannot say."""
    if completion.output_lost:
        _say(f"outlive: {completion.error or 'Some of the output is lost.'}")
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
    _say(f"outlive: {completion.error or 'Nobody can know how the command ended.'}")
    return OURS_FAILED, 0


def failed_start(error: OutliveError, program: str) -> int:
    """Say why a command was not started, in the words of a shell where it has some; return the exit code."""
    match error.code:
        case "not_found":
            text = "No such file or directory" if "/" in program else "command not found"
            _say(f"outlive: {program}: {text}")
            if any(mark in program for mark in " |&;<>$`"):
                _say("  For a shell line there is -c: outlive run -c 'LINE'.")
            return NOT_FOUND
        case "permission_denied" if "cwd" not in error.details:
            is_folder = os.path.isdir(program) and "/" in program
            _say(f"outlive: {program}: {'Is a directory' if is_folder else 'Permission denied'}")
            return CANNOT_EXECUTE
        case "argument_too_long":
            _say(f"outlive: {program}: Argument list too long")
            return CANNOT_EXECUTE
    _say(f"outlive: {error.message}")
    if hint := hint_for(error, "cli"):
        _say(f"  {hint}")
    return OURS_FAILED


def die_of(number: int) -> None:
    """End this process by a signal, as the command was, without a core file; for the main thread."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stdout.flush()
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    die_here(number)


def die_here(number: int) -> None:
    """Do the same in any thread, where the signal does what it usually does; returns only where that is nothing."""
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if number == signal.SIGKILL:
        os.kill(os.getpid(), number)
    else:  # to this very thread: another one waits for the signals of the process
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        signal.pthread_kill(threading.get_ident(), number)


def _say(text: str) -> None:
    with contextlib.suppress(OSError, AttributeError, ValueError):
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
