"""When another attempt is made, and when there are enough."""

from hypothesis import given
from hypothesis import strategies as st

from outlive.client.link import Patience, is_passing
from outlive.core.errors import SLUGS, error_from_slug


@given(st.floats(0, 100))
def test_attempts_fill_the_time_and_end_with_it(limit_s: float) -> None:
    patience, now, attempts = Patience(limit_s), 0.0, 0
    while (pause_s := patience.failed(now)) is not None:
        now += pause_s
        attempts += 1
        assert 0 < pause_s <= 0.5
    assert now <= limit_s + 1e-6
    assert attempts <= 10 + limit_s / 0.5


def test_the_first_attempts_come_quickly() -> None:
    patience, now = Patience(10.0), 0.0
    for _ in range(4):
        now += patience.failed(now) or 0.0
    assert now < 0.3


def test_a_success_begins_a_new_streak() -> None:
    patience = Patience(1.0)
    first = patience.failed(0.0)
    patience.succeeded()
    assert patience.failed(100.0) == first


def test_only_what_may_pass_is_tried_again() -> None:
    passing = {slug for slug in SLUGS if is_passing(error_from_slug(slug, "It did not work."))}
    assert passing == {"caller_undetermined", "connection_limit", "keeper_unavailable", "timeout"}
