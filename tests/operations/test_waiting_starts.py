"""Approvals, turns in groups and places on a machine, in any order of all that can happen to them."""

from dataclasses import dataclass, replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from outlive.core.needs import Amounts
from outlive.operations.waiting_starts import Effect, Effects, GroupKey, WaitingStarts
from outlive.placement.fleet import Demand, FleetNode
from outlive.placement.waiting_line import StaticPlacement

_G: GroupKey = ("me", "g")
_H: GroupKey = ("me", "h")
_MACHINE = FleetNode(name="local", capacity=Amounts.of(cpu=2, gpu=1))
_HOPELESS = Demand(amounts=Amounts.of(gpu=8))
_NEEDS = st.sampled_from(
    [None, *(Demand(amounts=Amounts.of(**one)) for one in ({"cpu": 1}, {"cpu": 2}, {"gpu": 1})), _HOPELESS]
)
_GROUPS = st.sampled_from([_G, _G, _G, _H, None])
_PICKS = st.integers(0, 1000)


@dataclass
class _Command:
    name: str
    needs: Demand | None
    group: GroupKey | None


class WaitingCommands(RuleBasedStateMachine):
    """Commands come, are approved, denied, cancelled, moved and turned away by their machine, and end; limits
    and labels change, the machine goes and comes, the server restarts.

    What the engine does is done here: effects are carried out on a placement that counts.
    """

    @initialize(limit=st.none() | st.integers(1, 2))
    def open(self, limit: int | None) -> None:
        """Open the first server."""
        self.count = 0
        self.asked: dict[str, _Command] = {}
        self.queued: dict[str, _Command] = {}  # in the order in which they came
        self.alive: dict[str, _Command] = {}
        self.lines: dict[GroupKey, list[str]] = {_G: [], _H: []}
        self.limits: dict[GroupKey, int] = {} if limit is None else {_G: limit}
        self.order: list[str] = []  # on disk, since a command was moved
        self.node = _MACHINE
        self._serve()
        self.begin()

    def _serve(self) -> None:
        self.is_begun = False
        self.machine = WaitingStarts()
        self.placement = StaticPlacement([self.node])
        for key, limit in self.limits.items():
            self._carry_out(self.machine.set_limit(key, limit))

    def teardown(self) -> None:
        """Let all end: nothing is left that waits, but for what no machine has."""
        if not hasattr(self, "machine"):
            return
        if not self.is_begun:
            self.begin()
        if not self.node.is_open:
            self.open_or_close()
        for name in [name for name, one in self.queued.items() if one.needs == _HOPELESS]:
            self._cancel(name)
        while self.alive:
            self._end(next(iter(self.alive)))
        assert not self.queued, "they wait for ever"

    # -- what the engine does

    def granted(self, process_id: str, node: str) -> None:
        """Take over a place (see `PlacementListener`)."""
        assert node == "local"
        self._carry_out(self.machine.place_given(process_id))

    def put_back(self, process_id: str) -> None:
        """A place that is counted here is not put back."""
        raise AssertionError(process_id)

    def _carry_out(self, effects: Effects) -> None:
        for effect, name in effects:
            if effect is Effect.GIVE_PLACE_BACK:
                self.placement.release(name)
            elif effect is Effect.START:
                one = self.alive[name] = self.queued.pop(name)
                if one.group is not None:
                    self.lines[one.group].remove(name)
                if one.needs is not None:
                    assert self.placement.acquire(name, one.needs) == "local", "started without its place"
            # A place that was given back before may have gone to it.
            elif name in self.machine and self._acquire(self.queued[name]):
                self._carry_out(self.machine.place_given(name))

    def _acquire(self, one: _Command) -> bool:
        return one.needs is not None and self.placement.acquire(one.name, one.needs) is not None

    def _put(self, one: _Command, *, is_first: bool = False) -> None:
        self.queued[one.name] = one
        if one.group is not None:
            line = self.lines[one.group]
            line.insert(0 if is_first else len(line), one.name)
        needs_place = one.needs is not None
        self._carry_out(self.machine.put(one.name, one.group, needs_place=needs_place, is_first=is_first))

    # -- what happens

    @precondition(lambda self: not self.is_begun)
    @rule()
    def begin(self) -> None:
        """What runs was found."""
        self.is_begun = True
        self.placement.begin(self)
        self._carry_out(self.machine.begin())

    @rule(needs=_NEEDS, group=_GROUPS, pauses=st.booleans())
    def start(self, needs: Demand | None, group: GroupKey | None, *, pauses: bool) -> None:
        """A command comes (see `Starts._start`)."""
        self.count += 1
        one = _Command(f"{self.count:03}", needs, group)
        is_queued = group is not None and self.machine.is_full(group)
        if not is_queued and needs is not None:
            is_queued = not self._acquire(one)
        if not is_queued:
            self.alive[one.name] = one
            self._carry_out(self.machine.enter(one.name, group))
            return
        if pauses and self.alive:  # it is asked for notices, and something ends meanwhile
            self._end(next(iter(self.alive)))
        self._put(one)

    @rule(needs=_NEEDS, group=_GROUPS)
    def ask(self, needs: Demand | None, group: GroupKey | None) -> None:
        """A command comes that a person has to approve."""
        self.count += 1
        name = f"{self.count:03}"
        self.asked[name] = _Command(name, needs, group)
        self.machine.ask(name)

    @precondition(lambda self: self.asked)
    @rule(pick=_PICKS)
    def approve(self, pick: int) -> None:
        """It is approved."""
        self._put(self.asked.pop(list(self.asked)[pick % len(self.asked)]))

    @precondition(lambda self: self.asked)
    @rule(pick=_PICKS)
    def deny(self, pick: int) -> None:
        """It is denied, or its time is up."""
        name = list(self.asked)[pick % len(self.asked)]
        del self.asked[name]
        assert self.machine.take_out(name) == []

    def _end(self, name: str) -> None:
        del self.alive[name]
        self._carry_out(self.machine.ended(name))
        self.placement.release(name)

    @precondition(lambda self: self.alive)
    @rule(pick=_PICKS)
    def end(self, pick: int) -> None:
        """One that runs ends."""
        self._end(list(self.alive)[pick % len(self.alive)])

    @precondition(lambda self: self.alive)
    @rule(pick=_PICKS)
    def turn_away(self, pick: int) -> None:
        """The machine refuses one that it was to start."""
        one = list(self.alive.values())[pick % len(self.alive)]
        if one.needs is None:
            return
        del self.alive[one.name]
        self.placement.put_back(one.name, one.needs)
        self._put(one, is_first=True)

    def _cancel(self, name: str) -> None:
        one = self.queued.pop(name)
        if one.group is not None:
            self.lines[one.group].remove(name)
        self._carry_out(self.machine.take_out(name))
        self._carry_out(self.machine.ended(name))

    @precondition(lambda self: self.queued)
    @rule(pick=_PICKS)
    def cancel(self, pick: int) -> None:
        """One that waits is cancelled."""
        self._cancel(list(self.queued)[pick % len(self.queued)])

    @precondition(lambda self: self.queued)
    @rule(pick=_PICKS, places=st.sampled_from([-3, -1, 1, 2]), is_full=st.booleans())
    def move(self, pick: int, places: int, *, is_full: bool) -> None:
        """One that waits is moved, unless the disk is full."""
        name, one = list(self.queued.items())[pick % len(self.queued)]
        order = self.machine.order()
        old = self.machine.move(name, places)
        if one.group is None or one.group not in self.limits:
            assert old is None
            return
        assert old is not None
        line = self.lines[one.group]
        assert line[old] == name
        if is_full:
            self.machine.move(name, -len(line))
            self.machine.move(name, old)
            assert self.machine.order() == order
        else:
            line.remove(name)
            line.insert(max(0, min(len(line), old + places)), name)
            self.order = self.machine.order()
        self._carry_out(self.machine.look(name))

    @rule(key=st.sampled_from([_G, _H]), limit=st.none() | st.integers(1, 4))
    def limit(self, key: GroupKey, limit: int | None) -> None:
        """The limit of a group is changed."""
        if limit is None:
            self.limits.pop(key, None)
        else:
            self.limits[key] = limit
        self._carry_out(self.machine.set_limit(key, limit))

    @precondition(lambda self: self.alive)
    @rule(pick=_PICKS, group=_GROUPS)
    def relabel(self, pick: int, group: GroupKey | None) -> None:
        """One that runs gets another group, or the same one."""
        one = list(self.alive.values())[pick % len(self.alive)]
        is_same, waiting = one.group == group, list(self.queued)
        one.group = group
        self._carry_out(self.machine.regroup(one.name, group))
        assert not is_same or list(self.queued) == waiting, "a tag has given another one a turn"

    @rule()
    def open_or_close(self) -> None:
        """The machine goes away, or comes back."""
        self.node = replace(self.node, is_open=not self.node.is_open)
        self.placement.node_changed(self.node)

    @rule()
    def restart(self) -> None:
        """The server ends, and the next one finds what there is (see `QueueStore.open`)."""
        lines = {key: list(line) for key, line in self.lines.items()}
        turns = {name: turn for turn, name in enumerate(self.order)}
        waiting = sorted(self.queued.values(), key=lambda one: (turns.get(one.name, len(turns)), one.name))
        self._serve()
        self.queued.clear()
        self.lines = {_G: [], _H: []}
        for name in self.asked:
            self.machine.ask(name)
        for one in waiting:
            self._put(one)
        for name, one in self.alive.items():
            if one.needs is not None:
                self.placement.adopt(name, one.needs, "local")
            self._carry_out(self.machine.enter(name, one.group))
        for line in self.lines.values():  # those that were turned away are where their age puts them
            assert sorted(line) == sorted(name for one in lines.values() for name in one if name in line)

    # -- what is always so

    def _turns(self) -> list[str]:
        turns = [name for name, one in self.queued.items() if one.group is None]
        for key, line in self.lines.items():
            running = sum(one.group == key for one in self.alive.values())
            limit = self.limits.get(key)
            turns += line if limit is None else line[: max(0, limit - running)]
        return turns

    @invariant()
    def the_machine_knows_what_waits(self) -> None:
        """Check it against the lines that are kept here."""
        if not hasattr(self, "machine"):
            return
        assert self.machine.asked == set(self.asked)
        assert sorted(self.machine.order()) == sorted(self.queued)
        assert self.machine.turns == set(self._turns())
        assert self.machine.limits == self.limits
        views = {one.group: one for one in self.machine.views("me")}
        for key, line in self.lines.items():
            running = sum(one.group == key for one in self.alive.values())
            assert (key[1] in views) == bool(line or running or key in self.limits)
            if key[1] in views:
                view = views[key[1]]
                assert (view.waiting, view.running, view.limit) == (line, running, self.limits.get(key))

    @invariant()
    def turns_and_places_agree(self) -> None:
        """Check that each that has its turn waits for a place alone, and that no other one has or wants
        one.
        """
        if not hasattr(self, "machine") or not self.is_begun:
            return
        turns = self._turns()
        assert all(self.queued[name].needs for name in turns), "nothing keeps these from running"
        assert set(self.placement.waiting()) == set(turns), "these want a place, and no others"
        taken = sum((one.needs.amounts for one in self.alive.values() if one.needs), Amounts())
        assert self.node.capacity - self.placement.rooms()[0].free == taken


TestWaitingCommands = WaitingCommands.TestCase
TestWaitingCommands.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)


def _begun(**limits: int) -> WaitingStarts:
    machine = WaitingStarts()
    for name, limit in limits.items():
        machine.set_limit(("me", name), limit)
    assert machine.begin() == []
    return machine


def _effects(kind: Effect, *names: str) -> Effects:
    return [(kind, name) for name in names]


def test_one_that_no_machine_can_run_holds_up_no_other_one_of_a_group_without_a_limit() -> None:
    """Only the head of a line was looked at."""
    machine = _begun()
    assert machine.put("hopeless", _G, needs_place=True) == _effects(Effect.ASK_FOR_PLACE, "hopeless")
    assert machine.put("second", _G, needs_place=True) == _effects(Effect.ASK_FOR_PLACE, "second")
    assert machine.place_given("second") == _effects(Effect.START, "second")


def test_one_that_waits_for_a_place_leaves_the_rest_of_its_group_what_its_limit_has_left() -> None:
    machine = _begun(g=2)
    machine.put("hopeless", _G, needs_place=True)
    assert machine.put("second", _G, needs_place=False) == [
        (Effect.ASK_FOR_PLACE, "hopeless"),
        (Effect.START, "second"),
    ]
    assert machine.put("third", _G, needs_place=False) == _effects(Effect.ASK_FOR_PLACE, "hopeless")
    assert machine.ended("second") == [(Effect.ASK_FOR_PLACE, "hopeless"), (Effect.START, "third")]


def test_a_cancel_of_the_head_of_a_line_gives_its_turn_to_the_next() -> None:
    machine = _begun(g=1)
    machine.put("hopeless", _G, needs_place=True)
    assert machine.put("second", _G, needs_place=True)[1:] == _effects(Effect.GIVE_PLACE_BACK, "second")
    assert machine.take_out("hopeless") == [
        (Effect.GIVE_PLACE_BACK, "hopeless"),
        (Effect.ASK_FOR_PLACE, "second"),
    ]
    assert machine.take_out("hopeless") == []


def test_a_head_that_is_moved_back_gives_up_the_place_that_it_has_asked_for() -> None:
    machine = _begun(g=1)
    machine.put("first", _G, needs_place=True)
    machine.put("second", _G, needs_place=True)
    assert machine.move("first", 5) == 0
    assert machine.look("first") == [(Effect.ASK_FOR_PLACE, "second"), (Effect.GIVE_PLACE_BACK, "first")]
    assert machine.place_given("first") == [], "it has just been given one that it wants no more"
    assert machine.place_given("second") == _effects(Effect.START, "second")


def test_a_command_that_its_machine_has_refused_keeps_its_turn_in_its_group() -> None:
    machine = _begun(g=1)
    machine.put("first", _G, needs_place=True)
    machine.place_given("first")
    machine.put("second", _G, needs_place=False)
    asked = machine.put("first", _G, needs_place=True, is_first=True)
    assert asked == _effects(Effect.ASK_FOR_PLACE, "first")
    assert machine.views("me")[0].waiting == ["first", "second"]


def test_other_labels_of_the_same_group_give_no_other_one_a_turn() -> None:
    machine = _begun(g=1)
    machine.enter("runs", _G)
    machine.put("waits", _G, needs_place=False)
    assert machine.regroup("runs", _G) == []
    assert machine.regroup("runs", None) == _effects(Effect.START, "waits")


def test_a_command_that_gets_another_group_while_it_comes_back_into_its_line_waits_there() -> None:
    machine = _begun(g=1, h=1)
    machine.enter("runs", _H)
    machine.put("refused", _G, needs_place=True)
    machine.put("next", _G, needs_place=False)
    assert machine.regroup("refused", _H) == [(Effect.GIVE_PLACE_BACK, "refused"), (Effect.START, "next")]


def test_a_cancel_of_a_command_that_has_started_gives_no_place_back_that_is_in_use() -> None:
    machine = _begun()
    machine.put("one", None, needs_place=True)
    assert machine.place_given("one") == _effects(Effect.START, "one")
    assert machine.take_out("one") == []
    assert machine.place_given("one") == []


def test_a_lower_limit_takes_turns_back_and_a_higher_one_gives_them_again() -> None:
    machine = _begun(g=2)
    machine.enter("runs", _G)
    machine.put("waits", _G, needs_place=True)
    assert machine.set_limit(_G, 1) == _effects(Effect.GIVE_PLACE_BACK, "waits")
    assert machine.set_limit(_G, 2) == _effects(Effect.ASK_FOR_PLACE, "waits")


def test_an_approved_command_waits_at_the_end_of_its_line() -> None:
    machine = _begun(g=1)
    machine.enter("runs", _G)
    machine.ask("asked")
    machine.put("second", _G, needs_place=False)
    assert machine.put("asked", _G, needs_place=False) == []
    assert not machine.asked
    assert machine.ended("runs") == _effects(Effect.START, "second")


def test_before_all_that_runs_is_found_nothing_starts_and_then_what_came_first_asks_first() -> None:
    machine = WaitingStarts()
    for name, group in (("1", _G), ("2", None), ("3", _G), ("4", None)):
        assert machine.put(name, group, needs_place=True) == []
    assert machine.place_given("2") == []
    assert machine.begin() == _effects(Effect.ASK_FOR_PLACE, "1", "2", "3", "4")


def test_a_move_in_one_line_changes_no_other_order_over_a_restart() -> None:
    """The order was kept line by line: after one move all of a group asked for places before others."""
    machine = _begun(g=1)
    machine.enter("runs", _G)
    for name, group in (("1", None), ("2", _G), ("3", _H), ("4", _G), ("5", None), ("6", _H)):
        machine.put(name, group, needs_place=True)
    assert machine.move("4", -1) == 1
    assert machine.order() == ["1", "4", "3", "2", "5", "6"]


def test_the_server_that_ends_starts_none_any_more() -> None:
    machine = _begun()
    machine.put("one", None, needs_place=True)
    machine.close()
    assert machine.place_given("one") == []
    assert machine.put("two", None, needs_place=False) == []
