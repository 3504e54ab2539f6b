"""deny -> ask -> allow: `CommandPolicy`, the lists and what follows from them for one command (`Decision`).

Pure.

Each simple command gets a verdict of its own, and the whole command gets the strictest of them. What is
promised: outlive itself starts no program that is not on an allow list. A deny list is no wall, and what an
allowed program does is restricted only by a sandbox.

`open_rules` finds the rules that allow more than they seem to: a program that starts others, once allowed,
starts whatever its caller names, so its rule restricts nothing.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from fnmatch import fnmatchcase

from outlive.core.errors import CommandRefused
from outlive.core.values import dataclass
from outlive.policy.command_reader import Reading
from outlive.policy.patterns import ProgramFile
from outlive.policy.rules import JudgedCommand, Rule
from outlive.policy.starters import STARTERS, reason_for

_CHECK = "`outlive policy check` explains it; ask the operator to change the rules."


class Verdict(StrEnum):
    """What happens with a command."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


_STRICTNESS = {Verdict.ALLOW: 0, Verdict.ASK: 1, Verdict.DENY: 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The verdict on one simple command; `rule` and its position in its list (from 1) if one matched."""

    command: JudgedCommand
    verdict: Verdict
    rule: Rule | None = None
    place: int = 0
    list_name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The verdict on a whole command; `code` and `reason` say why it is not simply allowed."""

    verdict: Verdict
    code: str = ""
    reason: str = ""
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandPolicy:
    """The three lists. An empty `allow` allows everything that the other lists do not match.

    `opaque` is the verdict on commands that cannot be read, while any list is in force (an allow list never
    lets them pass); `default` is the verdict on commands that an allow list does not name.
    """

    deny: tuple[Rule, ...] = ()
    ask: tuple[Rule, ...] = ()
    allow: tuple[Rule, ...] = ()
    opaque: Verdict = Verdict.DENY
    default: Verdict = Verdict.DENY

    @property
    def is_active(self) -> bool:
        """Whether any command has to be judged."""
        return bool(self.deny or self.ask or self.allow)

    @property
    def rules(self) -> tuple[Rule, ...]:
        """All rules."""
        return (*self.deny, *self.ask, *self.allow)

    def judge(
        self,
        reading: Reading,
        files: Mapping[str, ProgramFile | None],
        own: Mapping[str, ProgramFile | None],
    ) -> Decision:
        """Decide about a command.

        Args:
            reading: What the command would start.
            files: The file to which each first word leads, by the word.
            own: The file to which each rule's first word leads, by the word; without those that are patterns.
        """
        findings = tuple(
            self._judge_one(command, files.get(command.argv[0]), own) for command in reading.commands
        )
        strictest = max(findings, key=lambda one: _STRICTNESS[one.verdict], default=None)
        verdict, code, reason = Verdict.ALLOW, "", ""
        if strictest is not None and strictest.verdict is not Verdict.ALLOW:
            verdict = strictest.verdict
            code, reason = _words(strictest)
        hidden, on_hidden = self._on_hidden(reading)
        if hidden is not None and _STRICTNESS[on_hidden] > _STRICTNESS[verdict]:
            verdict, code = on_hidden, "command_opaque"
            reason = f"It is not certain what this would start: {hidden}."
        return Decision(verdict=verdict, code=code, reason=reason, findings=findings)

    def _on_hidden(self, reading: Reading) -> tuple[str | None, Verdict]:
        """Return why not everything is known about a command, and the verdict on that."""
        if self.allow and reading.hides is not None:
            return reading.hides, self.default if self.opaque is Verdict.ALLOW else self.opaque
        if (self.deny or self.ask) and reading.opaque is not None:
            return reading.opaque, self.opaque
        return None, Verdict.ALLOW

    def _judge_one(
        self, command: JudgedCommand, file: ProgramFile | None, own: Mapping[str, ProgramFile | None]
    ) -> Finding:
        lists = [
            ("deny", Verdict.DENY, self.deny, Rule.may_match),
            ("ask", Verdict.ASK, self.ask, Rule.may_match),
        ]
        if not command.is_inner:
            lists.append(("allow", Verdict.ALLOW, self.allow, Rule.surely_matches))
        for name, verdict, rules, matches in lists:
            for place, rule in enumerate(rules, 1):
                if matches(rule, command, file, own.get(rule.program)):
                    return Finding(command=command, verdict=verdict, rule=rule, place=place, list_name=name)
        is_free = command.is_inner or not self.allow
        return Finding(command=command, verdict=Verdict.ALLOW if is_free else self.default)


def refusal(decision: Decision) -> CommandRefused:
    """Return the error that reports a denial to the caller."""
    return CommandRefused(decision.code, decision.reason, hint=_CHECK)


def _words(finding: Finding) -> tuple[str, str]:
    """Return slug and sentence for a verdict other than "allow"."""
    program = finding.command.argv[0][:80]
    if finding.rule is None and finding.command.writes:
        text = f"No allow rule lets {program!r} with these words write into a file (`; write = true`)."
        return "command_not_allowed", text
    if finding.rule is None:
        return "command_not_allowed", f"The program {program!r} with these words is not on the allow list."
    if finding.verdict is Verdict.DENY:
        return "command_denied", f"The rule {finding.rule.text!r} denies {program!r} here."
    return "approval_needed", f"The rule {finding.rule.text!r} asks for an approval of {program!r}."


@dataclass(frozen=True, slots=True)
class OpenRule:
    """A rule (or a listed name) that allows a program which starts others, and how the program does that."""

    text: str
    program: str
    reason: str


def open_rules(policy: CommandPolicy) -> list[OpenRule]:
    """Return the allow rules that match programs which start others."""
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
    """Return the names in ALLOWED_COMMANDS of programs which start others."""
    reasons = ((name, reason_for(name.rpartition("/")[2])) for name in sorted(names))
    return [OpenRule(name, name.rpartition("/")[2], reason) for name, reason in reasons if reason is not None]
