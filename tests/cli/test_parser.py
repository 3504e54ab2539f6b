"""The one parser: words in any order and form that shells' users know, and the sentences for what is
wrong.
"""

import re
import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlive.cli.parameters import (
    Action,
    Parameter,
    UsageError,
    count,
    option,
    options,
    place,
    places,
    seconds,
    switch,
)
from outlive.cli.parser import HelpAsked, parse
from outlive.cli.program import Group, Verb, program
from outlive.cli.runner import run_program
from outlive.operations.schemas import arguments_schema, member_names
from outlive.operations.start import RunOptions, StartOptions
from tests.cli.launching import run

_PARAMETERS = (
    place("name", "ID", about="One."),
    places("more", "[WORD]...", about="Others.", is_required=False),
    switch("--follow", "-f", about="Go on."),
    switch("--pty", off="--no-pty", about="Or not.", default=None),
    option("--grep", "-g", metavar="TEXT", about="Look for it."),
    options("--tag", metavar="NAME=VALUE", about="Names.", to="tags"),
    count("--tail", "-n", metavar="LINES", about="So many.", least=0, most=10),
    seconds("--grace", about="So long.", least=0.5),
)
_NOTHING = {
    "name": "x",
    "more": [],
    "follow": False,
    "pty": None,
    "grep": None,
    "tags": [],
    "tail": None,
    "grace": None,
}


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["x"], {}),
        (["x", "--follow", "y", "-g", "a", "z"], {"follow": True, "grep": "a", "more": ["y", "z"]}),
        (["--grep=a=b", "x"], {"grep": "a=b"}),
        (["--grep", "", "x"], {"grep": ""}),
        (["-fn3", "x"], {"follow": True, "tail": 3}),
        (["-fn", "3", "x"], {"follow": True, "tail": 3}),
        (["x", "--grep", "-v"], {"grep": "-v"}),
        (["x", "--grep", "--follow"], {"grep": "--follow"}),
        (["x", "--grep", "a b"], {"grep": "a b"}),
        (["x", "--grep", "--", "--follow"], {"grep": "--", "follow": True}),
        (["--", "x", "--follow", "-z"], {"more": ["--follow", "-z"]}),
        (["x", "--", "a", "--", "b"], {"more": ["a", "--", "b"]}),
        (["x", "-"], {"more": ["-"]}),
        (["x", "--pty", "--no-pty"], {"pty": False}),
        (["x", "--no-pty", "--pty"], {"pty": True}),
        (["x", "--tag", "a=1", "--tag", "b=2"], {"tags": ["a=1", "b=2"]}),
        (["x", "--tail", "1", "--tail", "2", "--grace", ".5"], {"tail": 2, "grace": 0.5}),
    ],
)
def test_flags_and_places_stand_in_any_order(words: list[str], found: dict[str, object]) -> None:
    assert parse(_PARAMETERS, words) == _NOTHING | found


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "Missing argument 'ID'"),
        (["x", "--frob"], "--frob"),
        (["x", "--fol"], "--fol"),  # no beginnings: another flag may come that begins so
        (["x", "-z"], "-z"),
        (["x", "--grep"], "expected one argument"),
        (["x", "--follow=1"], "--follow"),
        (["x", "--tail", "a"], "'a' is no whole number"),
        (["x", "--tail", "11"], "11 is not in the range 0<=x<=10"),
        (["x", "--grace", "0"], "0.0 is not in the range x>=0.5"),
        (["x", "--grace", "nan"], "'nan' is no time"),
    ],
)
def test_a_mistake_is_said_in_a_sentence(words: list[str], said: str) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        parse(_PARAMETERS, words)


def test_what_is_behind_a_programs_name_is_its_own() -> None:
    parameters = (
        places("argv", "COMMAND...", about="What runs.", is_required=False, ends_flags=True),
        switch("--json", about="As JSON."),
    )
    assert parse(parameters, ["--json", "ls", "--json", "--", "-x"]) == {
        "argv": ["ls", "--json", "--", "-x"],
        "json": True,
    }
    assert parse(parameters, ["--", "--json", "--", "a"]) == {"argv": ["--json", "--", "a"], "json": False}
    assert parse(parameters, ["sh", "--help"])["argv"] == ["sh", "--help"]


@pytest.mark.parametrize("words", [["-h"], ["x", "--help"], ["--help", "--frob"], ["-fh"]])
def test_help_comes_before_what_is_missing_or_wrong(words: list[str]) -> None:
    with pytest.raises(HelpAsked):
        parse(_PARAMETERS, words)


_WORDS = st.lists(
    st.one_of(
        st.sampled_from(
            ["--follow", "-f", "--grep", "-g", "--tail", "--", "-", "-1", "a=b", "x y", "--tail=3"]
        ),
        st.text(max_size=4),
    ),
    max_size=6,
)


@given(words=_WORDS)
def test_no_word_upsets_the_parser(words: list[str]) -> None:
    try:
        found = parse(_PARAMETERS, words)
    except (UsageError, HelpAsked):
        return
    assert set(found) == set(_NOTHING)


def _actions(group: Group) -> list[tuple[str, Action[...]]]:
    found = []
    for one in group.verbs:
        if isinstance(one, Verb):
            found.append((f"{group.name} {one.name}", one.action))
        else:
            found += _actions(one)
    return found


def _clashes(parameters: tuple[Parameter, ...]) -> set[str]:
    flags = [flag for one in parameters for flag in (*one.flags, one.off) if flag]
    return {flag for flag in flags if flags.count(flag) > 1} | ({"--help", "-h"} & set(flags))


def test_every_verb_of_the_table_is_there_and_declares_each_flag_once() -> None:
    actions = _actions(program())
    assert len(actions) > 40
    for path, action in actions:
        names = [one.name for one in action.parameters]
        assert len(names) == len(set(names)), path
        assert _clashes(action.parameters) == set(), path
        assert all(one.sentence for one in action.parameters), path


def test_the_help_says_how_another_server_is_reached() -> None:
    shown = run("--help", env={"NO_COLOR": "1"}).stdout
    for flag in ("--host URL", "--token-file FILE", "--ca FILE", "--version"):
        assert flag in shown


def test_flags_of_a_start_say_what_every_frontend_says() -> None:
    """One declaration (`operations.start`) has the sentence, the words and the bounds.

    What is no flag is named here.
    """
    declared = arguments_schema(StartOptions)["properties"]
    flags = {one.name.removesuffix("_s"): one for one in program().find("run").action.parameters}  # type: ignore[union-attr]
    # Of these the command line means something else: it has a folder and an environment of its own.
    own = {"cwd", "env", "pty"}
    derived = (set(flags) & set(declared)) - own
    assert set(member_names(RunOptions)) - derived == {"cwd", "env", "env_secrets", "umask"}
    for name in derived:
        assert flags[name].sentence.startswith(declared[name]["description"]), name
    assert set(flags["isolation"].choices) == set(declared["isolation"]["enum"])
    most = declared["group_limit"]["maximum"]
    assert flags["group_limit"].read(str(most)) == most
    with pytest.raises(ValueError, match=f"not in the range 1<=x<={most}"):
        flags["group_limit"].read(str(most + 1))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("run --limit mem=1G -- true", "the names are cpu, cpus, memory, files, processes"),
        ("run --limit memory=x -- true", "argument --limit: "),
        ("run --profile strong -- true", "'strong' is none of open, guarded, workspace, offline, sealed"),
        ("run --isolation loose -- true", "'loose' is none of session, strict"),
        ("run --tag foo -- true", "argument --tag: 'foo' is not NAME=VALUE"),
        ("run --env FOO -- true", "argument --env/-e: 'FOO' is not NAME=VALUE"),
        ("run --need cpu=x -- true", "argument --need: "),
        ("ps --tag foo", "argument --tag: 'foo' is not NAME=VALUE"),
        ("stop --tag =foo", "argument --tag: '=foo' is not NAME=VALUE"),
        ("run -c true -- true", "Pass either -c LINE or a program"),
        ("run --json -- true", "--json needs --detach"),
        ("stop", "Name processes, or a --group"),
        ("logs --stream both-of-them web", "is none of stdout, stderr, both"),
    ],
)
def test_a_wrong_value_is_a_wrong_command_line(
    line: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 38, 4: they ended with 125 or 1, after a server was started."""
    monkeypatch.setenv("OUTLIVE_STATE_DIR", str(tmp_path / "none"))
    monkeypatch.delenv("FOO", raising=False)
    assert run_program(shlex.split(line)) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "none").exists()
