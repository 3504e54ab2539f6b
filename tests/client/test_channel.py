"""Who waits reads, for everybody: turns, cancellation, loss, and that nothing is read when nobody waits."""

import asyncio
import json
import threading
from collections import deque

import anyio
import pytest

from outlive.client.asyncio_runtime import AsyncioRuntime
from outlive.client.channel import ClientConnection, greet
from outlive.client.messages import Ended, OutputPiece, ServerHello
from outlive.client.runtime import ConnectionLost, Unreachable, run
from outlive.client.thread_runtime import ThreadRuntime
from outlive.core.cursor import BEGINNING
from outlive.core.errors import BackendUnavailable, ProtocolViolation

pytestmark = pytest.mark.anyio

_ID = "01m7ybywps7gsyjzmq1eandhcn"
_HELLO = ServerHello("s", is_resumed=False, backend="local", input_bytes=1 << 20, scope="admin")


class _Script:
    """The server's side of a wire: frames that come when they are released."""

    def __init__(self) -> None:
        self.sent: list[dict[str, object]] = []
        self.frames: deque[str | bytes | ConnectionLost] = deque()
        self.reads = 0

    def answer(self, request_id: int) -> None:
        self.frames.append(json.dumps({"jsonrpc": "2.0", "id": request_id, "result": {"number": request_id}}))

    def output(self, end: int, data: bytes) -> None:
        params = {"type": "stdout", "process_id": _ID, "end": end}
        self.frames.append(json.dumps({"method": "process.output", "params": params}).encode() + b"\n" + data)


class _AsyncioWire(_Script):
    def __init__(self) -> None:
        super().__init__()
        self._arrived = asyncio.Event()

    def arrive(self) -> None:
        self._arrived.set()

    async def send(self, frame: str | bytes) -> None:
        self.sent.append(json.loads(frame))

    async def receive(self, timeout_s: float | None) -> str | bytes:
        self.reads += 1
        async with asyncio.timeout(timeout_s):
            while not self.frames:
                self._arrived.clear()
                await self._arrived.wait()
        frame = self.frames.popleft()
        if isinstance(frame, ConnectionLost):
            raise frame
        return frame

    async def close(self) -> None:
        self.frames.append(ConnectionLost())
        self.arrive()


@pytest.fixture
def wire() -> _AsyncioWire:
    return _AsyncioWire()


@pytest.fixture
def channel(wire: _AsyncioWire) -> ClientConnection:
    return ClientConnection(wire, AsyncioRuntime(), _HELLO)


async def _asked(wire: _AsyncioWire, count: int) -> None:
    while len(wire.sent) < count:  # noqa: ASYNC110 -- the other tasks' next steps are all there is to wait for
        await asyncio.sleep(0)


async def test_answers_reach_who_asked_whoever_reads_them(
    wire: _AsyncioWire, channel: ClientConnection
) -> None:
    numbers: dict[int, object] = {}

    async def ask(number: int) -> None:
        numbers[number] = (await channel.request("get", {}, answer_s=30))["number"]

    with anyio.fail_after(30):
        async with asyncio.TaskGroup() as group:
            for number in range(1, 51):
                group.create_task(ask(number))
            await _asked(wire, 50)
            for number in reversed(range(1, 51)):
                wire.answer(number)
            wire.arrive()
    assert numbers == {number: number for number in range(1, 51)}


async def test_a_cancelled_reader_hands_its_turn_on(wire: _AsyncioWire, channel: ClientConnection) -> None:
    with anyio.fail_after(30):
        async with asyncio.TaskGroup() as group:
            first = group.create_task(channel.request("wait", {}, answer_s=30))
            second = group.create_task(channel.request("get", {}, answer_s=30))
            await _asked(wire, 2)
            first.cancel()
            await asyncio.sleep(0)
            wire.answer(1)  # nobody wants it any more
            wire.answer(2)
            wire.arrive()
            assert (await second)["number"] == 2
    assert first.cancelled()


async def test_nothing_is_read_when_nobody_waits(wire: _AsyncioWire, channel: ClientConnection) -> None:
    wire.answer(1)
    await channel.attach(_ID, BEGINNING, answer_s=30)
    for end in range(1, 101):
        wire.output(end, b"x")
    before = wire.reads
    assert await channel.next_message() == OutputPiece(_ID, "stdout", b"x", 1)
    for _ in range(10):
        await asyncio.sleep(0)
    assert wire.reads == before + 1
    assert len(wire.frames) == 99


async def test_an_answer_is_heard_behind_output_that_nobody_takes(
    wire: _AsyncioWire, channel: ClientConnection
) -> None:
    """A consumer that rests must not keep anybody from sending a signal; what came first is kept for it."""
    wire.answer(1)
    await channel.attach(_ID, BEGINNING, answer_s=30)
    for end in range(1, 11):
        wire.output(end, b"x")
    wire.answer(2)
    assert (await channel.request("signal", {}, answer_s=30))["number"] == 2
    ends = [told.end for _ in range(10) if isinstance(told := await channel.next_message(), OutputPiece)]
    assert ends == list(range(1, 11))


async def test_a_cancelled_follower_loses_nothing(wire: _AsyncioWire, channel: ClientConnection) -> None:
    wire.answer(1)
    await channel.attach(_ID, BEGINNING, answer_s=30)
    waiting = asyncio.ensure_future(channel.next_message())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    wire.output(1, b"x")
    assert await channel.next_message() == OutputPiece(_ID, "stdout", b"x", 1)


async def test_a_lost_connection_is_told_to_all_who_wait_and_who_come_later(
    wire: _AsyncioWire, channel: ClientConnection
) -> None:
    lost = 0

    async def ask() -> None:
        nonlocal lost
        with pytest.raises(ConnectionLost):
            await channel.request("get", {}, answer_s=30)
        lost += 1

    with anyio.fail_after(30):
        async with asyncio.TaskGroup() as group:
            for _ in range(10):
                group.create_task(ask())
            await _asked(wire, 10)
            await channel.close()
        await ask()
    assert lost == 11


async def test_an_answer_that_does_not_come_is_said_to_be_late(channel: ClientConnection) -> None:
    with pytest.raises(BackendUnavailable) as late:
        await channel.request("get", {}, answer_s=0.01)
    assert late.value.code == "timeout"


class _ThreadWire(_Script):
    def __init__(self) -> None:
        super().__init__()
        self._changed = threading.Condition()

    async def send(self, frame: str | bytes) -> None:
        with self._changed:
            self.sent.append(json.loads(frame))
            self._changed.notify_all()

    def wait_sent(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.sent) >= count, 5)

    def release(self) -> None:
        with self._changed:
            self._changed.notify_all()

    async def receive(self, timeout_s: float | None) -> str | bytes:
        with self._changed:
            if not self._changed.wait_for(lambda: bool(self.frames), timeout_s):
                raise TimeoutError
            frame = self.frames.popleft()
        assert not isinstance(frame, ConnectionLost)
        return frame

    async def close(self) -> None:
        """Nothing to close."""


def test_threads_share_a_connection_too() -> None:
    wire = _ThreadWire()
    channel = ClientConnection(wire, ThreadRuntime(), _HELLO)
    right: list[bool] = []

    def ask() -> None:
        result = run(channel.request("get", {}, answer_s=30))
        right.append(isinstance(result["number"], int))

    threads = [threading.Thread(target=ask) for _ in range(20)]
    for thread in threads:
        thread.start()
    wire.wait_sent(20)
    for number in reversed(range(1, 21)):
        wire.answer(number)
    wire.release()
    for thread in threads:
        thread.join(5)
    assert right == [True] * 20


async def test_the_end_is_told_behind_the_output(wire: _AsyncioWire, channel: ClientConnection) -> None:
    wire.answer(1)
    await channel.attach(_ID, BEGINNING, answer_s=30)
    params = {"process_id": _ID, "exit_code": 0, "error": None, "cursor": "0.0"}
    wire.frames.append(json.dumps({"method": "process.completed", "params": params}))
    assert isinstance(await channel.next_message(), Ended)


async def test_who_waits_behind_a_reader_has_its_own_deadline(channel: ClientConnection) -> None:
    with anyio.fail_after(30):
        async with asyncio.TaskGroup() as group:
            reader = group.create_task(channel.request("wait", {}, answer_s=30))
            await asyncio.sleep(0)
            with pytest.raises(BackendUnavailable) as late:
                await channel.request("get", {}, answer_s=0.01)
            assert late.value.code == "timeout"
            reader.cancel()


async def test_a_frame_that_is_none_of_ours_ends_the_connection_for_all(
    wire: _AsyncioWire, channel: ClientConnection
) -> None:
    first = asyncio.ensure_future(channel.request("get", {}, answer_s=30))
    second = asyncio.ensure_future(channel.request("get", {}, answer_s=30))
    await _asked(wire, 2)
    wire.frames.append("hello!")
    wire.arrive()
    with pytest.raises(ProtocolViolation):
        await first
    with pytest.raises(BackendUnavailable) as lost:
        await second
    assert lost.value.code == "server_lost"


@pytest.mark.parametrize(
    "frame", [ConnectionLost(), '{"jsonrpc":"2.0","method":"process.started","params":{}}']
)
async def test_who_does_not_greet_is_not_spoken_to(wire: _AsyncioWire, frame: str | ConnectionLost) -> None:
    wire.frames.append(frame)
    with pytest.raises((Unreachable, ProtocolViolation)) as silent:
        await greet(wire, AsyncioRuntime())
    assert isinstance(silent.value, Unreachable) == isinstance(frame, ConnectionLost)
    assert isinstance(wire.frames[-1], ConnectionLost), "it was closed"
