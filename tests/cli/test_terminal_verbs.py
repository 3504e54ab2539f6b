"""`outlive terminal`: terminals from a shell, and one in the foreground of a real terminal."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlive.cli.completion import complete_words
from tests.cli.launching import run
from tests.cli.terminals import on_a_terminal
from tests.support.server import OutliveServer

pytestmark = pytest.mark.promise("S3.6.cli")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OutliveServer]:
    """A server of these tests' own, whose user has an empty home."""
    home = tmp_path_factory.mktemp("tv")
    with OutliveServer(home / "state", env={"HOME": str(home), "SHELL": "/bin/bash"}) as server:
        yield server


def _terminal(served: OutliveServer, *words: str) -> tuple[int, str, str]:
    verb, *more = words  # what stands behind a command of `exec` is the command's
    done = run("terminal", verb, "--state-dir", str(served.state_dir), *more)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.thorough
def test_a_shell_opens_uses_and_closes_terminals(served: OutliveServer, tmp_path: Path) -> None:
    code, said, _ = _terminal(served, "new", "--name", "build", "--cwd", str(tmp_path))
    terminal_id = said.strip()
    assert code == 0
    listed = json.loads(_terminal(served, "ls", "--json")[1])["terminals"]
    assert [(one["terminal_id"], one["cwd"]) for one in listed] == [(terminal_id, str(tmp_path))]
    assert "build" in _terminal(served, "ls")[1]
    # The active one, by its name, and by the end of its id; words behind the command are its own.
    assert _terminal(served, "exec", "echo", "--here", "&&", "cd /")[:2] == (0, "--here\n")
    assert _terminal(served, "exec", "-t", "build", "pwd; (exit 7)")[:2] == (7, "/\n")
    assert _terminal(served, "exec", "-t", terminal_id[-6:], "pwd")[:2] == (0, "/\n")
    code, _, told = _terminal(served, "exec", "--timeout", "0", "read WORD; echo got $WORD")
    assert code == 124
    assert "outlive terminal send" in told
    assert _terminal(served, "send", "build", "a word", "--key", "enter")[0] == 0
    assert "got a word" in _shown(served, "build", "got a word")
    code, _, told = _terminal(served, "exec", "-t", "nope", "true")
    assert (code, "outlive terminal ls" in told) == (1, True)
    assert _terminal(served, "close", "build")[0] == 0
    assert json.loads(_terminal(served, "ls", "--json")[1]) == {"terminals": []}
    assert "got a word" in _terminal(served, "read", terminal_id)[1], "a closed one is read by its id"


def _shown(served: OutliveServer, name: str, text: str) -> str:
    """Return what a terminal shows once `text` is there.

    What is typed is read by its shell a moment later.
    """
    said = ""
    for _ in range(100):
        said = _terminal(served, "read", name)[1]
        if text in said:
            break
    return said


@pytest.mark.thorough
def test_a_terminal_comes_to_the_foreground_and_lives_on_when_it_is_left(served: OutliveServer) -> None:
    terminal_id = _terminal(served, "new", "--name", "shared")[1].strip()
    _terminal(served, "exec", "-t", "shared", "WORD=kept")
    with on_a_terminal("terminal", "attach", "shared", state_dir=served.state_dir) as screen:
        screen.until("WORD=kept")  # what was shown before
        screen.type("echo $WORD-$((6 * 7))\r")
        screen.until("kept-42")
        screen.type("\x10\x11")  # the keys that leave it
        assert screen.end() == 0
    assert _terminal(served, "exec", "-t", "shared", "echo $WORD")[1] == "kept\n"
    with on_a_terminal("terminal", "attach", terminal_id[-6:], state_dir=served.state_dir) as screen:
        screen.until("kept")
        screen.type("exit 5\r")
        assert screen.end() == 5
    assert terminal_id not in _terminal(served, "ls", "--json")[1]


def test_its_words_are_completed() -> None:
    verbs = {word for word, _ in complete_words(["terminal", ""])}
    assert verbs == {"ls", "new", "exec", "send", "read", "attach", "close"}
    assert [word for word, _ in complete_words(["terminal", "new", "--target", ""])] == ["engine", "vscode"]
