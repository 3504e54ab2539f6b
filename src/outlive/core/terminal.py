"""Terminals as every door shows them: `TerminalInfo`, what one command gave, `Executed`, and what was read, `TerminalText`. Pure.

`TerminalNote` is what a process keeps of being one.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

Target = Literal["engine", "vscode"]
TerminalState = Literal["ready", "busy", "closed", "unknown"]
Waiting = Literal["none", "input", "password"]
Form = Literal["raw", "clean", "screen"]
ShellKind = Literal["bash", "zsh", "fish", "sh"]  # "sh": every other one

ENGINE: Target = "engine"  # a shell of ours on a pseudo-terminal: durable, its output captured
VSCODE: Target = "vscode"  # a terminal that a connected VS Code shows


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalNote:
    """That a process is a terminal: its name, the key of its shell's marks, and how that shell is talked to."""

    name: str
    key: str
    shell: ShellKind


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalInfo:
    """One terminal.

    `terminal_id` is the process id for a terminal of the engine, else what the extension calls it (promise S3.5).
    `state`: "ready" shows a prompt, "busy" runs something, "unknown" where nobody can tell. `process_id` is None for
    a terminal whose shell is not ours.
    """

    terminal_id: str
    terminal_name: str
    target: Target
    state: TerminalState
    process_id: str | None = None
    cwd: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Executed:
    """What a command in a terminal gave (promise S3.6).

    `output` is what it printed, without prompt and echo. `exit_code` is None while it runs and where nobody can tell
    (a terminal that is not ours). `cursor` is where to read on; None where there is nothing to read. `is_complete`
    False: it still runs, and `waiting` says whether it waits for something to be typed. `is_closed`: the command has
    ended the shell, whose exit code it is. `redacted`: how many secrets are stars in `output`.
    """

    terminal_id: str
    output: str
    exit_code: int | None = None
    cursor: str | None = None
    is_complete: bool = True
    waiting: Waiting = "none"
    is_closed: bool = False
    redacted: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalText:
    """What was read of a terminal.

    `form`: "raw" bytes as they came (decoded, invalid ones as U+FFFD), "clean" without escape sequences and with progress bars
    collapsed, "screen" what a person sees now (rows joined by newlines, without trailing spaces). `cursor` is where to read on;
    `has_more`: there was more than the budget, from the cursor on. `has_gap`: output was released in between. `exit_code` is
    that of the command that ended last; None while one runs, and where nobody can tell. `redacted`: how many secrets are stars in
    `text`.
    """

    terminal_id: str
    text: str
    form: Form
    cursor: str
    state: TerminalState
    waiting: Waiting = "none"
    exit_code: int | None = None
    has_more: bool = False
    has_gap: bool = False
    redacted: int = 0


def default_name(taken: Collection[str]) -> str:
    """Return the first "MCP Terminal N" that is not taken (promise S3.6)."""
    return next(name for n in range(1, len(taken) + 2) if (name := f"MCP Terminal {n}") not in taken)
