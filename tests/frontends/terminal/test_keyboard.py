"""What is typed on its way to a process: in order, bounded, and never twice."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import anyio
import pytest

from outlive.core.errors import BackendUnavailable, InvalidState, LimitExceeded, OutliveError
from outlive.engine import AuditedControls, Process
from outlive.frontends.terminal import viewer as keyboard_module
from outlive.frontends.terminal.viewer import TypedInput

pytestmark = pytest.mark.anyio

_MOST = 64 * 1024


class _Input:
    """An input that takes what it is given while it is open, and refuses as a test says."""

    def __init__(self) -> None:
        self.taken = b""
        self.pieces: list[int] = []
        self.open = asyncio.Event()
        self.open.set()
        self.refusals: list[OutliveError] = []
        self.told: list[str] = []
        self.is_gone = False

    async def write(self, _process: Process, data: bytes) -> None:
        await self.open.wait()
        if self.refusals:
            raise self.refusals.pop(0)
        self.taken += data
        self.pieces.append(len(data))

    def keyboard(self) -> TypedInput:
        return TypedInput(
            cast("Process", None),
            cast("AuditedControls", cast("Any", self)),
            report=lambda error: self.told.append(error.code),
            is_gone=lambda: self.is_gone,
        )


async def _typing(scene: Callable[[TypedInput], Any], keyboard: TypedInput) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(keyboard.run)
        with anyio.fail_after(10):
            await scene(keyboard)
        tasks.cancel_scope.cancel()


@pytest.mark.promise("T.input")
async def test_what_comes_while_a_write_is_under_way_leaves_in_one_piece() -> None:
    taking = _Input()
    taking.open.clear()

    async def scene(keyboard: TypedInput) -> None:
        await keyboard.put(b"0")
        await asyncio.sleep(0)
        for number in range(1, 100):
            await keyboard.put(b" %d" % number)
        taking.open.set()
        await keyboard.flushed()

    await _typing(scene, taking.keyboard())
    assert taking.taken == b" ".join(b"%d" % number for number in range(100))
    assert len(taking.pieces) == 2


@pytest.mark.promise("T.input")
async def test_whoever_types_waits_for_a_process_that_does_not_read() -> None:
    taking = _Input()
    taking.open.clear()
    data = bytes(range(256)) * 4096  # 1 MiB

    async def scene(keyboard: TypedInput) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(keyboard.put, data)
            await anyio.wait_all_tasks_blocked()
            assert len(keyboard._waiting) == _MOST
            taking.open.set()
        await keyboard.flushed()

    await _typing(scene, taking.keyboard())
    assert taking.taken == data
    assert max(taking.pieces) <= _MOST


@pytest.mark.promise("T.input")
async def test_a_piece_that_may_have_arrived_is_not_repeated_and_one_that_has_not_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(keyboard_module, "_AGAIN_S", 0.01)
    taking = _Input()
    taking.refusals = [
        LimitExceeded("stdin_full", "It waits in the keeper.", details={"waiting_bytes": 1}),
        BackendUnavailable("keeper_restarted", "Nobody knows."),
        InvalidState("process_ended", "It has ended."),
        LimitExceeded("stdin_full", "Refused as a whole."),
        InvalidState("process_queued", "Its turn has not come."),
    ]

    async def scene(keyboard: TypedInput) -> None:
        for letter in (b"a", b"b", b"c", b"d", b"e"):
            await keyboard.put(letter)
            await keyboard.flushed()

    await _typing(scene, taking.keyboard())
    assert taking.taken == b"de"
    assert taking.told == ["stdin_full", "keeper_restarted", "process_ended", "stdin_full", "process_queued"]


async def test_nobody_waits_for_a_viewer_that_has_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyboard_module, "_AGAIN_S", 0.01)
    taking = _Input()
    taking.open.clear()

    async def scene(keyboard: TypedInput) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(keyboard.put, bytes(1 << 20))
            tasks.start_soon(keyboard.flushed)
            await anyio.wait_all_tasks_blocked()
            taking.is_gone = True

    await _typing(scene, taking.keyboard())
    assert taking.taken == b""


@pytest.mark.promise("T.input")
async def test_what_was_taken_from_a_viewer_that_leaves_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    taking = _Input()
    taking.open.clear()
    taking.is_gone = True

    async def scene(keyboard: TypedInput) -> None:
        await keyboard.put(b"being written, ")
        await anyio.wait_all_tasks_blocked()
        await keyboard.put(b"waiting")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(keyboard.finish)
            await anyio.wait_all_tasks_blocked()
            taking.open.set()
        assert taking.taken == b"being written, waiting"
        taking.open.clear()
        monkeypatch.setattr(keyboard_module, "_LEAVING_S", 0.05)
        await keyboard.put(b"nobody reads this")
        await keyboard.finish()  # not for ever

    await _typing(scene, taking.keyboard())
    assert taking.taken == b"being written, waiting"
