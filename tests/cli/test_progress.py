"""The bar that says how far a verb is: what it shows, and that what is printed meanwhile comes above it."""

import os
import pty
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

import pyte
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlive.cli import progress as progress_module
from outlive.cli.columns import cells
from outlive.cli.output import Painted, say, show
from outlive.cli.progress import bar_line, progress

_COLOURED = (
    "waiting ",
    Painted("━" * 13, "38;5;197"),
    Painted("━" * 27, "38;5;237"),
    " ",
    Painted("1/3", "32"),
    " ",
    Painted("0:01:05", "33"),
)


def _bar(*words: object, **facts: object) -> str:
    """Return a line as a stream that wants no colours has it."""
    line = bar_line(*words, **facts, has_colours=False)  # type: ignore[arg-type] # as it takes them
    pieces = (line,) if isinstance(line, str | Painted) else line
    return "".join(one if isinstance(one, str) else one.text for one in pieces)


def test_a_bar_says_how_many_of_how_many_and_since_when() -> None:
    assert bar_line("waiting", 1, 3, seconds=65, width=80, has_colours=True) == _COLOURED
    assert _bar("removing", 12, 12, seconds=3600, width=36) == "removing ━━━━━━━━━━━━ 12/12 1:00:00"
    assert _bar("waiting", 1, 8, seconds=0, width=80, is_ascii=True) == f"waiting -----{' ' * 35} 1/8 0:00:00"


def test_a_count_without_a_total_stands_alone() -> None:
    assert _bar("looking", 7, None, seconds=9, width=80) == "looking 7 0:00:09"


@given(
    st.integers(0, 10**6),
    st.none() | st.integers(1, 10**6),
    st.integers(0, 10**6),
    st.integers(1, 100),
)
def test_a_bar_never_reaches_the_terminals_last_cell(
    done: int, total: int | None, seconds: int, width: int
) -> None:
    """A terminal would wrap there, and the line could not be erased."""
    assert cells(_bar("waiting", done, total, seconds=seconds, width=width)) < width


class _Terminal:
    """A terminal that stdout and stderr are on, and what is seen on it."""

    def __init__(self, master: int) -> None:
        self._master = master
        self._screen = pyte.Screen(80, 24)
        self._stream = pyte.ByteStream(self._screen)

    def until(self, text: str) -> list[str]:
        """Read until `text` is seen; return the lines."""
        while not any(text in line for line in self.lines()):
            self._stream.feed(os.read(self._master, 65536))
        return self.lines()

    def lines(self) -> list[str]:
        return [line.rstrip() for line in self._screen.display if line.strip()]


@contextmanager
def _on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[_Terminal, TextIO]]:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress_module, "_UNNOTICED_S", 0.01)
    master, slave = pty.openpty()
    with open(slave, "w", encoding="utf-8") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        yield _Terminal(master), stream
    os.close(master)


def test_lines_come_above_the_bar_which_is_gone_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    with _on_a_terminal(monkeypatch) as (terminal, stream):
        monkeypatch.setattr(sys, "stdout", stream)
        with progress("waiting", 2) as one_more:
            terminal.until("waiting")
            show("an answer")
            one_more()
            lines = terminal.until("1/2")
            assert (lines[0], lines[1][:7], len(lines)) == ("an answer", "waiting", 2)
            say("a remark")
            terminal.until("a remark")
            assert terminal.until("1/2")[:2] == ["an answer", "a remark"]
            sys.stdout.write("a question? ")  # its line is not the bar's to draw over
            terminal.until("a question?")
            one_more()
            sys.stdout.write("yes\n")
            assert terminal.until("2/2")[2] == "a question? yes"
        say("the end")
        assert terminal.until("the end") == ["an answer", "a remark", "a question? yes", "the end"]
        assert (sys.stdout, sys.stderr) == (stream, stream)


def test_a_bar_is_gone_after_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    with _on_a_terminal(monkeypatch) as (terminal, _):
        with pytest.raises(KeyboardInterrupt), progress("looking"):  # noqa: PT012 - the bar has to be there before
            terminal.until("looking 0")
            raise KeyboardInterrupt
        say("the end")
        assert terminal.until("the end") == ["the end"]


def test_nothing_of_a_bar_reaches_a_stdout_that_is_no_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with _on_a_terminal(monkeypatch) as (terminal, _), progress("waiting", 2):
        terminal.until("waiting")
        show("an answer")
        terminal.until("0/2")
    assert capsys.readouterr().out == "an answer\n"


@pytest.mark.parametrize("term", ["dumb", "unknown"])
def test_a_terminal_that_cannot_erase_has_no_bar(term: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with _on_a_terminal(monkeypatch) as (terminal, stream):
        monkeypatch.setenv("TERM", term)
        with progress("waiting", 2) as one_more:
            one_more()
            assert sys.stderr is stream
        say("the end")
        assert terminal.until("the end") == ["the end"]
