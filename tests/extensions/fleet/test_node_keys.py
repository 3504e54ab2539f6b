"""Codes and credentials of nodes: whichever side is killed at whichever step, the node has one that counts,
and no older one does.
"""

import asyncio
import tempfile
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from outlive.core.errors import AccessDenied
from outlive.core.layout import Layout
from outlive.core.needs import Amounts
from outlive.engine.processes.places import Places
from outlive.extensions.fleet.node_files import NodeEntry, NodeFiles
from outlive.extensions.fleet.node_keys import INVITED_S, DeclaredNodes, NodeKeys
from outlive.placement.fleet import FleetNode
from outlive.placement.waiting_line import StaticPlacement


class Gateway:
    """The keys of a state folder, which are read anew after each kill."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self.now = 1_000_000.0
        self.restart()
        self.code, kept = self.keys.invitation()
        self.run(self.declared.keep(NodeEntry(name="far", dials_in=True, invitation=kept)))

    def restart(self) -> None:
        """Forget all that is not on disk."""
        places = Places(StaticPlacement([FleetNode(name="local", capacity=Amounts())]))
        self.declared = DeclaredNodes(NodeFiles(Layout(self._folder)), places)
        self.keys = NodeKeys(self.declared, clock=lambda: self.now)
        self.run(self.declared.open())

    @staticmethod
    def run(step: Coroutine[Any, Any, Any]) -> Any:  # noqa: ANN401 - whatever the step gives
        """Do one step to its end."""
        return asyncio.run(step)

    def renew(self, secret: str) -> str:
        """Let a machine in that shows `secret`; return what it is given."""
        key = self.keys.find(secret)
        assert key is not None, "what the node has kept does not count"
        return str(self.run(self.keys.renew(key)))

    def kept(self, secret: str, credential: str, **labels: str) -> None:
        """Hear that it has kept what it was given for `secret`, with the labels that it gives itself."""
        key = self.keys.find(secret)
        assert key is not None
        self.run(self.keys.kept(key, credential, labels))


class Kills(RuleBasedStateMachine):
    """A node that connects again and again, and either side is killed anywhere in between."""

    @initialize()
    def invite(self) -> None:
        """Begin with an invitation."""
        self._folder = tempfile.TemporaryDirectory()
        self.gateway = Gateway(self._folder.name)
        self.secret = self.gateway.code
        self.older: list[str] = []

    @rule()
    def connect(self) -> None:
        """Connect, and nothing is killed."""
        new = self.gateway.renew(self.secret)
        self.gateway.kept(self.secret, new)
        self.older.append(self.secret)
        self.secret = new
        assert [one for one in self.older if self.gateway.keys.find(one)] == []

    @rule()
    def die_before_it_is_kept(self) -> None:
        """The node never has the new one."""
        self.older.append(self.gateway.renew(self.secret))

    @rule()
    def die_before_it_is_acknowledged(self) -> None:
        """The node has the new one, and the gateway does not know that."""
        new = self.gateway.renew(self.secret)
        self.older.append(self.secret)
        self.secret = new

    @rule()
    def kill_the_gateway(self) -> None:
        """What it has said is on disk."""
        self.gateway.restart()

    @invariant()
    def the_node_is_let_in(self) -> None:
        """What it has kept counts."""
        if hasattr(self, "gateway"):
            found = self.gateway.keys.find(self.secret)
            assert found is not None
            assert found.node == "far"

    def teardown(self) -> None:
        """Remove the files."""
        if hasattr(self, "_folder"):
            self._folder.cleanup()


TestKills = pytest.mark.thorough(pytest.mark.promise("S4.12.nodes.joined.crash")(Kills.TestCase))
TestKills.settings = settings(max_examples=40, stateful_step_count=12, deadline=None)


@pytest.fixture
def gateway(tmp_path: object) -> Gateway:
    """A gateway that has invited a node."""
    return Gateway(str(tmp_path))


@pytest.mark.promise("A.node")
def test_a_code_counts_for_ten_minutes(gateway: Gateway) -> None:
    gateway.now += INVITED_S - 1
    assert gateway.keys.name_of(gateway.code) == "far"
    gateway.now += 1
    assert gateway.keys.name_of(gateway.code) is None


@pytest.mark.promise("A.node")
def test_a_code_is_used_up_by_what_it_gave_also_after_a_kill(gateway: Gateway) -> None:
    """The acknowledgement was lost: what was given for the code shows that it has arrived."""
    credential = gateway.renew(gateway.code)
    gateway.restart()
    new = gateway.renew(credential)
    assert gateway.keys.find(gateway.code) is None
    gateway.kept(credential, new)


@pytest.mark.promise("A.node")
def test_a_machine_stays_the_node_until_another_has_joined_in_its_place(gateway: Gateway) -> None:
    first = gateway.renew(gateway.code)
    gateway.kept(gateway.code, first)
    code, kept = gateway.keys.invitation()
    entry = gateway.declared.entries["far"]
    gateway.run(
        gateway.declared.keep(
            NodeEntry(name="far", dials_in=True, credentials=entry.credentials, invitation=kept)
        )
    )
    second = gateway.renew(code)
    assert gateway.keys.name_of(first) == "far"
    gateway.kept(code, second)
    assert [gateway.keys.name_of(one) for one in (first, code, second)] == [None, None, "far"]


@pytest.mark.promise("A.node")
def test_a_node_that_was_removed_meanwhile_is_let_in_no_more(gateway: Gateway) -> None:
    key = gateway.keys.find(gateway.code)
    assert key is not None
    credential = gateway.renew(gateway.code)
    gateway.run(gateway.declared.drop("far"))
    for step in (gateway.keys.renew(key), gateway.keys.kept(key, credential, {})):
        with pytest.raises(AccessDenied):
            gateway.run(step)
    assert not gateway.keys.is_current(key)


@pytest.mark.promise("A.node")
def test_what_a_node_calls_itself_is_replaced_each_time_and_never_the_operators_word(
    gateway: Gateway,
) -> None:
    """A node that says something new at each connection fills neither the memory nor the disk, and may take a
    label back.
    """
    entry = replace(gateway.declared.entries["far"], labels={"zone": "eu"})
    gateway.run(gateway.declared.keep(entry))
    secret = gateway.code
    for number in range(3):
        new = gateway.renew(secret)
        gateway.kept(secret, new, **{f"l{number}": "x", "zone": "us", "rack": str(number)})
        secret = new
    gateway.restart()
    node = FleetNode(name="far", capacity=Amounts(), labels=frozenset({("zone", "asia"), ("os", "linux")}))
    shown = gateway.declared.entries["far"].applied(node).labels
    assert sorted(shown) == [("l2", "x"), ("os", "linux"), ("rack", "2"), ("zone", "eu")]
