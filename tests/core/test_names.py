"""Names of processes: what may be one, and that nothing which an id looks like is (Hypothesis)."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlive.core.errors import InvalidRequest
from outlive.core.identity import (
    RANDOM_BYTES,
    end_of_id,
    id_from_bytes,
    is_name,
    is_process_id,
    new_process_id,
    number_of,
    short_id,
    short_name,
)
from outlive.core.process import check_name

_IDS = st.binary(min_size=16, max_size=16).map(id_from_bytes)


@pytest.mark.promise("W.names.grammar")
@pytest.mark.parametrize(
    "word",
    [
        "web",
        "a",
        "Server",
        "server",
        "web1",
        "db-2",
        "x.y_z",
        "P",
        "p7a",
        "cmd",
        "n" * 63,
        "retry1",
        "cache1",
        "test42",
    ],
)
def test_a_word_that_begins_with_a_letter_is_a_name(word: str) -> None:
    assert is_name(word)
    check_name(word)


@pytest.mark.promise("W.names.grammar")
@pytest.mark.parametrize(
    "word",
    [
        *("", "1", "4711", "1web", "-w", "_w", ".w", "@last", "@web", "a b", "a/b", "a\n", "ä", "n" * 64),
        *(
            "p7",
            "P7",
            "p0",
            "p007",
            "p12345678901234567890",
            "cmd_1_2",
            "cmd_",
            "CMD_1_2",
        ),
    ],
)
def test_a_word_that_an_id_looks_like_is_no_name(word: str) -> None:
    assert not is_name(word)
    with pytest.raises(InvalidRequest) as refused:
        check_name(word)
    assert refused.value.code == "name_invalid"
    assert "letter" in refused.value.hint


@pytest.mark.promise("W.names.grammar")
@given(_IDS)
def test_no_id_is_a_name_but_what_lists_show_of_it_may_be_one_where_it_begins_with_a_letter(
    process_id: str,
) -> None:
    assert is_process_id(process_id)
    assert not is_name(process_id)
    shown = short_name(process_id)
    assert is_name(shown) == (shown[0].isalpha() and number_of(shown) is None)
    assert end_of_id(short_name(process_id)) == short_name(process_id)


@pytest.mark.promise("W.names.grammar")
@given(st.integers(min_value=1, max_value=10**18 - 1))
def test_no_short_id_and_no_number_is_a_name(number: int) -> None:
    assert number_of(short_id(number)) == number
    assert not is_name(short_id(number))
    assert not is_name(str(number))


@pytest.mark.promise("W.names.grammar")
@given(st.text(max_size=70))
def test_a_name_is_never_an_id_in_any_form(word: str) -> None:
    if not is_name(word):
        return
    assert re.fullmatch(r"[A-Za-z][A-Za-z0-9_.-]{0,62}", word)
    assert not is_process_id(word)
    assert number_of(word) is None
    assert not word.isdigit()
    assert not word.startswith(("@", "cmd_"))


@given(st.integers(min_value=0, max_value=2**62), st.binary(min_size=RANDOM_BYTES, max_size=RANDOM_BYTES))
def test_the_end_of_an_id_counts_from_four_characters_on(now_ns: int, randomness: bytes) -> None:
    process_id = new_process_id(now_ns, randomness)
    assert end_of_id(process_id[-4:].upper()) == process_id[-4:]
    assert end_of_id(process_id[-3:]) is None
    assert end_of_id(process_id) is None
