"""The door at which nodes dial in, with a connection of the test's own in the place of a network."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.types import Message

from outlive.core.errors import BackendUnavailable
from outlive.extensions.fleet.joined.door import NodeDoor
from outlive.extensions.fleet.joined.lanes import JoinedNodes
from outlive.server.access.peers import PEER, Peer
from tests.extensions.fleet.test_node_keys import Gateway

pytestmark = pytest.mark.anyio


class Dialled:
    """One connection of a node."""

    def __init__(self, door: NodeDoor, secret: str, instance: str = "one") -> None:
        self._in: asyncio.Queue[Message] = asyncio.Queue()
        self._out: asyncio.Queue[Message] = asyncio.Queue()
        self._in.put_nowait({"type": "websocket.connect"})
        self.is_hung_up = asyncio.Event()
        headers = {"authorization": f"Bearer {secret}", "outlive-instance": instance}
        scope = {
            "type": "websocket",
            "path": "/node",
            "query_string": b"",
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
            "subprotocols": [],
            "extensions": {"websocket.http.response": {}},
            "state": {PEER: Peer(hang_up=self.is_hung_up.set)},
        }
        self.task = asyncio.ensure_future(Starlette(routes=door.routes())(scope, self._in.get, self._out.put))

    async def hear(self) -> dict[str, Any]:
        """Return the next message; its accept is passed over."""
        while True:
            message = await self._out.get()
            if message["type"] == "websocket.send":
                found: dict[str, Any] = json.loads(message["text"])
                return found
            if message["type"] == "websocket.http.response.body":
                refused: dict[str, Any] = json.loads(message["body"])
                return refused
            if message["type"] == "websocket.close":
                return {"type": "closed"}

    def say(self, **message: object) -> None:
        """Say something."""
        self.send(json.dumps(message))

    def send(self, text: str) -> None:
        """Send a frame."""
        self._in.put_nowait({"type": "websocket.receive", "text": text})

    @property
    def unread(self) -> int:
        """How many frames nothing has taken yet."""
        return self._in.qsize()

    async def enter(self) -> str:
        """Be let in; return the new credential."""
        message = await self.hear()
        assert message["type"] == "welcome", message
        self.say(type="kept")
        return str(message["credential"])

    def drop(self) -> None:
        """Lose the connection."""
        self._in.put_nowait({"type": "websocket.disconnect", "code": 1006})


async def settled(nodes: JoinedNodes) -> None:
    """Return once the connection that comes in now has been let in, or refused."""
    async with nodes.lane("far").entering:
        pass


@asynccontextmanager
async def opened(
    folder: Path, *, renewed_s: float = 3600.0
) -> AsyncIterator[tuple[Gateway, JoinedNodes, NodeDoor]]:
    """A door, its keys, and where its connections are taken from; a node "far" is invited."""
    gateway = await asyncio.to_thread(Gateway, str(folder))  # which has a loop of its own for each step
    nodes = JoinedNodes()
    async with asyncio.timeout(20):
        yield gateway, nodes, NodeDoor(gateway.keys, nodes, renewed_s=renewed_s)
    nodes.close()


@pytest.mark.promise("A.node")
async def test_a_node_that_stays_connected_gets_another_credential_each_day(tmp_path: Path) -> None:
    async with opened(tmp_path, renewed_s=0.01) as (gateway, nodes, door):
        node = Dialled(door, gateway.code)
        first = await node.enter()
        message = await node.hear()
        assert message["type"] == "renew"
        assert {gateway.keys.name_of(one) for one in (first, message["credential"])} == {"far"}
        node.say(type="kept")
        again = await node.hear()
        assert again["type"] == "renew"
        assert gateway.keys.name_of(first) is None
        node.say(type="kept")
        taken = await nodes.lane("far").take(patience_s=5)
        await taken.begin({"output": "none"})
        while (heard := await node.hear())["type"] == "renew":
            node.say(type="kept")
        assert heard == {"type": "serve", "query": {"output": "none"}}
        taken.close()
        await node.is_hung_up.wait()


@pytest.mark.promise("A.node")
async def test_a_node_whose_machine_vanished_is_let_in_again_once_its_old_connection_is_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outlive.extensions.fleet.joined.lanes._LIVES_S", 0.05)
    async with opened(tmp_path) as (gateway, nodes, door):
        old = Dialled(door, gateway.code)
        credential = await old.enter()
        await settled(nodes)
        back = Dialled(door, credential, "two")
        assert (await old.hear())["type"] == "probe"
        await back.enter()
        await old.is_hung_up.wait()
        assert (await nodes.lane("far").take(patience_s=5)).instance == "two"
        back.drop()
        await back.task


@pytest.mark.promise("A.node")
async def test_another_machine_is_refused_while_the_node_answers(tmp_path: Path) -> None:
    async with opened(tmp_path) as (gateway, nodes, door):
        node = Dialled(door, gateway.code)
        credential = await node.enter()
        await settled(nodes)
        copy = Dialled(door, credential, "two")
        assert (await node.hear())["type"] == "probe"
        node.say(type="here")
        refused = await copy.hear()
        assert (refused["type"], refused["error"]) == ("refused", "node_busy")
        assert gateway.keys.name_of(credential) == "far"
        assert (await nodes.lane("far").take(patience_s=5)).instance == "one"
        # The same server dials anew: what it left here is of no use, and nothing is asked over it.
        again = Dialled(door, credential)
        await again.enter()


@pytest.mark.promise("S4.12.nodes.joined.crash")
async def test_a_node_whose_disk_is_full_goes_on_with_what_it_has(tmp_path: Path) -> None:
    async with opened(tmp_path) as (gateway, nodes, door):
        node = Dialled(door, gateway.code)
        credential = await node.enter()
        await settled(nodes)
        again = Dialled(door, credential)
        await again.hear()
        again.say(type="kept", done=False)
        await nodes.lane("far").take(patience_s=5)
        assert gateway.keys.name_of(credential) == "far"


async def test_where_nothing_lies_ready_the_wait_ends(tmp_path: Path) -> None:
    async with opened(tmp_path) as (gateway, nodes, door):
        lane = nodes.lane("far")
        with pytest.raises(BackendUnavailable, match="dials in by itself"):
            await lane.take(patience_s=0.01)
        waiting = asyncio.ensure_future(lane.take(patience_s=10))
        node = Dialled(door, gateway.code)
        await node.enter()
        taken = await waiting
        node.drop()
        with pytest.raises(EOFError):
            await taken.receive(5)
        with pytest.raises(EOFError):
            await taken.send("x")


@pytest.mark.promise("A.node")
async def test_what_is_not_let_in_yet_holds_one_small_frame_and_a_large_one_ends_it(tmp_path: Path) -> None:
    async with opened(tmp_path) as (gateway, nodes, door):
        async with nodes.lane("far").entering:  # another connection is being let in
            node = Dialled(door, gateway.code)
            for _ in range(9):
                node.send("x" * 1000)
            large = Dialled(door, gateway.code)
            large.send("x" * (64 * 1024 + 1))
            for _ in range(50):
                await asyncio.sleep(0)
            assert node.unread == 8
        await large.is_hung_up.wait()
        assert (await node.hear())["type"] == "welcome"
        assert (await node.hear())["type"] == "refused"  # nonsense


@pytest.mark.promise("A.node")
async def test_four_connections_of_a_node_wait_and_others_are_refused_at_once(tmp_path: Path) -> None:
    async with opened(tmp_path) as (gateway, nodes, door):
        first = Dialled(door, gateway.code)
        assert (await first.hear())["type"] == "welcome"  # and it does not answer
        waiting = [Dialled(door, gateway.code) for _ in range(4)]
        crowd = [Dialled(door, gateway.code) for _ in range(20)]
        for one in crowd:
            assert (await one.hear())["error"] == "node_busy"
            await one.task
        for one in waiting[:3]:
            one.drop()
            await one.task  # without its turn
        first.say(type="kept")
        refused = await waiting[3].hear()  # the code is used up meanwhile
        assert (refused["type"], refused["error"]) == ("refused", "token_invalid")
        await nodes.lane("far").take(patience_s=5)


@pytest.mark.promise("A.node")
async def test_what_a_taken_connection_sends_unasked_fills_no_memory(tmp_path: Path) -> None:
    async with opened(tmp_path) as (gateway, nodes, door):
        node = Dialled(door, gateway.code)
        await node.enter()
        taken = await nodes.lane("far").take(patience_s=5)
        await taken.begin({})
        for _ in range(4):
            node.send("x" * 1_100_000)
        for _ in range(50):
            await asyncio.sleep(0)
        assert node.unread == 3
        for _ in range(4):
            assert len(await taken.receive(5)) == 1_100_000
        node.drop()
        await node.task
