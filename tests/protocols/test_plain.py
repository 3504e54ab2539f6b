"""Output as text: nothing lost, nothing twice, terminal noise gone, what is left out named exactly."""

import itertools
import re

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlive.core.cursor import BEGINNING, Cursor
from outlive.frontends.mcp.tools.table import LEAN_TOOLS
from outlive.protocols.plain import (
    CleanText,
    Clip,
    Line,
    LineSplitter,
    join_pieces,
    plain_text,
    shown_ranges,
    strip_ansi,
)

_PIECES = st.lists(st.tuples(st.integers(0, 1), st.binary(min_size=1, max_size=20)), max_size=20)


def _texts(lines: list[Line]) -> list[str]:
    return [line.text for line in lines]


@given(_PIECES)
def test_lines_cover_every_byte_once(pieces: list[tuple[int, bytes]]) -> None:
    """S4.13.answers."""
    splitter = LineSplitter(BEGINNING)
    for stream, data in pieces:
        splitter.feed(stream, data)
    splitter.finish()
    sizes = [sum(len(data) for number, data in pieces if number == stream) for stream in (0, 1)]
    assert splitter.cursor == Cursor(*sizes)
    position = BEGINNING
    for line in splitter.lines:
        assert line.start == position
        assert "\n" not in line.text
        position = line.end
    assert position == splitter.cursor


@given(st.text(alphabet=st.sampled_from("aé😀\n\r\x1b"), max_size=60), st.integers(1, 7))
def test_pieces_make_the_same_lines_as_the_whole(text: str, step: int) -> None:
    """S4.13."""
    data = text.encode()
    whole, parts = LineSplitter(BEGINNING), LineSplitter(BEGINNING)
    whole.feed(0, data)
    for start in range(0, len(data), step):
        parts.feed(0, data[start : start + step])
    whole.finish()
    parts.finish()
    assert whole.lines == parts.lines
    assert "\n".join(_texts(whole.lines)) == text.removesuffix("\n")


def test_what_is_no_longer_kept_is_said() -> None:
    """S4.13."""
    splitter = LineSplitter(BEGINNING)
    splitter.feed(0, b"a")
    splitter.skip(0, 100)
    splitter.feed(0, b"b")
    splitter.finish()
    assert _texts(splitter.lines) == ["a", "[... 100 bytes are no longer kept ...]", "b"]
    assert splitter.cursor == Cursor(102, 0)


@pytest.mark.promise("S4.13.plain")
@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07x", "x"),
        ("\x1b]8;;http://a\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b(Bx\x1b=", "x"),
        ("a\tb\x08\x00", "a\tb"),
        ("10%\r50%\r100%", "100%"),
        ("text\r", "text"),
        ("\r \r", ""),
        ("\x1b[2K\rdone", "done"),
        ("\x1b", ""),
    ],
)
def test_terminal_noise_is_stripped(text: str, plain: str) -> None:
    assert strip_ansi(text) == plain


@pytest.mark.parametrize("string", ["]0;a title", "P+q544e", "_Gf=100", "^private", "Xstring"])
def test_a_string_that_its_program_has_not_ended_swallows_no_other_line(string: str) -> None:
    assert plain_text(f"a\n\x1b{string}\nError: all of it\n") == "a\n\nError: all of it\n"
    assert plain_text(f"\x1b{string}\x18b\x1b{string}\x1ac\x1b{string}\x1b[1md") == "bcd"
    clean = CleanText()
    assert clean.feed(0, f"\x1b{string}\nnext\n".encode()) == b"\nnext\n"


@given(st.text(max_size=100))
def test_plain_text_has_no_control_characters(text: str) -> None:
    """S4.13.plain."""
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", strip_ansi(text.replace("\n", "")))


@pytest.mark.promise("S4.13.size")
def test_the_lean_schemas_are_small() -> None:
    assert len(orjson.dumps([tool.definition() for tool in LEAN_TOOLS])) <= 8192


_PARTS = st.sampled_from(["a", "grün", "\n", "\r\n", "\r", "\x1b[31m", "\x1b]0;t\x07", "\b", "漢"])


@given(parts=st.lists(_PARTS, max_size=30), cuts=st.lists(st.integers(0, 60)))
def test_wherever_it_is_cut_the_text_is_that_of_the_whole(parts: list[str], cuts: list[int]) -> None:
    whole = "".join(parts).encode()
    places = [0, *sorted(min(cut, len(whole)) for cut in cuts), len(whole)]
    text = CleanText()
    pieces = [text.feed(0, whole[begin:end]) for begin, end in itertools.pairwise(places)]
    assert b"".join(pieces) + text.rest() == plain_text(whole.decode()).encode()


def test_streams_are_kept_apart_and_a_line_without_an_end_goes_out_in_pieces() -> None:
    text = CleanText()
    assert text.feed(0, b"be") + text.feed(1, b"wrong\n") + text.feed(0, b"gun\n") == b"wrong\nbegun\n"
    assert len(text.feed(0, b"x" * 3_000_000)) == 3_000_000
    assert text.rest() == b""


def _shown(data: bytes, limit_bytes: int) -> str:
    pieces = [Clip(start, data[start:end]) for start, end in shown_ranges(len(data), limit_bytes)]
    return join_pieces([piece for piece in pieces if piece.data], len(data))


@pytest.mark.promise("S1.8.output")
@given(st.text(alphabet=st.sampled_from("aé€😀\n"), max_size=200), st.integers(1, 100))
def test_the_mark_counts_exactly_what_is_left_out(text: str, limit_bytes: int) -> None:
    data = text.encode()
    shown = _shown(data, limit_bytes)
    if len(data) <= limit_bytes:
        assert shown == text
        return
    assert "\ufffd" not in shown
    found = re.search(r"\n\[\.\.\. (\d+) bytes omitted \.\.\.\]\n", shown)
    assert found is not None
    head, tail = shown[: found.start()], shown[found.end() :]
    assert text.startswith(head)
    assert text.endswith(tail)
    assert len(head.encode()) + int(found[1]) + len(tail.encode()) == len(data)
    assert len(head.encode()) + len(tail.encode()) >= limit_bytes - 6


@given(st.binary(max_size=200), st.integers(1, 100))
def test_bytes_that_are_no_text_never_fail(data: bytes, limit_bytes: int) -> None:
    """S1.8."""
    shown = _shown(data, limit_bytes)
    assert ("bytes omitted" in shown) == (len(data) > limit_bytes)


def test_what_the_log_no_longer_holds_is_marked() -> None:
    """S1.8."""
    assert join_pieces([Clip(0, b"ab"), Clip(8, b"cd")], 10) == "ab\n[... 6 bytes omitted ...]\ncd"
    assert join_pieces([Clip(0, b"ab")], 10) == "ab\n[... 8 bytes omitted ...]\n"
    assert join_pieces([], 10) == "\n[... 10 bytes omitted ...]\n"
    assert join_pieces([], 0) == ""
