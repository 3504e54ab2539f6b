"""Searching one process's output: every line that matches is found once, whatever its pieces, and nothing
that is hidden.
"""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlive.core.errors import InvalidRequest
from outlive.policy.redaction import Redactor
from outlive.protocols.output.line_query import LineQuery
from outlive.store.log_mask import Hiding
from outlive.store.output_log import OutputLog
from outlive.store.search import line_search
from outlive.store.search.line_search import LineSearch, MatchedLine
from tests.store.test_log_search import History, histories, written

_SECRET = b"ghp_" + b"aB3xY9kQ2mN7vR4tW8zL5cD1fG6hJ0pS3uE2"


def searched(search: LineSearch, most: int = 1000) -> list[MatchedLine]:
    found: list[MatchedLine] = []
    while not search.is_over:
        found += search.turn(most)
    return found


def places(lines: list[MatchedLine]) -> list[tuple[int, int, int]]:
    return [(line.stream, line.offset, line.end) for line in lines]


def plainly(history: History, pattern: re.Pattern[bytes]) -> list[tuple[int, int, int]]:
    """Return (stream, offset, end) of every line that matches, found the slow way."""
    found = []
    for stream in (0, 1):
        offset = 0
        data = b"".join(content for one, content in history if one == stream)
        for line in data.split(b"\n"):
            if pattern.search(line) and offset < len(data):
                found.append((stream, offset, offset + len(line)))
            offset += len(line) + 1
    return found


@given(
    histories,
    st.sampled_from(
        [("ab", False), ("b", False), ("a+b?$", True), ("^x", True), ("A|x", True), ("b$", True)]
    ),
    st.booleans(),
    st.integers(1, 3),
    st.integers(1, 9),
)
def test_every_line_that_matches_is_found_once_however_it_is_cut(
    history: History, wanted: tuple[str, bool], fold: bool, most: int, turn_bytes: int
) -> None:
    text, is_regex = wanted
    query = LineQuery(text, is_regex=is_regex, ignores_case=fold)
    expected = plainly(history, re.compile(text.encode(), re.IGNORECASE if fold else 0))
    with written(history) as (_, log), pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_search, "MAX_PREAD_BYTES", turn_bytes)
        assert places(searched(LineSearch(log, query), most)) == expected
        # A search that is gone on with by another one, as between two slices.
        pages: list[tuple[int, int, int]] = []
        search = LineSearch(log, query)
        while not search.is_over:
            page = search.turn(most)
            pages += places(page)
            if len(page) == most:
                search = LineSearch(log, query, stream=search.stream, offset=search.offset)
        assert pages == expected


def test_the_lines_around_a_match_and_its_place_come_with_it() -> None:
    history = [(0, b"one\nneedle 1\n"), (1, b"err\n"), (0, b"two\na needle 2\nend\n")]
    with written(history) as (_, log):
        first, second = searched(LineSearch(log, LineQuery("needle"), context=1))
    assert (first.before, first.after, first.written_before) == ((b"one",), (b"two",), 4)
    assert (second.hit - second.offset, second.hit_end - second.hit) == (2, 6)
    assert second.written_before == len(b"one\nneedle 1\nerr\ntwo\na ")


@pytest.mark.parametrize("place", [0, 5000, 1024 * 1024 - 3, 1_200_000, 3_000_000])
def test_an_endless_line_is_found_once_and_shown_where_it_matches(place: int) -> None:
    data = b"x" * place + b"needle" + b"y" * 1_500_000
    with written([(0, b"first\n" + data + b"\nneedle too\n")]) as (_, log):
        line, last = searched(LineSearch(log, LineQuery("needle")))
        assert line.offset == 6
        assert line.hit == 6 + place
        assert b"needle" in line.data
        assert len(line.data) <= 8192
        assert last.data == b"needle too"
        # Gone on with behind it, as by the next slice, the search comes to its end.
        search, found = LineSearch(log, LineQuery("needle")), []
        while not search.is_over:
            page = search.turn(1)
            found += page
            if page:
                search = LineSearch(log, LineQuery("needle"), stream=search.stream, offset=search.offset)
        assert found[-1].data == b"needle too"


def test_what_is_released_is_passed_over() -> None:
    with written([(0, b"needle 1\n" + b"x" * 9000 + b"\nneedle 2\n")]) as (keeper, log):
        keeper.release(0, 0, 4096)
        assert [line.data for line in searched(LineSearch(log, LineQuery("needle")))] == [b"needle 2"]


@pytest.mark.parametrize("piece", [7, 64, 4096])
@pytest.mark.parametrize(
    "query",
    [
        LineQuery(_SECRET.decode()),
        LineQuery(_SECRET.decode()[4:12]),
        LineQuery("aB3", ignores_case=True),
        LineQuery("ghp_a", is_regex=True),
        LineQuery("ghp_[a-zA-Z]", is_regex=True),
        LineQuery("ghp_[^*]", is_regex=True),
        LineQuery("key=ghp_(a|b)", is_regex=True),
    ],
    ids=lambda query: query.text,
)
def test_a_hidden_secret_is_no_match_whatever_asks_for_it(query: LineQuery, piece: int) -> None:
    """The attack: to search for a secret, or for a part of it, and to see whether something is found."""
    text = b"." * 300 + b"\nkey=" + _SECRET + b" end\n" + b"." * 300 + b"\n"
    with written([(0, text)]) as (keeper, _), pytest.MonkeyPatch.context() as patch:
        patch.setattr(line_search, "MAX_PREAD_BYTES", piece)
        log = OutputLog(str(keeper.folder), hiding=Hiding(redactor=Redactor(), is_over=lambda: True))
        assert searched(LineSearch(log, query)) == []
        (line,) = searched(LineSearch(log, LineQuery("key=")))
        assert line.data == b"key=ghp_" + b"*" * 36 + b" end"
        assert line.redacted == 1
        log.close()
        assert len(searched(LineSearch(OutputLog(str(keeper.folder)), query))) == 1


@pytest.mark.parametrize("text", ["", "a\nb", "x" * 1001])
def test_a_text_that_no_line_has_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest):
        LineQuery(text)


@pytest.mark.parametrize("text", ["(", "a(?=b)", r"(a)\1", "[", "*"])
def test_what_is_no_regular_expression_is_refused_and_found_as_a_text(text: str) -> None:
    with pytest.raises(InvalidRequest, match="no regular expression") as refused:
        LineQuery(text, is_regex=True)
    assert "(?m)" not in refused.value.message
    assert "b'" not in refused.value.message
    assert list(LineQuery(text).lines(b"x " + text.encode() + b"\n"))
