"""What people guess from other programs is done, or answered with what does it: every line of the list,
really run.
"""

import re
import shlex
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from outlive.cli.help.aliases import ALIASES, FLAGS, SUGGESTIONS, of_screen, suggestion, translated
from outlive.cli.program import Verb, parameters_of, program
from outlive.client import Client, OutliveError
from tests.cli.forked_calls import forked_calls
from tests.cli.guessed_words import FIRST_OF_HELP, GUESSES, Guess
from tests.support.server import OutliveServer

_ENOUGH = 0.85  # of the lines; the aim that was set
# What is said of words of which nothing is known. All else that does not do what was meant misleads.
_IS_BARE = re.compile(r"Error: (?:No such command '[^']*'|unrecognized arguments: \S+)\.$")
_PATIENCE_S = 60
_LOOK_S = 2  # at what goes on until it is interrupted
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


def _missed(guesses: Sequence[Guess], server: OutliveServer, folder: Path) -> dict[Guess, str]:
    """Run lines in a project of their own; return those that are not met, with code and output."""
    project = folder / "repository"
    (project / ".git").mkdir(parents=True)
    environment = {"OUTLIVE_STATE_DIR": str(server.state_dir), "COLUMNS": "200", "NO_COLOR": "1"}
    missed = {}
    with Client(server.state_dir, start_server=False) as client, forked_calls() as calls:
        for guess in guesses:
            _prepare(client, project, guess)
            goes_on = guess.code is None
            done = calls.call(
                shlex.split(guess.line),
                env=environment,
                cwd=project,
                patience_s=_LOOK_S if goes_on else _PATIENCE_S,
            )
            said = (done.out + done.err).rstrip("\n")
            is_met = goes_on or done.code == guess.code
            if not is_met or re.search(guess.shows, said, re.MULTILINE | re.DOTALL) is None:
                missed[guess] = f"{done.code} {said[-300:]}"
    print(f"{len(guesses) - len(missed)} of {len(guesses)} guessed lines are met")
    print("\n".join(f"{guess.program} {guess.line}: {said!r}" for guess, said in missed.items()))
    return missed


@pytest.mark.thorough
@pytest.mark.timeout(900)  # two hundred starts of the program
@pytest.mark.promise("C.guessed")
def test_most_of_what_people_guess_is_met(own_server: OutliveServer, tmp_path: Path) -> None:
    missed = _missed(GUESSES, own_server, tmp_path)
    assert len(GUESSES) >= 150
    assert len(missed) <= (1 - _ENOUGH) * len(GUESSES), missed


@pytest.mark.thorough
@pytest.mark.timeout(300)  # ninety starts of the program
@pytest.mark.promise("C.guessed")
def test_the_first_words_of_six_programs_are_met_and_none_misleads(
    own_server: OutliveServer, tmp_path: Path
) -> None:
    """Issue 38, 4."""
    assert Counter(guess.program for guess in FIRST_OF_HELP) == dict.fromkeys(
        ("docker", "pueue", "tmux", "pm2", "systemctl", "foreman"), 15
    )
    missed = _missed(FIRST_OF_HELP, own_server, tmp_path)
    assert len(missed) <= (1 - _ENOUGH) * len(FIRST_OF_HELP), missed
    misleading = {guess.line: said for guess, said in missed.items() if not _IS_BARE.search(said)}
    assert not misleading


def test_the_list_is_of_many_programs_and_of_lines_that_differ() -> None:
    assert len({guess.line for guess in GUESSES}) >= 150
    assert len({guess.program for guess in GUESSES}) >= 9


def test_no_alias_hides_a_verb_and_each_stands_for_one() -> None:
    verbs = {one.name for one in program().verbs}
    assert not verbs & (ALIASES.keys() | SUGGESTIONS.keys())
    assert {words[0] for words in ALIASES.values()} <= verbs
    assert not ALIASES.keys() & SUGGESTIONS.keys()


@pytest.mark.promise("C.guessed")
def test_no_mistyped_word_is_answered_with_what_ends_or_removes_something() -> None:
    verbs = [one.name for one in program().verbs]
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
        said = suggestion([word], verbs)
        assert not any(f"`outlive {verb}" in said for verb in _DESTRUCTIVE), (word, said)
    for said in SUGGESTIONS.values():
        named = re.findall(r"`outlive ([\w-]+)([^`]*)`", said)
        assert all(verb not in _DESTRUCTIVE or "--dry-run" in rest for verb, rest in named), said
    assert suggestion(["lgos"], verbs) == "Did you mean `outlive logs`?"


@pytest.mark.parametrize("word", ["logger", "bind-kez", "list-timer", "pstree", "sea", "waitpid", "ip"])
def test_a_word_that_is_no_slip_of_a_verb_gets_no_guess(word: str) -> None:
    """Issue 38, 4: "did you mean" was said of `logout` and `bind-key`."""
    assert suggestion([word], [one.name for one in program().verbs]) == ""


def test_what_is_said_of_a_flag_is_about_a_verb_that_lacks_it() -> None:
    """Issue 38, 4: the hint for `run -u` was given to tmux's -u."""
    actions = {one.name: one.action for one in program().verbs if isinstance(one, Verb)}
    assert FLAGS.keys() <= {"", *actions}
    for verb, hints in FLAGS.items():
        parameters = actions[verb].parameters if verb else parameters_of(program())
        assert not hints.keys() & {flag for one in parameters for flag in (*one.flags, *one.other_flags)}


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
        ("start -d ./app -p 5000", "up -f ./app -p 5000"),
        ("start --no-timestamp", "up"),
        ("start -d make", "run --detach --known -d make"),
        ("start -e A=1 make", "run --detach --known -e A=1 make"),
        ("-c 'echo hi'", "run -c 'echo hi'"),
        ("-S /tmp/other ls", "-S /tmp/other ls"),
    ],
)
def test_words_of_other_programs_become_ours(line: str, meant: str) -> None:
    assert translated(of_screen(shlex.split(line))) == shlex.split(meant)
