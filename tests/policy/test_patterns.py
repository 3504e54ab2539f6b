"""Command patterns: every simple command counts, what is opaque is refused while a list is in force."""

import pytest

from outlive.core.errors import CommandRefused
from outlive.policy.patterns import CommandPatterns

_NOT_ALLOWED = "Command does not match any allowed pattern"
_NO_SUDO = "Sudo commands are not allowed"


def _refusal(patterns: CommandPatterns, line: str) -> str:
    with pytest.raises(CommandRefused) as refused:
        patterns.check_line(line)
    assert refused.value.hint
    return refused.value.message


@pytest.mark.parametrize(
    "line",
    [
        "ls",
        "for i in 1 2; do echo $i; done",
        "echo sudo",
        "grep 'sudo ls' x",
        "make  # needs no sudo here",
        "# sudo make install\nmake",
        'git commit -m "drop sudo from the \\$PATH" && echo $?',
        "cat > README <<'EOF'\nRun sudo make install\nsudo ls\nEOF\necho done",
        "for i in 1; do echo 'ask for\nsudo ls'; done",
    ],
)
def test_without_lists_everything_but_sudo_passes(line: str) -> None:
    """S1.8."""
    assert CommandPatterns().is_open
    CommandPatterns().check_line(line)


@pytest.mark.promise("S1.7", "S1.8")
@pytest.mark.parametrize(
    "line",
    [
        "sudo ls",
        "/usr/bin/sudo ls",
        "echo a; sudo ls",
        "env sudo ls",
        "X=1 sudo ls",
        "echo $(sudo ls)",
        "bash -c 'sudo ls'",
        "if true; then sudo ls; fi",
        "(sudo ls)",
        "timeout 3 sudo ls",
        "echo a\nsudo ls",
        'echo "$(sudo ls)"',
        'for i in 1; do bash -c "sudo ls $i"; done',
        "cat <<EOF\nx\nEOF\nsudo ls",
        "cat <<EOF | sudo tee x\nx\nEOF",
        "'sudo' ls > x; echo $(y)",
    ],
)
def test_sudo_is_refused_wherever_it_runs(line: str) -> None:
    assert _refusal(CommandPatterns(), line) == _NO_SUDO
    CommandPatterns(allow_sudo=True).check_line(line)


@pytest.mark.promise("S1.8")
def test_every_simple_command_must_match_an_allowed_pattern() -> None:
    patterns = CommandPatterns(allowed=("git *", "ls", "echo *"))
    patterns.check_line("git status && ls; echo a | echo b")
    patterns.check_argv(["git", "log"])
    for line in ("ls -l", "git status; rm x", "echo $(rm x)", "git status > x"):
        assert _refusal(patterns, line) == _NOT_ALLOWED
    with pytest.raises(CommandRefused):
        patterns.check_argv([])


@pytest.mark.promise("S1.8")
@pytest.mark.parametrize(
    "line", ["rm -rf /", "/bin/rm -rf x", "echo a && rm -r b", "echo $(rm x)", "rm -[r] x", "'rm' -rf x"]
)
def test_no_simple_command_may_match_a_blocked_pattern(line: str) -> None:
    patterns = CommandPatterns(blocked=("dd *", "rm -r*"))
    assert _refusal(patterns, line) == "Command matches blocked pattern: rm -r*"
    patterns.check_line("rm x; ls *.py")


def test_a_blocked_word_names_the_program() -> None:
    """S1.8."""
    assert _refusal(CommandPatterns(blocked=("rm",)), "rm -rf x").endswith(": rm")
    assert _refusal(CommandPatterns(blocked=("dd *",)), "echo $(x)").endswith(": dd *")


@pytest.mark.promise("S1.8")
def test_scripts_are_checked_by_interpreter_and_by_line() -> None:
    CommandPatterns().check_script("/usr/bin/python3", "import os")
    CommandPatterns().check_script("/bin/sh", "cat <<EOF\nsudo ls\nEOF\n# sudo ls\n")
    CommandPatterns(blocked=("rm *",)).check_script("/bin/bash", "#!/bin/bash\n\n# rm x\necho a\n  ls\n")
    CommandPatterns(allowed=("python3 *",)).check_script("python3", "anything(1)")
    for patterns, interpreter, content in (
        (CommandPatterns(), "/bin/sh", "echo a\n sudo ls\n"),
        (CommandPatterns(blocked=("rm *",)), "/bin/bash", "echo a\nrm x\n"),
        (CommandPatterns(blocked=("rm *",)), "python3", "print(1)"),
        (CommandPatterns(allowed=("echo *",)), "python3", "print(1)"),
    ):
        with pytest.raises(CommandRefused):
            patterns.check_script(interpreter, content)
