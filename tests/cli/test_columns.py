"""Tables: as wide as they are in a pipe, cut at a terminal, states in colours; and the words for an end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlive.cli.columns import cells, shortened, table, wrapped
from outlive.cli.output import Painted


def test_without_a_width_nothing_is_cut() -> None:
    assert table([("A", "LONG", "C"), ("xyz", "1", "c d")]) == ["A    LONG  C", "xyz  1     c d"]


def test_the_last_column_gives_way_first() -> None:
    rows = [("ID", "COMMAND"), ("7m2x4q", "make -j8 all && make install")]
    assert table(rows, width=20) == ["ID      COMMAND", "7m2x4q  make -j8 al…"]


def test_the_widest_of_the_others_gives_way_next() -> None:
    rows = [("ID", "IMAGE", "COMMAND"), ("7m2x4q", "registry/of/a/very/long/name:latest", "make -j8 all")]
    assert table(rows, width=36) == [
        "ID      IMAGE           COMMAND",
        "7m2x4q  registry/of/a…  make -j8 all",
    ]


def test_a_cell_is_as_wide_as_it_is_shown() -> None:
    assert table([("A", "B"), ("\x1b[2J\n", "x")]) == ["A          B", "\\x1b[2J\\n  x"]


def test_ideographs_take_two_cells() -> None:
    assert cells("あe") == 3
    assert shortened("ああああ", 5) == "ああ…"
    assert shortened("e\u0301e\u0301", 2) == "e\u0301e\u0301"


def test_lines_are_broken_at_blanks_and_within_a_word_that_is_longer_than_a_line() -> None:
    assert wrapped("a reused pid is never hit", 10) == ["a reused", "pid is", "never hit"]
    assert wrapped("in /var/lib/outlive", 8) == ["in", "/var/lib", "/outlive"]
    assert wrapped("ああ あb", 4) == ["ああ", "あb"]
    assert wrapped("", 4) == [""]


@given(st.text(st.sampled_from("ab あe\u0301 ")), st.integers(1, 12))
def test_wrapped_lines_fit_and_hold_the_whole_text(text: str, room: int) -> None:
    lines = wrapped(text, room)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert all(cells(line) <= room or (cells(line) == 2 and room == 1) for line in lines)


@pytest.mark.parametrize(
    ("state", "colour"),
    [
        ("running", "32"),
        ("finished", "2"),
        ("failed (exit 3)", "31"),
        ("crashed (SEGV)", "31"),
        ("stopped", "2"),
        ("paused", "33"),
        ("lost", "35"),
    ],
)
def test_states_have_colours(state: str, colour: str) -> None:
    width = max(len(state), len("STATE"))
    rows = [("ID", "STATE", "COMMAND"), ("7m2x4q", state, "true")]
    assert table(rows)[1] == ("7m2x4q  ", Painted(state.ljust(width), colour), "  true")


def test_what_needs_a_person_is_seen_first() -> None:
    state = "asks for input"
    assert table([("STATE", "C"), (state, "x")])[1] == ("", Painted(state, "33;1"), "  x")


@given(
    st.lists(
        st.tuples(*[st.text(st.characters(blacklist_categories=("C", "Z")), max_size=40)] * 4), max_size=5
    ),
    st.integers(45, 200),
)
def test_no_line_is_longer_than_the_terminal(rows: list[tuple[str, str, str, str]], width: int) -> None:
    lines = table([("ID", "STATUS", "FOLDER", "COMMAND"), *rows], width=width)
    assert all(isinstance(line, str) and cells(line) <= width for line in lines)
