"""A page of matches is bounded: the first ones, the last ones, and how many lie between."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlive.core.cursor import Cursor
from outlive.protocols.output.body import Source
from outlive.protocols.output.matches import Found, Matches, cut_around
from tests.protocols.output.making import made_lines


@pytest.mark.promise("S4.13.grep")
@given(st.lists(st.tuples(st.integers(0, 120), st.booleans()), max_size=80), st.integers(100, 500))
def test_what_is_shown_keeps_the_budget_and_counts_the_rest(
    sizes: list[tuple[int, bool]], budget: int
) -> None:
    lines = made_lines(*("x" * size for size, _ in sizes))
    matches = Matches(budget)
    every = [Found(line, is_match) for line, (_, is_match) in zip(lines, sizes, strict=True)]
    matches.add(every)
    assert matches.count == sum(is_match for _, is_match in sizes)
    text = matches.text(budget, source=Source('read(id="p"'), pattern='a "b"')
    first, last = matches.shown(budget)
    if not last:
        assert first == every
        assert text == "\n".join(line.text for line in lines)
        return
    mark = re.search(
        (
            r'^\[(\d+) lines match; (?:(\d+) not|of the .* not) shown: read\(id="p", '
            r'cursor="([\d.]+)-([\d.]+)", grep="a \\"b\\""\)\]$'
        ),
        text,
        re.MULTILINE,
    )
    assert mark is not None
    assert len(text) - len(mark[0]) <= budget + 2 or len(last) == 1
    assert int(mark[1]) == matches.count
    between = [
        one
        for one in every
        if Cursor.parse(mark[3]) <= one.line.start and one.line.end <= Cursor.parse(mark[4])
    ]
    assert sum(one.is_match for one in between) == int(mark[2] or 0)
    assert [*first, *between, *last] == every


def test_a_long_line_is_shown_around_its_match() -> None:
    """S4.13.grep."""
    (line,) = made_lines("a" * 5000 + "needle" + "b" * 5000)
    cut = cut_around(line, 5000)
    assert cut.text == f"…{'a' * 200}needle{'b' * 194}…"
    assert (cut.start, cut.end) == (line.start, line.end)
