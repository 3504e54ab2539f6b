"""ALLOWED_COMMANDS: `AllowedCommands`, the operator's list of programs (promise S0.12).

The honest promise: nothing off the list is started by us. A shell, an interpreter or another program that starts
programs on the list allows everything; what an allowed program does is bounded by a sandbox only.

What the file system said about a program, as a value: `ProgramFile`. Pure; `engine.programs` asks.
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
    """The words that may stand first in a command; an empty set allows everything."""

    names: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, text: str) -> "AllowedCommands":
        """Read a comma list."""
        return cls(frozenset(name for part in text.split(",") if (name := part.strip())))

    def check(self, command: Command, own: Mapping[str, str] = _NOTHING) -> None:
        """Let a command pass.

        The first word of every simple command must be on the list as it is written, a path too; a line that is not
        certain to mean what it says is refused as a whole. So is one that sets a variable that decides what a name
        means to something else than the server has in `own`, its own environment.

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

    `paths` begin with where it was found (its folder without links), go on with every link that it leads to, and end
    with the real file; one path where there is no link. `identity` is device and inode: two names of one file have
    the same. `is_own`: the server's own PATH leads to this very file by its name alone.
    """

    paths: tuple[str, ...]
    identity: tuple[int, int]
    is_own: bool = False
    names: frozenset[str] = field(init=False)  # every name that it has on the way to the real file

    def __post_init__(self) -> None:
        """Take the names out of the paths, once."""
        object.__setattr__(self, "names", frozenset(path.rpartition("/")[2] for path in self.paths))

    @property
    def found(self) -> str:
        """Where it was found."""
        return self.paths[0]

    @property
    def real(self) -> str:
        """The file itself."""
        return self.paths[-1]
