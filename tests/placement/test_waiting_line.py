"""Which command is next: never more than there is, in order among equals, and none waits for ever."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from outlive.core.needs import Amounts
from outlive.placement.fleet import Demand, FleetNode, FleetRooms
from outlive.placement.waiting_line import WaitingLine

_PATIENCE = 3


def _line(*cpus: int, patience: int = _PATIENCE) -> tuple[FleetRooms, WaitingLine]:
    fleet = FleetRooms()
    for number, cpu in enumerate(cpus):
        fleet.put(FleetNode(name=f"n{number}", capacity=Amounts(cpu_milli=cpu * 1000)))
    return fleet, WaitingLine(fleet, patience=patience)


def _cpus(count: int) -> Demand:
    return Demand(amounts=Amounts(cpu_milli=count * 1000))


def test_those_that_wait_are_placed_in_the_order_in_which_they_came() -> None:
    fleet, line = _line(1)
    assert line.add("1", _cpus(1)) == "n0"
    assert [line.add(name, _cpus(1)) for name in "234"] == [None, None, None]
    assert line.waiting == ["2", "3", "4"]
    order = []
    running = "1"
    while fleet.free(running):
        grants = line.advance()
        if not grants:
            break
        assert len(grants) == 1
        running = grants[0].process_id
        order.append(running)
    assert order == ["2", "3", "4"]
    assert len(line) == 0


def test_a_later_command_passes_one_that_fits_nowhere_but_not_on_the_node_that_it_keeps() -> None:
    _, line = _line(4, 2)
    line.add("long", _cpus(3))  # n0 has one left
    assert line.add("large", _cpus(4)) is None  # it keeps n0
    assert line.add("small", _cpus(1)) == "n1"
    assert line.add("other", _cpus(1)) == "n1"
    assert line.add("third", _cpus(1)) is None, "n0 has room, which is kept"


def test_a_command_that_was_passed_often_enough_is_passed_no_more() -> None:
    fleet, line = _line(2, 2)
    for name in ("service 1", "service 2"):  # never end; n0 and n1 have one left each
        line.add(name, _cpus(1))
    assert line.add("large", _cpus(2)) is None
    for number in range(_PATIENCE):
        name = f"small {number}"
        assert line.add(name, _cpus(1)) == "n1"
        fleet.free(name)
        assert line.advance() == []
    assert line.add("one more", _cpus(1)) is None
    fleet.free("service 2")
    assert [(one.process_id, one.node) for one in line.advance()] == [("large", "n1"), ("one more", "n0")]


def test_what_nothing_could_ever_run_keeps_no_machine_from_others() -> None:
    _, line = _line(2)
    assert line.add("huge", _cpus(64)) is None
    assert line.add("small", _cpus(1)) == "n0"


def test_a_withdrawn_command_gives_its_turn_to_the_next() -> None:
    fleet, line = _line(1)
    line.add("1", _cpus(1))
    for name in "234":
        line.add(name, _cpus(1))
    assert line.remove("2")
    assert line.remove("3")
    assert not line.remove("3")
    fleet.free("1")
    assert [one.process_id for one in line.advance()] == ["4"]


def test_a_node_that_comes_takes_what_waits() -> None:
    fleet, line = _line()
    assert line.add("1", _cpus(1)) is None
    fleet.put(FleetNode(name="new", capacity=Amounts(cpu_milli=1000)))
    assert [(one.process_id, one.node) for one in line.advance()] == [("1", "new")]


def test_a_node_that_was_kept_in_vain_goes_to_the_oldest_at_once() -> None:
    fleet, line = _line(2, 2)
    for name, cpu in (("1", 2), ("2", 1), ("3", 2), ("4", 1), ("5", 2)):
        line.add(name, _cpus(cpu))
    assert line.waiting == ["3", "4", "5"]  # n1, where a half is free, is kept for the third
    assert fleet.free("1") == "n0"
    assert [(one.process_id, one.node) for one in line.advance("n0")] == [("3", "n0"), ("4", "n1")]


class Lines(RuleBasedStateMachine):
    """Commands come, end and are withdrawn, nodes come, close and go, in any order."""

    @initialize(cpus=st.lists(st.integers(1, 4), min_size=1, max_size=4))
    def begin(self, cpus: list[int]) -> None:
        """Make a fleet."""
        self.fleet, self.line = _line(*cpus)
        self.capacity = {f"n{number}": cpu for number, cpu in enumerate(cpus)}
        self.needs: dict[str, int] = {}
        self.order: list[str] = []  # of all that wait
        self.count = 0
        self.on: dict[str, str] = {}

    def _granted(self, process_id: str, node: str) -> None:
        """Check that none that needs no more has come before."""
        place = self.order.index(process_id) if process_id in self.order else len(self.order)
        for earlier in self.order[:place]:
            assert self.needs[earlier] > self.needs[process_id], "passed by one that needs the same or more"
        if process_id in self.order:
            self.order.remove(process_id)
        self.on[process_id] = node

    def _advance(self, freed: str | None = None) -> None:
        for grant in self.line.advance(freed):
            self._granted(grant.process_id, grant.node)

    @rule(cpu=st.integers(1, 4))
    def start(self, cpu: int) -> None:
        """A command comes."""
        self.count += 1
        name = str(self.count)
        self.needs[name] = cpu
        may = not self.order and self.fleet.choose(_cpus(cpu)) is not None
        node = self.line.add(name, _cpus(cpu))
        if node is None:
            assert not may, "nothing waits, and a node has room"
            self.order.append(name)
        else:
            self._granted(name, node)

    @rule(cpu=st.integers(1, 4))
    def start_now(self, cpu: int) -> None:
        """A command comes that does not wait."""
        self.count += 1
        name = str(self.count)
        self.needs[name] = cpu
        may = not self.order and self.fleet.choose(_cpus(cpu)) is not None
        node = self.line.add(name, _cpus(cpu), waits=False)
        if node is not None:
            self._granted(name, node)
        else:
            assert not may, "nothing waits, and a node has room"

    @rule(which=st.integers(0))
    def end(self, which: int) -> None:
        """A command that runs ends."""
        if self.on:
            name = sorted(self.on)[which % len(self.on)]
            node = self.on.pop(name)
            self.fleet.free(name)
            self._advance(node)

    @rule(which=st.integers(0))
    def withdraw(self, which: int) -> None:
        """A command that waits is withdrawn."""
        if self.order:
            name = self.order.pop(which % len(self.order))
            assert self.line.remove(name)
            self._advance()

    @rule(which=st.integers(0), is_open=st.booleans())
    def drain(self, which: int, *, is_open: bool) -> None:
        """A node takes no more, or takes some again."""
        name = sorted(self.capacity)[which % len(self.capacity)]
        cpu_milli = self.capacity[name] * 1000
        self.fleet.put(FleetNode(name=name, capacity=Amounts(cpu_milli=cpu_milli), is_open=is_open))
        self._advance()

    @invariant()
    def nothing_is_overbooked(self) -> None:
        """No node runs more than it has, and all is counted."""
        for name, cpu in self.capacity.items():
            used = sum(self.needs[one] for one, node in self.on.items() if node == name)
            assert used <= cpu
            assert self.fleet.free_of(name).cpu_milli == (cpu - used) * 1000

    @invariant()
    def the_order_is_kept(self) -> None:
        """What waits stands in the order in which it came."""
        assert self.line.waiting == self.order

    @invariant()
    def an_open_machine_does_not_idle(self) -> None:
        """The oldest that wait are not kept from a node that has all that they need."""
        if self.order:
            assert self.fleet.choose(_cpus(self.needs[self.order[0]])) is None

    def teardown(self) -> None:
        """End all that run: what some node can run runs to its end, in bounded time."""
        for name, cpu in self.capacity.items():
            self.fleet.put(FleetNode(name=name, capacity=Amounts(cpu_milli=cpu * 1000)))
        self._advance()
        while self.on:
            name = next(iter(self.on))
            del self.on[name]
            self.fleet.free(name)
            self._advance()
        assert all(self.needs[name] > max(self.capacity.values()) for name in self.order)


TestLines = Lines.TestCase
TestLines.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
