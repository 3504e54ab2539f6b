"""From settings to what decides about commands: `command_policy`; and what an operator should know: `log_openness`."""

import logging
import os
import stat

from outlive.config import Settings
from outlive.core.errors import ConfigInvalid
from outlive.policy.judgement import CommandPolicy, Verdict
from outlive.policy.openness import open_names, open_rules
from outlive.policy.rules import Rule

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
    """Return the folders of a PATH in which others can plant programs: not absolute, or writable for everybody.

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
    if policy.is_active or settings.allowed_commands:
        for folder in writable_folders(path):
            _logger.warning(
                "everybody can put programs into a folder of PATH: a name on a list means any of them",
                extra={"folder": folder},
            )


def _rules(name: str, texts: tuple[str, ...]) -> tuple[Rule, ...]:
    try:
        return tuple(map(Rule.parse, texts))
    except ValueError as error:
        raise ConfigInvalid(
            "config_invalid", f"{name}: {error}.", hint="docs/policy.md says what a rule looks like."
        ) from None
