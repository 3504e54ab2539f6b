"""A shell or another interpreter at its own prompt waits, and asks nothing; what asks in it does."""

import asyncio
import shlex
import shutil
import sys
from collections.abc import AsyncIterator, Callable

import pytest

from outlive.backends.interpreters import takes_commands
from outlive.core.command import Command
from outlive.core.events import Event, InputRequested
from outlive.engine import Engine, Process
from outlive.engine.processes.process import until
from tests.engine.engines import ME, an_engine
from tests.keeper.house import House

_PATIENCE_S = 60
_APT = "printf 'Do you want to continue? [Y/n] '; read answer; echo got $answer"


@pytest.fixture
async def engine(shared_house: House) -> AsyncIterator[Engine]:
    async with an_engine(shared_house.state_dir) as opened:
        yield opened


async def _started(engine: Engine, line: str) -> Process:
    return await engine.starts.start(Command(line=line, stdio="pty"), owner=ME)


async def _until(process: Process, claim: Callable[[Process], bool]) -> None:
    async with asyncio.timeout(_PATIENCE_S):
        await until(process, claim)


async def _ended(engine: Engine, process: Process) -> None:
    await engine.controls.cancel(process, grace_s=0.2)
    async with asyncio.timeout(_PATIENCE_S):
        await engine.queries.wait(process, until="closed")


@pytest.mark.promise("N.prompt")
@pytest.mark.parametrize(
    "line",
    ["exec bash --norc -i", "exec zsh -f -i", f"exec {shlex.quote(sys.executable)} -q", "exec sqlite3"],
)
async def test_what_is_at_its_own_prompt_waits_and_asks_nothing(engine: Engine, line: str) -> None:
    program = shlex.split(line)[1]
    if shutil.which(program) is None:
        pytest.skip(f"no {program} here")
    process = await _started(engine, line)
    await _until(process, lambda one: one.status.waiting == "input")
    assert process.record.is_at_prompt
    assert not process.status.is_asking
    await _ended(engine, process)


@pytest.mark.thorough
@pytest.mark.promise("N.prompt")
@pytest.mark.parametrize(
    ("typed", "kind"),
    [
        (f"bash -c {shlex.quote(_APT)}\n", "input"),
        ("read -p 'Continue? '\n", "input"),
        ("read -s -p '[sudo] password for me: '\n", "password"),
        ("bash -c 'read -e -p \"Name: \" name'\n", "input"),
    ],
    ids=["as apt", "read -p in the shell itself", "as sudo", "a script that edits the answer"],
)
async def test_what_asks_in_a_shell_is_a_question(engine: Engine, typed: str, kind: str) -> None:
    process = await _started(engine, "exec bash --norc -i")
    published: list[tuple[str, bool]] = []

    def hear(event: Event) -> None:
        assert isinstance(event, InputRequested)
        published.append((event.record.waiting, event.record.is_at_prompt))

    stop = engine.events.subscribe(hear, kinds=(InputRequested,))
    asking = asyncio.create_task(engine.queries.wait(process, until="question"))
    await _until(process, lambda one: one.status.waiting == "input")
    assert not asking.done()
    await engine.controls.write(process, typed.encode())
    async with asyncio.timeout(_PATIENCE_S):
        await asking
    assert (process.status.waiting, process.record.is_at_prompt) == (kind, False)
    await engine.controls.write(process, b"y\n")
    await _until(process, lambda one: one.record.is_at_prompt)
    stop()
    assert published == [("input", True), (kind, False), ("input", True)]
    await _ended(engine, process)


async def test_an_end_is_no_question_and_ends_the_wait(engine: Engine) -> None:
    process = await _started(engine, "exec bash --norc -i")
    asking = asyncio.create_task(engine.queries.wait(process, until="question"))
    await _until(process, lambda one: one.status.waiting == "input")
    await engine.controls.write(process, b"exit\n")
    async with asyncio.timeout(_PATIENCE_S):
        await asking
    assert process.status.is_complete


@pytest.mark.promise("N.prompt")
@pytest.mark.parametrize(
    ("line", "takes"),
    [
        ("bash", True),
        ("-zsh", True),
        ("/bin/bash --init-file /x/start.bash -i", True),
        ("bash --rcfile=/x -il", True),
        ("fish --interactive --init-command 'source x'", True),
        ("python3.13 -q -X utf8", True),
        ("/usr/bin/python3 /usr/bin/ipython --no-banner", True),
        ("node", True),
        ("psql -h db -U me shop", True),
        ("sqlite3 shop.db", True),
        ("bash -c 'read x'", False),
        ("bash -ic 'read -e x'", False),
        ("bash install.sh", False),
        ("bash -i install.sh", False),
        ("fish --command=x", False),
        ("python3 -m getpass", False),
        ("python3 setup.py", False),
        ("python3 bash", False),
        ("node ask.js", False),
        ("psql -c 'select 1'", False),
        ("apt-get install x", False),
        ("less bash", False),
        ("", False),
    ],
)
def test_an_interpreter_is_told_by_its_words(line: str, *, takes: bool) -> None:
    assert takes_commands(shlex.split(line)) == takes
