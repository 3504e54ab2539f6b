"""The output log gives back every byte once, in the order of writing, from any cursor."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlive.core.cursor import BEGINNING, Cursor
from outlive.core.errors import StoreCorrupt
from outlive.store.output_log import MAX_PREAD_BYTES, IdxReader, OutputChunk, OutputLog
from tests.store.keeper_writes import KeeperWrites

writes = st.lists(
    st.tuples(st.integers(0, 1), st.binary(min_size=1, max_size=40), st.booleans()), max_size=30
)


@contextmanager
def written(history: list[tuple[int, bytes, bool]]) -> Iterator[tuple[KeeperWrites, OutputLog]]:
    """A folder with that history and its reader."""
    with tempfile.TemporaryDirectory() as name:
        keeper = KeeperWrites(Path(name))
        for stream, content, new_run in history:
            keeper.write(stream, content, new_run=new_run)
        log = OutputLog(name)
        try:
            yield keeper, log
        finally:
            log.close()


def read_all(log: OutputLog, cursor: Cursor, limit_bytes: int) -> list[OutputChunk]:
    """Read until caught up."""
    chunks: list[OutputChunk] = []
    while more := log.read(cursor, limit_bytes):
        chunks += more
        following = OutputChunk.after(cursor, more)
        assert following > cursor or following.stderr > cursor.stderr, "a read must get on"
        cursor = following
    return chunks


def bytes_in_order(chunks: list[OutputChunk]) -> list[tuple[int, int]]:
    """Flatten chunks to (stream, byte)."""
    return [(chunk.stream, byte) for chunk in chunks for byte in chunk.data]


@given(history=writes, limit=st.integers(1, 300), torn=st.integers(0, 31))
def test_reading_from_the_beginning_gives_every_byte_in_the_order_of_writing(
    history: list[tuple[int, bytes, bool]], limit: int, torn: int
) -> None:
    """A record of a run that has no byte yet, and a torn one behind it, change nothing."""
    with written(history) as (keeper, log):
        keeper.begin_run(1 - keeper.last_stream if history else 0)
        with (keeper.folder / "idx").open("ab") as idx:
            idx.write(b"\1" * torn)
        chunks = read_all(log, BEGINNING, limit)
        assert bytes_in_order(chunks) == keeper.order
        assert all(chunk.time_ns for chunk in chunks)
        assert [chunk.time_ns for chunk in chunks] == sorted(chunk.time_ns for chunk in chunks)


@given(history=writes, data=st.data(), limit=st.integers(1, 300))
def test_reading_from_any_cursor_repeats_nothing_and_loses_nothing(
    history: list[tuple[int, bytes, bool]], data: st.DataObject, limit: int
) -> None:
    """Also from a pair of offsets that lies on no moment of the writing: partial lines are held back per
    stream.
    """
    with written(history) as (keeper, log):
        cursor = Cursor(
            data.draw(st.integers(0, keeper.sizes[0])), data.draw(st.integers(0, keeper.sizes[1]))
        )
        expected, seen = [], [0, 0]
        for stream, byte in keeper.order:
            if seen[stream] >= (cursor.stdout, cursor.stderr)[stream]:
                expected.append((stream, byte))
            seen[stream] += 1
        assert bytes_in_order(read_all(log, cursor, limit)) == expected


@given(history=writes, limit=st.integers(0, 700))
def test_the_tail_is_the_end_of_the_writing(history: list[tuple[int, bytes, bool]], limit: int) -> None:
    with written(history) as (keeper, log):
        expected = keeper.order[len(keeper.order) - limit :] if limit < len(keeper.order) else keeper.order
        assert bytes_in_order(log.tail(limit)) == expected
        cursor = log.tail_cursor(limit)
        assert cursor.stdout + cursor.stderr == len(keeper.order) - len(expected)


@given(history=writes, data=st.data(), limit=st.integers(1, 300))
def test_released_records_and_bytes_are_told_as_gaps_and_never_read_as_zeros(
    history: list[tuple[int, bytes, bool]], data: st.DataObject, limit: int
) -> None:
    """Head and tail stay; offsets stay true."""
    history = [(stream, content.replace(b"\0", b"x"), new_run) for stream, content, new_run in history]
    with written(history) as (keeper, log):
        stream = data.draw(st.integers(0, 1))
        start = data.draw(st.integers(0, keeper.sizes[stream]))
        end = data.draw(st.integers(start, keeper.sizes[stream]))
        if start < end:
            keeper.release(stream, start, end)
        records = (keeper.folder / "idx").stat().st_size // 32 if history else 0
        if records > 2:
            first = data.draw(st.integers(1, records - 1))
            keeper.release_records(first, data.draw(st.integers(first, records - 1)))
        chunks = read_all(log, BEGINNING, limit)
        for which in (0, 1):
            mine = [chunk for chunk in chunks if chunk.stream == which]
            whole = bytes(byte for at, byte in keeper.order if at == which)
            position = 0
            for chunk in mine:
                assert chunk.offset == position
                assert chunk.is_gap or chunk.data == whole[chunk.offset : chunk.end]
                if chunk.is_gap:
                    assert which == stream
                    assert (chunk.offset, chunk.end) == (start, end)
                position = chunk.end
            assert position == len(whole)


def test_a_pread_stops_before_a_gap_and_goes_on_behind_it(tmp_path: Path) -> None:
    keeper = KeeperWrites(tmp_path)
    keeper.write(0, b"head" + b"m" * 96 + b"tail")
    keeper.release(0, 4, 100)
    log = OutputLog(str(tmp_path))
    assert log.gap(0) == (4, 100)
    assert log.gap(1) is None
    assert log.pread(0, 1000, 0) == b"head"
    assert log.pread(0, 1000, 50) == b""
    assert log.pread(0, 1000, 100) == b"tail"


def test_zero_bytes_that_were_written_are_read(tmp_path: Path) -> None:
    keeper = KeeperWrites(tmp_path)
    keeper.write(0, b"a\0b" + bytes(10))
    log = OutputLog(str(tmp_path))
    assert log.pread(0, 1000, 0) == b"a\0b" + bytes(10)


def test_without_an_idx_both_streams_are_still_read(tmp_path: Path) -> None:
    """A machine crash may take the idx; what is in the logs stays readable."""
    (tmp_path / "out").write_bytes(b"one")
    (tmp_path / "err").write_bytes(b"two")
    log = OutputLog(str(tmp_path))
    assert [(chunk.stream, chunk.data) for chunk in log.read(BEGINNING, 100)] == [(0, b"one"), (1, b"two")]
    assert sum(len(chunk.data) for chunk in log.tail(4)) == 4


def test_logs_shorter_than_idx_tells_are_read_as_far_as_they_go(tmp_path: Path) -> None:
    """After a machine crash the idx may be newer than the logs."""
    keeper = KeeperWrites(tmp_path)
    keeper.write(0, b"a" * 100)
    keeper.write(1, b"b" * 100)
    os.truncate(tmp_path / "out", 40)
    log = OutputLog(str(tmp_path))
    assert bytes_in_order(read_all(log, BEGINNING, 1000)) == [(0, 97)] * 40 + [(1, 98)] * 100


def test_missing_files_are_empty_output(tmp_path: Path) -> None:
    log = OutputLog(str(tmp_path / "nothing"))
    assert log.read(BEGINNING, 100) == []
    assert log.tail(100) == []
    assert (log.size(0), log.pread(0, 10, 0), log.gap(0), log.index()) == (0, b"", None, None)
    assert log.end == BEGINNING


def test_a_closed_log_opens_again(tmp_path: Path) -> None:
    keeper = KeeperWrites(tmp_path)
    keeper.write(0, b"before")
    log = OutputLog(str(tmp_path))
    assert log.pread(0, 100, 0) == b"before"
    log.close()
    log.close()
    keeper.write(0, b" after")
    assert log.pread(0, 100, 0) == b"before after"
    index = log.index()
    assert index is not None
    assert [record.offset for record in index.records()] == [0]


def test_one_pread_gives_256_kib_at_most(tmp_path: Path) -> None:
    (tmp_path / "out").write_bytes(b"x" * (MAX_PREAD_BYTES + 1))
    assert len(OutputLog(str(tmp_path)).pread(0, 1 << 30, 0)) == MAX_PREAD_BYTES


def test_a_torn_gaps_file_tells_no_gap(tmp_path: Path) -> None:
    (tmp_path / "out").write_bytes(b"x")
    log = OutputLog(str(tmp_path))
    for content in ("", "0 4", "1 2 3\n", "a b c d\n", "5 5 0 0\n"):
        (tmp_path / "gaps").write_text(content)
        assert log.gap(0) is None


@settings(deadline=None)
@given(count=st.integers(1, 600), released=st.integers(0, 600), data=st.data())
def test_the_idx_search_finds_the_run_across_released_records(
    count: int, released: int, data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as name:
        keeper = KeeperWrites(Path(name))
        (Path(name) / "out").touch()
        for number in range(count):
            keeper.begin_run(0)
            keeper.sizes[0] += 1 + number % 3
        first = data.draw(st.integers(0, count))
        last = min(count, first + released)
        if first < last:
            keeper.release_records(first, last)
        kept = [number for number in range(count) if not first <= number < last]
        bound = data.draw(st.integers(0, keeper.sizes[0]))
        fd = os.open(Path(name) / "idx", os.O_RDONLY)
        try:
            reader = IdxReader(fd)
            starts = [record.start for record in reader.records()]
            assert len(starts) == len(kept)
            below = [number for number, start in zip(kept, starts, strict=True) if start <= bound]
            assert reader.last_where(lambda record: record.start <= bound) == (below[-1] if below else 0)
        finally:
            os.close(fd)


@pytest.mark.parametrize("stream", [0, 1])
def test_output_that_grows_while_it_is_read_keeps_its_order(tmp_path: Path, stream: int) -> None:
    """Sizes are taken before the idx: bytes of a later run never overtake."""
    keeper = KeeperWrites(tmp_path)
    log = OutputLog(str(tmp_path))
    cursor, seen = BEGINNING, []
    for number in range(200):
        keeper.write(number % 2 if number % 5 else stream, b"%d" % number)
        chunks = log.read(cursor, 50)
        cursor = OutputChunk.after(cursor, chunks)
        seen += bytes_in_order(chunks)
    seen += bytes_in_order(read_all(log, cursor, 50))
    assert seen == keeper.order


def test_the_idx_search_jumps_over_real_holes(tmp_path: Path) -> None:
    """A released range of an idx of many megabytes must not be read through."""
    keeper = KeeperWrites(tmp_path)
    keeper.write(0, b"head")
    with (tmp_path / "idx").open("r+b") as idx:
        idx.truncate(1 << 30)
    keeper.sizes[0] = 1000
    keeper.write(0, b"", new_run=True)
    fd = os.open(tmp_path / "idx", os.O_RDONLY)
    try:
        reader = IdxReader(fd)
        assert [record.start for record in reader.records()] == [0, 1000]
        assert reader.last_where(lambda record: record.start <= 1000) == (1 << 30) // 32
        assert reader.last_where(lambda record: record.start < 1000) == 0
        os.truncate(tmp_path / "idx", 1 << 30)
        assert [record.start for record in reader.records()] == [0]
    finally:
        os.close(fd)


def test_a_disk_that_does_not_give_the_bytes_is_told(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(StoreCorrupt):
        OutputLog(str(tmp_path)).pread(0, 10, 0)
    (tmp_path / "file").touch()
    with pytest.raises(StoreCorrupt):
        OutputLog(str(tmp_path / "file")).pread(0, 10, 0)


def test_a_moment_becomes_the_cursor_with_everything_behind_it_that_was_written_since() -> None:
    second = 1_000_000_000
    with written([]) as (keeper, log):
        assert log.cursor_at(0) == BEGINNING
        for number, stream in enumerate((0, 1, 0)):
            keeper.time_ns = (number + 1) * second
            keeper.write(stream, b"12345")
        assert log.cursor_at(0) == BEGINNING
        assert log.cursor_at(second) == BEGINNING
        assert log.cursor_at(second + second // 20) == BEGINNING  # the run may have gone on for so long
        assert log.cursor_at(second + second // 5) == Cursor(5, 0)
        assert log.cursor_at(3 * second) == Cursor(5, 5)
        assert log.cursor_at(4 * second) == Cursor(10, 5)


def test_plain_bytes_are_read_into_a_buffer_and_others_are_left_to_pread(tmp_path: Path) -> None:
    buffer = bytearray(4)
    with written([(0, b"plain\0zero", False)]) as (_, log):
        assert log.read_plain(0, buffer, 0) == 4
        assert bytes(buffer) == b"plai"
        assert log.read_plain(0, buffer, 3) == 0
        assert log.read_plain(0, buffer, 100) == 0
        assert log.read_plain(1, buffer, 0) == 0
    (tmp_path / "out").mkdir()  # opens, and gives no bytes
    folder = OutputLog(str(tmp_path))
    assert folder.read_plain(0, buffer, 0) == 0
    folder.close()


@pytest.mark.root("only root can be somebody else")
def test_who_may_read_a_log_without_owning_it_reads_it() -> None:
    """Not to note the time of reading is the owner's to ask for (open(2), O_NOATIME)."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        os.chmod(name, 0o755)  # noqa: S103 - somebody else has to come in
        with open(f"{name}/out", "wb") as file:
            file.write(b"for all to read")
        os.chmod(file.name, 0o644)
        child = os.fork()
        if not child:
            try:
                os.setgroups([])
                os.setresgid(65534, 65534, 65534)
                os.setresuid(65534, 65534, 65534)
                with pytest.raises(PermissionError):
                    os.open(f"{name}/out", os.O_RDONLY | os.O_NOATIME)
                assert OutputLog(name).pread(0, 100, 4) == b"for all to read"[4:]
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
