"""One extension over a line that a test holds in its hand: what is behind a broken network, and what was
written when.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from outlive.core.errors import LimitExceeded
from outlive.extensions.bridge import messages
from outlive.extensions.bridge.connection import (
    BridgeConnection,
    Gone,
    NotSent,
    Outcome,
    Silent,
    TransportClosed,
)
from outlive.extensions.bridge.messages import Success
from outlive.extensions.bridge.options import BridgeOptions
from outlive.extensions.bridge.terminal_owners import TerminalOwners
from outlive.policy.access import Access, Scope

pytestmark = pytest.mark.anyio

_SETTINGS = BridgeOptions(bridge_ping_s=60.0, bridge_timeout_s=0.3)


class _Line:
    """A socket of the test's own: `sent` is what was written, `come` what will be received.

    Closed it says so.
    """

    def __init__(self) -> None:
        self.sent: list[dict[str, str]] = []
        self.come: asyncio.Queue[str | None] = asyncio.Queue()
        self.has_room = asyncio.Event()
        self.has_room.set()
        self.is_closed = False
        self.closed_with = 0
        self.closed = asyncio.Event()
        self.pongs = True

    async def send(self, message: bytes, written: Callable[[], None]) -> None:
        await self.has_room.wait()
        if self.is_closed:
            raise TransportClosed
        written()
        told = json.loads(message)
        self.sent.append(told)
        if told["type"] == "ping" and self.pongs:
            self.come.put_nowait(json.dumps({"type": "pong", "id": told["id"]}))

    async def receive(self) -> str | None:
        return await self.come.get()

    async def close(self, code: int, _reason: str) -> None:
        self.closed_with = code
        self.closed.set()


def _extension(line: _Line, settings: BridgeOptions = _SETTINGS) -> BridgeConnection:
    return BridgeConnection(line, Access(principal="token:x", scope=Scope.RUN), settings)


@asynccontextmanager
async def _running(extension: BridgeConnection) -> AsyncIterator[None]:
    async with asyncio.timeout(10), asyncio.TaskGroup() as tasks:
        task = tasks.create_task(extension.run())
        await asyncio.sleep(0)
        yield
        task.cancel()


async def _ask(extension: BridgeConnection, request_id: str) -> "asyncio.Future[Outcome]":
    until = asyncio.get_running_loop().time() + 0.3
    message = messages.execute(request_id, "t", "date")
    return await extension.post("execute", request_id, message, until=until)


@pytest.mark.promise("S3.4.again")
async def test_who_dials_again_over_a_broken_network_gets_the_place_of_the_dead_connection() -> None:
    seats = TerminalOwners(trusted_s=60.0, lives=lambda _: False)
    line = _Line()
    dead = _extension(line)
    async with _running(dead):
        seat = seats.claim(dead, "token:x 10.0.0.7", is_process=False)
        seats.add(seat, "t", "n", "token:x")
        await seats.probe("token:x 10.0.0.7", "token:x", patience_s=0.2)
        assert dead.is_open, "it has answered"
        await seats.probe("token:x 10.0.0.8", "token:x", patience_s=0.0)
        assert dead.is_open, "nobody has asked it"
        line.pongs = False
        await seats.probe("token:x 10.0.0.7", "token:x", patience_s=0.2)
        assert not dead.is_open
        await line.closed.wait()
        assert line.closed_with == 1011
        again = _extension(_Line())
        assert seats.claim(again, "token:x 10.0.0.7", is_process=False) is seat
        seats.leave(seat, dead)
        assert seat.extension is again, "who goes late takes nothing with him"


@pytest.mark.promise("S3.4.once")
async def test_written_is_what_has_left_and_nothing_else() -> None:
    line = _Line()
    extension = _extension(line)
    async with _running(extension):
        answered, unanswered, cut = [await _ask(extension, name) for name in "abc"]
        line.come.put_nowait('{"type":"success","id":"a","data":{"output":"o"}}')
        assert await answered == Success("a", "o")
        line.has_room.clear()
        with pytest.raises(NotSent):
            _ = await _ask(extension, "never")
        given_up = asyncio.create_task(_ask(extension, "given up"))
        await asyncio.sleep(0)
        given_up.cancel()
        await asyncio.gather(given_up, return_exceptions=True)
        line.has_room.set()
        line.is_closed = True
        with pytest.raises(NotSent):
            _ = await _ask(extension, "closed")
        assert await unanswered == await cut == Silent()
        assert [one["id"] for one in line.sent] == ["a", "b", "c"]


@pytest.mark.promise("S3.4", "S3.4.once")
async def test_at_the_end_everybody_is_told_and_nothing_more_is_sent() -> None:
    line = _Line()
    extension = _extension(line, BridgeOptions(bridge_timeout_s=60.0))
    async with _running(extension):
        waiting = [await _ask(extension, f"r{number}") for number in range(64)]
        with pytest.raises(LimitExceeded):
            _ = await _ask(extension, "one too many")
        line.come.put_nowait(None)
        assert set(await asyncio.gather(*waiting)) == {Gone()}
        await extension.ended.wait()
        with pytest.raises(NotSent):
            _ = await _ask(extension, "too late")
        await extension.send(b"{}")
        extension.spawn(extension.send(b"{}"))
        assert len(line.sent) == 64


async def test_a_fault_of_ours_ends_one_connection_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    class _Broken(_Line):
        async def receive(self) -> str | None:
            raise RuntimeError("a fault")

    line = _Broken()
    await _extension(line).run()
    assert line.closed_with == 1011
    assert "connection failed" in caplog.text
