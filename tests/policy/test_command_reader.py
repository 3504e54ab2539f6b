"""What a command would start, as far as its text tells."""

import pytest

from outlive.core.command import Command
from outlive.policy.command_reader import Reading, read_command

_OWN = {"PATH": "/usr/bin:/bin", "HOME": "/srv/me"}


def _read(command: Command) -> Reading:
    return read_command(command, _OWN)


def _inner(line: str) -> list[str]:
    return [" ".join(one.argv) for one in _read(Command(line=line)).commands if one.is_inner]


def test_a_line_is_its_simple_commands_and_an_argv_is_one() -> None:
    line = _read(Command(line="ls -l | cat; echo '*' *.py"))
    assert [one.argv for one in line.commands] == [("ls", "-l"), ("cat",), ("echo", "*", "*.py")]
    assert [one.open_words for one in line.commands] == [(), (), (2,)]
    assert all(one.is_line and not one.is_inner for one in line.commands)
    assert (line.opaque, line.hides) == (None, None)
    argv = _read(Command(argv=("ls", "; evil")))
    assert [one.argv for one in argv.commands] == [("ls", "; evil")]
    assert not argv.commands[0].is_line
    assert _read(Command(argv=())).commands[0].argv == ("",)


@pytest.mark.parametrize(
    ("line", "inner"),
    [
        ("env A=1 rm -rf x", "rm -rf x"),
        ("/usr/bin/env -i nice -n 5 rm -rf x", "rm -rf x"),
        ("timeout 5 bash -c 'rm -rf x'", "rm -rf x"),
        ("bash -lc 'ls; rm -rf x' name", "rm -rf x"),
        ("bash -c -x 'rm -rf x'", "rm -rf x"),
        ("sh -c 'sh -c \"rm -rf x\"'", "rm -rf x"),
        ("su --command='rm -rf x' me", "rm -rf x"),
        ("su --command 'rm -rf x'", "rm -rf x"),
        ("eval rm -rf x", "rm -rf x"),
        ("eval 'rm -rf' x", "rm -rf x"),
        ("watch -n 1 rm -rf x", "rm -rf x"),
        ("xargs -0 rm -rf", "rm -rf"),
        ("find . -name x -exec rm -rf x +", "rm -rf x"),
        ("sudo -u me rm -rf x", "rm -rf x"),
        ("busybox rm -rf x", "rm -rf x"),
        ("flock /tmp/lock -c 'rm -rf x'", "rm -rf x"),
        ("flock /tmp/lock rm -rf x", "rm -rf x"),
    ],
)
def test_programs_that_start_others_are_looked_through(line: str, inner: str) -> None:
    assert inner in _inner(line)
    assert _read(Command(line=line)).opaque is None


def test_a_program_is_not_looked_for_where_nothing_starts_others() -> None:
    assert _inner("echo rm -rf x") == []
    assert _inner("bash script.sh") == []
    assert _inner("bash -c ''") == []
    assert _inner("env '' *.py") == []


def test_find_ends_its_command_at_a_semicolon_of_its_own() -> None:
    reading = _read(Command(argv=("find", ".", "-exec", "git", "push", ";", "-print")))
    assert ("git", "push") in [one.argv for one in reading.commands]
    assert (";", "-print") in [one.argv for one in reading.commands]


def test_what_xargs_adds_is_not_known() -> None:
    ends = {one.argv: one.ends_open for one in _read(Command(line="nice xargs git push")).commands}
    assert ends["git", "push"]
    assert not ends["xargs", "git", "push"]
    assert not ends["nice", "xargs", "git", "push"]


@pytest.mark.parametrize(
    "line",
    [
        "echo $1",
        "ls >& x",
        "env $HOME",
        "PATH=x ls",
        "bash -c 'echo $(id)'",
        "eval '$x'",
        "eval *.sh",
        "env -S 'rm -rf x'",
        "env --split-string=rm",
        "env " + " ".join("A=1" for _ in range(300)),
        "cd /tmp && ./ls",
        "cd /tmp; pushd x; bin/ls",
    ],
)
def test_what_cannot_be_read_is_opaque_and_hides_something(line: str) -> None:
    reading = _read(Command(line=line))
    assert reading.opaque
    assert reading.hides == reading.opaque


def test_lines_within_lines_end_somewhere() -> None:
    line = "rm"
    for _ in range(12):
        line = f"eval {line}"
    assert "deeply" in str(_read(Command(line=line)).opaque)


def test_what_grows_without_end_is_given_up() -> None:
    """Each eval and watch joins the words behind it, again and again: this would take hours."""
    assert "too much" in str(_read(Command(argv=("eval",) * 3 + ("watch",) * 60 + ("eval",) * 60)).opaque)
    script = "ls -l\n" * 30_000
    reading = _read(Command(argv=("bash",), script=script))
    assert "too much" in str(reading.hides)
    assert len(reading.commands) < 30_000
    assert _read(Command(line="ls " + "a" * 70_000)).opaque


def test_a_relative_program_before_a_move_or_an_absolute_one_behind_it_is_certain() -> None:
    assert _read(Command(line="./x && cd /tmp && /bin/ls && ls")).opaque is None


def test_scripts_of_shells_are_read_line_by_line() -> None:
    script = "#!/bin/bash\n# a comment\n\nls -l\n\t cat x \n"
    reading = _read(Command(argv=("/bin/bash",), script=script))
    assert [one.argv for one in reading.commands] == [
        ("/bin/bash", "script"),
        ("ls", "-l"),
        ("cat", "x"),
    ]
    assert reading.opaque is None
    for trick in ("ls \v# ;evil", "ls\r", "if a; then b; fi", "ls \x85evil"):
        assert _read(Command(argv=("bash",), script=f"ls\n{trick}\n")).opaque


def test_what_another_interpreter_makes_of_a_script_is_opaque_but_hides_nothing_from_its_own_rule() -> None:
    reading = _read(Command(argv=("/usr/bin/python3",), script="print(1)"))
    assert "python3" in str(reading.opaque)
    assert reading.hides is None
    assert _read(Command(argv=(), script="x")).opaque


@pytest.mark.parametrize(
    "preparation", ["umask 0077", "trap '' 1 2", "exec <&- >&- 2>&-", "umask 0002; trap '' 1; exec <&-"]
)
def test_what_outlive_run_prepares_is_seen_through(preparation: str) -> None:
    line = _read(Command(line=f"{preparation}\nls; cat"))
    assert [one.argv for one in line.commands] == [("ls",), ("cat",)]
    assert line.opaque is None
    argv = _read(Command(argv=("/bin/sh", "-c", f'{preparation}; exec "$@"', "outlive", "ls", "$x")))
    assert [(one.argv, one.is_line) for one in argv.commands] == [(("ls", "$x"), True)]
    moved = Command(argv=("/bin/sh", "-c", f'{preparation}; exec "$@"', "o", "ls"), env={"PATH": "/tmp"})
    assert "PATH" in str(_read(moved).hides)


@pytest.mark.parametrize(
    "argv",
    [
        ("/bin/sh", "-c", 'evil; exec "$@"', "outlive", "ls"),
        ("/bin/sh", "-c", 'umask 0077; evil; exec "$@"', "outlive", "ls"),
        ("/bin/sh", "-c", 'umask 0077; exec "$@"; evil', "outlive", "ls"),
        ("/bin/sh", "-c", 'umask 0077; exec "$@"', "outlive", "-a", "ls", "evil"),
        ("/bin/sh", "-c", 'umask 0077; exec "$@"', "outlive"),
        ("/tmp/sh", "-c", 'umask 0077; exec "$@"', "outlive", "ls"),
        ("/bin/sh", "-c", '; exec "$@"', "outlive", "ls"),
    ],
)
def test_what_only_looks_like_it_is_not(argv: tuple[str, ...]) -> None:
    assert _read(Command(argv=argv)).commands[0].argv == argv
    assert _read(Command(line="umask 0077; evil\nls")).opaque
    assert _read(Command(line="umask 0077\n$(evil)")).opaque


def test_variables_that_decide_what_runs_make_a_command_opaque() -> None:
    assert "LD_PRELOAD" in str(_read(Command(line="ls", env_secrets={"LD_PRELOAD": "x"})).hides)
    for name in ("BASH_ENV", "LD_PRELOAD", "BASH_FUNC_ls%%", "IFS", "LOCPATH"):
        reading = _read(Command(line="ls", env={name: "x"}))
        assert name in str(reading.opaque)
        assert name in str(reading.hides)
        assert _read(Command(argv=("ls",), env={name: "x"})).opaque
    assert _read(Command(line="ls", env={"LANG": "C", "IFS": None})).opaque is None


def test_a_path_of_the_callers_hides_what_a_line_means_and_nothing_of_an_argv() -> None:
    line = _read(Command(line="ls", env={"PATH": "/tmp"}))
    assert line.opaque is None  # programs are looked up in it
    assert "PATH" in str(line.hides)
    assert _read(Command(argv=("ls",), env={"PATH": "/tmp"})).hides is None
    assert _read(Command(line="ls", env={"PATH": _OWN["PATH"]})).hides is None
    assert "PATH" in str(_read(Command(line="ls", env={"X": "1"}, inherits_env=False)).hides)
    assert _read(Command(line="ls", env={"PATH": _OWN["PATH"]}, inherits_env=False)).hides is None


def test_a_path_of_the_servers_own_that_is_relative_hides_what_a_line_means() -> None:
    for path in (".:/bin", "/bin:", "bin"):
        assert "PATH" in str(read_command(Command(line="ls"), {"PATH": path}).hides)
    assert "PATH" in str(read_command(Command(line="ls", env={"PATH": "/x"}), {"PATH": ":"}).hides)
    assert read_command(Command(line="ls"), {}).hides is None
