"""Approvals: what a rule asks about waits on disk until a person decides.

A crash of the server changes nothing of that.
"""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from outlive.config import Settings
from outlive.core.command import Command
from outlive.core.controls import Pause
from outlive.core.errors import CommandRefused, InvalidState, LimitExceeded
from outlive.core.events import ApprovalDecided, ApprovalRequested, Event, StartRejected
from outlive.core.lifecycle import Cause, State
from outlive.engine import Engine, Process, ProcessFilter
from outlive.policy.judgement import CommandPolicy, Verdict
from outlive.policy.rules import Rule
from outlive.store.queue_store import QueueStore
from tests.engine.engines import ME, an_engine, output_of, run, settled
from tests.keeper.house import House
from tests.support.processes import Gate, poll_until

BY = "uid:4711 over unix pid 1"

_SERVER = """
import asyncio, sys
sys.path.insert(0, {root!r})
from pathlib import Path
from outlive.core.command import Command
from outlive.policy.judgement import CommandPolicy
from outlive.policy.rules import Rule
from tests.engine.engines import ME, an_engine

async def serve():
    policy = CommandPolicy(ask=(Rule.parse("touch"), Rule.parse("tee")))
    async with an_engine(Path({state!r}), policy=policy) as engine:
        for argv in {argvs!r}:
            process = await engine.starts.start(Command(argv=tuple(argv)), owner=ME)
            print(process.process_id, flush=True)
        if {approves!r}:
            (shown,) = [one for one in engine.approvals.waiting() if one.record.process_id == process.process_id]
            await engine.approvals.approve(process, digest=shown.digest, by="me")
            print("approved", flush=True)
        await asyncio.sleep(1000)

asyncio.run(serve())
"""  # noqa: E501 -- lines of a table, or of another language


def _rules(*texts: str) -> tuple[Rule, ...]:
    return tuple(map(Rule.parse, texts))


ASKING = CommandPolicy(deny=_rules("rm -rf *"), ask=_rules("echo please *", "cat"))


async def _approve(engine: Engine, process: Process) -> None:
    digests = {one.record.process_id: one.digest for one in engine.approvals.waiting()}
    await engine.approvals.approve(process, digest=digests.get(process.process_id, ""), by=BY)


async def _ended(engine: Engine, process: Process) -> None:
    async with asyncio.timeout(20):
        await engine.queries.wait(process)


@pytest.fixture
async def asking(shared_house: House) -> AsyncIterator[Engine]:
    """An engine whose rules ask about some commands and deny others."""
    async with an_engine(shared_house.state_dir, policy=ASKING) as opened:
        yield opened


async def test_what_a_rule_asks_about_waits_and_runs_once_approved(
    asking: Engine, shared_house: House
) -> None:
    told: list[Event] = []
    asking.events.subscribe(told.append, kinds=(ApprovalRequested, ApprovalDecided))
    process = await asking.starts.start(Command(line="echo please me"), owner=ME)
    assert (process.status.state, process.record.waits_for) == (State.QUEUED, "approval")
    assert process.process_id in str(process.record.hint)
    assert [one.record.process_id for one in asking.approvals.waiting()] == [process.process_id]
    assert await asking.queries.find(process.process_id) is process
    for verb in (asking.controls.control(process, Pause()), asking.controls.write(process, b"x")):
        with pytest.raises(InvalidState) as refused:
            await verb
        assert refused.value.code == "process_queued"
    await _approve(asking, process)
    await _ended(asking, process)
    assert await output_of(process) == (b"please me\n", b"")
    assert (process.record.exit_code, process.record.waits_for) == (0, None)
    assert process.record.approval is not None
    assert process.record.approval.approved_by == BY
    assert asking.approvals.waiting() == []
    assert [type(event) for event in told] == [ApprovalRequested, ApprovalDecided]
    assert isinstance(told[1], ApprovalDecided)
    assert (told[1].verdict, told[1].by) == ("approved", BY)
    with pytest.raises(InvalidState) as late:
        await asking.approvals.deny(process, by=BY)
    assert late.value.code == "approval_settled"
    assert not (await asyncio.to_thread(QueueStore(shared_house.layout).open))[0]


async def test_what_is_denied_never_runs_and_says_who_and_why(asking: Engine, tmp_path: Path) -> None:
    canary = tmp_path / "ran"
    process = await asking.starts.start(Command(argv=("cat", "/dev/null"), cwd=str(tmp_path)), owner=ME)
    line = await asking.starts.start(Command(line=f"echo please; touch {canary}"), owner=ME)
    await asking.approvals.deny(process, by=BY, reason="not today")
    await asking.approvals.deny(line, by=BY)
    for one in (process, line):
        await _ended(asking, one)
        assert (one.status.state, one.record.cause) == (State.FAILED_TO_START, Cause.APPROVAL_DENIED)
    assert process.record.error == f"Denied by {BY}: not today"
    assert line.record.error == f"Denied by {BY}."
    await settled(asking, process)
    again = await asking.queries.find(process.process_id)
    assert (again.record.cause, again.record.error) == (Cause.APPROVAL_DENIED, process.record.error)
    assert not canary.exists()


async def test_what_nobody_approves_in_time_never_runs(shared_house: House) -> None:
    async with an_engine(
        shared_house.state_dir, policy=ASKING, options=Settings(approval_timeout_s=0.05)
    ) as engine:
        told: list[Event] = []
        engine.events.subscribe(told.append, kinds=(ApprovalDecided,))
        process = await engine.starts.start(Command(line="cat"), owner=ME)
        await _ended(engine, process)
        assert process.record.cause is Cause.APPROVAL_EXPIRED
        assert "in time" in str(process.record.error)
        await poll_until(lambda: bool(told))
        assert isinstance(told[0], ApprovalDecided)
        assert (told[0].verdict, told[0].by) == ("expired", "")


async def test_a_cancel_takes_the_question_back(asking: Engine) -> None:
    told: list[Event] = []
    asking.events.subscribe(told.append, kinds=(ApprovalDecided,))
    process = await asking.starts.start(Command(line="cat"), owner=ME)
    await asking.controls.cancel(process, note="never mind")
    assert (process.status.state, process.record.cause) == (State.FAILED_TO_START, Cause.CANCEL)
    assert asking.approvals.waiting() == []
    assert [event.verdict for event in told if isinstance(event, ApprovalDecided)] == ["withdrawn"]
    with pytest.raises(InvalidState):
        await _approve(asking, process)


async def test_what_is_denied_by_a_rule_is_refused_at_once(asking: Engine) -> None:
    told: list[Event] = []
    asking.events.subscribe(told.append, kinds=(StartRejected,))
    for command in (
        Command(line="rm -rf /nonexistent"),
        Command(argv=("/bin/rm", "-rf", "/nonexistent")),
        Command(line="nice -n 5 rm -rf /nonexistent"),
        Command(line="bash -c 'rm -rf /nonexistent'"),
    ):
        with pytest.raises(CommandRefused) as refused:
            await asking.starts.start(command, owner=ME)
        assert refused.value.code == "command_denied"
        assert "policy check" in refused.value.hint
    with pytest.raises(CommandRefused) as opaque:
        await asking.starts.start(Command(line="echo $(id)"), owner=ME)
    assert opaque.value.code == "command_opaque"
    assert len(told) == 5
    assert (await run(asking, "echo free")).record.exit_code == 0


async def test_what_a_start_replaces_runs_until_the_new_command_needs_no_yes(asking: Engine) -> None:
    """A start that is asked about ends nothing, neither before the yes nor while it waits."""
    running = await asking.starts.start(Command(line="exec sleep 1000", name="web"), owner=ME)
    for command in (
        Command(line="cat", name="web", replaces=True),
        Command(line="cat", name="web"),
    ):
        with pytest.raises(InvalidState) as taken:
            await asking.starts.start(command, owner=ME)
        assert taken.value.code == "name_taken"
        assert ("approve" in taken.value.hint) == command.replaces
        assert running.status.state is State.RUNNING
    assert asking.approvals.waiting() == []
    # What no rule asks about replaces it.
    new = await asking.starts.start(Command(line="echo hi", name="web", replaces=True), owner=ME)
    await _ended(asking, new)
    assert running.status.is_ended


def _script(folder: Path) -> Path:
    file = folder / "check"
    file.write_text("#!/bin/sh\necho good\n")
    file.chmod(0o755)
    return file


async def test_a_file_that_changes_before_the_yes_is_not_what_was_asked_about(
    own_house: House, tmp_path: Path
) -> None:
    script = _script(tmp_path)
    async with an_engine(own_house.state_dir, policy=CommandPolicy(ask=_rules("check"))) as engine:
        process = await engine.starts.start(Command(argv=("./check",), cwd=str(tmp_path)), owner=ME)
        script.write_text("#!/bin/sh\necho evil\n")
        with pytest.raises(InvalidState) as changed:
            await _approve(engine, process)
        assert (changed.value.code, "check" in changed.value.message) == ("approval_changed", True)
        assert process.record.waits_for == "approval"
        # As it was: it is what was asked about.
        script.write_text("#!/bin/sh\necho good\n")
        await _approve(engine, process)
        await _ended(engine, process)
        assert await output_of(process) == (b"good\n", b"")


async def test_names_that_are_no_text_are_approved_as_others(own_house: House, tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"\xff")
    folder.mkdir()
    (folder / os.fsdecode(b"\xfe")).write_text("said")
    async with an_engine(own_house.state_dir, policy=ASKING) as engine:
        command = Command(argv=("cat", os.fsdecode(b"\xfe")), cwd=str(folder))
        process = await engine.starts.start(command, owner=ME)
        assert process.record.approval is not None
        assert process.record.approval.files[os.fsdecode(b"\xfe")]
    async with an_engine(own_house.state_dir, policy=ASKING) as engine:
        process = await engine.queries.find(process.process_id)
        await _approve(engine, process)
        await _ended(engine, process)
        assert await output_of(process) == (b"said", b"")


async def test_a_file_that_changes_between_the_yes_and_the_turn_never_runs(
    own_house: House, tmp_path: Path, gate: Gate
) -> None:
    script = _script(tmp_path)
    policy = CommandPolicy(ask=_rules("check"), opaque=Verdict.ALLOW)
    async with an_engine(own_house.state_dir, policy=policy) as engine:
        await engine.starts.start(Command(line=gate.wait, group="g", group_limit=1), owner=ME)
        command = Command(argv=("./check",), cwd=str(tmp_path), group="g")
        process = await engine.starts.start(command, owner=ME)
        await _approve(engine, process)
        assert process.record.waits_for == "group"
    async with an_engine(own_house.state_dir, policy=policy) as engine:  # it is kept on disk
        process = await engine.queries.find(process.process_id)
        script.write_text("#!/bin/sh\necho evil\n")
        gate.open()
        await _ended(engine, process)
        assert process.status.state is State.FAILED_TO_START
        assert "is not what it was" in str(process.record.error)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (Command(argv=("make", "test")), "'make' starts others (runs the commands of a build file)"),
        (Command(line="nice make test"), "what the files that it reads say by then runs as well"),
        (Command(argv=("./check",)), "'check', a script for 'sh', starts others (a shell runs"),
        (Command(argv=("cat",), stdin="pipe"), "What is sent to its input is not known yet"),
    ],
)
async def test_the_question_says_what_a_yes_is_not_about(
    shared_house: House, tmp_path: Path, command: Command, said: str
) -> None:
    _script(tmp_path)
    make = tmp_path / "make"
    make.symlink_to("/bin/true")
    path = f"{tmp_path}:{os.environ['PATH']}"
    policy = CommandPolicy(ask=_rules("make *", "check", "cat"))
    environment = {**os.environ, "PATH": path}
    async with an_engine(shared_house.state_dir, policy=policy, environment=environment) as engine:
        process = await engine.starts.start(replace(command, cwd=str(tmp_path)), owner=ME)
        assert process.record.approval is not None
        assert said in process.record.approval.reason
        await engine.controls.cancel(process, note="")


async def test_an_approved_start_still_waits_for_its_groups_turn(own_house: House, gate: Gate) -> None:
    policy = CommandPolicy(ask=_rules("echo"), opaque=Verdict.ALLOW)
    async with an_engine(own_house.state_dir, policy=policy) as engine:
        busy = await engine.starts.start(Command(line=gate.wait, group="g", group_limit=1), owner=ME)
        waiting = await engine.starts.start(Command(line="echo hi", group="g"), owner=ME)
        assert waiting.record.waits_for == "approval"
        await _approve(engine, waiting)
        with pytest.raises(InvalidState):  # of two answers the first one counts
            await engine.approvals.deny(waiting, by=BY)
        assert (waiting.status.state, waiting.record.waits_for) == (State.QUEUED, "group")
    async with an_engine(own_house.state_dir, policy=policy) as engine:
        found = await engine.queries.find(waiting.process_id)
        assert (found.status.state, found.record.waits_for) == (State.QUEUED, "group")
        gate.open()
        await _ended(engine, found)
        assert found.record.exit_code == 0
        await _ended(engine, await engine.queries.find(busy.process_id))


@pytest.mark.promise("P.approval")
@pytest.mark.parametrize("approves", [False, True])
async def test_a_killed_server_costs_no_question_and_starts_nothing_twice(
    own_house: House, tmp_path: Path, *, approves: bool
) -> None:
    """SIGKILL while two wait, one of them just approved or not: each runs exactly once, when it is
    approved.
    """
    root = str(Path(__file__).parents[2])
    notes = [tmp_path / "first", tmp_path / "second"]
    argvs = [["tee", "-a", str(note)] for note in notes]
    program = _SERVER.format(root=root, state=str(own_house.state_dir), argvs=argvs, approves=approves)
    server = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE
    )
    assert server.stdout is not None
    ids = [(await server.stdout.readline()).decode().strip() for _ in argvs]
    if approves:
        assert await server.stdout.readline() == b"approved\n"
    os.kill(server.pid, signal.SIGKILL)
    await server.wait()
    policy = CommandPolicy(ask=_rules("tee"))
    async with an_engine(own_house.state_dir, policy=policy) as engine:
        waiting = [str(one.record.process_id) for one in engine.approvals.waiting()]
        assert waiting == (ids[:1] if approves else ids)
        listed = await engine.queries.list(ProcessFilter(states=frozenset({State.QUEUED})))
        assert {record.process_id for record in listed} >= set(waiting)
    async with an_engine(own_house.state_dir, policy=policy) as engine:  # a quiet restart, too
        for pending in engine.approvals.waiting():
            assert pending.argv[0] == "tee"
            await _approve(engine, await engine.queries.find(pending.record.process_id))
        found = [await engine.queries.find(process_id) for process_id in ids]
        for process in found:
            await _ended(engine, process)
            assert process.record.exit_code == 0
            await settled(engine, process)
    async with an_engine(own_house.state_dir, policy=policy) as engine:
        assert engine.approvals.waiting() == []
        assert [one.process_id for one in engine.queries.live()] == []


async def test_time_goes_on_while_no_server_lives(own_house: House) -> None:
    async with an_engine(
        own_house.state_dir, policy=ASKING, options=Settings(approval_timeout_s=0.4)
    ) as engine:
        process = await engine.starts.start(Command(line="cat"), owner=ME)
    await asyncio.sleep(0.5)  # what is waited for is the clock itself
    async with an_engine(own_house.state_dir, policy=ASKING) as engine:
        found = await engine.queries.find(process.process_id)
        await _ended(engine, found)
        assert found.record.cause is Cause.APPROVAL_EXPIRED


async def test_a_disk_that_takes_no_command_refuses_and_one_that_takes_no_approval_waits_on(
    own_house: House,
) -> None:
    waiting = Path(own_house.layout.waiting)
    async with an_engine(own_house.state_dir, policy=ASKING) as engine:
        process, doomed = [await engine.starts.start(Command(line="cat"), owner=ME) for _ in range(2)]
        moved = await asyncio.to_thread(waiting.rename, waiting.with_name("moved"))
        with pytest.raises(LimitExceeded) as full:
            await _approve(engine, process)
        assert full.value.code == "disk_full"
        await engine.controls.cancel(doomed)  # that needs no room
        assert doomed.status.is_ended
        assert len(engine.approvals.waiting()) == 1
        with pytest.raises(LimitExceeded):
            await engine.starts.start(Command(line="cat"), owner=ME)
        await asyncio.to_thread(moved.rename, waiting)
        await _approve(engine, process)
        await _ended(engine, process)
        assert process.record.exit_code == 0
