"""How often somebody may ask: token buckets."""

from hypothesis import given
from hypothesis import strategies as st

from outlive.policy.access import Rates, TokenBucket

_STEPS = st.lists(st.tuples(st.floats(0, 10), st.integers(1, 20)), max_size=60)


@given(rate=st.floats(0.1, 1000), burst=st.floats(1, 1000), steps=_STEPS)
def test_nobody_gets_more_than_the_burst_and_what_flowed_in_but_for_one_batch(
    rate: float, burst: float, steps: list[tuple[float, int]]
) -> None:
    bucket = TokenBucket(rate, burst, 0.0)
    now, passed, largest = 0.0, 0, 0
    for pause, count in steps:
        now += pause
        if bucket.take(now, count=count) == 0.0:
            passed += count
            largest = max(largest, count)
        assert passed <= burst + rate * now + largest + 1e-6


@given(rate=st.floats(0.1, 1000), burst=st.floats(1, 1000), steps=_STEPS)
def test_who_waits_as_long_as_told_may_pass(
    rate: float, burst: float, steps: list[tuple[float, int]]
) -> None:
    bucket = TokenBucket(rate, burst, 0.0)
    now = 0.0
    for pause, count in steps:
        now += pause
        wait_s = bucket.take(now, count=count)
        if wait_s:
            now += wait_s * (1 + 1e-9) + 1e-9
            assert bucket.take(now) == 0.0


def test_a_clock_that_stands_still_or_goes_back_gives_nothing() -> None:
    bucket = TokenBucket(1.0, 1.0, 100.0)
    assert bucket.take(100.0) == 0.0
    assert bucket.take(50.0) > 0.0


def test_names_do_not_share_a_bucket() -> None:
    rates = Rates(0.25)
    assert rates.take("loud", 0.0) == 0.0
    assert rates.take("loud", 0.0) > 0.0
    assert rates.take("quiet", 0.0) == 0.0


def test_no_rate_limits_nobody() -> None:
    rates = Rates(None)
    assert all(rates.take("anybody", 0.0) == 0.0 for _ in range(10_000))


def test_only_so_many_names_are_remembered() -> None:
    rates = Rates(0.25)
    assert rates.take("first", 0.0) == 0.0
    for number in range(5000):
        rates.take(f"name {number}", 0.0)
    assert rates.take("first", 0.0) == 0.0, "forgotten long ago"
    assert rates.take("name 4999", 0.0) > 0.0, "still known"
