"""Which rules allow more than they seem to: `open_rules`. Pure.

A program that starts others, once allowed, starts whatever its caller names: the rule then bounds nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from outlive.policy.judgement import CommandPolicy
from outlive.policy.starters import STARTERS, reason_for


@dataclass(frozen=True, slots=True)
class OpenRule:
    """A rule (or a listed name) that allows a program which starts others, and how that does it."""

    text: str
    program: str
    reason: str


def open_rules(policy: CommandPolicy) -> list[OpenRule]:
    """Return the allow rules that let programs pass which start others."""
    found = []
    for rule in policy.allow:
        name = rule.program.rpartition("/")[2]
        if rule.names_one_program:
            reason = reason_for(name)
            if reason is not None:
                found.append(OpenRule(rule.text, name, reason))
            continue
        known = next((one for one in STARTERS if fnmatchcase(one, name)), None)
        if known is not None:
            found.append(OpenRule(rule.text, known, STARTERS[known]))
    return found


def open_names(names: Iterable[str]) -> list[OpenRule]:
    """Return the names of ALLOWED_COMMANDS that stand for programs which start others."""
    reasons = ((name, reason_for(name.rpartition("/")[2])) for name in sorted(names))
    return [OpenRule(name, name.rpartition("/")[2], reason) for name, reason in reasons if reason is not None]
