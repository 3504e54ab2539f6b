"""Permanent names of processes: form, order in time, and both ways between text and bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlive.core.identity import (
    ID_LENGTH,
    RANDOM_BYTES,
    id_from_bytes,
    id_to_bytes,
    is_process_id,
    new_process_id,
)

_raw = st.binary(min_size=16, max_size=16)
_microseconds = st.integers(0, (2**48 - 1) * 1000 - 2)
_randomness = st.binary(min_size=RANDOM_BYTES, max_size=RANDOM_BYTES)


@given(_raw)
def test_an_id_comes_back_as_it_was(raw: bytes) -> None:
    text = id_from_bytes(raw)
    assert id_to_bytes(text) == raw
    assert is_process_id(text)
    assert len(text) == ID_LENGTH


@pytest.mark.promise("W.process-id")
@given(_microseconds, _randomness, _randomness)
def test_a_later_id_sorts_later(now_us: int, first: bytes, second: bytes) -> None:
    """By a microsecond: what is started one after the other is listed so."""
    assert new_process_id(now_us * 1000, first) < new_process_id(now_us * 1000 + 1000, second)


@pytest.mark.promise("W.process-id")
@given(_microseconds, _randomness, _randomness)
def test_ids_of_one_microsecond_differ_by_their_randomness(now_us: int, first: bytes, second: bytes) -> None:
    """By five bits of each of its bytes."""
    ids = [new_process_id(now_us * 1000, each) for each in (first, second)]
    counted = [[value & 31 for value in each] for each in (first, second)]
    assert (ids[0] == ids[1]) == (counted[0] == counted[1])


@given(_microseconds, _randomness)
def test_an_id_tells_when_it_was_made(now_us: int, randomness: bytes) -> None:
    """As a ULID does: 48 bits of milliseconds stand first, ours has ten of microseconds behind them."""
    raw = id_to_bytes(new_process_id(now_us * 1000, randomness))
    assert divmod(now_us, 1000) == (int.from_bytes(raw[:6], "big"), int.from_bytes(raw, "big") >> 70 & 1023)


@given(_raw, _raw)
def test_text_and_bytes_sort_alike(first: bytes, second: bytes) -> None:
    assert (id_from_bytes(first) < id_from_bytes(second)) == (first < second)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0" * 25,
        "0" * 27,
        "8" + "0" * 25,
        "I" * 26,
        "0" * 25 + "u",
        "../" + "0" * 23,
        "0" * 25 + "\n",
        "\u0660" * 26,
    ],
)
def test_what_is_no_id_is_refused(text: str) -> None:
    assert not is_process_id(text)
    with pytest.raises(ValueError, match="not a process id"):
        id_to_bytes(text)


@given(st.text(max_size=40))
def test_an_id_is_safe_as_a_file_name(text: str) -> None:
    if is_process_id(text):
        assert text.isascii()
        assert text.isalnum()


@pytest.mark.parametrize("size", [0, RANDOM_BYTES - 1, RANDOM_BYTES + 1])
def test_the_randomness_has_its_length(size: int) -> None:
    with pytest.raises(AssertionError, match="random bytes"):
        new_process_id(0, bytes(size))
