"""Terminals as every frontend shows them: `TerminalInfo`; `Executed`, what one command gave; `TerminalText`,
what was read. Pure.

`TerminalNote` is what the record of a process holds if the process is a terminal.
"""

from collections.abc import Collection, Mapping
from typing import Literal

from outlive.core.values import dataclass

Target = Literal["engine", "vscode"]
TerminalState = Literal["ready", "busy", "closed", "unknown"]
Waiting = Literal["none", "input", "password"]
Form = Literal["raw", "clean", "screen"]
ShellKind = Literal["bash", "zsh", "fish", "sh"]  # "sh": every other one

_SHELLS: Mapping[str, ShellKind] = {"bash": "bash", "zsh": "zsh", "fish": "fish"}

ENGINE: Target = "engine"  # a shell on a pseudo-terminal of outlive: durable, its output captured
VSCODE: Target = "vscode"  # a terminal in a connected VS Code


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalNote:
    """Records that a process is a terminal: its name, the key of its shell's marks, and the kind of its
    shell.
    """

    name: str
    key: str
    shell: ShellKind

    def encode(self) -> dict[str, str]:
        """Return what is stored of it."""
        return {"name": self.name, "key": self.key, "shell": self.shell}

    @classmethod
    def decode(cls, kept: object) -> "TerminalNote | None":
        """Return what `encode` described; None for a process that is no terminal."""
        if not isinstance(kept, dict):
            return None
        shell = _SHELLS.get(str(kept["shell"]), "sh")
        return cls(name=str(kept["name"]), key=str(kept["key"]), shell=shell)


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalInfo:
    """One terminal.

    `terminal_id` is the process id for a terminal of the engine, else the extension's name for it (promise
    S3.5). `state`: "ready" shows a prompt, "busy" runs something, "unknown" if that cannot be found out.
    `process_id` is None for a terminal whose shell is not outlive's.
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

    `output` is what it printed, without prompt and echo. `exit_code` is None while it runs, and if it cannot
    be found out (a terminal that is not outlive's). `cursor` is where to read on; None if there is nothing to
    read. `is_complete` False: it still runs, and `waiting` says whether it waits for input. `is_closed`: the
    command has ended the shell, whose exit code this is. `redacted`: how many secrets are redacted in
    `output`.
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

    `form`: "raw" bytes as they came (decoded, invalid ones as U+FFFD); "clean" without escape sequences and
    with progress bars collapsed; "screen" what a person sees now (rows joined by newlines, without trailing
    spaces). `cursor` is where to read on;
    `has_more`: from the cursor on there was more than the budget. `has_gap`: output was released in between.
    `exit_code` is that of the last command that ended; None while one runs, and if it cannot be found out.
    `redacted`: how many secrets are redacted in `text`.
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
