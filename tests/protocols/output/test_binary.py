"""Binary data is said, text stays text, and no bytes make it fail."""

import gzip
import random
import sqlite3
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlive.core.cursor import BEGINNING
from outlive.protocols.output.binary import binary_mark, binary_runs, is_binary, kind_of, with_visible_nuls
from outlive.protocols.plain import Line, LineSplitter

_NOISE = random.Random(7).randbytes(50_000)


def _split(data: bytes) -> list[Line]:
    splitter = LineSplitter(BEGINNING)
    splitter.feed(0, data)
    splitter.finish()
    return splitter.lines


@pytest.mark.promise("S4.13.binary")
@pytest.mark.parametrize(
    "data",
    [
        gzip.compress(_NOISE),
        zlib.compress(_NOISE[:3000]),
        _NOISE,
        Path("/bin/sh").read_bytes()[:200_000],
        "text in UTF-16".encode("utf-16"),
        bytes(1000),
    ],
    ids=["gzip", "zlib", "noise", "program", "utf-16", "zeros"],
)
def test_data_is_one_run_and_the_text_around_it_stays(data: bytes) -> None:
    lines = _split(b"before\nit\n" + data + b"\nafter\nit\n")
    (run,) = binary_runs(lines)
    before, after = lines[: run.first], lines[run.last :]
    assert [line.text for line in before][:2] == ["before", "it"]
    assert [line.text for line in after][-2:] == ["after", "it"]
    assert run.end.stdout - run.start.stdout >= 0.98 * len(data)


@pytest.mark.promise("S4.13.binary")
@pytest.mark.parametrize(
    "data",
    [
        b"one bad byte \xff in a text\n" * 20,
        "na\u00efve caf\u00e9 r\u00e9sum\u00e9 fa\u00e7ade\n".encode("latin-1") * 20,
        "日本語のテキスト\n".encode() * 20,
        b"./a/first\0./b/second\0./c/third\0",
        b"\x1b[31mred\x1b[0m\x1b[2K\r\x08\x08\n" * 20,
        b"\xff\xff\n",
    ],
)
def test_text_with_some_odd_bytes_stays_text(data: bytes) -> None:
    assert binary_runs(_split(data)) == []


@given(
    st.lists(st.one_of(st.binary(max_size=300), st.just(b"clean text\n"), st.just(_NOISE[:900])), max_size=12)
)
def test_runs_are_in_order_and_within_the_lines(pieces: list[bytes]) -> None:
    """S4.13.binary."""
    lines = _split(b"".join(pieces))
    position = 0
    for run in binary_runs(lines):
        assert position <= run.first < run.last <= len(lines)
        assert (run.start, run.end) == (lines[run.first].start, lines[run.last - 1].end)
        assert any(is_binary(line.text) for line in lines[run.first : run.last])
        position = run.last


def test_kinds_are_known_by_their_first_bytes(tmp_path: Path) -> None:
    """S4.13.binary."""
    connection = sqlite3.connect(tmp_path / "a.db")
    connection.execute("create table t (a)")
    connection.close()
    assert kind_of((tmp_path / "a.db").read_bytes()) == "SQLite"
    assert kind_of(gzip.compress(b"")) == "gzip"
    assert kind_of(Path("/bin/sh").read_bytes()[:264]) == "ELF"
    assert kind_of(b"\0" * 257 + b"ustar\0") == "tar"
    assert kind_of(b"nothing known") == ""
    assert binary_mark(48_213, gzip.compress(b"")) == (
        "[binary: 48,213 bytes, looks like gzip, first bytes 1f 8b 08 00; redirect it to a file, or "
        "see it as hex]"
    )


def test_names_that_nul_ends_stay_apart() -> None:
    """S4.13.plain."""
    assert with_visible_nuls("./a.txt\0./b.txt\0") == "./a.txt␀./b.txt␀"
    assert with_visible_nuls("a\0") == "a\0"
