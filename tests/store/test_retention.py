"""The time by which records grow old, for every history of clocks, boots and looks."""

from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlive.core.command import BootTime
from outlive.store.retention import ClockReading, RetentionClock

pytestmark = pytest.mark.promise("W.retention.clock")

_S = 10**9
_HOUR = 3600 * _S
_DAY = 24 * _HOUR
_START = 1_800_000_000 * _S


@dataclass(frozen=True, slots=True)
class _World:
    """A machine: true time, how wrong its clock is, when it was booted for which time."""

    true_ns: int = _START
    wrong_ns: int = 0
    booted_ns: int = _START - _DAY
    boots: int = 1

    @property
    def reading(self) -> ClockReading:
        boot = BootTime(str(self.boots), self.true_ns - self.booted_ns)
        return ClockReading(boot=boot, wall_ns=self.true_ns + self.wrong_ns)

    def passes(self, ns: int) -> "_World":
        return replace(self, true_ns=self.true_ns + ns)

    def reboots(self, off_ns: int) -> "_World":
        true_ns = self.true_ns + off_ns
        return replace(self, true_ns=true_ns, booted_ns=true_ns, boots=self.boots + 1)


_spans = st.sampled_from([1, _S, 59 * _S, _HOUR // 2, _HOUR, 2 * _HOUR, _DAY, 50 * _DAY])
_errors = st.sampled_from([0, 30 * _S, -_HOUR, _HOUR, 40 * _DAY, -40 * _DAY, 4000 * _DAY])
_steps = st.lists(
    st.one_of(
        st.tuples(st.just("passes"), _spans),
        st.tuples(st.just("set"), _errors),
        st.tuples(st.just("reboots"), _spans),
    ),
    max_size=12,
)


def _after(world: _World, step: tuple[str, int]) -> _World:
    what, ns = step
    match what:
        case "passes":
            return world.passes(ns)
        case "set":
            return replace(world, wrong_ns=ns)
        case _:
            return world.reboots(ns)


@given(_errors, _steps)
def test_within_a_boot_a_record_is_as_old_as_it_is(wrong_ns: int, steps: list[tuple[str, int]]) -> None:
    """Whatever was set in between, and whether the boot is settled or not."""
    world = _World(wrong_ns=wrong_ns)
    clock = RetentionClock.first(world.reading)
    ended = world
    for step in steps:
        world = _after(world, step)
        if step[0] == "reboots":
            ended = world
        clock = clock.step(world.reading)
        since = clock.at(ended.reading.boot, wall_ns=ended.reading.wall_ns)
        assert clock.now_ns - since == world.true_ns - ended.true_ns


@given(_errors, _steps, _errors)
def test_a_reboot_makes_a_record_a_day_older_at_most(
    before_ns: int, steps: list[tuple[str, int]], after_ns: int
) -> None:
    world = _World(wrong_ns=before_ns)
    clock = RetentionClock.first(world.reading)
    for step in steps:
        world = _after(world, step)
        clock = clock.step(world.reading)
    ended, since = world.reading, clock.now_ns
    world = replace(world.reboots(_HOUR), wrong_ns=after_ns).passes(_HOUR // 2)
    clock = clock.step(world.reading)
    age = clock.now_ns - clock.at(ended.boot, wall_ns=ended.wall_ns)
    assert clock.now_ns - since == age
    assert _HOUR // 2 <= age <= _DAY + _HOUR // 2


@given(_errors, st.lists(_errors.filter(lambda ns: abs(ns) > 60 * _S), max_size=3, unique=True))
def test_a_clock_that_went_on_for_an_hour_is_believed(before_ns: int, errors: list[int]) -> None:
    world = _World(wrong_ns=before_ns)
    clock = RetentionClock.first(world.reading)
    ended = world.reading
    world = world.reboots(50 * _DAY)
    for wrong_ns in errors:
        world = replace(world, wrong_ns=wrong_ns).passes(_HOUR // 2)
        clock = clock.step(world.reading)
    world = replace(world, wrong_ns=0).passes(_HOUR // 2)
    clock = clock.step(world.reading).step(world.passes(_HOUR).reading)
    world = world.passes(_HOUR)
    age = clock.now_ns - clock.at(ended.boot, wall_ns=ended.wall_ns)
    assert clock.is_settled
    assert age == max(world.true_ns - ended.wall_ns, world.reading.boot.boottime_ns)


def test_an_hour_at_wrong_and_right_by_turns_proves_nothing() -> None:
    world = _World()
    clock = RetentionClock.first(world.reading)
    world = world.reboots(_DAY)
    for turn in range(12):
        world = replace(world, wrong_ns=(turn % 2) * 40 * _DAY).passes(_HOUR // 2)
        clock = clock.step(world.reading)
    assert not clock.is_settled


@given(_errors, _steps)
def test_what_is_kept_is_read_again(wrong_ns: int, steps: list[tuple[str, int]]) -> None:
    world = _World(wrong_ns=wrong_ns)
    clock = RetentionClock.first(world.reading, floor_ns=None if wrong_ns else _START)
    for step in steps:
        world = _after(world, step)
        clock = clock.step(world.reading)
    assert RetentionClock.read(clock.view()) == clock


@pytest.mark.parametrize("view", [None, [], {}, {"boot_id": 1}, "torn"])
def test_what_is_no_clock_is_none(view: object) -> None:
    assert RetentionClock.read(view) is None


def test_a_record_of_an_unknown_boot_is_as_old_as_the_wall_clock_said() -> None:
    clock = RetentionClock.first(_World().reading)
    assert clock.at(BootTime("other", 5), wall_ns=7) == clock.at(None, wall_ns=7) == 7


def test_a_folder_without_a_clock_begins_with_what_a_record_of_this_boot_tells() -> None:
    """Issue 19: the clock was set forward by 40 days since."""
    world = _World()
    ended, world = world.reading, replace(world.passes(_DAY), wrong_ns=40 * _DAY)
    clock = RetentionClock.of_boot(world.reading, begin_ns=ended.wall_ns - ended.boot.boottime_ns)
    assert clock.now_ns - ended.wall_ns == _DAY
    assert clock.step(world.passes(2 * _HOUR).reading).now_ns - ended.wall_ns == _DAY + 2 * _HOUR
