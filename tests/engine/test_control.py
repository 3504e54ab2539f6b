"""Control of real processes through the engine."""

import asyncio
import signal

import pytest

from outlive.core.command import Command
from outlive.core.controls import CloseInput, Pause, ResizeWindow, Resume, SignalProcess
from outlive.core.cursor import BEGINNING
from outlive.core.errors import InvalidState
from outlive.core.events import (
    AuditEvent,
    Event,
    ProcessClosed,
    ProcessCompleted,
    ProcessStarted,
    StartRejected,
    StateChanged,
)
from outlive.core.lifecycle import Cause, State
from outlive.engine import Engine, follow
from tests.engine.engines import ME, output_of, run, settled
from tests.support.processes import Gate, Marker, wait_for


async def test_pause_stops_the_output_and_resume_continues_it(engine: Engine, gate: Gate) -> None:
    process = await engine.starts.start(Command(line=f"{gate.wait}; echo x"), owner=ME)
    await engine.controls.control(process, Pause())
    await engine.controls.control(process, Pause())
    assert process.status.state is State.PAUSED
    gate.open()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await engine.queries.wait(process)
    await engine.controls.control(process, Resume())
    assert await output_of(process) == (b"x\n", b"")


async def test_repeating_a_control_is_a_success(engine: Engine, marker: Marker) -> None:
    """S0.10."""
    process = await engine.starts.start(
        Command(line=f"trap '' TERM; while :; do {marker.sleep}; done"), owner=ME
    )
    await wait_for(marker, 1)
    states = []
    for operation in (Resume(), Pause(), Pause(), Resume(), Resume()):
        await engine.controls.control(process, operation)
        states.append(process.status.state)
    assert states == [State.RUNNING, State.PAUSED, State.PAUSED, State.RUNNING, State.RUNNING]
    for grace_s in (1000, 1000, 0):
        await engine.controls.cancel(process, grace_s=grace_s)
    async with asyncio.timeout(15):
        await engine.queries.wait(process)


async def test_what_fails_is_recorded_before_its_caller_hears_of_it(engine: Engine) -> None:
    """A door may answer it as a result, without raising it on."""
    process = await engine.starts.start(Command(line="true"), owner=ME)
    await settled(engine, process)
    recorded: list[str] = []

    async def witness(_event: AuditEvent) -> None:
        raise AssertionError("this act need not be recorded first")

    async def wait() -> None:
        recorded.append("waited")

    engine.events.witness_with(witness, wait)
    with pytest.raises(InvalidState):
        await engine.as_(ME).control(process, Pause())
    assert recorded == ["waited"]


async def test_cancelling_a_paused_process_ends_it(engine: Engine) -> None:
    process = await engine.starts.start(Command(line="sleep 1000"), owner=ME)
    await engine.controls.control(process, Pause())
    await engine.controls.cancel(process, note="Cancelled by this test.")
    await engine.queries.wait(process)
    record = process.record
    assert (record.exit_signal, record.wire_exit_code, record.cause) == (15, -15, Cause.CANCEL)
    assert record.error == "Cancelled by this test."


async def test_a_shorter_grace_shortens_the_running_one(engine: Engine, marker: Marker) -> None:
    process = await engine.starts.start(
        Command(line=f"trap '' TERM; while :; do {marker.sleep}; done"), owner=ME
    )
    await wait_for(marker, 1)
    await engine.controls.cancel(process, grace_s=1000)
    await engine.controls.cancel(process, grace_s=0)
    async with asyncio.timeout(10):
        await engine.queries.wait(process)
    assert process.record.exit_signal == 9
    assert marker.pids() == []


async def test_a_timeout_ends_the_tree_and_says_so(engine: Engine, marker: Marker) -> None:
    process = await run(engine, f"{marker.sleep} & {marker.sleep}", timeout_s=0.2)
    assert process.record.cause is Cause.TIMEOUT
    assert process.record.error == "Command timed out after 0.2 seconds"
    assert marker.pids() == []


async def test_a_signal_reaches_the_main_process_or_the_whole_tree(engine: Engine, marker: Marker) -> None:
    line = f"trap 'echo got' USR1; {marker.sleep} & wait; wait; echo end"
    process = await engine.starts.start(Command(line=line), owner=ME)
    await wait_for(marker, 1)
    await engine.controls.control(process, SignalProcess(signal=signal.SIGUSR1))
    async for chunks in follow(process, BEGINNING):
        assert chunks[0].data == b"got\n"
        break
    await engine.controls.control(process, SignalProcess(signal=signal.SIGKILL, whole_tree=True))
    await engine.queries.wait(process)
    assert process.record.exit_signal == 9
    with pytest.raises(InvalidState):
        await engine.controls.control(process, SignalProcess(signal=signal.SIGTERM))


async def test_input_of_any_length_arrives_whole_and_in_order(engine: Engine) -> None:
    process = await engine.starts.start(Command(line="sha256sum; echo end", stdin="pipe"), owner=ME)
    await asyncio.gather(
        engine.controls.write(process, b"a" * 300_000),
        engine.controls.write(process, b"b" * 10),
        engine.controls.control(process, CloseInput()),
    )
    plain = await run(
        engine, "(head -c 300000 /dev/zero | tr '\\0' a; printf bbbbbbbbbb) | sha256sum; echo end"
    )
    assert await output_of(process) == await output_of(plain)


async def test_what_has_ended_cannot_be_controlled(engine: Engine) -> None:
    process = await run(engine, "true", stdin="pipe", stdio="pty")
    for attempt in (
        engine.controls.control(process, Pause()),
        engine.controls.control(process, Resume()),
        engine.controls.cancel(process),
        engine.controls.write(process, b"x"),
        engine.controls.control(process, ResizeWindow(rows=1, cols=1)),
        engine.controls.control(process, SignalProcess(signal=1, whole_tree=True)),
    ):
        with pytest.raises(InvalidState) as caught:
            await attempt
        assert caught.value.code == "process_ended"
    await engine.controls.control(process, CloseInput())  # it is closed
    await engine.controls.release(process, stdout_bytes=0, stderr_bytes=0)


async def test_what_was_not_asked_for_is_not_there(engine: Engine) -> None:
    process = await engine.starts.start(Command(line="sleep 1000"), owner=ME)
    with pytest.raises(InvalidState) as caught:
        await engine.controls.write(process, b"x")
    assert caught.value.code == "stdin_closed"
    with pytest.raises(InvalidState) as caught:
        await engine.controls.control(process, ResizeWindow(rows=1, cols=1))
    assert caught.value.code == "no_terminal"
    await engine.controls.cancel(process)
    await engine.queries.wait(process)


async def test_a_terminal_is_typed_into_and_resized(engine: Engine) -> None:
    process = await engine.starts.start(
        Command(line='stty -echo; read line; echo "got $line"; stty size', stdio="pty"), owner=ME
    )
    await engine.controls.control(process, ResizeWindow(rows=50, cols=120))
    await engine.controls.write(process, b"hello\n")
    stdout, _ = await output_of(process)
    assert stdout.endswith(b"got hello\r\n50 120\r\n")


async def test_descendants_keep_a_complete_process_open(engine: Engine, gate: Gate) -> None:
    """Complete and closed are two events; what comes between belongs to descendants."""
    process = await run(engine, f"({gate.wait}; echo late) & echo early")
    assert (process.status.is_complete, process.status.is_closed) == (True, False)
    assert (process.status.complete_stdout_bytes, process.record.is_closed) == (6, False)
    assert process in engine.connections.live_of("c1")
    gate.open()
    async with asyncio.timeout(15):
        await engine.queries.wait(process, until="closed")
    assert process.status.stdout_bytes == 11
    assert (await output_of(process))[0] == b"early\n"
    assert b"".join(one.data for one in await engine.queries.read(process, BEGINNING)) == b"early\nlate\n"
    await settled(engine, process)
    again = await engine.queries.find(process.process_id)
    assert (again.status.complete_stdout_bytes, again.status.is_closed, again.status.stdout_bytes) == (
        6,
        True,
        11,
    )


async def test_descendants_of_an_ended_process_can_be_cancelled(engine: Engine, marker: Marker) -> None:
    process = await run(engine, f"{marker.sleep} & echo x")
    await wait_for(marker, 1)
    await engine.controls.cancel(process, grace_s=0)
    async with asyncio.timeout(15):
        await engine.queries.wait(process, until="closed")
    assert process.record.exit_code == 0


async def test_blocked_output_goes_on_when_it_is_released(engine: Engine) -> None:
    """`on_limit` "block": what was delivered may be released; nothing else is ever missing."""
    process = await engine.starts.start(
        Command(line="head -c 8000000 /dev/zero | tr '\\0' x", output_limit=100_000, on_limit="block"),
        owner=ME,
    )
    got, cursor = 0, BEGINNING
    async with asyncio.timeout(20):
        while not (process.status.is_complete and got == process.status.stdout_bytes):
            data = process.log.pread(0, 262144, got)
            assert data.strip(b"x") == b""
            got += len(data)
            if data:
                await engine.controls.release(process, stdout_bytes=got, stderr_bytes=0)
            await asyncio.sleep(0.002)
    assert got == 8_000_000
    assert process.record.has_gaps
    [first, *_] = await engine.queries.read(process, cursor)
    assert first.is_gap
    assert first.offset == 0


async def test_events_tell_the_life_of_a_process(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    heard: list[Event] = []

    def broken(_event: Event) -> None:
        raise RuntimeError("a subscriber's fault")

    silence = engine.events.subscribe(broken)
    unsubscribe = engine.events.subscribe(heard.append)
    process = await run(engine, "exit 1")
    with pytest.raises(InvalidState):
        await engine.controls.cancel(process)
    with pytest.raises(Exception, match="No program"):
        await engine.starts.start(Command(argv=("no-such-program",)), owner=ME)
    kinds = [type(event) for event in heard]
    assert [kind for kind in kinds if kind is not StateChanged] == [
        ProcessStarted,
        ProcessCompleted,
        ProcessClosed,
        StartRejected,
    ]
    assert "subscriber of events failed" in caplog.text
    unsubscribe()
    silence()
    unsubscribe()
    await run(engine, "true")
    assert len(heard) == len(kinds)


async def test_a_broken_subscriber_stops_nobody_elses_stream(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    process = await engine.starts.start(Command(line="sleep 0.1; echo x"), owner=ME)

    def broken() -> None:
        raise RuntimeError("a subscriber's fault")

    process.subscribers.add(broken)
    assert await output_of(process) == (b"x\n", b"")
    assert "subscriber of a process failed" in caplog.text


async def test_all_processes_can_be_ended_at_once(engine: Engine, marker: Marker) -> None:
    for detached in (True, False):
        await engine.starts.start(Command(line=marker.sleep, detached=detached), owner=ME)
    await wait_for(marker, 2)
    assert await engine.bulk.cancel(note="The server was told to stop its processes.") == 0
    assert marker.pids() == []
    [record, _] = await engine.queries.list(limit=2)
    assert record.cause is Cause.SHUTDOWN
    assert record.error == "The server was told to stop its processes."


async def test_the_keeper_tells_about_itself(engine: Engine) -> None:
    status = await engine.health.keeper_status()
    assert status["processes"] == 0
