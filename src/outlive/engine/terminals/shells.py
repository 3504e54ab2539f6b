"""How the shell of a terminal is started: which program, with which start file of ours.

Asks the file system.
"""

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

from outlive.core.errors import StartFailed
from outlive.core.terminal import ShellKind, TerminalNote
from outlive.core.values import dataclass
from outlive.engine.commands.resolver import find_program
from outlive.operations.terminal_requests import KILL_LINE, prompts

_FILES = Path(__file__).with_name("start_files")
_KINDS: Mapping[str, ShellKind] = {"bash": "bash", "zsh": "zsh", "fish": "fish"}
_START_FILES: Mapping[ShellKind, str] = {"bash": "start.bash", "zsh": "zsh", "fish": "start.fish"}
# For a shell that gets its start file as the last word, "$2".
_BEGINS: Mapping[ShellKind, str] = {
    "bash": 'exec "$1" --init-file "$2" -i',
    "fish": 'exec "$1" --interactive --init-command "source \'$2\'"',
}
# What an account may have for a shell although no person can type to it, and shells whose quoting is another
# one.
_NO_SHELLS = frozenset({"nologin", "false", "true", "git-shell", "csh", "tcsh"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Shell:
    """A shell that marks its prompts: the words that start it, what it needs in the environment, and the file
    it reads.

    `script` is that file's content where the file itself is out of reach.
    """

    kind: ShellKind
    argv: tuple[str, ...]
    env: Mapping[str, str | None]
    start_file: str | None
    script: str | None = None

    @property
    def name(self) -> str:
        """What people call it."""
        return os.path.basename(self.argv[-1] if self.script is not None else self.argv[0])


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


def distant_terminal_shell(wanted: str | None, key: str, *, is_bare: bool) -> Shell:
    """Return the shell of a new terminal in a container or on a node, of whose programs nothing is known
    here.

    It is sh, unless one is named. What it is to read at its start goes over as a script, whose path there is
    the last word.
    """
    program = wanted or "sh"
    kind = _KINDS.get(os.path.basename(program), "sh")
    env: dict[str, str | None] = {"OUTLIVE_TERMINAL_KEY": key}
    if is_bare:
        env["OUTLIVE_TERMINAL_BARE"] = "1"
    if (begins := _BEGINS.get(kind)) is None:
        # The start files of zsh are a folder, which does not go over.
        words = ("-f", "-i") if kind == "zsh" else ("-i",)
        return Shell(kind="sh", argv=(program, *words), env=prompts(key), start_file=None)
    script = (_FILES / _START_FILES[kind]).read_text()
    return Shell(kind=kind, argv=("sh", "-c", begins, "sh", program), env=env, start_file=None, script=script)


def marking(pid: int | None, note: TerminalNote) -> bytes | None:
    """Return what is typed at a prompt so that its shell reads our start file; None where that shell is not
    the terminal's kind. Blocking.
    """
    try:
        program = Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")[0]
    except OSError:
        return None
    if note.shell == "sh" or _KINDS.get(os.path.basename(program.removeprefix("-"))) != note.shell:
        return None
    file = _FILES / _START_FILES[note.shell]
    if note.shell == "zsh":
        file /= ".zshrc"
    # A blank before it keeps it out of most histories. The user's own start file is not read a second time.
    words = f" export OUTLIVE_TERMINAL_KEY={note.key} OUTLIVE_TERMINAL_BARE=1; . '{_quoted(str(file))}'\r"
    return KILL_LINE + words.encode()


def _started(program: str, key: str, environment: Mapping[str, str], *, is_bare: bool) -> Shell:
    kind = _KINDS.get(os.path.basename(program), "sh")
    env: dict[str, str | None] = {"OUTLIVE_TERMINAL_KEY": key}
    if is_bare:
        env["OUTLIVE_TERMINAL_BARE"] = "1"
    if kind == "sh":
        return Shell(kind=kind, argv=(program, "-i"), env=prompts(key), start_file=None)
    file = str(_FILES / _START_FILES[kind])
    words: tuple[str, ...] = ("-i",)
    if kind == "bash":
        words = ("--init-file", file, "-i")
    elif kind == "zsh":
        env |= {"ZDOTDIR": file, "OUTLIVE_ZDOTDIR": environment.get("ZDOTDIR")}
    else:
        bare = ("--no-config",) if is_bare else ()
        words = (*bare, "--interactive", "--init-command", f"source '{_quoted(file)}'")
    return Shell(kind=kind, argv=(program, *words), env=env, start_file=file)


def _quoted(path: str) -> str:
    return path.replace("\\", "\\\\").replace("'", "\\'")  # fish, "Quotes"
