"""The policy before every start, whichever door it comes from: `Policing` asks the file system, the rules
decide.

With no lists it costs nothing. The file system is asked each time: a link that was turned a moment ago leads
elsewhere now. Between the decision and the start a file may be replaced by any user that may write to its
folder.

From settings to what decides about commands: `command_policy`; and what an operator should know:
`log_openness`.
"""

import asyncio
import logging
import os
import stat
from collections.abc import Mapping

from outlive.config import Settings
from outlive.core.command import Command
from outlive.core.errors import ConfigInvalid
from outlive.engine.commands.resolver import look_up
from outlive.policy.command_reader import Reading, read_command
from outlive.policy.judgement import CommandPolicy, Decision, Verdict, open_names, open_rules
from outlive.policy.patterns import AllowedCommands, ProgramFile
from outlive.policy.rules import Rule

_Files = dict[str, ProgramFile | None]


class Policing:
    """Decides by one policy for one server's environment. Used from one event loop.

    Attributes:
        is_active: Whether there is anything to decide.
        environment: The clean one that commands are added to.
    """

    def __init__(self, policy: CommandPolicy, *, environment: Mapping[str, str]) -> None:
        self._policy = policy
        self.is_active = policy.is_active
        self.environment = environment
        self._own_path = environment.get("PATH", "")
        self._named = {rule.program for rule in policy.rules if rule.names_one_program}

    async def decide(self, command: Command, *, cwd: str, path: str) -> tuple[Decision, Reading, _Files]:
        """Decide about a command that would be started in `cwd` with this PATH.

        What was decided about is returned, too.
        """
        reading, files, own = await self.look(command, cwd=cwd, path=path)
        return self._policy.judge(reading, files, own), reading, files

    async def look(self, command: Command, *, cwd: str, path: str) -> tuple[Reading, _Files, _Files]:
        """Return what a command would start, and the files behind its programs and behind the rules'."""
        reading = read_command(command, self.environment)
        found, own = await asyncio.to_thread(
            self._ask, {one.argv[0] for one in reading.commands}, cwd=cwd, path=path
        )
        return reading, found, own

    def _ask(self, words: set[str], *, cwd: str, path: str) -> tuple[_Files, _Files]:
        """Ask the file system about programs, and about those that the rules name. In a thread."""
        found = {word: self._look_up(word, path, cwd) for word in words}
        return found, {word: self._look_up(word, self._own_path, "/") for word in self._named}

    def _look_up(self, word: str, path: str, folder: str) -> ProgramFile | None:
        return look_up(word, path=path, cwd=folder or "/", own_path=self._own_path)


_logger = logging.getLogger(__name__)


def command_policy(settings: Settings) -> CommandPolicy:
    """Return the policy.

    Raises:
        ConfigInvalid: A rule is none.
    """
    return CommandPolicy(
        deny=_rules("deny", settings.deny),
        ask=_rules("ask", settings.ask),
        allow=_rules("allow", settings.allow),
        opaque=Verdict(settings.policy_opaque),
        default=Verdict(settings.policy_default),
    )


def writable_folders(path: str) -> list[str]:
    """Return the folders of a PATH in which others can plant programs: not absolute, or writable for every
    user.

    Asks the file system.
    """
    found = []
    for folder in path.split(":"):
        try:
            mode = os.stat(folder).st_mode
        except (OSError, ValueError):
            mode = 0
        if not folder.startswith("/") or mode & stat.S_IWOTH:
            found.append(folder)
    return found


def log_openness(settings: Settings, policy: CommandPolicy, path: str) -> None:
    """Say in the log which lists allow more than they seem to. Asks the file system."""
    for one in (*open_rules(policy), *open_names(settings.allowed_commands)):
        _logger.warning(
            "a list allows a program that starts others: it allows everything",
            extra={"rule": one.text, "program": one.program, "reason": one.reason},
        )
    if AllowedCommands(frozenset(settings.allowed_commands)).holds_shell:
        _logger.warning(
            "ALLOWED_COMMANDS holds a shell and so allows everything: only the first word of a line is judged"
        )
    if policy.is_active or settings.allowed_commands:
        for folder in writable_folders(path):
            _logger.warning(
                "every user can put programs into a folder of PATH: a name on a list means any of them",
                extra={"folder": folder},
            )


def _rules(name: str, texts: tuple[str, ...]) -> tuple[Rule, ...]:
    try:
        return tuple(map(Rule.parse, texts))
    except ValueError as error:
        raise ConfigInvalid(
            "config_invalid", f"{name}: {error}.", hint="docs/policy.md says what a rule looks like."
        ) from None
