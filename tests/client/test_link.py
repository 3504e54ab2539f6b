"""When a link opens another connection, and when it does not."""

import asyncio
import json
from collections.abc import Mapping

import anyio
import pytest

from outlive import PROTOCOL
from outlive.client.asyncio_runtime import AsyncioRuntime
from outlive.client.link import Address, Link
from outlive.client.runtime import ConnectionLost, Runtime, Transport, Unreachable
from outlive.core.errors import BackendUnavailable

pytestmark = pytest.mark.anyio

_OFFERED = {"backend": "local", "max_message_bytes": 1 << 20, "scope": "admin"}
_HELLO = json.dumps(
    {
        "method": "connected",
        "params": {"session_id": "s", "resumed": False, "protocol": PROTOCOL, "capabilities": _OFFERED},
    }
)


class _Wire:
    """Greets, then answers so many requests, then is lost; -1: before one was sent."""

    def __init__(self, answers: int) -> None:
        self.is_closed = False
        self._answers = answers
        self._frames = [_HELLO]

    async def send(self, frame: str | bytes) -> None:
        if self._answers < 0:
            raise ConnectionLost(was_sent=False)
        if self._answers:
            self._answers -= 1
            self._frames.append(json.dumps({"id": json.loads(frame)["id"], "result": {}}))

    async def receive(self, timeout_s: float | None) -> str:
        assert timeout_s is None or timeout_s > 0
        if not self._frames:
            raise ConnectionLost
        return self._frames.pop(0)

    async def close(self) -> None:
        self.is_closed = True


class _Address(Address):
    """Wires in the order in which they are dialled; None: nobody is there."""

    def __init__(self, *wires: _Wire | None) -> None:
        super().__init__(url="ws://nowhere/")
        self.wires = list(wires)
        self.queries: list[Mapping[str, str]] = []
        self.dialling = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def dial(self, world: Runtime, query: Mapping[str, str]) -> Transport:
        assert world.now() > 0
        self.queries.append(query)
        self.dialling.set()
        await self.may_answer.wait()
        wire = self.wires.pop(0)
        if wire is None:
            raise Unreachable
        return wire


def _link(address: Address, **options: bool) -> Link:
    return Link(address, AsyncioRuntime(), patience_s=10, **options)


async def test_a_repeatable_request_goes_on_over_any_number_of_connections() -> None:
    address = _Address(_Wire(1), None, _Wire(0), None, None, _Wire(1))
    link = _link(address)
    with anyio.fail_after(30):
        assert await link.request("get", {}) == {}
        assert await link.request("get", {}) == {}
    assert address.wires == []


async def test_what_may_not_be_repeated_is_sent_once() -> None:
    address = _Address(_Wire(-1), _Wire(0), _Wire(1))
    link = _link(address)
    with pytest.raises(BackendUnavailable) as lost:
        await link.request("write", {}, is_repeatable=False)
    assert (lost.value.code, len(address.wires)) == ("server_lost", 1)
    assert await link.request("write", {}, is_repeatable=False) == {}


async def test_only_a_link_that_keeps_its_session_names_it() -> None:
    for keeps_session in (False, True):
        address = _Address(_Wire(0), _Wire(1))
        await _link(address, keeps_session=keeps_session).request("get", {})
        assert address.queries == [{}, {"session_id": "s", "output": "none"} if keeps_session else {}]


async def test_a_connection_that_opens_too_late_is_closed_again() -> None:
    wire = _Wire(1)
    address = _Address(wire)
    address.may_answer.clear()
    link = _link(address)
    asking = asyncio.ensure_future(link.request("get", {}))
    with anyio.fail_after(30):
        await address.dialling.wait()
        await link.close()
        address.may_answer.set()
        with pytest.raises(BackendUnavailable, match="closed"):
            await asking
    assert wire.is_closed
