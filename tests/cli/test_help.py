"""Help pages and manual pages: by task, whole sentences, with examples that the program takes."""

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from outlive.cli.help.examples import EXAMPLES, examples_of
from outlive.cli.help.help_page import group_page
from outlive.cli.parser import parse
from outlive.cli.program import Group, program
from outlive.core.errors import SLUGS
from outlive.core.hints import worded
from scripts.manpages import main, pages
from tests.cli.forked_calls import verbs_of
from tests.cli.launching import run

_SCREEN = 64  # lines
_WORDS_OF_OTHERS = (
    "GET /",
    "POST /",
    "tools/list",
    "params",
    "`run`",
    "`read`",
    "JSON-RPC",
    "raw:",
    "input schema",
)


_VERBS = verbs_of(program())


def test_the_help_fits_a_screen_and_groups_every_verb_by_task() -> None:
    shown = run("--help").stdout
    assert len(shown.splitlines()) <= _SCREEN
    assert all(len(line) <= 78 for line in shown.splitlines())
    listed = [name for _, names in program().topics for name in names.split()]
    assert sorted(listed) == sorted(one.name for one in program().verbs)
    assert "Every day:" in shown
    assert "Others" not in shown


def test_a_verb_of_no_topic_is_shown_all_the_same() -> None:
    shown = group_page("x", "About.", (), verbs=[("a", "Do a."), ("b", "Do b.")], topics=[("T", "a")])
    assert "Others" in shown
    assert "b" in shown.partition("Others")[2]


def test_no_sentence_of_a_list_of_verbs_is_cut_off() -> None:
    groups = [[], *([one.name] for one in program().verbs if isinstance(one, Group))]
    for words in groups:
        assert "..." not in run(*words, "--help").stdout.replace("[ARGS]...", ""), words


@pytest.mark.parametrize("path", _VERBS)
def test_every_verb_has_examples_that_it_takes(path: str) -> None:
    examples = examples_of(f"outlive {path}", _VERBS[path])
    assert examples, path
    for line, _ in examples:
        words = shlex.split(line)
        start = ["outlive", *path.split()]
        assert words[: len(start)] == start, line
        parse(_VERBS[path].action.parameters, words[len(start) :])  # raises where a flag is not there


def test_no_example_is_for_a_verb_that_is_gone() -> None:
    assert set(EXAMPLES) == {path for path, verb in _VERBS.items() if not verb.examples}


def test_flags_of_all_verbs_are_explained_once() -> None:
    shown = run("logs", "--help").stdout
    assert "Also --state-dir FOLDER, --no-start, --json: see `outlive --help`." in shown
    assert "OUTLIVE_STATE_DIR" not in shown
    assert "OUTLIVE_STATE_DIR" in run("--help").stdout


@pytest.mark.parametrize("slug", SLUGS)
def test_every_error_says_in_the_words_of_the_command_line_what_to_do(slug: str) -> None:
    hint = worded(slug, SLUGS[slug][1], "cli")
    assert hint.endswith(".")
    assert not [words for words in _WORDS_OF_OTHERS if words in hint], hint


def test_manual_pages_are_made_of_the_same_declarations(tmp_path: Path) -> None:
    main(tmp_path)
    assert {one.name for one in tmp_path.iterdir()} == {name for name, _ in pages(program())}
    text = (tmp_path / "outlive-logs.1").read_text()
    assert "outlive \\-\\-tail" not in text
    assert ".B \\-f, \\-\\-follow" in text


def test_manual_pages_are_read_without_a_warning(tmp_path: Path) -> None:
    if shutil.which("mandoc") is None:
        if os.environ.get("OUTLIVE_REQUIRE_PROGRAMS"):
            raise AssertionError("OUTLIVE_REQUIRE_PROGRAMS is set, and mandoc is not installed")
        pytest.skip("needs mandoc")
    main(tmp_path)
    words = ["mandoc", "-T", "lint", "-W", "warning", *map(str, sorted(tmp_path.iterdir()))]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    # A date would make two builds differ.
    assert [line for line in done.stdout.splitlines() if "missing date" not in line] == []


def test_nothing_is_accepted_in_silence_and_what_to_type_next_can_be_copied(tmp_path: Path) -> None:
    """A flag without the one that it is about, and a verb without what it needs, end with 2, as other
    mistakes do.
    """
    for words, said in (
        (("run", "--group-limit", "2", "--", "true"), "--group NAME"),
        (("run",), "outlive run -- PROGRAM"),
        (("logs", "--context", "2", "p1"), "--grep TEXT"),
    ):
        done = run(*words, env={"OUTLIVE_STATE_DIR": str(tmp_path)})
        assert done.returncode == 2, words
        assert said in done.stderr
    done = run("wait", "--for", "port=70000", "p1", "--no-start", env={"OUTLIVE_STATE_DIR": str(tmp_path)})
    assert "`outlive wait --help`" in done.stderr
