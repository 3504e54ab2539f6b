"""ALLOWED_COMMANDS: every first word counts, the environment may not change what a name means."""

import pytest

from outlive.core.command import Command
from outlive.core.errors import CommandRefused
from outlive.policy.patterns import AllowedCommands

_LIST = AllowedCommands.parse("echo, cat,,git ")
_DOCUMENT = AllowedCommands.parse("bash,claude,python,node,npm,git,ls,cat,echo,pwd")


def _refusal(command: Command) -> CommandRefused:
    with pytest.raises(CommandRefused) as refused:
        _LIST.check(command)
    assert refused.value.hint
    return refused.value


def test_the_list_is_read_from_commas() -> None:
    """S0.12."""
    assert _LIST.names == {"echo", "cat", "git"}
    assert AllowedCommands.parse("").names == AllowedCommands.parse(" , ").names == frozenset()


@pytest.mark.parametrize("line", ["rm -rf /", "echo $(rm x)", "((("])
def test_an_empty_list_allows_everything(line: str) -> None:
    """S0.12."""
    AllowedCommands().check(Command(line=line, env={"PATH": "/x"}))


@pytest.mark.parametrize("line", ["echo hi", "echo a | cat && git status; echo 'rm; ls'", "'ec'ho x"])
def test_a_line_of_listed_programs_passes(line: str) -> None:
    """S0.12."""
    _LIST.check(Command(line=line))


@pytest.mark.parametrize("line", ["ls", "echo a; ls", "echo a | ls", "/bin/echo a", "./echo", "Echo a"])
def test_any_program_off_the_list_refuses_the_line(line: str) -> None:
    """S0.12: compared as written, a path too."""
    refusal = _refusal(Command(line=line))
    assert refusal.code == "command_not_allowed"
    assert str(refusal.details["program"]) in line


@pytest.mark.parametrize(
    "line", ["echo $(cat x)", "echo >& x", "echo a |& cat", "if echo; then cat; fi", "X=1 echo"]
)
def test_an_opaque_line_is_refused(line: str) -> None:
    """S0.12: what is not certain is never allowed automatically."""
    assert _refusal(Command(line=line)).code == "command_opaque"


def test_argv_counts_by_its_program_alone() -> None:
    """S0.12: there is no shell to misread the other words."""
    _LIST.check(Command(argv=("echo", "$(rm x)", ";", "ls")))
    assert _refusal(Command(argv=("ls",))).code == "command_not_allowed"
    assert _refusal(Command(argv=())).code == "command_not_allowed"


@pytest.mark.parametrize(
    "name", ["PATH", "BASH_ENV", "ENV", "LD_PRELOAD", "LD_LIBRARY_PATH", "BASH_FUNC_echo%%", "IFS"]
)
def test_the_environment_may_not_change_what_a_name_means(name: str) -> None:
    """S0.12: nothing off the list is started by us."""
    assert _refusal(Command(line="echo hi", env={name: "x"})).details["variable"] == name
    _LIST.check(Command(line="echo hi", env={"LANG": "C"}))


@pytest.mark.promise("S0.12.shells")
@pytest.mark.parametrize(
    "line",
    [
        "echo $((1+2))",
        "for x in 1 2; do rm $x; done",
        "while false; do :; done",
        "(echo a; pwd)",
        "{ ls; }",
        "! ls",
        "ls; rm -rf x",
        "ls > /tmp/x",
        "echo a\nrm x",
        " cat<<E\nx\nE",
        "bash -c 'rm x'",
    ],
)
@pytest.mark.parametrize("shell", ["bash", "/bin/sh", "fish"])
def test_beside_a_shell_the_first_word_alone_is_judged(line: str, shell: str) -> None:
    """What the list would refuse, the shell on it runs all the same."""
    beside = AllowedCommands(_DOCUMENT.names | {shell})
    beside.check(Command(line=line, env={"PATH": "/x"}))
    beside.check(Command(argv=("ls", "x"), env={"LD_PRELOAD": "/x"}))


@pytest.mark.promise("S0.12.shells")
@pytest.mark.parametrize(
    "line", ["rm x", "(rm x)", "{ rm x; }", "rm;", "/bin/ls", "'rm' x", "$(rm x)", "cd /; ls", "", "(", "ls2"]
)
def test_beside_a_shell_a_first_word_off_the_list_is_refused(line: str) -> None:
    with pytest.raises(CommandRefused) as refused:
        _DOCUMENT.check(Command(line=line))
    assert refused.value.code == "command_not_allowed"
    with pytest.raises(CommandRefused):
        _DOCUMENT.check(Command(argv=(line,)))


@pytest.mark.promise("S0.12")
@pytest.mark.parametrize("names", ["ls,printf,cd", "ls,find", "ls,env", "ls,xargs,python,git,bashful"])
@pytest.mark.parametrize("line", ["ls; rm -rf x", "ls $(rm x)", "for x in a; do ls; done", "(ls)", "ls > x"])
def test_a_list_without_a_shell_judges_every_word_whatever_else_starts_programs(
    names: str, line: str
) -> None:
    with pytest.raises(CommandRefused):
        AllowedCommands.parse(names).check(Command(line=line))
