"""Entry of the command `outlive`: refuses what cannot work, runs the program, turns errors into exit codes.

Imports nothing of ours before Python's version is known to be new enough to read it.
"""

from __future__ import annotations

import gc
import os
import sys

_INTERRUPTED = 130  # 128 + SIGINT, as shells count


def main() -> None:
    """Run the command line and exit with its code."""
    gc.disable()  # imports make no garbage, and looking for it takes a twentieth of their time; the verb has it enabled
    code = exit_code_of(sys.argv[1:])
    gc.freeze()  # the collections at the end would look at everything once more: a tenth of a short verb's time
    sys.exit(code)


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
        sys.stderr.write(sentence + "\n")
        return 1
    # Everything below is imported late: an older Python cannot read it.
    from outlive.cli.output import show_error  # noqa: PLC0415
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
    except BrokenPipeError:
        # `outlive doctor | head`: the reader has left. Python would try once more at exit, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
