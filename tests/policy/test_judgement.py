"""deny -> ask -> allow: what becomes of a command, and what an operator is told about the lists."""

import pytest

from outlive.core.command import Command
from outlive.policy.command_reader import read_command
from outlive.policy.judgement import CommandPolicy, Decision, Verdict, open_names, open_rules, refusal
from outlive.policy.rules import Rule
from outlive.policy.starters import STARTERS, reason_for


def _rules(*texts: str) -> tuple[Rule, ...]:
    return tuple(map(Rule.parse, texts))


def _judge(policy: CommandPolicy, line: str, **env: str) -> Decision:
    return policy.judge(read_command(Command(line=line, env=env), {"PATH": "/bin"}), {}, {})


_DENY = CommandPolicy(deny=_rules("rm -rf *", "sudo"))
_ASK = CommandPolicy(ask=_rules("git push *"))
_ALLOW = CommandPolicy(allow=_rules("ls", "git status", "git push *", "nice"))
_ALL = CommandPolicy(deny=_DENY.deny, ask=_ASK.ask, allow=_ALLOW.allow)


@pytest.mark.promise("P.rules")
@pytest.mark.parametrize(
    ("policy", "line", "verdict", "code"),
    [
        (_DENY, "ls", "allow", ""),
        (_DENY, "ls; rm -rf x", "deny", "command_denied"),
        (_DENY, "nice rm -rf x", "deny", "command_denied"),
        (_DENY, "echo ${x:-}", "deny", "command_opaque"),
        (_ASK, "ls", "allow", ""),
        (_ASK, "git push origin", "ask", "approval_needed"),
        (_ASK, "env git push", "ask", "approval_needed"),
        (_ASK, "echo ${x:-}", "deny", "command_opaque"),
        (_ALLOW, "ls -l", "allow", ""),
        (_ALLOW, "ls -l; cat x", "deny", "command_not_allowed"),
        (_ALLOW, "git status x", "deny", "command_not_allowed"),
        (_ALLOW, "nice cat x", "allow", ""),
        (_ALLOW, "ls > x", "deny", "command_not_allowed"),
        (_ALLOW, "ls $x 2>&1 > /dev/null &", "allow", ""),
        (_ALLOW, "nice $x", "deny", "command_opaque"),
        (_ALLOW, "git status $x", "deny", "command_opaque"),
        (_DENY, "ls & sudo ls", "deny", "command_denied"),
        (_ALL, "git push", "ask", "approval_needed"),
        (_ALL, "git push; sudo x", "deny", "command_denied"),
        (_ALL, "git push; cat x", "deny", "command_not_allowed"),
        (_ALL, "git push; ls", "ask", "approval_needed"),
    ],
)
def test_each_simple_command_has_a_verdict_and_the_strictest_counts(
    policy: CommandPolicy, line: str, verdict: str, code: str
) -> None:
    decision = _judge(policy, line)
    assert (decision.verdict, decision.code) == (verdict, code)
    assert bool(decision.reason) is (verdict != "allow")


def test_nothing_is_judged_without_lists() -> None:
    policy = CommandPolicy()
    assert not policy.is_active
    assert policy.rules == ()
    assert _judge(policy, "echo $(anything)").verdict is Verdict.ALLOW
    assert _ALL.is_active


@pytest.mark.parametrize("opaque", list(Verdict))
@pytest.mark.parametrize("default", [Verdict.ASK, Verdict.DENY])
def test_an_opaque_line_is_never_let_pass_by_an_allow_list(opaque: Verdict, default: Verdict) -> None:
    free = CommandPolicy(deny=_rules("rm"), opaque=opaque, default=default)
    assert _judge(free, "echo ${x:-}").verdict is opaque
    bound = CommandPolicy(allow=_rules("*"), opaque=opaque, default=default)
    assert _judge(bound, "echo ${x:-}").verdict is (default if opaque is Verdict.ALLOW else opaque)
    assert _judge(bound, "ls", PATH="/tmp").verdict is not Verdict.ALLOW
    assert _judge(free, "ls", PATH="/tmp").verdict is Verdict.ALLOW


def test_what_no_rule_allows_may_be_asked_about() -> None:
    policy = CommandPolicy(allow=_rules("ls"), default=Verdict.ASK)
    decision = _judge(policy, "cat x")
    assert (decision.verdict, decision.code) == (Verdict.ASK, "command_not_allowed")
    assert decision.findings[0].rule is None


def test_a_finding_names_the_rule_and_its_place() -> None:
    finding = _judge(_DENY, "sudo ls").findings[0]
    assert (finding.list_name, finding.place) == ("deny", 2)
    assert finding.rule is not None
    assert finding.rule.text == "sudo"
    error = refusal(_judge(_DENY, "sudo ls"))
    assert error.code == "command_denied"
    assert "policy check" in error.hint


def test_an_interpreters_script_is_its_rules_business_under_an_allow_list() -> None:
    reading = read_command(Command(argv=("/usr/bin/python3",), script="x"), {})
    assert CommandPolicy(allow=_rules("/usr/bin/python3")).judge(reading, {}, {}).code == (
        "command_not_allowed"  # no such file was told of
    )
    assert CommandPolicy(deny=_rules("rm")).judge(reading, {}, {}).code == "command_opaque"


@pytest.mark.parametrize("name", ["bash", "python3.11", "perl5.36.0", "vim.basic", "clang-14", "git", "["])
def test_programs_that_start_others_are_known_in_each_version(name: str) -> None:
    assert reason_for(name)


@pytest.mark.parametrize("name", ["ls", "cat", "echo", "wc", "head", "true", "python_like"])
def test_programs_that_start_none_are_not_flagged(name: str) -> None:
    assert reason_for(name) is None


def test_rules_that_allow_everything_are_named() -> None:
    policy = CommandPolicy(allow=_rules("ls", "bash", "/usr/bin/git status", "py*", "l?", "ls*", "*"))
    assert [(one.text, one.program) for one in open_rules(policy)] == [
        ("bash", "bash"),
        ("/usr/bin/git status", "git"),
        ("py*", "python"),
        ("l?", "ld"),
        ("*", next(iter(STARTERS))),
    ]
    assert [one.text for one in open_names(["ls", "/bin/sh", "env"])] == ["/bin/sh", "env"]
