"""The operator's globs over commands: `CommandPatterns` (promises S1.7, S1.8). Pure.

They are compared with every simple command of a line (`grammar`). A line that is not certain to mean what it
says is refused while a list is in force. Globs restrict what a caller asks for, not what a program then does:
only a sandbox does that.

ALLOWED_COMMANDS: `AllowedCommands`, the operator's list of programs (promise S0.12), and `ProgramFile`. Pure.

What is promised: outlive itself starts no program that is not on the list. What an allowed program does is
restricted only by a sandbox: an interpreter on the list runs anything. A shell there runs any line, so a list
that holds one refuses no line for its grammar: its first word alone is judged, as the document does.

`ProgramFile` holds what the file system says about a program; `engine.commands.resolver` asks it.
"""

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from types import MappingProxyType

from outlive.core.command import Command
from outlive.core.errors import CommandRefused
from outlive.core.values import dataclass, field
from outlive.policy.grammar import SimpleCommand, parse_line
from outlive.policy.starters import ALL_SHELLS, is_deciding

_EVERYTHING = "*"
_SHELLS = frozenset({"ash", "bash", "dash", "ksh", "sh", "zsh"})
_SUPERUSERS = frozenset({"sudo", "sudoedit"})
# Programs that run the words behind them (or a line among them): a sudo there counts as a sudo.
_STARTERS = _SHELLS | frozenset(
    "builtin command env eval exec find nice nohup setsid stdbuf time timeout watch xargs".split()  # noqa: SIM905 -- a table of words
)
# The word on its own, with or without a path before it; for text that the grammar does not understand.
_SUPERUSER_WORD = re.compile(r"(?:^|[\s;&|(){}`\"'=!])(?:[\w./-]*/)?(?:sudo|sudoedit)(?=$|[\s;&|()}`\"'])")

# What a shell runs nothing of, mostly: escapes, quotes, comments, and the body of a here-document.
_UNREAD = re.compile(
    r"""\\.|(?P<code>(?:\s-c|\beval)\s+)?(?:'[^']*'|"(?:\\.|[^"\\])*")|(?:(?<=[\s;&|()])|\A)\#[^\n]*"""
    r"""|(?<!<)<<-?[ \t]*["'\\]?(?P<end>[A-Za-z_]\w*)["']?(?P<rest>[^\n]*)\n"""
    r"""(?:[^\n]*\n)*?(?:[ \t]*(?P=end)(?=\n|\Z)|[^\n]*\Z)""",
    re.DOTALL,
)

_OPAQUE_HINT = (
    "While patterns are in force write only words, quotes, &&, ||, ;, |, & and $NAME: nothing else "
    "can be checked."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandPatterns:
    """Which commands may run.

    An `allowed` that holds "*" allows everything; `blocked` is checked before it.
    """

    allowed: tuple[str, ...] = (_EVERYTHING,)
    blocked: tuple[str, ...] = ()
    allow_sudo: bool = False

    @property
    def is_open(self) -> bool:
        """Whether no list is in force."""
        return _EVERYTHING in self.allowed and not self.blocked

    def check_line(self, line: str) -> None:
        """Do nothing for a shell line that is allowed.

        Raises:
            CommandRefused: With one of the texts of promise S1.7.
        """
        self._check_sudo(line)
        commands = parse_line(line)
        if commands is None or any(command.writes for command in commands):
            self._check_opaque(line)
        else:
            self._check(commands)

    def check_argv(self, argv: Sequence[str]) -> None:
        """Do nothing for a command without a shell that is allowed.

        Raises:
            CommandRefused: With one of the texts of promise S1.7.
        """
        commands = [SimpleCommand(argv=tuple(argv) or ("",))]
        if not self.allow_sudo and any(map(_asks_for_sudo, commands)):
            raise _sudo()
        self._check(commands)

    def check_script(self, interpreter: str, content: str) -> None:
        """Do nothing for a script that is allowed: its interpreter, and for a shell each of its lines.

        What another interpreter runs cannot be known, so a blocked list refuses it; an allowed list that
        names the interpreter allows every script of it.

        Raises:
            CommandRefused: With one of the texts of promise S1.7.
        """
        self._check([SimpleCommand(argv=(interpreter, "script"))])
        is_shell = interpreter.rpartition("/")[2] in _SHELLS
        if not is_shell:
            if self.blocked:
                raise _refused("command_opaque", _blocked_text(self.blocked[0]), hint=_OPAQUE_HINT)
            return
        self._check_sudo(content)
        if self.is_open:
            return
        # For a shell only "\n" ends a line, and only blanks may stand before "#": other characters are part
        # of a word.
        for raw in content.split("\n"):
            line = raw.strip(" \t")
            if line and not line.startswith("#"):
                self.check_line(line)

    def _check(self, commands: Sequence[SimpleCommand]) -> None:
        for command in commands:
            for pattern in self.blocked:
                if _is_blocked(command, pattern):
                    raise _refused("command_not_allowed", _blocked_text(pattern))
        if _EVERYTHING not in self.allowed:
            for command in commands:
                text = " ".join(command.argv)
                if not any(fnmatchcase(text, pattern) for pattern in self.allowed):
                    raise _refused("command_not_allowed", "Command does not match any allowed pattern")

    def _check_sudo(self, text: str) -> None:
        if not self.allow_sudo and "sudo" in text and _runs_sudo(text):
            raise _sudo()

    def _check_opaque(self, line: str) -> None:
        if self.blocked:
            raise _refused("command_opaque", _blocked_text(self._suspect(line)), hint=_OPAQUE_HINT)
        if not self.is_open:
            raise _refused("command_opaque", "Command does not match any allowed pattern", hint=_OPAQUE_HINT)

    def _suspect(self, line: str) -> str:
        """Return the blocked pattern to which an opaque line comes closest: one whose program it names, else
        the first.
        """
        for pattern in self.blocked:
            word = pattern.split(" ")[0].strip("*")
            if word and word in line:
                return pattern
        return self.blocked[0]


def _is_blocked(command: SimpleCommand, pattern: str) -> bool:
    program, *words = command.argv
    name = program.rpartition("/")[2]
    for first in (program, name):
        # A pattern of one word names the program, whatever words follow.
        if fnmatchcase(" ".join((first, *words)), pattern) or fnmatchcase(first, pattern):
            return True
        # The shell may still replace these words, and the result is not known: so the program alone decides.
        if not command.is_literal and fnmatchcase(first, pattern.split(" ", maxsplit=1)[0]):
            return True
    return False


def _asks_for_sudo(command: SimpleCommand) -> bool:
    name = command.argv[0].rpartition("/")[2]
    if name in _SUPERUSERS:
        return True
    return name in _STARTERS and any(_SUPERUSER_WORD.search(word) for word in command.argv[1:])


def _runs_sudo(text: str) -> bool:
    """Tell whether shell lines run sudo, as far as can be seen.

    Mentioned in a comment, a quoted text or a here-document, it does not run; in what a shell is given to run
    (`-c`, eval) or substitutes, it does.
    """
    commands = parse_line(text)
    if commands is not None:
        return any(map(_asks_for_sudo, commands))
    bare = _UNREAD.sub(_read, text)
    if "\n" not in bare.strip():
        return _SUPERUSER_WORD.search(bare) is not None
    return any(_runs_sudo(line.strip()) for line in bare.split("\n") if "sudo" in line)


def _read(match: re.Match[str]) -> str:
    """Return what counts of a part that is mostly not read."""
    text = match[0]
    if match["end"] is not None:
        return match["rest"]
    is_one_word = not any(map(str.isspace, text))  # 'sudo' is the program, too
    return text if is_one_word or match["code"] or "$(" in text or "`" in text else " "


def _blocked_text(pattern: str) -> str:
    return f"Command matches blocked pattern: {pattern}"


def _sudo() -> CommandRefused:
    return _refused(
        "command_not_allowed",
        "Sudo commands are not allowed",
        hint="Run it without sudo, or have the operator set allow_sudo = true.",
    )


def _refused(code: str, text: str, *, hint: str = "") -> CommandRefused:
    return CommandRefused(code, text, hint=hint or "Ask the operator to change the command patterns.")


_NOTHING: Mapping[str, str] = MappingProxyType({})
# The first word of a line of a shell, behind what opens a group or turns an exit code round.
_FIRST_WORD = re.compile(r"[\s({!]*([^\s;&|()<>]*)")
# bash(1), "RESERVED WORDS": compound commands begin with these, which name no program.
_COMPOUND = frozenset("[[ case for function if select until while".split())  # noqa: SIM905 -- a table of words


@dataclass(frozen=True, slots=True)
class AllowedCommands:
    """The words that may be the first of a command; an empty set allows everything."""

    names: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, text: str) -> "AllowedCommands":
        """Read a comma list."""
        return cls(frozenset(name for part in text.split(",") if (name := part.strip())))

    @property
    def holds_shell(self) -> bool:
        """Whether a shell is on the list, which runs whatever is not."""
        return any(name.rpartition("/")[2] in ALL_SHELLS for name in self.names)

    def check(self, command: Command, own: Mapping[str, str] = _NOTHING) -> None:
        """Do nothing for a command that is allowed.

        The first word of every simple command must be on the list exactly as it is written, a path too. A
        line that is not certain to mean what it says is refused as a whole. So is a command that gives a
        variable that decides what a name means another value than the server's own environment (`own`) has.
        Of a list that holds a shell the first word of the line alone must be on it.

        Raises:
            CommandRefused: `command_not_allowed` or `command_opaque`.
        """
        if not self.names:
            return
        if self.holds_shell:
            self._require(_first_word(command), may_be=_COMPOUND if command.line is not None else frozenset())
            return
        for name, value in (*command.env.items(), *command.env_secrets.items()):
            if is_deciding(name) and value != own.get(name):
                raise CommandRefused(
                    "command_not_allowed",
                    f"The variable {name[:40]} may not be set while only listed programs are allowed.",
                    hint=f"Leave {name[:40]} out of env.",
                    details={"variable": name[:40]},
                )
        for program in self._programs(command):
            self._require(program)

    def _require(self, program: str, *, may_be: frozenset[str] = frozenset()) -> None:
        if program not in self.names | may_be:
            raise CommandRefused(
                "command_not_allowed",
                f"The program {program[:80]!r} is not on the list of allowed commands.",
                details={"program": program[:80]},
            )

    def _programs(self, command: Command) -> tuple[str, ...]:
        if command.line is None:
            return (command.argv or ("",))[:1]
        commands = parse_line(command.line)
        if commands is None:
            raise CommandRefused("command_opaque", "It is not certain which programs this line would run.")
        if any(simple.writes for simple in commands):
            text = "Output into a file needs a rule that says write = true; this list has no rules."
            raise CommandRefused(
                "command_not_allowed", text, hint="Ask the operator for `allow` rules (docs/policy.md)."
            )
        return tuple(simple.argv[0] for simple in commands)


def _first_word(command: Command) -> str:
    if command.line is None:
        return (command.argv or ("",))[0]
    found = _FIRST_WORD.match(command.line)
    return "" if found is None else found[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramFile:
    """The file behind a program's name.

    `paths` begins with the path where it was found (its folder without links), goes on with every link that
    this path leads to, and ends with the real file; without links it is one path. `identity` is device and
    inode, which two names of one file share. `is_own`: the name alone leads to this very file in the server's
    own PATH.
    """

    paths: tuple[str, ...]
    identity: tuple[int, int]
    is_own: bool = False
    names: frozenset[str] = field(init=False)  # every name of the file, on the way to the real one

    def __post_init__(self) -> None:
        """Derive the names from the paths, once."""
        object.__setattr__(self, "names", frozenset(path.rpartition("/")[2] for path in self.paths))

    @property
    def found(self) -> str:
        """The path where it was found."""
        return self.paths[0]

    @property
    def real(self) -> str:
        """The path of the file itself."""
        return self.paths[-1]
