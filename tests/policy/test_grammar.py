"""The shell grammar: what it accepts means to the real bash what it says; what it does not know is opaque."""

import os
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from outlive.policy.grammar import SimpleCommand, parse_line


def _parsed(line: str) -> list[tuple[str, tuple[str, ...]]] | None:
    commands = parse_line(line)
    return None if commands is None else [(command.joint, command.argv) for command in commands]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ls", [("", ("ls",))]),
        ("  ls\t-l  ", [("", ("ls", "-l"))]),
        ("a && b || c; d | e", [("", ("a",)), ("&&", ("b",)), ("||", ("c",)), (";", ("d",)), ("|", ("e",))]),
        ("a&&b||c;d|e;", [("", ("a",)), ("&&", ("b",)), ("||", ("c",)), (";", ("d",)), ("|", ("e",))]),
        ("echo 'a; b' \"c && d\" e'f'\"g\"", [("", ("echo", "a; b", "c && d", "efg"))]),
        ("echo '' \"\"", [("", ("echo", "", ""))]),
        ("'l's", [("", ("ls",))]),
        ("git commit -m 'a\nb'", [("", ("git", "commit", "-m", "a\nb"))]),
        ("find . ! -name x", [("", ("find", ".", "!", "-name", "x"))]),
        ("make A=1 b#c", [("", ("make", "A=1", "b#c"))]),
        ("echo grüße 世界", [("", ("echo", "grüße", "世界"))]),
        ("a & b&c &", [("", ("a",)), ("&", ("b",)), ("&", ("c",))]),
        ("a 2>&1 | b", [("", ("a",)), ("|", ("b",))]),
        ("a >&2&&b 2>&1;c", [("", ("a",)), ("&&", ("b",)), (";", ("c",))]),
        ("a < f 'b' > /dev/null c 2> /dev/null", [("", ("a", "b", "c"))]),
        ("a &> /dev/null & b &>> f", [("", ("a",)), ("&", ("b",))]),
        ("a '2'>&1 2> /dev/null", [("", ("a", "2"))]),
        ("a 2 > f b2> f", [("", ("a", "2", "b2"))]),
        ("LANG=C LC_ALL= TZ=Europe/Berlin CI=1 TERM=dumb NO_COLOR=1 a LANG=x", [("", ("a", "LANG=x"))]),
        ('a $X "b$X ${Y_1}" c$X', [("", ("a", "*", "b* *", "*"))]),
        ("echo '$(x) `y` \\ ${z}'", [("", ("echo", "$(x) `y` \\ ${z}"))]),
    ],
)
def test_words_quotes_and_operators_are_understood(
    line: str, expected: list[tuple[str, tuple[str, ...]]]
) -> None:
    """S0.12."""
    assert _parsed(line) == expected


@pytest.mark.parametrize(
    "line",
    [
        "",
        "   ",
        ";",
        "; a",
        "a ;; b",
        "a &&",
        "a |",
        "| a",
        "a && || b",
        "a & & b",
        "& a",
        "a &; b",
        "a |& b",
        "a\nb",
        "a\\ b",
        "a \\\n b",
        "$HOME",
        "find $HOME",
        'bash "$HOME"',
        "printf -v $HOME",
        "test -v $HOME",
        "jobs $HOME",
        "echo $_",
        "echo $1",
        "echo $@",
        "echo $0",
        "echo $((1))",
        "echo $[1]",
        "echo ${HOME:-x}",
        "echo ${!HOME}",
        "echo ${HOME[0]}",
        'echo "${HOME:-x}"',
        'echo "$(x)$HOME"',
        "echo $(x)",
        'echo "$(x)"',
        "echo `x`",
        'echo "`x`"',
        'echo "a\\"b"',
        "> f",
        "> f echo",
        "echo >& f",
        "echo >&f",
        "echo >& 2",
        "echo >&-",
        "echo 2>&12",
        "echo 2>&1x",
        "echo 12> f",
        "echo {x}> f",
        "echo <&0",
        "echo 3< f",
        "echo <> f",
        "echo >",
        "echo > ; a",
        "echo > $X",
        "echo > *",
        "echo > ~/x",
        "echo > #x",
        "echo > /dev/tcp/127.0.0.1/1",
        "cat < /dev/tcp/127.0.0.1/1",
        "cat < '/dev/udp/127.0.0.1/1'",
        "echo &> f b",
        "echo &> f 2>&1 b",
        "echo &> f > g",
        "cat <<< E",
        "echo > >(a)",
        "cat << E",
        "diff <(a) <(b)",
        "(a)",
        "{ a; }",
        "echo {a,b}",
        "a() { b; }",
        "if a; then b; fi",
        "'if' a",
        "! a",
        "time a",
        "a; while b",
        "a | ! b",
        "[[ a ]]",
        "[ -f x ]",
        "X=1 a",
        "LANG=C",
        "LANG=C X=1 a",
        "PATH=x a",
        "IFS=x a",
        "LD_PRELOAD=x a",
        "BASH_ENV=x a",
        "GIT_SSH=x a",
        "LANG+=C a",
        "LANG=../x a",
        "LANG=$X a",
        "LANG=$(x) a",
        "LANG=~ a",
        "LANG[0]=C a",
        "LC_ALL='C' a",
        "LANG=C; a",
        "LANG=C | a",
        "'X'=1 a",
        "a+=1",
        "# a",
        "a # b",
        "a;#b",
        "l* x",
        "~/x",
        "%1 a",
        "'' a",
        "'a",
        '"a',
        "a\0b",
        "a\rb",
        "a\u00a0b",
        "echo \u202eabc",
        "echo \ud800",
        "echo \x1b[31m",
    ],
)
def test_everything_else_is_opaque(line: str) -> None:
    """S0.12: nothing is guessed."""
    assert parse_line(line) is None


def test_what_goes_into_a_file_is_told_apart_from_what_goes_nowhere() -> None:
    written = {
        line: [command.writes for command in parse_line(line) or ()]
        for line in ("a > f", "a >> f; b", "a 2> f", "a &> f", "a >| f", "a > /dev/null", "a 2>&1", "a < f")
    }
    assert [any(one) for one in written.values()] == [True] * 5 + [False] * 3
    assert written["a >> f; b"] == [True, False]


def test_patterns_are_told_apart_from_literal_words() -> None:
    commands = parse_line("ls *.py && cat '*.py' ; rm ~/x")
    assert commands is not None
    assert [command.is_literal for command in commands] == [False, True, False]


_ALPHABET = "ab \t'\";|&#=!~*?[]{}()$`\\<>\n-_.%^:@+,é"
_soup = st.text(alphabet=_ALPHABET, max_size=24)
_words = st.sampled_from(
    [
        "a",
        "b",
        "if",
        "then",
        "do",
        "!",
        "time",
        "'a b'",
        '"b;a"',
        "a'b'",
        "x=1",
        "#a",
        "*",
        "~",
        "''",
        "in",
        "{",
        "}",
        "$a",
        '"$b"',
        '"x${a}"',
        "LANG=C",
        "LC_ALL=",
        "TZ=x",
        "PATH=x",
        "2>&1",
        ">&2",
        "> f",
        ">>f",
        "2>f",
        "&>f",
        "< f",
        "</dev/null",
    ]
)
_lines = st.one_of(
    _soup,
    st.lists(st.one_of(_words, st.sampled_from([";", "&&", "||", "|", " ", "&", "\n"])), max_size=9).map(
        " ".join
    ),
    st.lists(st.one_of(_words, st.sampled_from([";", "&&", "||", "|", " "])), max_size=9).map("".join),
)

# Every program is "not found", since PATH is empty: bash hands the words to this function, which notes them
# and ends as it is told. Builtins whose names the alphabet can spell (":", ".", "[") are functions too.
_TRACE = r"""
command_not_found_handle() { printf '%s\0' "$#" "$@" >&9; return "$STATUS"; }
for name in : . ; do eval "$name() { command_not_found_handle $name \"\$@\"; }"; done
"""


def _what_bash_runs(line: str, status: int, folder: Path, *, locale: str) -> list[tuple[str, ...]]:
    trace = folder / "trace"
    trace.write_bytes(b"")
    with trace.open("ab") as note:
        subprocess.run(
            [
                "/bin/bash",
                "--norc",
                "-c",
                f'exec 9>&{note.fileno()}\n{_TRACE}\neval -- "$1"\nwait',
                "bash",
                line,
            ],
            env={
                "a": "b;c $(d) *",
                "b": "`d`; e",
                "PATH": "/nonexistent",
                "STATUS": str(status),
                "HOME": "/home",
                "LC_ALL": locale,
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            pass_fds=(note.fileno(),),
            timeout=30,
            check=False,
        )
    fields = trace.read_bytes().decode().split("\0")[:-1]
    commands: list[tuple[str, ...]] = []
    while fields:
        count = int(fields[0])
        commands.append(tuple(fields[1 : count + 1]))
        fields = fields[count + 1 :]
    return commands


def _expected(commands: tuple[SimpleCommand, ...], status: int) -> list[tuple[str, ...]]:
    """Return what runs when every command ends with `status`: pipes always, lists by their operator."""
    passes_on = {0: "&&", 1: "||"}[status]
    runs: list[tuple[str, ...]] = []
    is_running = True
    for command in commands:
        if command.joint in ("", ";", "&"):
            is_running = True
        elif command.joint != "|":
            is_running = command.joint == passes_on
        if is_running:
            runs.append(command.argv)
    return runs


def _compare(line: str, folder: Path, *, locale: str = "C.UTF-8") -> None:
    """Compare what the grammar says of a line with what bash runs, for both ways through && and ||."""
    commands = parse_line(line)
    assume(commands is not None)
    assert commands is not None
    for status in (0, 1):
        ran = _what_bash_runs(line, status, folder, locale=locale)
        if "<" in line or ">" in line or "&" in line.replace("&&", ""):
            # A file may be missing, a descriptor closed, and a list that ends with & runs aside: then less
            # runs.
            are_literal = all(command.is_literal for command in commands)
            told = Counter(command.argv if are_literal else command.argv[:1] for command in commands)
            assert Counter(words if are_literal else words[:1] for words in ran) <= told
            continue
        if all(command.is_literal for command in commands):
            assert sorted(ran) == sorted(_expected(commands, status))  # the parts of a pipe run in any order
        else:
            assert sorted(words[0] for words in ran) == sorted(
                words[0] for words in _expected(commands, status)
            )


_has_bash = pytest.mark.skipif(not os.path.exists("/bin/bash"), reason="this machine has no bash")
_UNHINDERED = [HealthCheck.filter_too_much, HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


@pytest.mark.thorough
@_has_bash
@settings(max_examples=200, deadline=None, derandomize=True, suppress_health_check=_UNHINDERED)
@given(line=_lines)
def test_what_is_accepted_means_the_same_to_bash(line: str, tmp_path: Path) -> None:
    """S0.12: the same programs with the same words.

    The same lines in every run; the slow suite tries others.
    """
    _compare(line, tmp_path)


@_has_bash
@pytest.mark.slow
@pytest.mark.timeout(600)  # a thousand shells
@settings(max_examples=500, deadline=None, suppress_health_check=_UNHINDERED)
@given(line=_lines, locale=st.sampled_from(["C.UTF-8", "C"]))
def test_what_is_accepted_means_the_same_to_bash_however_long_one_looks(
    line: str, locale: str, tmp_path: Path
) -> None:
    """S0.12, with hundreds of new lines in each run."""
    _compare(line, tmp_path, locale=locale)


@settings(max_examples=500)
@given(line=st.text(max_size=40))
def test_any_text_is_either_understood_or_opaque(line: str) -> None:
    """No input raises, and what is understood has programs."""
    for command in parse_line(line) or ():
        assert command.argv[0]
