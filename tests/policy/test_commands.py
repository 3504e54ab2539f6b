"""ALLOWED_COMMANDS: every first word counts, the environment may not change what a name means."""

import pytest

from outlive.core.command import Command
from outlive.core.errors import CommandRefused
from outlive.policy.patterns import AllowedCommands

_LIST = AllowedCommands.parse("echo, cat,,git ")


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
