"""Leases from what several servers share: each command is placed once, in order, whatever dies and whichever
server comes first.
"""

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from outlive.core.needs import Amounts
from outlive.extensions.ray.leased import LeasedPlacement
from outlive.extensions.ray.leases import LeaseAnswer, LeaseOrder, LeaseReport, LeasingNode, SeenLease
from outlive.placement.contract import FoundNode
from outlive.placement.fleet import Demand, FleetNode

_LOCAL = FleetNode(name="local", capacity=Amounts())


def _cpus(count: int) -> Demand:
    return Demand(amounts=Amounts.of(cpu=count))


@dataclass
class _Cluster:
    """What leases, as Ray does: the truth that all servers share."""

    sizes: dict[str, int]
    leases: dict[str, tuple[str, str, int]] = field(default_factory=dict)  # owner, node, processors

    def free(self, node: str) -> int:
        return self.sizes[node] - sum(cpus for _, place, cpus in self.leases.values() if place == node)

    def carry_out(self, order: LeaseOrder, owner: str) -> LeaseAnswer:
        held = self.leases.get(order.process_id)
        if held is not None and held[1] == order.node:
            return LeaseAnswer(number=order.number, is_done=True)
        self.leases.pop(order.process_id, None)
        if not order.node:
            return LeaseAnswer(number=order.number, is_done=True)
        cpus = order.amounts.cpu_milli // 1000
        if self.free(order.node) < cpus:
            return LeaseAnswer(number=order.number, is_done=False, reason="another one was first")
        self.leases[order.process_id] = (owner, order.node, cpus)
        return LeaseAnswer(number=order.number, is_done=True)

    def report(self, owner: str) -> LeaseReport:
        return LeaseReport(
            nodes=tuple(
                LeasingNode(name=name, capacity=Amounts.of(cpu=size), free=Amounts.of(cpu=self.free(name)))
                for name, size in self.sizes.items()
            ),
            leases=tuple(
                SeenLease(process_id=name, node=node, is_ours=of == owner)
                for name, (of, node, _) in self.leases.items()
            ),
        )


class _Server:
    """One server's placement; orders wait until the test carries them out."""

    def __init__(self, name: str, cluster: _Cluster) -> None:
        self.name = name
        self.cluster = cluster
        self.orders: list[LeaseOrder] = []
        self.given: dict[str, str] = {}
        self.put_back_ids: list[str] = []
        self.placement = LeasedPlacement(_LOCAL, self)
        for node, size in cluster.sizes.items():
            self.placement.node_changed(FleetNode(name=node, capacity=Amounts.of(cpu=size)))
        self.placement.begin(self)

    def send(self, order: LeaseOrder) -> None:
        self.orders.append(order)

    async def found(self) -> FoundNode:
        raise AssertionError("no test waits for a node")

    async def run(self, placement: LeasedPlacement) -> None:
        """Say what the test says."""

    def granted(self, process_id: str, node: str) -> None:
        assert process_id not in self.given, "a place is given once"
        self.given[process_id] = node

    def put_back(self, process_id: str) -> None:
        assert not self.placement.is_leasing(process_id)
        self.put_back_ids.append(process_id)

    def report(self) -> None:
        self.placement.reported(self.cluster.report(self.name))

    def carry_out(self) -> None:
        while self.orders:
            self.placement.answered(self.cluster.carry_out(self.orders.pop(0), self.name))

    def free(self, node: str) -> int:
        return next(one for one in self.placement.rooms() if one.node.name == node).free.cpu_milli // 1000


def test_a_place_is_given_once_its_lease_is_there() -> None:
    server = _Server("a", _Cluster({"n1": 2}))
    assert server.placement.acquire("1", _cpus(1)) is None, "nothing is known of the cluster yet"
    server.report()
    assert [one.node for one in server.orders] == ["n1"]
    assert (server.given, server.placement.is_leasing("1")) == ({}, True)
    server.carry_out()
    assert server.given == {"1": "n1"}
    assert server.placement.acquire("1", _cpus(1)) == "n1"
    assert not server.orders, "to ask again changes nothing"


def test_what_is_refused_or_runs_after_all_keeps_no_node_from_the_next() -> None:
    server = _Server("a", _Cluster({"n1": 2}))
    server.report()
    server.placement.acquire("1", _cpus(1))
    assert server.placement.acquire("2", _cpus(2), waits=False) is None
    assert server.placement.acquire("3", _cpus(2)) is None, "it keeps the other processor"
    assert server.placement.acquire("4", _cpus(1)) is None
    server.placement.adopt("3", _cpus(2), "gone")
    server.carry_out()
    assert server.given == {"1": "n1", "4": "n1"}


def test_what_another_server_has_taken_is_seen_and_waited_for() -> None:
    cluster = _Cluster({"n1": 2})
    one, other = _Server("a", cluster), _Server("b", cluster)
    for server in (one, other):
        server.report()
    one.placement.acquire("1", _cpus(2))
    one.carry_out()
    other.placement.acquire("2", _cpus(1))  # not reported yet
    other.placement.acquire("3", _cpus(1))
    other.carry_out()
    assert (other.given, other.put_back_ids) == ({}, ["2", "3"])
    assert other.placement.waiting() == ["2", "3"], "in the order in which they came"
    other.report()
    assert other.free("n1") == 0
    assert [room.processes for room in other.placement.rooms() if room.node.name == "n1"] == [1]
    assert other.placement.acquire("4", _cpus(1), waits=False) is None
    assert not other.placement.is_leasing("4")
    one.placement.release("1")
    one.carry_out()
    other.report()
    other.carry_out()
    assert other.given == {"2": "n1", "3": "n1"}


def test_a_server_that_starts_again_uses_the_leases_that_it_has() -> None:
    cluster = _Cluster({"n1": 2, "n2": 1})
    before = _Server("a", cluster)
    before.report()
    for name in ("runs", "granted", "withdrawn"):
        before.placement.acquire(name, _cpus(1))
    before.carry_out()
    after = _Server("a", cluster)
    after.placement.adopt("runs", _cpus(1), before.given["runs"])
    after.placement.acquire("granted", _cpus(1))
    after.placement.acquire("new", _cpus(1))
    after.report()
    after.carry_out()
    after.report()
    after.carry_out()
    assert after.given == {"granted": before.given["granted"], "new": before.given["withdrawn"]}
    assert set(cluster.leases) == {"runs", "granted", "new"}


def test_what_runs_on_a_node_is_counted_before_the_node_says_that_it_is_there() -> None:
    cluster = _Cluster({"n1": 1})
    cluster.leases["runs"] = ("a", "n1", 1)
    server = _Server("a", cluster)
    server.placement.node_removed("n1")
    server.placement.adopt("runs", _cpus(1), "n1")
    server.placement.acquire("waits", _cpus(1))
    server.report()
    server.placement.node_changed(FleetNode(name="n1", capacity=Amounts.of(cpu=1)))
    assert server.free("n1") == 0
    assert server.orders == []
    server.placement.release("runs")
    server.carry_out()
    assert server.given == {"waits": "n1"}


def test_a_lease_that_is_lost_is_taken_again_where_the_command_runs() -> None:
    cluster = _Cluster({"n1": 1, "n2": 1})
    server = _Server("a", cluster)
    server.report()
    server.placement.acquire("1", _cpus(1))
    server.carry_out()
    node = server.given["1"]
    elsewhere = "n2" if node == "n1" else "n1"
    cluster.leases["1"] = ("a", elsewhere, 1)  # as Ray does with the lease of a node that it has lost
    server.report()
    assert [(one.process_id, one.node) for one in server.orders] == [("1", node)]
    server.carry_out()
    assert cluster.leases["1"][1] == node


def test_orders_are_repeated_for_the_next_driver_and_nothing_is_placed_without_one() -> None:
    server = _Server("a", _Cluster({"n1": 1}))
    server.report()
    server.placement.acquire("1", _cpus(1))
    server.orders.clear()  # they are lost with the driver
    server.placement.nodes.lose()
    server.placement.acquire("2", _cpus(1))
    assert not server.orders
    server.placement.orders.repeat()
    assert [one.process_id for one in server.orders] == ["1"]
    server.carry_out()
    server.placement.release("1")
    server.orders.clear()
    server.placement.nodes.lose()
    server.placement.orders.repeat()
    server.carry_out()
    assert not server.cluster.leases
    server.report()
    server.carry_out()
    assert server.given == {"1": "n1", "2": "n1"}


def test_what_its_node_has_not_started_gives_its_lease_back_and_is_next() -> None:
    server = _Server("a", _Cluster({"n1": 1}))
    server.report()
    for name in "12":
        server.placement.acquire(name, _cpus(1))
    server.carry_out()
    assert server.given == {"1": "n1"}
    server.placement.node_changed(FleetNode(name="n1", capacity=Amounts.of(cpu=1), is_open=False))
    del server.given["1"]
    server.placement.put_back("1", _cpus(1))
    assert "1" in server.placement.waiting()
    server.placement.acquire("3", _cpus(1))
    server.carry_out()
    assert not server.cluster.leases
    assert server.placement.waiting() == ["1", "2", "3"]
    server.placement.node_changed(FleetNode(name="n1", capacity=Amounts.of(cpu=1)))
    server.report()
    server.carry_out()
    assert server.given == {"1": "n1"}


def test_a_node_that_refuses_again_and_again_is_asked_less_often_until_it_leases() -> None:
    """What is first of all goes to the next room elsewhere, instead of waiting for a machine that hangs."""
    cluster = _Cluster({"n1": 2, "n2": 2})
    cluster.leases = {"x": ("b", "n2", 2)}  # another server's
    server = _Server("a", cluster)
    server.report()
    server.placement.acquire("1", _cpus(1))
    asked = []
    for report in range(20):
        if server.orders:
            (order,) = server.orders
            server.orders.clear()
            asked.append(report)
            assert order.node == "n1", "no other one has room"
            server.placement.answered(LeaseAnswer(number=order.number, is_done=False, reason="no answer"))
        server.report()
    assert asked == [0, 1, 3, 7, 15]
    del cluster.leases["x"]
    server.report()
    assert [one.node for one in server.orders] == ["n2"], "it does not wait for the node that refuses"
    server.carry_out()
    assert server.given == {"1": "n2"}
    for _ in range(8):
        server.report()
    server.placement.acquire("2", _cpus(2))
    server.carry_out()
    assert server.given["2"] == "n1"
    server.placement.release("2")
    server.carry_out()
    server.placement.acquire("3", _cpus(2))
    (order,) = server.orders
    server.orders.clear()
    server.placement.answered(LeaseAnswer(number=order.number, is_done=False, reason="no answer"))
    server.report()
    assert [one.node for one in server.orders] == ["n1"], "it has leased since: once more is no row"


def test_what_could_not_be_given_back_is_given_back_later_also_where_another_server_has_leased_it() -> None:
    cluster = _Cluster({"n1": 1})
    gone = _Server("gone", cluster)
    gone.report()
    gone.placement.acquire("1", _cpus(1))
    gone.carry_out()
    server = _Server("a", cluster)
    server.placement.adopt("1", _cpus(1), "n1")
    server.report()
    server.placement.release("1")
    (order,) = server.orders
    server.orders.clear()
    server.placement.answered(LeaseAnswer(number=order.number, is_done=False, reason="TimeoutError"))
    assert not server.orders, "an error that comes fast would be asked for again without a pause"
    assert server.free("n1") == 0, "it may still be there"
    server.report()
    server.carry_out()
    assert not cluster.leases
    server.report()
    assert server.free("n1") == 1


_NAMES = st.integers(0, 30)


class LeasingServers(RuleBasedStateMachine):
    """Two servers on one cluster: never more than there is, and each lease is of a command that wants it."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = _Cluster({"n1": 2, "n2": 3})
        self.servers = [_Server("a", self.cluster), _Server("b", self.cluster)]
        self.wanted: list[dict[str, int]] = [{}, {}]
        self.count = 0

    @rule(which=st.integers(0, 1), cpus=st.integers(1, 3))
    def start(self, which: int, cpus: int) -> None:
        self.count += 1
        name = f"{which}-{self.count}"
        self.wanted[which][name] = cpus
        self.servers[which].placement.acquire(name, _cpus(cpus))

    @rule(which=st.integers(0, 1), number=_NAMES)
    def end(self, which: int, number: int) -> None:
        names = sorted(self.wanted[which])
        if names:
            name = names[number % len(names)]
            del self.wanted[which][name]
            self.servers[which].given.pop(name, None)
            self.servers[which].placement.release(name)

    @rule(which=st.integers(0, 1), number=_NAMES)
    def refuse(self, which: int, number: int) -> None:
        """A node does not start a command that has its lease."""
        names = sorted(self.servers[which].given)
        if names:
            name = names[number % len(names)]
            del self.servers[which].given[name]
            self.servers[which].placement.put_back(name, _cpus(self.wanted[which][name]))

    @rule(which=st.integers(0, 1))
    def answer(self, which: int) -> None:
        server = self.servers[which]
        if server.orders:
            server.placement.answered(self.cluster.carry_out(server.orders.pop(0), server.name))

    @rule(which=st.integers(0, 1), is_carried_out=st.booleans())
    def fail(self, which: int, is_carried_out: bool) -> None:
        """What leases answers with an error, whatever it has done."""
        server = self.servers[which]
        if server.orders:
            order = server.orders.pop(0)
            if is_carried_out:
                self.cluster.carry_out(order, server.name)
            server.placement.answered(LeaseAnswer(number=order.number, is_done=False, reason="TimeoutError"))

    @rule(which=st.integers(0, 1))
    def report(self, which: int) -> None:
        self.servers[which].report()

    @rule(which=st.integers(0, 1), kept=_NAMES)
    def lose_driver(self, which: int, kept: int) -> None:
        server = self.servers[which]
        for order in server.orders[:kept]:  # carried out, and not answered any more
            self.cluster.carry_out(order, server.name)
        server.orders.clear()
        server.placement.nodes.lose()
        server.placement.orders.repeat()

    @rule(which=st.integers(0, 1))
    def restart(self, which: int) -> None:
        old = self.servers[which]
        new = self.servers[which] = _Server(old.name, self.cluster)
        for name, cpus in self.wanted[which].items():
            if name in old.given:
                new.placement.adopt(name, _cpus(cpus), old.given[name])
                new.given[name] = old.given[name]
            else:
                new.placement.acquire(name, _cpus(cpus))

    @precondition(lambda self: self.count)
    @rule(number=_NAMES)
    def lose_lease(self, number: int) -> None:
        names = sorted(self.cluster.leases)
        if names:
            del self.cluster.leases[names[number % len(names)]]

    @invariant()
    def nothing_is_overbooked(self) -> None:
        assert all(self.cluster.free(node) >= 0 for node in self.cluster.sizes)

    def teardown(self) -> None:
        """Once all is said, every command that fits has its lease, and no lease is left over."""
        for _ in range(6):
            for server in self.servers:
                server.carry_out()
                server.report()
        for which, server in enumerate(self.servers):
            for name in list(self.wanted[which]):
                del self.wanted[which][name]
                server.placement.release(name)
                server.given.pop(name, None)
                for one in self.servers:
                    one.carry_out()
                    one.report()
        for _ in range(3):
            for server in self.servers:
                server.carry_out()
                server.report()
        assert self.cluster.leases == {}
        for server in self.servers:
            assert not server.placement.waiting()


TestLeasingServers = LeasingServers.TestCase
TestLeasingServers.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
