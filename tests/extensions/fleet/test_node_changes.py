"""Changes of nodes whose caller hangs up in the middle: each is done to its end, or not at all."""

import asyncio
import os
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from outlive.backends.contract import BackendListener, NodeState
from outlive.config import resolve
from outlive.core.errors import BackendUnavailable, ConfigInvalid, InvalidRequest
from outlive.core.events import AuditEvent, Event
from outlive.core.layout import Layout
from outlive.core.location import LOCAL
from outlive.core.needs import Amounts
from outlive.discovery.server_lock import ServerLock
from outlive.engine.processes.event_publisher import EventPublisher
from outlive.engine.processes.places import Places
from outlive.execution import engine_and_routing
from outlive.extensions.fleet.backend import RemoteBackend
from outlive.extensions.fleet.node_files import NodeEntry, NodeFiles
from outlive.extensions.fleet.nodes import Nodes
from outlive.extensions.fleet.operations import NodeAdd, NodeJoin, NodeRemoval, NodeRequest
from outlive.extensions.fleet.part import FleetPart
from outlive.extensions.fleet.routes import FleetRoutes
from outlive.extensions.server_part import Given
from outlive.placement.fleet import FleetNode
from outlive.placement.waiting_line import StaticPlacement
from outlive.policy.redaction import Redactor
from tests.engine.engines import ME
from tests.extensions.fleet.test_found_nodes import NoGateways, NothingToAdopt
from tests.keeper.house import House
from tests.support.processes import poll_until

_ADDED = NodeAdd(name="far", url="ws://127.0.0.1:1", token="t")


class _Held:
    """Waits in the middle of a change until it may go on."""

    def __init__(self) -> None:
        self.is_reached = asyncio.Event()
        self.may_go_on = asyncio.Event()

    async def __call__(self) -> None:
        self.is_reached.set()
        await self.may_go_on.wait()


class _Routes(FleetRoutes):
    """Takes its time to reach a node."""

    def __init__(self, held: _Held) -> None:
        self.held = held
        self.reached: dict[str, NodeEntry] = {}

    @property
    def declared(self) -> dict[str, str]:
        return {}

    def check(self, entry: NodeEntry) -> NodeEntry:
        if entry.url == "none":
            raise ConfigInvalid("config_invalid", "url: it is none.")
        if entry.url == "strange":
            raise ZeroDivisionError
        return entry

    async def put(self, name: str, entry: NodeEntry | None) -> None:
        await self.held()
        if entry is None:
            del self.reached[name]
        else:
            self.reached[name] = entry

    def states(self) -> dict[str, NodeState]:
        state = NodeState(
            address="", is_away=True, since=datetime.now(UTC), reason=None, hint=None, processes=0
        )
        return dict.fromkeys(self.reached, state)


class _Gateways(NoGateways):
    """Takes its time to join one."""

    def __init__(self, held: _Held) -> None:
        self.held = held
        self.joined: list[str] = []

    async def join(self, asked: NodeJoin) -> None:
        await self.held()
        self.joined.append(asked.url)


class _Made:
    """Nodes of a folder, and what is said of them for the audit log."""

    def __init__(self, folder: Path) -> None:
        self.held = _Held()
        self.routes = _Routes(self.held)
        self.gateways = _Gateways(self.held)
        self.files = NodeFiles(Layout(str(folder)))
        self.audited: list[str] = []
        events = EventPublisher()
        events.subscribe(self._note, kinds={AuditEvent})
        places = Places(StaticPlacement([FleetNode(name=LOCAL, capacity=Amounts())]))
        self.nodes = Nodes(
            self.files, self.routes, places, gateways=self.gateways, adoption=NothingToAdopt(), events=events
        )

    def _note(self, event: Event) -> None:
        assert isinstance(event, AuditEvent)
        self.audited.append(f"{event.what} {event.decision}")

    async def hang_up_in_the_middle(self, asked: NodeRequest) -> None:
        """Ask for a change, and cancel that while it is carried out; return once it is."""
        caller = asyncio.create_task(self.nodes.answer(asked, by=ME))
        await self.held.is_reached.wait()
        caller.cancel()
        await asyncio.wait({caller})
        assert caller.cancelled()
        count = len(self.audited)
        self.held.may_go_on.set()
        await poll_until(lambda: len(self.audited) > count)
        self.held.is_reached.clear()
        self.held.may_go_on.clear()


async def test_what_changes_nodes_goes_on_when_its_caller_hangs_up(tmp_path: Path) -> None:
    made = _Made(tmp_path)
    async with made.nodes.changes:
        await made.hang_up_in_the_middle(_ADDED)
        assert list(made.routes.reached) == ["far"]
        assert [one.name for one in await asyncio.to_thread(made.files.read)] == ["far"]
        await made.hang_up_in_the_middle(NodeRemoval(name="far"))
        assert not made.routes.reached
        assert await asyncio.to_thread(made.files.read) == []
        await made.hang_up_in_the_middle(NodeJoin(url="wss://gateway:8003", code="c"))
        assert made.gateways.joined == ["wss://gateway:8003"]
    assert made.audited == ["node_add allowed", "node_remove allowed", "node_join allowed"]


async def test_a_change_that_fails_is_told_and_ends_nothing_else(tmp_path: Path) -> None:
    made = _Made(tmp_path)
    made.held.may_go_on.set()
    with pytest.raises(BackendUnavailable):
        await made.nodes.answer(_ADDED, by=ME)
    async with made.nodes.changes:
        with pytest.raises(InvalidRequest):
            await made.nodes.answer(NodeAdd(name="far", url="none"), by=ME)
        with pytest.raises(ZeroDivisionError):
            await made.nodes.answer(NodeAdd(name="far", url="strange"), by=ME)
        listed = await made.nodes.answer(_ADDED, by=ME)
        assert [one.name for one in listed.nodes] == ["far"]
        made.held.is_reached.clear()
        made.held.may_go_on.clear()
        removal = asyncio.create_task(made.nodes.answer(NodeRemoval(name="far"), by=ME))
        await made.held.is_reached.wait()
    await asyncio.wait({removal})
    assert removal.cancelled()
    with pytest.raises(BackendUnavailable):
        await made.nodes.answer(_ADDED, by=ME)


async def test_a_node_that_could_not_be_opened_is_opened_when_it_is_added_again(
    own_house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[BackendListener] = []
    opens = RemoteBackend.open

    async def fails_once(self: RemoteBackend, listener: BackendListener) -> None:
        opened.append(listener)
        if len(opened) == 1:
            raise OSError("Input/output error")
        await opens(self, listener)

    monkeypatch.setattr(RemoteBackend, "open", fails_once)
    layout = own_house.layout
    settings = (await asyncio.to_thread(resolve, {"state_dir": layout.root}, {}, working_folder="/")).settings
    given = Given(
        settings=settings, layout=layout, working_folder="/", own_files=(), ports={}, environ=os.environ
    )
    part = await asyncio.to_thread(FleetPart, given)
    make = partial(engine_and_routing, given, redactor=Redactor(), parts=[part])
    engine, part._routes.routing = await asyncio.to_thread(make)
    nodes = Nodes(
        NodeFiles(layout),
        part._routes,
        engine.places,
        gateways=NoGateways(),
        adoption=NothingToAdopt(),
        events=engine.events,
    )
    with ServerLock(layout):
        async with engine, nodes.changes:
            with pytest.raises(OSError, match="Input/output"):
                await nodes.answer(_ADDED, by=ME)
            listed = await nodes.answer(_ADDED, by=ME)
            assert [one.name for one in listed.nodes] == ["far"]
            listed = await nodes.answer(NodeRemoval(name="far"), by=ME)
            assert listed.nodes == []
    assert len(opened) == 2
