"""What commands need and machines have: amounts add up, and what is said of needs is read as it was meant."""

from hypothesis import given
from hypothesis import strategies as st

from outlive.core.needs import Amounts, Needs

_COUNTS = st.integers(0, 10**9)
_AMOUNTS = st.builds(Amounts, cpu_milli=_COUNTS, memory_bytes=_COUNTS, gpu_milli=_COUNTS)
_NAMES = st.text(min_size=1, max_size=8)
_NEEDS = st.builds(
    Needs,
    amounts=_AMOUNTS,
    labels=st.dictionaries(_NAMES, _NAMES, max_size=3),
    node=st.sampled_from(["", "gpu1"]),
    same_node_as=st.none() | _NAMES,
    is_spread=st.booleans(),
    is_patient=st.booleans(),
    gpus=st.lists(_NAMES, max_size=3).map(tuple),
)


@given(_NEEDS)
def test_needs_are_read_from_what_shows_them(needs: Needs) -> None:
    assert Needs.decode(needs.view()) == needs


def test_what_is_not_said_is_not_shown_and_what_is_no_needs_is_none() -> None:
    assert Needs().view() == {"cpu": 1.0}
    assert Needs.decode({"cpu": 1.0}) == Needs()
    assert [Needs.decode(one) for one in (None, "cpu=1", ["cpu"])] == [None] * 3
    # A member of the wrong kind is as if it were not there.
    assert Needs.decode({"cpu": "4", "labels": "zone=eu", "gpus": 2}) == Needs(amounts=Amounts())


@given(_AMOUNTS, _AMOUNTS)
def test_what_is_taken_and_given_back_adds_up_to_nothing(all_of_it: Amounts, taken: Amounts) -> None:
    assert all_of_it - taken + taken == all_of_it
    assert (all_of_it + taken).holds(taken)
    assert (all_of_it - taken).holds(Amounts())  # nothing is asked for, also where too much was taken


def test_one_lack_is_enough_not_to_hold() -> None:
    has = Amounts.of(cpu=2, memory_bytes=100, gpu=0.5)
    assert has.holds(Amounts.of(cpu=2, memory_bytes=100, gpu=0.5))
    lacking = [Amounts.of(cpu=2.001), Amounts.of(memory_bytes=101), Amounts.of(gpu=0.501)]
    assert [has.holds(one) for one in lacking] == [False] * 3
