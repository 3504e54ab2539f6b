"""ALLOWED_COMMANDS: `AllowedCommands`, the operator's list of programs (promise S0.12).

The honest promise: nothing off the list is started by us. A shell, an interpreter or another program that starts
programs on the list allows everything; what an allowed program does is bounded by a sandbox only.
"""

from dataclasses import dataclass

from outlive.core.command import Command
from outlive.core.errors import CommandRefused
from outlive.policy.grammar import parse_line

__all__ = ["AllowedCommands"]

# Variables that decide what a name means, or make a shell or the loader run something first (bash(1), "Shell
# Variables" and "INVOCATION"; ld.so(8)). Who may choose them chooses programs.
_DECIDING_NAMES = frozenset(
    {"BASHOPTS", "BASH_ENV", "ENV", "IFS", "PATH", "POSIXLY_CORRECT", "PS4", "SHELLOPTS"}
)
_DECIDING_PREFIXES = ("BASH_FUNC_", "LD_")


@dataclass(frozen=True, slots=True)
class AllowedCommands:
    """The words that may stand first in a command; an empty set allows everything."""

    names: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, text: str) -> "AllowedCommands":
        """Read a comma list."""
        return cls(frozenset(name for part in text.split(",") if (name := part.strip())))

    def check(self, command: Command) -> None:
        """Let a command pass.

        The first word of every simple command must be on the list as it is written, a path too; a line that is not
        certain to mean what it says is refused as a whole.

        Raises:
            CommandRefused: `command_not_allowed` or `command_opaque`.
        """
        if not self.names:
            return
        for name in command.env:
            if name in _DECIDING_NAMES or name.startswith(_DECIDING_PREFIXES):
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
        return tuple(simple.argv[0] for simple in commands)
