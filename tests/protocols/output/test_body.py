"""What is shown of an output that is too long: within the budget, errors first, and every byte shown or named
once.
"""

import re
from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from outlive.core.cursor import BEGINNING, Cursor
from outlive.core.identity import ProcessId
from outlive.core.lifecycle import State
from outlive.core.process import Owner, ProcessRecord
from outlive.protocols.output.body import (
    FAILURE_BUDGET,
    SUCCESS_BUDGET,
    Excerpt,
    Source,
    body,
    chosen,
    default_budget,
    divided,
    redacted_in,
)
from outlive.protocols.output.collapse import collapse
from outlive.protocols.output.error_lines import with_errors
from outlive.protocols.plain import Line, LineSplitter
from tests.protocols.output.making import an_excerpt, made_lines

_P = Source('read(id="p"')
_CALL = re.compile(r'\[\.\.\. (\d+) bytes omitted: read\(id="p", cursor="([\d.]+)-([\d.]+)"\) \.\.\.\]')
_TEXTS = st.lists(
    st.sampled_from(["", "a", "bb" * 20, "a.c:1:2: error: x", "1%", "2%", "é" * 70, "c" * 300]), max_size=40
)


def _named(text: str) -> list[tuple[Cursor, Cursor]]:
    return [(Cursor.parse(found[2]), Cursor.parse(found[3])) for found in _CALL.finditer(text)]


@pytest.mark.promise("S4.13.answers")
@given(_TEXTS, _TEXTS, st.integers(100, 600), st.booleans())
@example([], ["bb" * 20, "é" * 70, "bb" * 20, "a.c:1:2: error: x", "bb" * 20, "é" * 70], 192, False)
def test_every_byte_is_in_one_shown_line_or_in_one_mark(
    head: list[str], tail: list[str], budget: int, has_hole: bool
) -> None:
    hole = ["x" * 50] * (3 if has_hole else 0)
    lines = made_lines(*head, *hole, *tail)
    every = [*lines[: len(head)], *lines[len(head) + len(hole) :]]
    end = lines[-1].end if lines else BEGINNING
    excerpt = Excerpt(lines=with_errors(collapse(every)), start=BEGINNING, end=end)
    text = body(excerpt, budget=budget, source=_P)
    ranges = [(line.start, line.end) for line in chosen(excerpt, budget=budget)] + _named(text)
    position = BEGINNING
    for start, stop in sorted(ranges):
        assert start == position
        position = stop
    assert position == end
    for found in _CALL.finditer(text):
        assert Cursor.parse(found[3]).stdout - Cursor.parse(found[2]).stdout == int(found[1]) > 0
    # Marks, and what is shown in the place of a mark that would be longer, come on top: one at most behind
    # the head, each error, and the hole.
    count = sum(line.is_error for line in chosen(excerpt, budget=budget)) + 2
    assert len(_CALL.sub("", text)) <= budget + count * 85


@given(st.binary(max_size=3000), st.integers(100, 400), st.integers(1, 5))
def test_no_bytes_make_it_fail(data: bytes, budget: int, streams: int) -> None:
    """S4.13.answers."""
    splitter = LineSplitter(BEGINNING)
    for place in range(0, len(data), 97):
        splitter.feed(place * streams % 2, data[place : place + 97])
    splitter.finish()
    excerpt = Excerpt(lines=with_errors(splitter.lines), start=BEGINNING, end=splitter.cursor)
    text = body(excerpt, budget=budget, source=_P)
    position = BEGINNING
    for start, stop in sorted(
        [(line.start, line.end) for line in chosen(excerpt, budget=budget)] + _named(text)
    ):
        assert start == position
        position = stop
    assert position == splitter.cursor


@pytest.mark.promise("S4.13.errors")
def test_the_first_error_and_the_last_one_come_before_head_and_tail() -> None:
    noise = [f"step {n} of the build does what the step before has done" for n in range(1000)]
    first = "src/a.c:3:5: error: 'x' undeclared"
    last = "make: *** [Makefile:3: all] Error 2"
    lines = [*noise[:300], first, *noise[300:600], *["b.c:1:1: error: again 1"] * 200, *noise[600:800], last]
    text = body(an_excerpt(made_lines(*lines, *noise[800:])), budget=2000, source=_P)
    assert first in text
    assert last in text
    # Two lines on each side.
    assert f"{noise[298]}\n{noise[299]}\n{first}\n{noise[300]}\n{noise[301]}" in text
    assert text.startswith(noise[0])
    assert text.endswith(noise[-1])
    assert "b.c:1:1: error: again 1" in text


def test_what_was_not_searched_for_errors_is_named_with_a_call() -> None:
    """S4.13.errors."""
    lines = made_lines(*["text"] * 100)
    excerpt = Excerpt(
        lines=[*lines[:10], *lines[90:]],
        start=BEGINNING,
        end=lines[-1].end,
        unsearched=(lines[20].start, lines[80].start),
    )
    text = body(excerpt, budget=2000, source=_P)
    call = 'read(id="p", cursor="100.0-400.0", grep="error|fail")'
    assert f"\n[not searched for errors: {call}]\n" in text


@pytest.mark.promise("S4.13.answers")
@given(st.text(alphabet="aé😀", min_size=60, max_size=400), st.integers(40, 60))
def test_a_long_line_is_divided_at_exact_cursors(text: str, longest: int) -> None:
    line = made_lines(text)[0]
    pieces = list(divided([line], longest=longest))
    assert "".join(piece.text for piece in pieces) == text
    assert [piece.is_open for piece in pieces] == [True] * (len(pieces) - 1) + [False]
    assert (pieces[0].start, pieces[-1].end) == (line.start, line.end)
    data = text.encode() + b"\n"
    for piece in pieces:
        assert data[piece.start.stdout : piece.end.stdout].decode().removesuffix("\n") == piece.text


def test_a_line_that_is_too_long_shows_both_ends_and_the_call_for_its_middle() -> None:
    """S4.13.answers."""
    excerpt = an_excerpt(made_lines("a" * 5000 + "b" * 5000))
    text = body(excerpt, budget=1000, source=_P)
    assert re.fullmatch(r"a{400,600}\n\[\.\.\. \d+ bytes omitted: .* \.\.\.\]\nb{400,600}", text)
    assert body(excerpt, budget=10_001, source=_P) == "a" * 5000 + "b" * 5000


def test_a_line_that_cannot_be_divided_is_cut_by_characters() -> None:
    """S4.13.answers: bytes and characters do not correspond where escape sequences were stripped."""
    line = Line(text="a" * 500 + "b" * 500, start=BEGINNING, end=Cursor(2000, 0))
    text = body(an_excerpt([line]), budget=100, source=_P)
    assert text.startswith("a" * 50 + "\n[... 900 characters of this line omitted: ")
    assert 'read(id="p", cursor="0.0-2000.0", budget=1001)' in text
    assert text.endswith("\n" + "b" * 50)


def test_secrets_are_counted_in_what_is_shown_only() -> None:
    """S4.13.answers."""
    lines = [
        Line(text="x" * 90, start=Cursor(n * 91, 0), end=Cursor(n * 91 + 91, 0), redacted=1)
        for n in range(50)
    ]
    shown = chosen(an_excerpt(lines), budget=1000)
    assert redacted_in(an_excerpt(lines), budget=1000) == len(shown) < 50
    assert redacted_in(an_excerpt(lines), budget=10_000) == 50


def test_collapsed_lines_are_named_with_their_cursors() -> None:
    """S4.13.answers."""
    text = body(an_excerpt(collapse(made_lines(*["same"] * 6))), budget=500, source=_P)
    assert text == 'same\n[... 4 equal lines: cursor="5.0-25.0" raw=true ...]\nsame'


def _ended(exit_code: int) -> ProcessRecord:
    return ProcessRecord(
        process_id=ProcessId("x"),
        command="make",
        shell=None,
        cwd="/",
        state=State.EXITED,
        owner=Owner(principal="me"),
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        exit_code=exit_code,
        is_complete=True,
    )


@pytest.mark.promise("S4.13.answers")
def test_a_long_failure_that_names_its_errors_shows_them_and_what_a_success_shows() -> None:
    quiet = [f"step {number} of many, and what it does" for number in range(400)]
    silent, named = made_lines(*quiet), made_lines(*quiet[:200], "a.c:3:5: error: no", *quiet[200:])
    short = made_lines(*quiet[:100], "a.c:3:5: error: no")
    assert default_budget(_ended(2), an_excerpt(silent)) == FAILURE_BUDGET
    assert default_budget(_ended(2), an_excerpt(short)) == FAILURE_BUDGET
    budget = default_budget(_ended(2), an_excerpt(named))
    assert SUCCESS_BUDGET < budget < SUCCESS_BUDGET + 300
    assert "\na.c:3:5: error: no\n" in body(an_excerpt(named), budget=budget, source=_P)
    assert default_budget(_ended(0), an_excerpt(named)) == SUCCESS_BUDGET


@pytest.mark.promise("S4.13.answers")
def test_a_failure_with_errors_everywhere_shows_no_more_than_any_failure() -> None:
    lines = made_lines(*[f"src/file_{number}.c:3:5: error: {'x' * number}" for number in range(300)])
    # They fill half of it, but for a last one that has no room.
    assert FAILURE_BUDGET - 1000 < default_budget(_ended(2), an_excerpt(lines)) <= FAILURE_BUDGET
