"""Entry of the command `outlive`: refuses what cannot work, runs the program, turns errors into exit codes.

Imports nothing of ours before Python's version is known to be new enough to read it.
"""

from __future__ import annotations

import gc
import os
import sys

# What a project sets for its own Python, which is none of ours.
_FOREIGN = ("PYTHONPATH", "PYTHONHOME", "PYTHONWARNINGS")
_INTERRUPTED = 130  # 128 + SIGINT, as shells count
_CANNOT_PRINT = 125  # as `outlive run` ends where it is not the command that has failed


def main() -> None:
    """Run the command line and exit with its code."""
    _isolate()
    # imports make no garbage, and looking for it takes a twentieth of their time; the verb has it enabled
    gc.disable()
    sys.excepthook = _say_fault
    code = exit_code_of(sys.argv[1:])
    # the collections at the end would look at everything once more: a tenth of a short verb's time
    gc.freeze()
    sys.exit(code)


def _isolate() -> None:
    """Begin again in an interpreter that heeds none of the project's variables; commands get them all the
    same.
    """
    if sys.flags.ignore_environment or not any(os.environ.get(name) for name in _FOREIGN):
        return
    # Where outlive, or what it stands on, is found by PYTHONPATH alone, that has to be heeded.
    place = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
    given = {os.path.realpath(one) for one in os.environ.get("PYTHONPATH", "").split(os.pathsep) if one}
    others = {place, *map(os.path.realpath, sys.path[1:])} - given
    if place in given or (_has_libraries(given) and not _has_libraries(others)):
        return
    os.execv(sys.executable, [sys.executable, "-E", "-P", *sys.orig_argv[1:]])


def _has_libraries(folders: set[str]) -> bool:
    return any(os.path.isdir(f"{folder}/msgspec") for folder in folders)


def _say_fault(kind: type[BaseException], fault: BaseException, _trace: object) -> None:
    from outlive.cli.output import say_fault  # noqa: PLC0415 -- as below

    say_fault(kind, fault, fault.__traceback__)


def refusal(platform: str, version: tuple[int, ...]) -> str | None:
    """Return the one sentence that says why outlive cannot run here, None when it can."""
    if platform != "linux":
        return "outlive needs Linux (splice, pidfds, subreapers); this is " + platform + "."
    if version[:2] < (3, 11):
        return "outlive needs Python 3.11 or newer; this is " + ".".join(map(str, version[:2])) + "."
    return None


def exit_code_of(words: list[str]) -> int:
    """Run a command line, say what went wrong, and return its exit code."""
    sentence = refusal(sys.platform, tuple(sys.version_info[:3]))
    if sentence is not None:
        raise SystemExit(sentence)  # Python prints it, and exits with 1
    # Everything below is imported late: an older Python cannot read it.
    from outlive.cli.output import CannotPrint, drop_stdout, say, show_error  # noqa: PLC0415
    from outlive.core.errors import OutliveError  # noqa: PLC0415

    try:
        if shell := os.environ.get("_OUTLIVE_COMPLETE"):
            from outlive.cli.completion import show_candidates  # noqa: PLC0415 -- as above

            show_candidates(shell, words)
            return 0
        from outlive.cli.runner import run_program  # noqa: PLC0415 -- as above

        return run_program(words)
    except OutliveError as error:
        show_error(error)
        return 1
    except KeyboardInterrupt:
        return _INTERRUPTED
    except CannotPrint as error:
        drop_stdout()
        say(f"outlive: output cannot be written: {error.strerror}")
        return _CANNOT_PRINT
    except BrokenPipeError:
        drop_stdout()  # `outlive doctor | head`
        return 1
