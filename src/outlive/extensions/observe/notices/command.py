"""`NotifyCommand`: runs the operator's program for each attempt, with the notice on its stdin.

No caller names or changes the program, and no shell reads its words. It runs below a helper
(`command_runner`), which ends the program's whole tree when the program ends, at the deadline, and when this
server is gone, however it went.
"""

import asyncio
import contextlib
import json
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping
from pathlib import Path

from outlive.extensions.observe.notices.notice import DEADLINE_S, Attempt, Notice, plain_line

_RUNNER = str(Path(__file__).with_name("command_runner.py"))
_END_S = 5.0  # for the helper, beyond the deadline, to end a tree; it takes milliseconds
_MAX_REASON = 200  # characters of the program's last line on stderr, in one line of the log
# What a program needs to find its user's files and the desktop. The server's environment holds keys and
# tokens, which are no business of the program and of what it starts.
_OF_USERS = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "USER")
_OF_DESKTOPS = ("DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR")


class NotifyCommand:
    """The operator's program."""

    def __init__(self, words: tuple[str, ...], environment: Mapping[str, str]) -> None:
        self._words = words
        self._environment = {
            name: environment[name] for name in (*_OF_USERS, *_OF_DESKTOPS) if name in environment
        }

    @property
    def name(self) -> str:
        """What it is called in the log."""
        return "command"

    async def deliver(self, notice: Notice) -> Attempt:
        """Run it once. Cancellation: its tree is ended; it may have done its work."""
        body = json.dumps(notice.payload(), ensure_ascii=False).encode("utf-8", "replace")
        words = (sys.executable, "-I", "-S", _RUNNER, str(DEADLINE_S), *self._words, notice.title)
        try:
            runner = await asyncio.create_subprocess_exec(
                *words,
                stdin=PIPE,
                stdout=PIPE,
                stderr=DEVNULL,
                env=self._environment,
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:  # no memory, no pids
            return Attempt("again", f"it cannot be started: {error.strerror}")
        assert runner.stdin is not None
        assert runner.stdout is not None
        try:
            async with asyncio.timeout(DEADLINE_S + _END_S):
                runner.stdin.write(body + b"\n")
                said = (await runner.stdout.read()).decode(errors="replace")
                code = await runner.wait()
        except TimeoutError:
            return Attempt("again", "its processes do not end")
        finally:
            await _let_go(runner)
        if code == 0:
            return Attempt("sent")
        reason, _, stderr = said.partition("\n")
        last = plain_line(stderr)[:_MAX_REASON]
        return Attempt("again", f"{reason or 'the helper ended'}{': ' if last else ''}{last}")


async def _let_go(runner: Process) -> None:
    """End the helper: the end of its stdin is what tells it to end the program's tree and itself."""
    assert runner.stdin is not None
    runner.stdin.close()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_END_S):
            await runner.wait()
    with contextlib.suppress(ProcessLookupError):
        runner.kill()
