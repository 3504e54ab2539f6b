"""ALLOWED_COMMANDS: `AllowedCommands`, the operator's list of programs (promise S0.12), and `ProgramFile`. Pure.

What is promised: outlive itself starts no program that is not on the list. If the list has a shell, an interpreter or another
program that starts programs, it allows everything; what an allowed program does is restricted only by a sandbox.

`ProgramFile` holds what the file system says about a program; `engine.commands.programs` asks it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from outlive.core.command import Command
from outlive.core.errors import CommandRefused
from outlive.policy.grammar import parse_line
from outlive.policy.starters import is_deciding

_NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class AllowedCommands:
    """The words that may be the first of a command; an empty set allows everything."""

    names: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, text: str) -> "AllowedCommands":
        """Read a comma list."""
        return cls(frozenset(name for part in text.split(",") if (name := part.strip())))

    def check(self, command: Command, own: Mapping[str, str] = _NOTHING) -> None:
        """Do nothing for a command that is allowed.

        The first word of every simple command must be on the list exactly as it is written, a path too. A line that is not
        certain to mean what it says is refused as a whole. So is a command that gives a variable that decides what a name
        means another value than the server's own environment (`own`) has.

        Raises:
            CommandRefused: `command_not_allowed` or `command_opaque`.
        """
        if not self.names:
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
            if program not in self.names:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramFile:
    """The file behind a program's name.

    `paths` begins with the path where it was found (its folder without links), goes on with every link that this path leads to,
    and ends with the real file; without links it is one path. `identity` is device and inode, which two names of one file share.
    `is_own`: the name alone leads to this very file in the server's own PATH.
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
