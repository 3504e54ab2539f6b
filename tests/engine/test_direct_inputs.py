"""Inputs in full flow go straight into the pipe, and nothing of what the keeper promises for them is lost."""

import asyncio
import contextlib
import hashlib
import os
import signal
from pathlib import Path

import pytest

from outlive.backends.local import LocalBackend
from outlive.core.command import Command
from outlive.core.controls import CloseInput
from outlive.core.errors import InvalidState, LimitExceeded
from outlive.core.layout import Layout
from outlive.discovery.keeper import ensure_keeper
from outlive.engine import Engine, Process
from outlive.kernel.folder_identity import claim_folder
from outlive.kernel.sockets import connect_unix
from tests.engine.engines import ME, an_engine, output_of
from tests.support.processes import Gate

_MIB = 1024 * 1024
_DATA = os.urandom(_MIB) * 3


async def _started(engine: Engine, line: str) -> Process:
    return await engine.starts.start(Command(line=line, stdin="pipe"), owner=ME)


async def _supervisor_pid(engine: Engine) -> int:
    supervisor = (await engine.health.keeper_status())["supervisor"]
    assert isinstance(supervisor, dict)
    return int(supervisor["pid"])


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).hexdigest().encode()


@pytest.mark.usefixtures("stays_stopped")
async def test_an_input_in_full_flow_does_not_pass_the_keeper(engine: Engine) -> None:
    """A supervisor that does nothing at all delays no byte of it."""
    process = await _started(engine, "sha256sum")
    await engine.controls.write(process, _DATA)
    pid = await _supervisor_pid(engine)
    os.kill(pid, signal.SIGSTOP)
    try:
        async with asyncio.timeout(4):  # sooner than the guardian replaces it
            for _ in range(3):
                assert await engine.controls.write(process, _DATA) == len(_DATA)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
    await engine.controls.control(process, CloseInput())
    out, _ = await output_of(process)
    assert out.split()[0] == _digest(_DATA * 4)


async def test_small_and_large_writes_keep_their_order(engine: Engine) -> None:
    """What is typed goes through the keeper, what is long does not; both go in as they were asked."""
    process = await _started(engine, "sha256sum")
    parts = [os.urandom(size) for size in (5, 100_000, 7, 16_383, 16_384, 1, 2 * _MIB + 1, 3)]
    async with asyncio.TaskGroup() as group:
        for part in parts:
            group.create_task(engine.controls.write(process, part))
            await asyncio.sleep(0)
    await engine.controls.control(process, CloseInput())
    out, _ = await output_of(process)
    assert out.split()[0] == _digest(b"".join(parts))


async def test_what_a_process_does_not_read_waits_in_the_keeper(
    engine: Engine, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is counted as waiting, and is read once the process reads; so is what is written behind it."""
    monkeypatch.setattr("outlive.backends.local._PATIENCE_S", 0.05)
    monkeypatch.setattr("outlive.backends.local._WRITE_S", 0.3)
    process = await _started(engine, f"{gate.wait}; sha256sum")
    with pytest.raises(LimitExceeded) as full:
        await engine.controls.write(process, _DATA)
    assert full.value.code == "stdin_full"
    written, waiting = (full.value.details[name] for name in ("written_bytes", "waiting_bytes"))
    assert isinstance(written, int)
    assert isinstance(waiting, int)
    assert (waiting > 0, (written + waiting) % _MIB) == (True, 0)
    monkeypatch.setattr("outlive.backends.local._WRITE_S", 30.0)
    rest = asyncio.ensure_future(engine.controls.write(process, _DATA[written + waiting :]))
    gate.open()
    await rest
    await engine.controls.control(process, CloseInput())
    out, _ = await output_of(process)
    assert out.split()[0] == _digest(_DATA)


async def test_a_cancelled_write_goes_in_all_the_same(engine: Engine, gate: Gate) -> None:
    """What was handed over goes in, before anything that is written later."""
    process = await _started(engine, f"{gate.wait}; sha256sum")
    piece = _DATA[:_MIB] + b"end"
    await engine.controls.write(process, piece[: 512 * 1024])  # the pipe is nearly full, or grows
    writing = asyncio.ensure_future(engine.controls.write(process, _DATA[:_MIB]))
    await asyncio.sleep(0.2)
    assert not writing.done()
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    gate.open()
    await engine.controls.write(process, b"end")
    await engine.controls.control(process, CloseInput())
    out, _ = await output_of(process)
    assert out.split()[0] == _digest(piece[: 512 * 1024] + _DATA[:_MIB] + b"end")


async def test_a_process_that_ends_in_the_middle_is_told(engine: Engine) -> None:
    """It took what it wanted; the rest is refused."""
    process = await _started(engine, "head -c 100000 | sha256sum")
    with pytest.raises(InvalidState) as refused:
        await engine.controls.write(process, _DATA * 20)
    assert refused.value.code in {"stdin_closed", "process_ended"}
    out, _ = await output_of(process)
    assert out.split()[0] == _digest(_DATA[:100_000])


async def test_the_end_of_an_input_is_read_at_once(engine: Engine) -> None:
    """The server's own descriptor of the pipe is closed before the keeper closes its."""
    process = await _started(engine, "wc -c")
    await engine.controls.write(process, _DATA)
    await engine.controls.control(process, CloseInput())
    async with asyncio.timeout(5):
        assert (await output_of(process))[0].split() == [str(len(_DATA)).encode()]


async def test_a_pipe_is_given_back_when_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A descendant may wait for the end of the input although nothing asks for that any more."""
    monkeypatch.setattr("outlive.backends.local._LINGER_S", 0.05)
    await asyncio.to_thread(claim_folder, Layout(str(tmp_path)))
    backend = LocalBackend(str(tmp_path), connect_unix=connect_unix, ensure_keeper=ensure_keeper)
    async with an_engine(tmp_path, backend=backend) as engine:
        process = await _started(engine, "cat >/dev/null")
        await engine.controls.write(process, _DATA)
        inputs = backend._inputs
        assert inputs is not None
        async with asyncio.timeout(5):
            while inputs.holds(process.process_id):  # noqa: ASYNC110 - giving back has no event
                await asyncio.sleep(0.01)
        await engine.controls.write(process, _DATA)
        await engine.controls.control(process, CloseInput())
        await output_of(process)
