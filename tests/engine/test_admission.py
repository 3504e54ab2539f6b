"""A queued command whose turn comes while somebody cancels it: it runs and is stopped, or never runs.

Nothing between.

The moments are made, not waited for: a keeper that is held, a backend that carries out a start when it is
told to.
"""

import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outlive.core.command import Command
from outlive.core.errors import BackendUnavailable, LimitExceeded, OutliveError, StartFailed
from outlive.core.lifecycle import ENDED, Cause, State
from outlive.engine import Engine, Process, controls
from outlive.engine.starts import starter
from tests.engine.engines import ME, an_engine, settled
from tests.engine.held_backend import HeldBackend
from tests.keeper.client import KeeperRefused
from tests.keeper.house import House
from tests.support.processes import Gate, poll_until

_NOTE = "Cancelled by its owner."

_SERVER = """
import asyncio, sys
sys.path.insert(0, {root!r})
from pathlib import Path
from outlive.core.command import Command
from tests.engine.engines import ME, an_engine
from tests.engine.held_backend import HeldBackend

async def serve():
    backend = HeldBackend(Path({state!r}))
    async with an_engine(Path({state!r}), backend=backend) as engine:
        first = asyncio.ensure_future(engine.starts.start(Command(line="true", group="g", group_limit=1), owner=ME))
        while not backend.asked:
            await asyncio.sleep(0)
        backend.arrive(backend.asked[0])
        await first
        second = await engine.starts.start(Command(line="touch {trace}", group="g"), owner=ME)
        await engine.queue.set_limit("me", "g", 2)
        while not backend.asked:
            await asyncio.sleep(0)
        await engine.controls.cancel(second, note={note!r})
        print(second.process_id, flush=True)
        await asyncio.sleep(1000)

asyncio.run(serve())
"""  # noqa: E501 -- lines of a table, or of another language


@pytest.fixture
def held(tmp_path: Path) -> HeldBackend:
    """A backend that starts nothing before it is told to."""
    return HeldBackend(tmp_path / "state")


async def _queued(engine: Engine, held: HeldBackend) -> Process:
    """Fill the group "g" and let one command wait."""
    first = asyncio.ensure_future(
        engine.starts.start(Command(line="sleep 1000", group="g", group_limit=1), owner=ME)
    )
    await poll_until(lambda: bool(held.asked))
    held.arrive(held.asked[0])
    await first
    second = await engine.starts.start(Command(line="exit 7", group="g"), owner=ME)
    assert second.status.state is State.QUEUED
    return second


async def _behind(engine: Engine, gate: Gate, line: str) -> tuple[Process, Process]:
    """Fill the group "g" until the gate opens, and let a line wait."""
    first = await engine.starts.start(Command(line=gate.wait, group="g", group_limit=1), owner=ME)
    return first, await engine.starts.start(Command(line=line, group="g"), owner=ME)


def _assert_never_ran(process: Process) -> None:
    assert process.status.state is State.FAILED_TO_START
    assert (process.record.cause, process.record.error, process.record.pid) == (Cause.CANCEL, _NOTE, None)


async def test_a_cancel_right_after_the_admission_ends_it(own_house: House, gate: Gate) -> None:
    """The cancel is asked before the admission's own task has run: the keeper would hear of it before the
    start.
    """
    async with an_engine(own_house.state_dir) as engine:
        first, second = await _behind(engine, gate, "sleep 1000")
        third = await engine.starts.start(Command(line="exit 3", group="g"), owner=ME)
        await engine.queue.set_limit("me", "g", 2)
        await engine.controls.cancel(second, note=_NOTE)
        async with asyncio.timeout(20):
            await engine.queries.wait(second)
            await engine.queries.wait(third)
        assert (second.record.cause, second.record.error) == (Cause.CANCEL, _NOTE)
        assert third.record.exit_code == 3
        gate.open()
        async with asyncio.timeout(20):
            await engine.queries.wait(first)
        await settled(engine, second)
        record = (await engine.queries.find(second.process_id)).record
        assert (record.cause, record.error) == (Cause.CANCEL, _NOTE)


@pytest.mark.usefixtures("stays_stopped")
async def test_a_start_that_the_keeper_reads_after_the_cancel_starts_nothing(
    own_house: House, gate: Gate, tmp_path: Path
) -> None:
    """The keeper is stopped while its turn comes: the start lies in its socket when the cancel is
    answered.
    """
    trace = tmp_path / "ran"
    async with an_engine(own_house.state_dir) as engine:
        first, second = await _behind(engine, gate, f"touch {trace}")
        supervisor = own_house.supervisor_of_lock()
        assert supervisor is not None
        os.kill(supervisor, signal.SIGSTOP)
        try:
            await engine.queue.set_limit("me", "g", 2)
            await asyncio.sleep(0)  # the admission's task asks the keeper
            await engine.controls.cancel(second, note=_NOTE)
        finally:
            os.kill(supervisor, signal.SIGCONT)
        _assert_never_ran(second)
        await engine.health.keeper_status()  # answered in order: the start was read before
        gate.open()
        async with asyncio.timeout(20):
            await engine.queries.wait(first)
    assert not trace.exists()


async def test_a_start_of_a_server_that_died_does_not_undo_the_cancel_of_its_successor(
    own_house: House, gate: Gate, tmp_path: Path
) -> None:
    """What a dead server sent may be read late; who was told "cancelled" never runs."""
    trace = tmp_path / "ran"
    async with an_engine(own_house.state_dir) as engine:
        first, second = await _behind(engine, gate, f"touch {trace}")
        spec = (own_house.state_dir / "waiting" / second.process_id).read_bytes().split(b"\n", 1)[1]
        await engine.controls.cancel(second, note=_NOTE)
        with pytest.raises(KeeperRefused) as refused:
            own_house.client.ask("start", payload=spec, id=second.process_id, spec_bytes=len(spec))
        assert refused.value.slug == "start_failed"
        assert "cancelled" in str(refused.value)
        gate.open()
        async with asyncio.timeout(20):
            await engine.queries.wait(first)
    assert not trace.exists()


async def test_a_cancel_while_the_keeper_is_away_keeps_it_from_running(
    held: HeldBackend, tmp_path: Path
) -> None:
    """The start got no answer and will be asked again: until then nobody may say that it was cancelled in
    vain.
    """
    async with an_engine(tmp_path / "state", backend=held) as engine:
        second = await _queued(engine, held)
        await engine.queue.set_limit("me", "g", 2)
        await poll_until(lambda: bool(held.asked))
        held.lose(held.asked[0])
        await asyncio.sleep(0)  # the admission rests before it asks again
        await engine.controls.cancel(second, note=_NOTE)
        _assert_never_ran(second)
    async with an_engine(tmp_path / "state", backend=held) as engine:
        found = await engine.queries.find(second.process_id)
        _assert_never_ran(found)
        await asyncio.sleep(0)
        assert held.asked == []


async def test_a_command_that_runs_before_the_cancel_arrives_is_stopped(
    held: HeldBackend, tmp_path: Path
) -> None:
    """The keeper was first, and its answer is still on the way."""
    async with an_engine(tmp_path / "state", backend=held) as engine:
        second = await _queued(engine, held)
        await engine.queue.set_limit("me", "g", 2)
        await poll_until(lambda: bool(held.asked))
        start = held.asked[0]
        start.settle, settle = (lambda _outcome: None), start.settle
        held.arrive(start)
        assert second.process_id in held.running
        await engine.controls.cancel(second, note=_NOTE)
        assert held.stopped == [second.process_id]
        settle(await start.answer)
        async with asyncio.timeout(10):
            await engine.queries.wait(second)
        assert second.status.state is State.SIGNALED


async def test_a_turn_whose_late_answer_is_that_the_disk_is_full_is_asked_for_again(
    held: HeldBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node was silent first, and then had no room: the command goes on waiting for its turn, and runs
    once.
    """
    monkeypatch.setattr(starter, "_RETRY_S", 0.01)
    async with asyncio.timeout(10), an_engine(tmp_path / "state", backend=held) as engine:
        second = await _queued(engine, held)
        await engine.queue.set_limit("me", "g", 2)
        await poll_until(lambda: bool(held.asked))
        start = held.asked[0]
        held.leave_open(start)
        await asyncio.sleep(0)
        assert (tmp_path / "state" / "waiting" / second.process_id).exists()
        start.settle(LimitExceeded("disk_full", "There is no room on the node."))
        await poll_until(lambda: bool(held.asked))
        held.arrive(held.asked[0])
        await poll_until(lambda: second.status.state is State.RUNNING)
        assert held.ran.count(second.process_id) == 1
        held.end(second.process_id)


async def test_a_turn_whose_late_answer_is_a_refusal_ends(held: HeldBackend, tmp_path: Path) -> None:
    async with asyncio.timeout(10), an_engine(tmp_path / "state", backend=held) as engine:
        second = await _queued(engine, held)
        await engine.queue.set_limit("me", "g", 2)
        await poll_until(lambda: bool(held.asked))
        start = held.asked[0]
        held.leave_open(start)
        await asyncio.sleep(0)
        start.settle(StartFailed("not_found", "There is no such program."))
        await engine.queries.wait(second)
        assert (second.status.state, second.record.error) == (
            State.FAILED_TO_START,
            "There is no such program.",
        )


async def test_a_cancel_of_a_start_that_nobody_answers_says_that_it_may_run(
    held: HeldBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controls, "_DECIDED_S", 0.05)
    async with an_engine(tmp_path, backend=held) as engine:
        start = asyncio.ensure_future(engine.starts.start(Command(line="true"), owner=ME))
        while not held.asked:  # noqa: ASYNC110 - the backend has no event for it
            await asyncio.sleep(0)
        process_id = held.asked[0].process_id
        with pytest.raises(BackendUnavailable) as caught:
            await engine.controls.cancel(await engine.queries.find(process_id))
        error = caught.value
        assert (error.code, error.details) == ("start_unanswered", {"process_id": process_id})
        assert "try again" not in f"{error.message} {error.hint}".lower()
        held.arrive(held.asked[0])
        held.end((await start).process_id)


async def test_a_cancel_whose_caller_goes_away_is_carried_out(held: HeldBackend, tmp_path: Path) -> None:
    async with an_engine(tmp_path / "state", backend=held) as engine:
        second = await _queued(engine, held)
        asking = asyncio.ensure_future(engine.controls.cancel(second, note=_NOTE))
        await asyncio.sleep(0)
        asking.cancel()
        await asyncio.wait([asking])
        async with asyncio.timeout(10):
            await engine.queries.wait(second)
        _assert_never_ran(second)


async def test_two_cancels_at_once_both_succeed(held: HeldBackend, tmp_path: Path) -> None:
    async with an_engine(tmp_path / "state", backend=held) as engine:
        second = await _queued(engine, held)
        await asyncio.gather(
            engine.controls.cancel(second, note=_NOTE), engine.controls.cancel(second, note="Too late.")
        )
        _assert_never_ran(second)


async def test_a_cancel_on_a_full_disk_still_takes_who_waits_out_of_the_line(
    held: HeldBackend, tmp_path: Path
) -> None:
    """Where the end cannot be written the place in the line can still be given up."""
    async with an_engine(tmp_path / "state", backend=held) as engine:
        second = await _queued(engine, held)
        (tmp_path / "state" / "waiting" / f"{second.process_id}.end").write_text("in the way")
        await engine.controls.cancel(second, note=_NOTE)
        _assert_never_ran(second)
        await engine.queue.set_limit("me", "g", None)
    async with an_engine(tmp_path / "state", backend=held) as engine:
        assert [one.process_id for one in engine.queries.live() if one.status.state is State.QUEUED] == []


async def test_an_engine_closes_while_a_turn_waits_for_a_keeper_that_does_not_answer(
    held: HeldBackend, tmp_path: Path
) -> None:
    async with asyncio.timeout(10):
        async with an_engine(tmp_path / "state", backend=held) as engine:
            second = await _queued(engine, held)
            await engine.queue.set_limit("me", "g", 2)
            await poll_until(lambda: bool(held.asked))
    for asked in held.asked:
        asked.settle = lambda _outcome: None
    held.asked.clear()
    async with an_engine(tmp_path / "state", backend=held) as engine:
        assert (await engine.queries.find(second.process_id)).status.state in {State.QUEUED, State.STARTING}


async def test_a_server_killed_after_a_cancel_in_that_moment_leaves_a_command_that_never_runs(
    tmp_path: Path,
) -> None:
    """SIGKILL right after the answer, the start still on its way: the next server knows how it ended."""
    state, trace = tmp_path / "state", tmp_path / "ran"
    program = _SERVER.format(
        root=str(Path(__file__).parents[2]), state=str(state), trace=str(trace), note=_NOTE
    )
    server = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE
    )
    assert server.stdout is not None
    async with asyncio.timeout(30):
        process_id = (await server.stdout.readline()).decode().strip()
    os.kill(server.pid, signal.SIGKILL)
    await server.wait()
    held = HeldBackend(state)
    async with an_engine(state, backend=held) as engine:
        _assert_never_ran(await engine.queries.find(process_id))
        await asyncio.sleep(0)
        assert [asked.process_id for asked in held.asked] == []
        assert [one.limit for one in engine.queue.machine.views("me") if one.group == "g"] == [2]


class _Story:
    """A server on a held backend, to which things happen in any order."""

    def __init__(self, state_dir: Path) -> None:
        self.state_dir = state_dir
        self.held = HeldBackend(state_dir)
        self.ids: list[str] = []
        self.told: set[str] = set()
        self.tasks: set[asyncio.Task[None]] = set()

    async def tell(self, chapters: list[list[tuple[str, int]]]) -> None:
        for chapter in chapters:
            async with an_engine(self.state_dir, backend=self.held) as engine:
                for word, number in chapter:
                    await self._happen(engine, word, number)
            await self._forget_server()
        async with an_engine(self.state_dir, backend=self.held) as engine:
            await engine.queue.set_limit("me", "g", None)
            await poll_until(lambda: self._is_over(engine))
            for process_id in self.ids:
                self._assert_honest(await engine.queries.find(process_id))
        await self._forget_server()

    async def _happen(self, engine: Engine, word: str, number: int) -> None:
        held = self.held
        match word:
            case "enter":
                self._begin(self._enter(engine))
            case "cancel" if self.ids:
                self._begin(self._cancel(engine, self.ids[number % len(self.ids)]))
            case "arrive" if held.asked:
                held.arrive(held.asked[number % len(held.asked)])
            case "end" if held.running:
                held.end(sorted(held.running)[number % len(held.running)])
            case "limit":
                await engine.queue.set_limit("me", "g", 1 + number % 2)
            case "turns":
                for _ in range(number):
                    await asyncio.sleep(0)
            case "rest":
                await asyncio.to_thread(lambda: None)

    def _begin(self, deed: Coroutine[None, None, None]) -> None:
        self.tasks.add(asyncio.ensure_future(deed))

    async def _enter(self, engine: Engine) -> None:
        process = await engine.starts.start(Command(line="true", group="g"), owner=ME)
        self.ids.append(process.process_id)

    async def _cancel(self, engine: Engine, process_id: str) -> None:
        try:
            process = await engine.queries.find(process_id)
            await engine.controls.cancel(process, note=_NOTE)
        except OutliveError:
            return
        self.told.add(process_id)

    def _is_over(self, engine: Engine) -> bool:
        while self.held.asked:
            self.held.arrive(self.held.asked[0])
        for process_id in list(self.held.running):
            self.held.end(process_id)
        return all(process.status.is_complete for process in engine.queries.live())

    def _assert_honest(self, process: Process) -> None:
        runs = self.held.ran.count(process.process_id)
        assert process.status.state in ENDED
        assert runs <= 1
        if process.record.cause is Cause.CANCEL and process.status.state is State.FAILED_TO_START:
            assert runs == 0
        elif process.process_id not in self.told:
            assert runs == 1

    async def _forget_server(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        self.tasks.clear()
        for asked in self.held.asked:
            asked.settle = lambda _outcome: None


_WORDS = st.tuples(
    st.sampled_from(["enter", "enter", "cancel", "cancel", "arrive", "end", "limit", "turns", "rest"]),
    st.integers(0, 5),
)


@pytest.mark.thorough
@given(chapters=st.lists(st.lists(_WORDS, max_size=12), min_size=1, max_size=3))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_happens_in_whatever_order_who_was_told_cancelled_does_not_run(
    tmp_path: Path, chapters: list[list[tuple[str, int]]]
) -> None:
    """Starts, cancels, ends, limits and servers that come and go.

    What a dead server asked may arrive at any time.
    """
    with tempfile.TemporaryDirectory(dir=tmp_path) as folder:
        asyncio.run(_Story(Path(folder)).tell(chapters))


async def test_an_end_that_comes_before_the_answer_to_the_start_is_found_with_both(
    held: HeldBackend, tmp_path: Path
) -> None:
    """A quick command on a busy machine: its row is written, and it is let go of, before it is known when it
    was started.
    """
    async with asyncio.timeout(10), an_engine(tmp_path / "state", backend=held) as engine:
        starting = asyncio.ensure_future(engine.starts.start(Command(line="true"), owner=ME))
        await poll_until(lambda: bool(held.asked))
        start = held.asked[0]
        start.settle, settle = (lambda _outcome: None), start.settle
        held.arrive(start)
        process = await starting
        held.end(process.process_id)
        await settled(engine, process)
        settle(replace(await start.answer, started_ns=10**18))
        found = await engine.queries.find(process.process_id)
        assert found is not process
        assert found.record.started_at is not None
