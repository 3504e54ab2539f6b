"""Tables: as wide as they are in a pipe, cut at a terminal, states in colours; and the words for an end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlive.cli.columns import cells, shortened, table


def test_without_a_width_nothing_is_cut() -> None:
    assert table([("A", "LONG", "C"), ("xyz", "1", "c d")]) == "A    LONG  C\nxyz  1     c d"


def test_the_last_column_gives_way_first() -> None:
    rows = [("ID", "COMMAND"), ("7m2x4q", "make -j8 all && make install")]
    assert table(rows, width=20) == "ID      COMMAND\n7m2x4q  make -j8 al…"


def test_the_widest_of_the_others_gives_way_next() -> None:
    rows = [("ID", "IMAGE", "COMMAND"), ("7m2x4q", "registry/of/a/very/long/name:latest", "make -j8 all")]
    assert table(
        rows, width=36
    ) == "ID      IMAGE           COMMAND\n7m2x4q  registry/of/a…  make -j8 all".replace(
        "IMAGE           ", "IMAGE           "
    )


def test_ideographs_take_two_cells() -> None:
    assert cells("あe") == 3
    assert shortened("ああああ", 5) == "ああ…"
    assert shortened("e\u0301e\u0301", 2) == "e\u0301e\u0301"


@pytest.mark.parametrize(
    ("state", "colour"),
    [
        ("running", "32"),
        ("exit 0", "2"),
        ("exit 3", "31"),
        ("killed by SEGV", "31"),
        ("paused", "33"),
        ("lost", "35"),
    ],
)
def test_states_have_colours_where_they_are_wanted(state: str, colour: str) -> None:
    rows = [("STATE", "COMMAND"), (state, "true")]
    assert "\x1b" not in table(rows)
    assert f"\x1b[{colour}m{state}" in table(rows, is_coloured=True)


def test_what_needs_a_person_is_seen_first() -> None:
    assert "\x1b[33;1mrunning, waits for input" in table(
        [("STATE", "C"), ("running, waits for input", "x")], is_coloured=True
    )


@given(
    st.lists(
        st.tuples(*[st.text(st.characters(blacklist_categories=("C", "Z")), max_size=40)] * 4), max_size=5
    ),
    st.integers(45, 200),
)
def test_no_line_is_longer_than_the_terminal(rows: list[tuple[str, str, str, str]], width: int) -> None:
    lines = table([("ID", "STATE", "FOLDER", "COMMAND"), *rows], width=width).split("\n")
    assert all(cells(line) <= width for line in lines)
