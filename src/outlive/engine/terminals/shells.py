"""How the shell of a terminal is started: which program, with which start file of ours. Asks the file system."""

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from outlive.core.errors import StartFailed
from outlive.core.terminal import ShellKind
from outlive.engine.containers import SCRIPT_INSIDE
from outlive.engine.programs import find_program
from outlive.protocols.terminal.typed import prompts

__all__ = ["Shell", "container_terminal_shell", "find_terminal_shell"]

_FILES = Path(__file__).with_name("start_files")
_KINDS: Mapping[str, ShellKind] = {"bash": "bash", "zsh": "zsh", "fish": "fish"}
_START_FILES: Mapping[ShellKind, str] = {"bash": "start.bash", "zsh": "zsh", "fish": "start.fish"}
# What an account may have for a shell although nobody can type to it, and shells whose quoting is another one.
_NO_SHELLS = frozenset({"nologin", "false", "true", "git-shell", "csh", "tcsh"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Shell:
    """A shell that marks its prompts: the words that start it, what it needs in the environment, and the file it reads."""

    kind: ShellKind
    argv: tuple[str, ...]
    env: Mapping[str, str | None]
    start_file: str | None


def find_terminal_shell(
    wanted: str | None, environment: Mapping[str, str], key: str, *, fallback: str, is_bare: bool
) -> Shell:
    """Return the shell of a new terminal: the wanted one, the user's, or the server's. Blocking.

    Args:
        wanted: A program, or None.
        environment: What the shell will start with.
        key: The key of its marks.
        fallback: For a user without a shell that can be used.
        is_bare: It reads no file of the user's: lists are in force.

    Raises:
        StartFailed: There is no such program.
    """
    path = environment.get("PATH", os.defpath)
    if wanted is not None:
        find_program(wanted, path=path, cwd="/")
        return _started(wanted, key, environment, is_bare=is_bare)
    program = environment.get("SHELL") or fallback
    if os.path.basename(program) in _NO_SHELLS or not os.access(program, os.X_OK):
        program = fallback
    # By its name where that means the same file: so the operator's lists know it.
    name = os.path.basename(program)
    with contextlib.suppress(StartFailed, OSError):
        if os.path.samefile(find_program(name, path=path, cwd="/"), program):
            program = name
    return _started(program, key, environment, is_bare=is_bare)


def container_terminal_shell(wanted: str | None, key: str, *, is_bare: bool) -> Shell:
    """Return the shell of a new terminal in a container, of whose programs nothing is known here: sh, unless one is named."""
    program = wanted or "sh"
    kind = _KINDS.get(os.path.basename(program), "sh")
    if kind == "zsh":  # its start files are a folder, and there is none inside
        return Shell(kind="sh", argv=(program, "-f", "-i"), env=prompts(key), start_file=None)
    return _started(program, key, {}, is_bare=is_bare, file=SCRIPT_INSIDE)


def _started(
    program: str, key: str, environment: Mapping[str, str], *, is_bare: bool, file: str | None = None
) -> Shell:
    kind = _KINDS.get(os.path.basename(program), "sh")
    env: dict[str, str | None] = {"OUTLIVE_TERMINAL_KEY": key}
    if is_bare:
        env["OUTLIVE_TERMINAL_BARE"] = "1"
    if kind == "sh":
        return Shell(kind=kind, argv=(program, "-i"), env=prompts(key), start_file=None)
    start_file = str(_FILES / _START_FILES[kind])
    file = file or start_file  # under which name it finds that
    words: tuple[str, ...] = ("-i",)
    if kind == "bash":
        words = ("--init-file", file, "-i")
    elif kind == "zsh":
        env |= {"ZDOTDIR": file, "OUTLIVE_ZDOTDIR": environment.get("ZDOTDIR")}
    else:
        bare = ("--no-config",) if is_bare else ()
        words = (*bare, "--interactive", "--init-command", f"source '{_quoted(file)}'")
    return Shell(kind=kind, argv=(program, *words), env=env, start_file=start_file)


def _quoted(path: str) -> str:
    return path.replace("\\", "\\\\").replace("'", "\\'")  # fish, "Quotes"
