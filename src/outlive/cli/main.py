"""Entry of the command `outlive`: refuses what cannot work, takes the fast paths of the verbs that last, else asks typer.

Imports nothing of ours before Python's version is known to be new enough to read it.
"""

from __future__ import annotations

import gc
import os
import sys

_INTERRUPTED = 130  # 128 + SIGINT, as shells count


def main() -> None:
    """Run the command line and exit with its code."""
    code = _run(sys.argv[1:])
    gc.freeze()  # the collections at the end would look at everything once more: a tenth of a short verb's time
    sys.exit(code)


def refusal(platform: str, version: tuple[int, ...]) -> str | None:
    """Return the one sentence that says why outlive cannot run here, None when it can."""
    if platform != "linux":
        return "outlive needs Linux (splice, pidfds, subreapers); this is " + platform + "."
    if version[:2] < (3, 11):
        return "outlive needs Python 3.11 or newer; this is " + ".".join(map(str, version[:2])) + "."
    return None


def _run(words: list[str]) -> int:
    sentence = refusal(sys.platform, tuple(sys.version_info[:3]))
    if sentence is not None:
        sys.stderr.write(sentence + "\n")
        return 1
    # Everything below is imported late: first because an older Python cannot read it, then for start-up time.
    from outlive.cli.output import show_error  # noqa: PLC0415
    from outlive.core.errors import OutliveError  # noqa: PLC0415

    try:
        if words[:1] and (words[0].startswith("--") or "://" in os.environ.get("OUTLIVE_HOST", "")):
            from outlive.cli.far import check_verb, take_host  # noqa: PLC0415 -- most call this machine's server

            words = take_host(words)
            check_verb(words)
        return _dispatch(words)
    except OutliveError as error:
        show_error(error)
        return 1
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        # `outlive doctor | head`: whoever read has left. Python would try once more at exit, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _dispatch(words: list[str]) -> int:
    if shell := os.environ.get("_OUTLIVE_COMPLETE"):
        from outlive.cli.completion import show_candidates  # noqa: PLC0415 -- as above
        from outlive.cli.program import complete_words  # noqa: PLC0415 -- as above

        show_candidates(shell, complete_words(words))
        return 0
    if words == ["--version"]:
        from outlive import __version__  # noqa: PLC0415 -- as above
        from outlive.cli.output import show  # noqa: PLC0415 -- as above

        show(f"outlive {__version__}")
        return 0
    code = _dispatch_plain(words)
    if code is not None:
        return code
    from outlive.cli.program import run_verbs  # noqa: PLC0415 -- typer costs 75 ms

    return run_verbs(words)


def _dispatch_plain(words: list[str]) -> int | None:
    """Run a verb that lasts or is asked often, without typer; None where typer has to understand the words."""
    if words[:1] == ["serve"]:
        from outlive.config import OPTIONS, read_flags  # noqa: PLC0415 -- as above
        from outlive.discovery.ownership import SELF_STARTED  # noqa: PLC0415 -- as above

        is_self_started = words[1:2] == [SELF_STARTED]
        flags = read_flags(words[1 + is_self_started :], OPTIONS)
        if flags is not None:
            from outlive.cli.server.serve import serve  # noqa: PLC0415 -- as above

            return serve(flags, is_self_started=is_self_started)
    if words[:1] == ["mcp"]:
        from outlive.cli.server.mcp import relay_mcp  # noqa: PLC0415 -- as above
        from outlive.config import read_flags  # noqa: PLC0415 -- as above
        from outlive.discovery.state_folder import STATE_DIR  # noqa: PLC0415 -- as above

        flags = read_flags(words[1:], [STATE_DIR])
        if flags is not None:
            return relay_mcp(flags.get("state_dir"))
    if words[:2] == ["keeper", "run"]:
        from outlive.cli.server.keeper_run import run_keeper  # noqa: PLC0415 -- as above
        from outlive.config import read_flags  # noqa: PLC0415 -- as above
        from outlive.discovery.state_folder import STATE_DIR  # noqa: PLC0415 -- as above

        flags = read_flags(words[2:], [STATE_DIR])
        if flags is not None:
            return run_keeper(flags.get("state_dir"))
    if words[:1] == ["run"]:
        from outlive.cli.quick_run import run_quickly  # noqa: PLC0415 -- as above

        return run_quickly(words[1:])
    if words[:1] == ["ps"]:
        from outlive.cli.quick import list_quickly  # noqa: PLC0415 -- as above

        return list_quickly(words[1:])
    if words[:1] == ["logs"]:
        from outlive.cli.quick import show_quickly  # noqa: PLC0415 -- as above

        return show_quickly(words[1:])
    return None
