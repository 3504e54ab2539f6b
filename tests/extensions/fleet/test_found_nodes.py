"""Nodes that are found: used as if they had been added, kept over a restart, and never against an operator's
word.
"""

import asyncio
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from outlive.backends.contract import NodeState
from outlive.core.errors import ConfigInvalid
from outlive.core.layout import Layout
from outlive.core.needs import Amounts
from outlive.core.process import Owner
from outlive.engine.processes.event_publisher import EventPublisher
from outlive.engine.processes.places import Places
from outlive.extensions.fleet.adoption import Adoption
from outlive.extensions.fleet.joined.gateways import JoinedGateways
from outlive.extensions.fleet.node_files import NodeEntry, NodeFiles
from outlive.extensions.fleet.nodes import FoundNodes, Nodes
from outlive.extensions.fleet.operations import GatewayView, NodeAdd
from outlive.extensions.fleet.routes import FleetRoutes
from outlive.placement.contract import FoundNode
from outlive.placement.fleet import FleetNode
from outlive.placement.waiting_line import StaticPlacement


class _Finding(StaticPlacement):
    """Finds these nodes, one after the other."""

    def __init__(self, *found: FoundNode) -> None:
        super().__init__([FleetNode(name="local", capacity=Amounts())])
        self._left = list(found)

    async def found(self) -> FoundNode | None:  # type: ignore[override] # the static one finds none
        return self._left.pop(0) if self._left else None


class _Routes(FleetRoutes):
    """Notes how nodes are reached; an address without a scheme is none."""

    def __init__(self) -> None:
        self.put_entries: list[NodeEntry | None] = []

    @property
    def declared(self) -> Mapping[str, str]:
        return {"named": "https://named:1"}

    def check(self, entry: NodeEntry) -> NodeEntry:
        if ":" not in entry.url:
            raise ConfigInvalid("config_invalid", "url: it is none.")
        if entry.url == "strange:":
            raise ZeroDivisionError
        return replace(entry, url=entry.url.replace("http", "ws", 1))

    async def put(self, name: str, entry: NodeEntry | None) -> None:
        assert entry is None or entry.name == name
        self.put_entries.append(entry)

    def states(self) -> dict[str, NodeState]:
        return {}


class NothingToAdopt(Adoption):
    """Nothing runs on the nodes of these tests."""

    def __init__(self) -> None:
        pass

    async def adopt(self, node: str, *, ended: bool, by: Owner) -> list[str]:
        raise AssertionError(f"nothing is adopted: {node} {ended} {by}")


class NoGateways(JoinedGateways):
    """This machine has joined nothing."""

    def __init__(self) -> None:
        pass

    def views(self) -> list[GatewayView]:
        return []


def _found(name: str, url: str = "https://a:1", word: str = "t") -> FoundNode:
    return FoundNode(name=name, url=url, token=word)


def _nodes(folder: Path, routes: _Routes) -> tuple[Nodes, FoundNodes]:
    files = NodeFiles(Layout(str(folder)))
    places = Places(StaticPlacement())
    nodes = Nodes(
        files, routes, places, gateways=NoGateways(), adoption=NothingToAdopt(), events=EventPublisher()
    )
    return nodes, FoundNodes(nodes)


async def test_a_found_node_is_reached_kept_and_followed_to_its_new_address(tmp_path: Path) -> None:
    routes = _Routes()
    _, found = _nodes(tmp_path, routes)
    await found.take(_Finding(_found("n1"), _found("n1"), _found("n1", word="u")))
    assert [(one.url, one.token) for one in routes.put_entries if one] == [
        ("wss://a:1", "t"),
        ("wss://a:1", "u"),
    ]
    (kept,) = await asyncio.to_thread(NodeFiles(Layout(str(tmp_path))).read)
    assert (kept.name, kept.token, kept.is_found) == ("n1", "u", True)


async def test_an_operators_word_comes_before_what_is_found(tmp_path: Path) -> None:
    routes = _Routes()
    nodes, found = _nodes(tmp_path, routes)
    await nodes.add(NodeAdd(name="mine", url="http://mine:1", token="m"))
    await found.take(
        _Finding(_found("mine"), _found("named"), _found("local"), _found("bad", url="nowhere"), _found("n2"))
    )
    assert [one.name for one in routes.put_entries if one] == ["mine", "n2"]
    await nodes.add(NodeAdd(name="n2", url="http://other:1", token="o"))
    await found.take(_Finding(_found("n2", word="v")))
    assert [one.url for one in routes.put_entries if one][-1] == "ws://other:1"


@pytest.mark.promise("A.node")
async def test_what_a_cluster_calls_a_node_is_no_way_out_of_its_folder_and_ends_nothing(
    tmp_path: Path,
) -> None:
    routes = _Routes()
    _, found = _nodes(tmp_path / "state", routes)
    names = ["../../x", "a/b", "..", ".", "", "a\0b", "a\n", "\ud800", "A", "x" * 64]
    await found.take(
        _Finding(
            *(_found(name) for name in names),
            _found("s1", url="strange:"),
            _found("p1", url="http://10.0.0.1:1"),
            _found("p2", url="http://evil.example:1"),
            _found("n1"),
            _found("n2", url="http://127.0.0.1:1"),
            _found("n3", url="http://[::1]:1"),
        )
    )
    assert [one.name for one in routes.put_entries if one] == ["n1", "n2", "n3"]
    assert sorted(await asyncio.to_thread(os.listdir, tmp_path / "state" / "nodes")) == ["n1", "n2", "n3"]
    assert await asyncio.to_thread(os.listdir, tmp_path) == ["state"]
