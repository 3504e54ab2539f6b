"""The blocks of code of the pages that have no test module of their own, typed or loaded as a reader
would.
"""

import ast
import inspect
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlive.client import Client
from outlive.config.resolution import ConfigFile, read_entries
from tests.docs.consoles import Console, commands
from tests.docs.pages import blocks, page
from tests.support.server import OutliveServer, run_outlive

_REFUSED = 125  # what `outlive run` exits with when the command did not start (docs/cli.md)


@pytest.fixture
def asking(tmp_path: Path) -> Iterator[OutliveServer]:
    """A server that asks a person about every push."""
    with OutliveServer(tmp_path / "state", args=("--ask", "git push *")) as server:
        yield server


def _shown(name: str, begin: str) -> list[tuple[str, str]]:
    """Return the commands of a page that begin so, with what the page shows of their answers."""
    found = [(command, answer) for command, answer in commands(page(name)) if command.startswith(begin)]
    assert found, f"{name} shows no {begin}"
    return found


def test_the_check_of_a_policy_answers_what_its_page_shows(tmp_path: Path) -> None:
    ((command, answer),) = _shown("docs/policy.md", "OUTLIVE_DENY=")
    ran = Console(tmp_path).run(command, OUTLIVE_STATE_DIR=str(tmp_path / "state"))
    assert ran.returncode == 4
    said = [line.strip() for line in ran.stdout.splitlines()]
    place = re.compile(r"program  /\S+/")  # a program is where this machine has it
    told = [line.strip() for line in answer.splitlines() if line.strip("… ")]
    assert [place.sub("program  ", line) for line in told] == [
        place.sub("program  ", line) for line in said[: len(told)]
    ]


@pytest.mark.thorough
def test_approvals_are_listed_given_and_refused_as_the_page_shows(
    asking: OutliveServer, tmp_path: Path
) -> None:
    (_, listed), (yes, _), (no, _) = _shown("docs/policy.md", "outlive ")
    for _ in range(2):
        run = run_outlive("run", "-d", "--", "git", "push", "origin", "main", state_dir=asking.state_dir)
        assert run.returncode == 0, run.stderr
    said = run_outlive("approvals", state_dir=asking.state_dir).stdout
    members = {line.split()[0] for line in listed.splitlines()} - {"sets"}  # it sets no variable here
    assert [word for word in members if not re.search(rf"^{word}\b", said, re.MULTILINE)] == []
    digests = re.findall(r"^yes +outlive approve (\w+)$", said, re.MULTILINE)
    ids = re.findall(r"^id +(\w+)$", said, re.MULTILINE)
    assert len(digests) == len(ids) == 2
    console = Console(tmp_path)
    for typed, mine in ((yes, digests[0]), (no, ids[1])):
        words = shlex.split(typed)
        words[2] = mine
        ran = console.run(shlex.join(words), OUTLIVE_STATE_DIR=str(asking.state_dir))
        assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("name", ["docs/policy.md", "docs/redaction.md"])
def test_the_settings_of_a_page_are_read(name: str) -> None:
    (text,) = blocks(page(name), "toml")
    entries = read_entries(ConfigFile(kind="user", path="config.toml", text=text))
    assert entries


def test_bounded_commands_of_a_page_run_or_say_what_the_kernel_lacks(tmp_path: Path) -> None:
    shown = _shown("docs/sandbox.md", "outlive run ")
    with OutliveServer(tmp_path / "state") as server:
        for command, _ in shown:
            words, dashes, _ = command.partition(" -- ")
            ran = Console(tmp_path).run(
                f"{words}{dashes}echo bounded", OUTLIVE_STATE_DIR=str(server.state_dir)
            )
            if ran.returncode == _REFUSED:  # what the kernel lacks is said, and nothing ran
                assert ran.stderr.startswith("outlive: ")
                assert ran.stdout == ""
                continue
            assert (ran.returncode, ran.stdout) == (0, "bounded\n"), f"{command}\n{ran.stderr}"


def test_a_terminal_answers_over_rest_as_its_page_shows(tmp_path: Path) -> None:
    shown = _shown("docs/terminals.md", "curl ")
    folder = tmp_path / "srv"
    folder.mkdir()
    with OutliveServer(tmp_path / "state") as server:
        for command, answer in shown:
            typed = command.replace("localhost:8181", server.rest_url.removeprefix("http://"))
            ran = Console(folder).run(typed.replace("/srv", str(folder)))
            said, told = json.loads(ran.stdout), json.loads(answer)
            assert list(said) == list(told), command
            assert said.get("exit_code") == told.get("exit_code")


def test_tokens_are_made_listed_and_revoked_as_the_page_shows(tmp_path: Path) -> None:
    made, alone, granted = blocks(page("docs/access.md"), "")
    console, state = Console(tmp_path), {"OUTLIVE_STATE_DIR": str(tmp_path / "state")}
    for line in made.splitlines() + alone.splitlines()[:1]:
        ran = console.run(line, **state)
        assert ran.returncode == 0, f"{line}\n{ran.stderr}"
    flags = set(re.findall(r"--[a-z-]+", alone.splitlines()[1] + granted))
    known = console.run("outlive serve --help; outlive run --help").stdout
    assert [flag for flag in flags if flag not in known] == []


def test_the_client_of_another_machine_takes_what_the_page_gives_it() -> None:
    (text,) = blocks(page("docs/access.md"), "python")
    call = ast.parse(text, mode="eval").body
    assert isinstance(call, ast.Call)
    inspect.signature(Client).bind(*call.args, **{str(word.arg): word.value for word in call.keywords})
