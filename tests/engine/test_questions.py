"""Processes that wait for input are noticed without a client that asks, and others are not taken for such."""

import asyncio
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from outlive.backends.local import LocalBackend
from outlive.core.command import Command
from outlive.core.controls import Pause, Resume
from outlive.core.events import Event, InputRequested
from outlive.core.identity import ProcessId
from outlive.core.process import InputWait, Waiting
from outlive.discovery.keeper import ensure_keeper
from outlive.engine import Engine, Process
from outlive.engine.processes.process import until
from outlive.engine.processes.question_watch import is_prompt
from outlive.kernel.sockets import connect_unix
from tests.engine.engines import ME, an_engine, run
from tests.keeper.house import House

_PATIENCE_S = 60
_PYTHON = shlex.quote(sys.executable)


class _CountedBackend(LocalBackend):
    """This machine, with the number of looks at each process."""

    def __init__(self, state_dir: Path) -> None:
        super().__init__(str(state_dir), connect_unix=connect_unix, ensure_keeper=ensure_keeper)
        self.looks: dict[str, int] = {}
        self._looked = asyncio.Condition()

    async def input_wait(self, process_id: ProcessId) -> InputWait | None:
        seen = await super().input_wait(process_id)
        async with self._looked:
            self.looks[process_id] = self.looks.get(process_id, 0) + 1
            self._looked.notify_all()
        return seen

    async def looked(self, process: Process, times: int) -> None:
        """Return when a process was looked at so often."""
        async with asyncio.timeout(_PATIENCE_S), self._looked:
            await self._looked.wait_for(lambda: self.looks.get(process.process_id, 0) >= times)


@pytest.fixture
def backend(shared_house: House) -> _CountedBackend:
    return _CountedBackend(shared_house.state_dir)


@pytest.fixture
async def engine(shared_house: House, backend: _CountedBackend) -> AsyncIterator[Engine]:
    async with an_engine(shared_house.state_dir, backend=backend) as opened:
        yield opened


async def _started(engine: Engine, line: str, *, pty: bool = False, stdin: str = "pipe") -> Process:
    how = {"stdio": "pty"} if pty else {"stdin": stdin}
    return await engine.starts.start(Command(line=line, **how), owner=ME)  # type: ignore[arg-type] # options by name


async def _waiting(engine: Engine, process: Process) -> Waiting:
    async with asyncio.timeout(_PATIENCE_S):
        return await engine.questions.until_waiting(process)


async def _ended(engine: Engine, process: Process) -> None:
    await engine.controls.cancel(process, grace_s=0.5)
    async with asyncio.timeout(_PATIENCE_S):
        await engine.queries.wait(process, until="closed")


def _py(program: str) -> str:
    return f"{_PYTHON} -c {shlex.quote(program)}"


@pytest.mark.promise("N.noticed")
@pytest.mark.parametrize(
    ("line", "pty", "kind"),
    [
        ("printf 'Continue? '; read answer; sleep 1000", True, "input"),
        ("printf 'Continue? '; read answer; sleep 1000", False, "input"),
        ("read -s -p 'Password: ' secret; sleep 1000", True, "password"),
        (_py("import getpass; getpass.getpass()"), True, "password"),
        (_py("input('Name? ')"), True, "input"),
        (_py("input('Name? ')"), False, "input"),
        (f"{_PYTHON} -i", True, "input"),
        ("bash -i", True, "input"),
        ("cat", False, "input"),
        ("sh -c 'sh -c \"read answer; :\"; :'", False, "input"),
    ],
    ids=[
        "prompt in a terminal",
        "prompt on a pipe",
        "read -s",
        "getpass",
        "input() in a terminal",
        "input() on a pipe",
        "Python's REPL",
        "an interactive shell",
        "cat",
        "a descendant",
    ],
)
async def test_what_asks_is_noticed(engine: Engine, line: str, *, pty: bool, kind: Waiting) -> None:
    process = await _started(engine, line, pty=pty)
    assert await _waiting(engine, process) == kind
    await _ended(engine, process)


async def test_a_pager_is_noticed(engine: Engine) -> None:
    if shutil.which("less") is None:
        pytest.skip("no less here")
    process = await _started(engine, "seq 10000 | less", pty=True)
    assert await _waiting(engine, process) == "input"
    await _ended(engine, process)


async def test_node_asking_is_noticed(engine: Engine) -> None:
    if shutil.which("node") is None:
        pytest.skip("no node here")
    asks = (
        "require('readline').createInterface({input: process.stdin, output: "
        "process.stdout}).question('Name? ', () => 0)"
    )
    for pty in (True, False):
        process = await _started(engine, f"node -e {shlex.quote(asks)}", pty=pty)
        assert await _waiting(engine, process) == "input"
        await _ended(engine, process)


_READLINE = "require('readline').createInterface({input: process.stdin, output: process.stdout})"
_TIMER_OF_SECONDS = "setInterval(() => 0, 7000);"
_RAW = "process.stdin.setRawMode(true); process.stdin.on('data', () => 0);"


def _node(program: str) -> str:
    return f"node -e {shlex.quote(program)}"


@pytest.mark.promise("N.noticed")
@pytest.mark.parametrize(
    ("line", "pty"),
    [
        ("cd $(mktemp -d) && exec npm init", True),
        (_node(f"{_TIMER_OF_SECONDS} {_READLINE}.question('Name? ', () => 0)"), True),
        (_node(f"{_TIMER_OF_SECONDS} {_READLINE}.question('Name? ', () => 0)"), False),
        (_node(_TIMER_OF_SECONDS + _RAW + r"process.stdout.write('? Pick one\n> a\n  b\x1b[1A')"), True),
        (_node(_RAW + r"process.stdout.write('\x1b[?25l? Pick one\n> a\n  b\n')"), True),
    ],
    ids=["npm init", "readline", "readline on a pipe", "as inquirer's list", "as a menu of clack"],
)
async def test_what_asks_on_node_beside_its_timers_is_noticed(
    engine: Engine, line: str, *, pty: bool
) -> None:
    """V8's own timers give each sleep a deadline of seconds."""
    if shutil.which("npm") is None:
        pytest.skip("no node here")
    process = await _started(engine, line, pty=pty)
    assert await _waiting(engine, process) == "input"
    assert process.status.is_asking
    await _ended(engine, process)


@pytest.mark.promise("N.noticed", "N.prompt")
@pytest.mark.parametrize(
    "line",
    [
        _node(_RAW + "setInterval(() => 0, 7000); console.log('Watch usage: press q to quit')"),
        _node(_RAW + "console.log('ready on port 3000, press h for help')"),
        _node(_RAW + r"setInterval(() => process.stdout.write('\r12:00'), 1000)"),
        "exec node -i",
    ],
    ids=["a watcher with a timer", "a dev server", "a clock", "node's own prompt"],
)
async def test_what_listens_for_keys_on_node_asks_nothing(
    engine: Engine, backend: _CountedBackend, line: str
) -> None:
    if shutil.which("node") is None:
        pytest.skip("no node here")
    process = await _started(engine, line, pty=True)
    async with asyncio.timeout(_PATIENCE_S):
        await until(process, lambda one: one.status.stdout_bytes > 0)
    if "12:00" in line:  # it prints more often than it is looked at
        await until(process, lambda one: one.status.stdout_bytes > len("\r12:00") * 3)
    else:
        await backend.looked(process, backend.looks.get(process.process_id, 0) + 2)
    assert not process.status.is_asking
    await _ended(engine, process)


_POLLS = "import os, select\nwhile True: select.select([0], [], [], 0.05)"
_POLLS_EVERY_KEY = f"import tty; tty.setraw(0)\n{_POLLS}"
_READS_IN_TURNS = """
import termios, tty, os
tty.setraw(0); modes = termios.tcgetattr(0); modes[6][termios.VMIN] = 0; modes[6][termios.VTIME] = 1
termios.tcsetattr(0, termios.TCSANOW, modes)
while True: os.read(0, 1)
"""
_LISTENS_BESIDE = """
import sys, threading, time
print('{words}', end={end!r}, flush=True)
threading.Thread(target=sys.stdin.read, daemon=True).start()
time.sleep(1000)
"""
_SERVES = _LISTENS_BESIDE.format(words="ready, press q to quit", end="\n")
_ASKS = _LISTENS_BESIDE.format(words="Enter a value: ", end="\x1b[0m")


@pytest.mark.thorough
@pytest.mark.promise("N.noticed")
@pytest.mark.parametrize(
    ("line", "pty"),
    [
        ("sleep 1000", True),
        ("sleep 1000", False),
        ("printf 'working... '; sleep 1000", True),
        ("read answer < <(sleep 1000)", False),
        ("yes | head -1 >/dev/null; sleep 1000 | cat", False),
        (_py(_POLLS), False),
        (_py(_POLLS), True),
        (_py(_POLLS_EVERY_KEY), True),
        (_py(_READS_IN_TURNS), True),
        (_py(_SERVES), False),
    ],
    ids=[
        "sleep in a terminal",
        "sleep on a pipe",
        "half a line of progress",
        "a read of another pipe",
        "a pipeline of its own",
        "polls a pipe",
        "polls a terminal",
        "polls every key",
        "reads ten times a second",
        "a server that listens for a key",
    ],
)
async def test_what_does_not_ask_is_not_taken_for_it(
    engine: Engine, backend: _CountedBackend, line: str, *, pty: bool
) -> None:
    process = await _started(engine, line, pty=pty)
    await backend.looked(process, 3)
    assert process.status.waiting == "no"
    await _ended(engine, process)


async def test_a_thread_that_reads_behind_a_prompt_asks(engine: Engine) -> None:
    """As programs in Go do: their main thread is in no read. The prompt tells it from a server's keys."""
    process = await _started(engine, _py(_ASKS))
    assert await _waiting(engine, process) == "input"
    await _ended(engine, process)


async def test_a_paused_process_asks_again_once_it_is_resumed(
    engine: Engine, backend: _CountedBackend
) -> None:
    process = await _started(engine, "printf 'Name? '; read name; sleep 1000", pty=True)
    assert await _waiting(engine, process) == "input"
    await engine.controls.control(process, Pause())
    async with asyncio.timeout(_PATIENCE_S):
        await until(process, lambda one: one.status.waiting == "no")
    looks = backend.looks[process.process_id]
    await engine.controls.control(process, Resume())
    assert backend.looks[process.process_id] == looks
    assert await _waiting(engine, process) == "input"
    await _ended(engine, process)


@pytest.mark.thorough
async def test_an_answer_ends_the_question_and_the_next_one_is_noticed(engine: Engine) -> None:
    line = "read -s -p 'Old: ' a; read -s b; read -p 'Sure? ' c; sleep 1000"
    process = await _started(engine, line, pty=True)
    seen: list[Waiting] = []
    stop = engine.events.subscribe(lambda event: seen.append(_record_of(event)), kinds=(InputRequested,))
    for kind in ("password", "password", "input"):
        assert await _waiting(engine, process) == kind
        assert process.record.waiting == kind
        await engine.controls.write(process, b"x\n")
        assert process.status.waiting == "no"
    stop()
    assert seen == ["password", "password", "input"]
    await _ended(engine, process)


def _record_of(event: Event) -> Waiting:
    assert isinstance(event, InputRequested)
    return event.record.waiting


async def test_an_end_without_a_question_is_told(engine: Engine) -> None:
    process = await _started(engine, "read line; exit 3")
    answer = asyncio.create_task(_waiting(engine, process))
    await engine.controls.write(process, b"at once\n")
    assert await answer == "no"
    assert process.status.is_complete


@pytest.mark.thorough
async def test_no_process_is_looked_at_for_nothing(engine: Engine, backend: _CountedBackend) -> None:
    """Not one without an input, and not one that prints all the time."""
    without = await _started(engine, "sleep 0.8", stdin="none")
    loud = await _started(engine, "for i in $(seq 40); do echo $i; sleep 0.05; done; exec cat", pty=True)
    async with asyncio.timeout(_PATIENCE_S):
        await engine.queries.wait(without)
        await until(loud, lambda one: b"38" in one.log.pread(0, 65536, 0))
    assert backend.looks == {}
    assert await _waiting(engine, loud) == "input"
    assert without.process_id not in backend.looks
    await _ended(engine, loud)


@pytest.mark.thorough
async def test_looks_become_rare_and_callers_share_them(engine: Engine, backend: _CountedBackend) -> None:
    began = asyncio.get_running_loop().time()
    process = await _started(engine, "sleep 1000")
    engine.questions.watch(process)
    await backend.looked(process, 3)
    assert asyncio.get_running_loop().time() - began >= 0.4 + 1.0 + 2.0 - 0.01
    assert backend.looks[process.process_id] == 3
    await _ended(engine, process)


async def test_a_question_is_seen_without_a_caller_that_waits(engine: Engine) -> None:
    process = await _started(engine, "printf 'Name? '; read line; sleep 1000", pty=True)
    async with asyncio.timeout(_PATIENCE_S):
        await until(process, lambda one: one.status.waiting == "input")
    assert process.record.waiting == "input"
    await _ended(engine, process)


async def test_a_caller_that_begins_to_wait_has_the_next_look_made_soon(
    engine: Engine, backend: _CountedBackend
) -> None:
    process = await _started(engine, "sleep 1000")
    await backend.looked(process, 3)
    began = asyncio.get_running_loop().time()
    engine.questions.watch(process)
    await backend.looked(process, 4)
    assert asyncio.get_running_loop().time() - began < 4.0 - 0.1  # seconds: when it were due by itself
    await _ended(engine, process)


async def test_what_was_found_waiting_stays_so_without_a_caller_until_it_is_answered(engine: Engine) -> None:
    process = await _started(engine, "read line; sleep 1000")
    assert await _waiting(engine, process) == "input"
    before = process.record
    await engine.controls.write(process, b"yes\n")
    assert (before.waiting, process.record.waiting) == ("input", "no")
    await _ended(engine, process)


async def test_what_has_ended_is_not_watched(engine: Engine) -> None:
    process = await run(engine, "exit 0", stdin="pipe")
    assert await _waiting(engine, process) == "no"


@pytest.mark.root("it looks as another user")
async def test_a_password_of_a_program_of_another_user_is_seen_by_its_terminal(engine: Engine) -> None:
    """As sudo: the kernel does not say in which call it sleeps, but its terminal shows nothing of what is
    typed.
    """
    process = await _started(engine, "stty -echo; printf 'Password: '; exec sh -c 'read secret; :'", pty=True)
    assert await _waiting(engine, process) == "password"
    program = (
        "import os; from outlive.backends import tree_inspection as seen\n"
        f"tree = seen.living_tree({process.folder!r})\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "print(seen.input_wait_of(*tree).kind)"
    )
    # The terminal belongs to the user that runs the server; here that is the one that looks.
    terminal = os.readlink(f"/proc/{process.pid}/fd/0")
    os.chown(terminal, 65534, -1)
    looked = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert looked.stdout.strip() == "password", looked.stderr
    await _ended(engine, process)


@pytest.mark.parametrize(
    ("tail", "asks"),
    [
        (b"Name? ", True),
        (b"a\nName?\x1b[0m", True),
        (b"\x1b]0;title\x07> ", True),
        (b"done\n", False),
        (b"done\n\x1b[0m", False),
        (b"done\r\n\x1b[?25h  ", False),
        (b"\x1b[?25l> a\r\n  b\r\n", True),
        (b"\x1b[?25l> a\r\n  b\r\n\x1b[?25h", False),
        (b"", False),
    ],
)
def test_a_prompt_is_a_line_without_its_end(tail: bytes, *, asks: bool) -> None:
    assert is_prompt([tail]) == asks
