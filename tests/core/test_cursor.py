"""Positions in a process's output: the wire form, its bounds, and the order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlive.core.cursor import BEGINNING, Cursor
from outlive.core.errors import InvalidRequest

_offsets = st.integers(0, 10**18 - 1)


@pytest.mark.promise("W.cursor")
@given(_offsets, _offsets)
def test_a_cursor_comes_back_as_it_was(stdout: int, stderr: int) -> None:
    cursor = Cursor(stdout, stderr)
    assert Cursor.parse(str(cursor)) == cursor
    assert str(cursor) == f"{stdout}.{stderr}"


@pytest.mark.promise("W.cursor")
@pytest.mark.parametrize("text", ["0", "0.0", "00", "0.00"])
def test_zero_is_the_beginning(text: str) -> None:
    assert Cursor.parse(text) == BEGINNING == Cursor()


@given(_offsets)
def test_one_number_is_a_position_in_stdout(stdout: int) -> None:
    assert Cursor.parse(str(stdout)) == Cursor(stdout, 0)


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        "1.",
        ".1",
        "-1",
        "1.-1",
        "1.2.3",
        " 1",
        "1 ",
        "1_0",
        "0x1",
        "1e3",
        "\u0663",
        "\u00b2",
        "1" * 19,
        "1.\n",
    ],
)
def test_what_is_no_cursor_is_refused_with_a_hint(text: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        Cursor.parse(text)
    assert refused.value.code == "invalid_cursor"
    assert "0" in refused.value.hint


@given(st.text(max_size=40))
def test_any_text_is_a_cursor_or_refused(text: str) -> None:
    try:
        cursor = Cursor.parse(text)
    except InvalidRequest:
        return
    assert 0 <= cursor.stdout < 2**63
    assert 0 <= cursor.stderr < 2**63


def test_a_long_wrong_cursor_is_not_repeated_in_full() -> None:
    with pytest.raises(InvalidRequest) as refused:
        Cursor.parse("x" * 10_000)
    assert len(refused.value.message) < 100


@given(_offsets, _offsets, st.integers(1, 1000))
def test_more_output_is_a_greater_cursor(stdout: int, stderr: int, more: int) -> None:
    assert Cursor(stdout, stderr) < Cursor(stdout + more, stderr)
    assert Cursor(stdout, stderr) < Cursor(stdout, stderr + more)
