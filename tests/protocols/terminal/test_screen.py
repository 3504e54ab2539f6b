"""What a person sees: drawn from the newest bytes, whatever they are."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlive.protocols.terminal.screen import draw


def test_lines_stand_where_they_were_put() -> None:
    assert draw(b"one\r\ntwo\x1b[5;3Hthere", rows=6, cols=20) == "one\ntwo\n\n\n  there"
    assert draw(b"10%\r100%\x1b[K", rows=3, cols=20) == "100%"
    assert draw(b"a\r\n" * 10 + b"end", rows=3, cols=20) == "a\na\nend"
    assert draw("é😀ü".encode(), rows=2, cols=20) == "é😀ü"


def test_a_screen_that_was_lent_is_given_back() -> None:
    before = b"$ vim\r\n"
    drawn = b"\x1b[?1049h\x1b[2J\x1b[1;1Htext of a file\x1b[2;1H~"
    assert draw(before + drawn, rows=4, cols=20) == "text of a file\n~"
    assert draw(before + drawn + b"\x1b[?1049l$ ", rows=4, cols=20) == "$ vim\n$"
    assert draw(drawn[10:] + b"\x1b[?1049l$ ", rows=4, cols=20) == "$"


def test_what_is_said_to_the_terminal_itself_is_not_seen() -> None:
    said = b"\x1bP+q544e\x1b\\\x1b[>4;2m\x1b]0;title\x07\x1b]133;A;aid=x\x07\x1b[?2004h\x1b[>c\x1b[?12$p"
    said += b"\x1b[?4m\x1b[?25h\x1b[1;2;3A"
    assert draw(said + b"seen", rows=2, cols=20) == "seen"


@pytest.mark.parametrize("string", [b"]0;a title", b"P+q544e", b"_Gf=100", b"^private", b"Xstring"])
def test_a_string_that_its_program_has_not_ended_swallows_no_other_line(string: bytes) -> None:
    assert draw(b"\x1b" + string + b"\r\nError: all of it", rows=3, cols=20) == "\nError: all of it"


_codes = st.sampled_from(
    [
        b"\x1b[",
        b"\x1b]",
        b"\x1bP",
        b"\x1b[?1049h",
        b"\x1b[?1049l",
        b"\x1b[?47h",
        b"\x1b[2J",
        b"\x1bc",
        b"\x1b[99;99H",
        b"\x1b[r",
        b"\x1b[3;1r",
        b"\x1b[L",
        b"\x1b[99M",
        b"\x1b(0",
        b"\x0e",
        b"\x1b#8",
        b"\x1b[?3h",
        b"\x1b[?6h",
        b";;;m",
        b"\xf0\x9f",
        b"\x1b[1;2;3;4m",
        b"\x1b[1;2;3A",
        b"\x1b[?4m",
        b"\x1b[?1;2H",
        b"\x1b[1;2;3;4;5r",
        b"\x1b[9c",
    ]
)


@settings(deadline=None)
@given(
    st.lists(st.one_of(_codes, st.binary(max_size=8)), max_size=40).map(b"".join),
    st.integers(1, 60),
    st.integers(1, 60),
)
def test_any_bytes_make_a_screen_of_its_size(data: bytes, rows: int, cols: int) -> None:
    drawn = draw(data, rows=rows, cols=cols)
    assert len(drawn.split("\n")) <= rows
