"""Times as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlive.core.durations import UNITS_S, parse_duration, split_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90.0),
        ("0", 0.0),
        ("1.5s", 1.5),
        ("500ms", 0.5),
        ("5 m", 300.0),
        ("2 Hours", 7200.0),
        (" 7d ", 604_800.0),
        ("3 mins", 180.0),
        (".5", 0.5),
    ],
)
def test_a_time_is_a_number_with_or_without_a_unit(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text", ["", "m", "-1", "1e3", "1_000", "٣", "5 weeks", "1.2.3", "nan", "inf", "5m 3s", "."]
)
def test_what_is_no_time_is_refused_and_an_example_is_given(text: str) -> None:
    with pytest.raises(ValueError, match="5m"):
        parse_duration(text)


@given(number=st.integers(0, 10**6), unit=st.sampled_from([*UNITS_S, ""]))
def test_whatever_is_written_is_read_as_it_is(number: int, unit: str) -> None:
    assert split_duration(f"{number}{unit}") == (float(number), unit)


@given(st.text())
def test_no_text_is_a_time_by_accident(text: str) -> None:
    number, unit = split_duration(text)
    assert (number is None and not unit) or (number is not None and number >= 0)
