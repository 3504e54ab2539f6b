"""What people guess from other programs is done, or answered with what does it: every line of the list,
really run.
"""

import os
import re
import shlex
import signal
import subprocess
from pathlib import Path

import pytest

from outlive.cli.help.aliases import ALIASES, SUGGESTIONS, suggestion, translated
from outlive.cli.program import PROGRAM
from outlive.client import Client, OutliveError
from tests.cli.guessed_words import GUESSES, Guess
from tests.support.server import OutliveServer, outlive_command

_ENOUGH = 0.8  # of the lines; the aim that was set
_PATIENCE_S = 60.0
_LOOK_S = 20.0  # at what goes on until it is interrupted
_DESTRUCTIVE = ("kill", "stop", "rm", "prune", "uninstall", "deny")


def _prepare(client: Client, project: Path, guess: Guess) -> None:
    """Have `web` live, say "ready" and take input, or `job` ended; whichever is wanted is the newest."""
    if guess.before == "none":
        return
    try:
        known = client.get(guess.before, project=str(project)).info()
        is_there = (known.ended_at is None) == (guess.before == "web") and known.state != "paused"
        is_newest = client.get("@last", project=str(project)).process_id == known.process_id
    except OutliveError:
        is_there = is_newest = False
    if is_there and is_newest:
        return
    if guess.before == "web":
        line = "trap '' INT; echo ready; while read -r line; do :; done"
        process = client.start(line, name="web", replace=True, grace_s=1, stdin="pipe", project=str(project))
        with process.follow() as output:
            next(output)
    else:
        client.start("true", name="job", replace=True, project=str(project)).wait(_PATIENCE_S)


def _ran(guess: Guess, folder: Path, environment: dict[str, str]) -> tuple[int | None, str]:
    """Return exit code and output; of what goes on, the output until it has what is looked for."""
    words = [*outlive_command(), *shlex.split(guess.line)]
    process = subprocess.Popen(
        words,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    if guess.code is not None:
        said, _ = process.communicate(timeout=_PATIENCE_S)
        return process.returncode, said.decode(errors="replace")
    assert process.stdout is not None
    found = b""
    killer = subprocess.Popen(
        ["sh", "-c", f"sleep {_LOOK_S:.0f}; kill -INT -{process.pid}"], start_new_session=True
    )
    try:
        while piece := os.read(process.stdout.fileno(), 65536):
            found += piece
            if re.search(guess.shows, found.decode(errors="replace"), re.MULTILINE):
                break
    finally:
        os.killpg(killer.pid, signal.SIGKILL)
        killer.wait()
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.stdout.close()
        process.wait()
    return None, found.decode(errors="replace")


@pytest.mark.thorough
@pytest.mark.timeout(900)  # two hundred starts of the program
@pytest.mark.promise("C.guessed")
def test_most_of_what_people_guess_is_met(own_server: OutliveServer, tmp_path: Path) -> None:
    project = tmp_path / "repository"
    (project / ".git").mkdir(parents=True)
    environment = {
        **os.environ,
        "OUTLIVE_STATE_DIR": str(own_server.state_dir),
        "COLUMNS": "200",
        "NO_COLOR": "1",
    }
    missed = []
    with Client(own_server.state_dir, start_server=False) as client:
        for guess in GUESSES:
            _prepare(client, project, guess)
            code, said = _ran(guess, project, environment)
            is_found = re.search(guess.shows, said.rstrip("\n"), re.MULTILINE | re.DOTALL) is not None
            if code != guess.code or not is_found:
                missed.append(f"{guess.program} {guess.line}: {code} {said[-300:]!r}")
    met = len(GUESSES) - len(missed)
    print(f"{met} of {len(GUESSES)} guessed lines are met")
    print("\n".join(missed))
    assert len(GUESSES) >= 150
    assert met >= _ENOUGH * len(GUESSES), "\n".join(missed)


def test_the_list_is_of_many_programs_and_of_lines_that_differ() -> None:
    assert len({guess.line for guess in GUESSES}) >= 150
    assert len({guess.program for guess in GUESSES}) >= 9


def test_no_alias_hides_a_verb_and_each_stands_for_one() -> None:
    verbs = {one.name for one in PROGRAM.verbs}
    assert not verbs & (ALIASES.keys() | SUGGESTIONS.keys())
    assert {words[0] for words in ALIASES.values()} <= verbs
    assert not ALIASES.keys() & SUGGESTIONS.keys()


@pytest.mark.promise("C.guessed")
def test_no_mistyped_word_is_answered_with_what_ends_or_removes_something() -> None:
    verbs = [one.name for one in PROGRAM.verbs]
    for word in (
        "top",
        "tpo",
        "sotp",
        "stp",
        "kil",
        "klil",
        "purne",
        "remov",
        "rmm",
        "delet",
        "stopp",
        "lgos",
        "attahc",
    ):
        said = suggestion(word, verbs)
        assert not any(f"`outlive {verb}" in said for verb in _DESTRUCTIVE), (word, said)
    for said in SUGGESTIONS.values():
        named = re.findall(r"`outlive ([\w-]+)([^`]*)`", said)
        assert all(verb not in _DESTRUCTIVE or "--dry-run" in rest for verb, rest in named), said
    assert suggestion("lgos", verbs) == "Did you mean `outlive logs`?"


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("", ""),
        ("ps -a", "ps -a"),
        ("kill -9 web", "kill --signal 9 web"),
        ("kill -HUP web db", "kill --signal HUP web db"),
        ("kill -a", "kill -a"),
        ("status", "ps"),
        ("status web", "inspect web"),
        ("send-keys -t web:1 'ls -l' Enter", "send web 'ls -l'"),
        ("send-keys -t web ls", "send web ls --no-newline"),
        ("send-keys -t web q Enter C-c", "send web q --key ctrl-c"),
        ("new -d -s build make", "run -d -s build make"),
        ("get pod web", "ps web"),
        ("run -- status", "run -- status"),
    ],
)
def test_words_of_other_programs_become_ours(line: str, meant: str) -> None:
    assert translated(shlex.split(line)) == shlex.split(meant)
