"""Searching a log finds every line that a plain search finds, in bounded memory, from wherever it goes on."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlive.core.cursor import BEGINNING, Cursor
from outlive.core.errors import InvalidRequest
from outlive.store.output_log import OutputLog
from outlive.store.search import log_search
from outlive.store.search.log_lines import LogLine
from outlive.store.search.log_search import LogSearch, tail_start
from tests.store.keeper_writes import KeeperWrites

History = list[tuple[int, bytes]]
pieces = st.lists(
    st.sampled_from([b"a", b"b", b"AB", b"ab", b"\n", b"x\n", b"\xff"]), min_size=1, max_size=12
)
histories = st.lists(st.tuples(st.integers(0, 1), pieces.map(b"".join)), max_size=20)


@contextmanager
def written(history: History) -> Iterator[tuple[KeeperWrites, OutputLog]]:
    with tempfile.TemporaryDirectory() as name:
        keeper = KeeperWrites(Path(name))
        for stream, content in history:
            keeper.write(stream, content)
        log = OutputLog(name)
        try:
            yield keeper, log
        finally:
            log.close()


def searched(search: LogSearch, most: int = 1000) -> list[LogLine]:
    """Search to the end, the unfinished lines too."""
    found: list[LogLine] = []
    while not search.is_over:
        found += search.turn(most)
    return found + search.last()


def plainly(
    history: History, text: bytes, streams: frozenset[int], *, fold: bool
) -> set[tuple[int, int, int]]:
    """Return (stream, offset, end) of every line that contains `text`, found the slow way."""
    found = set()
    for stream in streams:
        offset = 0
        for line in b"".join(content for one, content in history if one == stream).split(b"\n"):
            if (text.lower() if fold else text) in (line.lower() if fold else line):
                found.add((stream, offset, offset + len(line)))
            offset += len(line) + 1
    return found


def places(lines: list[LogLine]) -> list[tuple[int, int, int]]:
    return [(line.stream, line.offset, line.end) for line in lines]


@given(
    history=histories,
    text=st.sampled_from([b"a", b"ab", b"bab", b"\xff"]),
    streams=st.sampled_from([frozenset({0}), frozenset({1}), frozenset({0, 1})]),
    fold=st.booleans(),
    most=st.integers(1, 3),
    turn_bytes=st.sampled_from([1, 3, 7, 4096]),
)
def test_a_search_finds_exactly_the_lines_that_contain_the_text(
    history: History, text: bytes, streams: frozenset[int], fold: bool, most: int, turn_bytes: int
) -> None:
    """However small the turns are and wherever they cut a line; and a new search at the cursor goes on."""
    with written(history) as (_, log), pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_search, "MAX_PREAD_BYTES", turn_bytes)
        wanted = plainly(history, text, streams, fold=fold)

        def begin(cursor: Cursor) -> LogSearch:
            return LogSearch(log, text, cursor=cursor, streams=streams, is_case_sensitive=not fold)

        found = places(searched(begin(BEGINNING), most))
        assert len(found) == len(wanted)
        assert set(found) == wanted
        pages: list[tuple[int, int, int]] = []
        search = begin(BEGINNING)
        while not search.is_over:
            page = search.turn(most)
            pages += places(page)
            if len(page) == most:
                search = begin(search.cursor)
        pages += places(search.last())
        assert len(pages) == len(wanted)
        assert set(pages) == wanted


def test_matches_of_both_streams_come_in_the_order_of_writing() -> None:
    history = [(0, b"hit 1\n"), (1, b"hit 2\nmiss\n"), (0, b"miss\nhit 3\n")]
    with written(history) as (_, log):
        assert [line.data for line in searched(LogSearch(log, b"hit"))] == [b"hit 1", b"hit 2", b"hit 3"]


def test_the_lines_around_a_match_come_with_it() -> None:
    lines = b"".join(b"line %d\n" % number for number in range(20))
    with written([(0, lines)]) as (_, log):
        (first,) = searched(LogSearch(log, b"line 10", context=2))
        assert (first.before, first.after) == ((b"line 8", b"line 9"), (b"line 11", b"line 12"))
        (edge,) = searched(LogSearch(log, b"line 0", context=2))
        assert (edge.before, edge.after) == ((), (b"line 1", b"line 2"))
        (last,) = searched(LogSearch(log, b"line 19", context=2))
        assert (last.before, last.after) == ((b"line 17", b"line 18"), ())


def test_an_endless_line_is_found_and_shown_in_part() -> None:
    with written([(0, b"x" * 700_000 + b"needle" + b"y" * 700_000 + b"\nnext\n")]) as (_, log):
        (line,) = searched(LogSearch(log, b"needle"))
        assert (line.offset, line.end, line.data) == (0, 1_400_006, b"x" * 8192)


def test_an_unfinished_line_is_found_once_it_is_whole() -> None:
    with written([(0, b"one nee")]) as (keeper, log):
        search = LogSearch(log, b"needle")
        while not search.is_over:
            assert search.turn(10) == []
        assert search.cursor == BEGINNING
        keeper.write(0, b"dle\n")
        assert places(searched(LogSearch(log, b"needle", cursor=search.cursor))) == [(0, 0, 10)]


def test_a_search_goes_on_behind_released_output() -> None:
    with written([(0, b"hit\n" + b"gone\n" * 100 + b"hit\n")]) as (keeper, log):
        keeper.release(0, 4, 504)
        for streams in (frozenset({0}), frozenset({0, 1})):
            assert places(searched(LogSearch(log, b"hit", streams=streams, context=1))) == [
                (0, 0, 3),
                (0, 504, 507),
            ]


@pytest.mark.parametrize("text", [b"", b"a\nb"])
def test_a_text_that_no_line_can_contain_is_refused(text: bytes) -> None:
    with written([]) as (_, log), pytest.raises(InvalidRequest):
        LogSearch(log, text)


@given(history=histories, count=st.integers(1, 6), block=st.sampled_from([1, 4, 64]))
def test_the_tail_of_a_stream_begins_before_its_last_lines(history: History, count: int, block: int) -> None:
    with written(history) as (keeper, log), pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_search, "_BLOCK_BYTES", block)
        for stream in (0, 1):
            content = bytes(byte for one, byte in keeper.order if one == stream)
            wanted = b"".join(content.splitlines(keepends=True)[-count:])
            start = tail_start(log, count, stream=stream)
            offset, other = (start.stderr, start.stdout) if stream else (start.stdout, start.stderr)
            assert content[offset:] == wanted
            assert other == log.size(1 - stream)


@given(history=histories, count=st.integers(1, 6), block=st.sampled_from([1, 16, 4096]))
def test_the_tail_of_both_streams_is_what_a_terminal_would_show_last(
    history: History, count: int, block: int
) -> None:
    with written(history) as (keeper, log), pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_search, "_BLOCK_BYTES", block)
        screen = bytes(byte for _, byte in keeper.order)
        start = tail_start(log, count)
        assert len(screen) - start.stdout - start.stderr == len(
            b"".join(screen.splitlines(keepends=True)[-count:])
        )
        shown = bytes(byte for chunk in log.read(start, 1 << 20) for byte in chunk.data)
        assert screen.endswith(shown)


def test_the_tail_stops_at_released_output() -> None:
    with written([(0, b"old\n" * 100 + b"new\n" * 2)]) as (keeper, log):
        keeper.release(0, 4, 400)
        assert tail_start(log, 50, stream=0) == Cursor(400, 0)


def test_the_tail_of_a_large_log_reads_only_its_end(tmp_path: Path) -> None:
    """A sparse gigabyte: reading it would take its zeros for one line."""
    keeper = KeeperWrites(tmp_path)
    keeper.begin_run(0)
    (tmp_path / "out").touch()
    os.truncate(tmp_path / "out", 1 << 30)
    keeper.sizes[0] = 1 << 30
    keeper.write(0, b"\n" + b"line\n" * 1000)
    log = OutputLog(str(tmp_path))
    try:
        start = (1 << 30) + 1 + 5 * 900
        assert tail_start(log, 100, stream=0) == Cursor(start, 0)
        assert tail_start(log, 100) == Cursor(start, 0)
    finally:
        log.close()


def test_a_search_that_was_over_goes_on_through_all_that_came_since() -> None:
    """Also where the first of it is passed over as a whole."""
    with written([(0, b"hit 1\n")]) as (keeper, log):
        search = LogSearch(log, b"hit")
        assert [line.data for line in searched(search)] == [b"hit 1"]
        keeper.write(0, b"miss\n" * 300_000 + b"hit 2\n")
        found = search.turn(10)
        while not search.is_over:
            found += search.turn(10)
        assert [line.data for line in found] == [b"hit 2"]
