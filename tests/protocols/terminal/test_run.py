"""The marks: found in any pieces, and what they tell of a command and of a shell."""

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlive.protocols.terminal.run import CommandRun, Mark, MarkReader, newest_state

_KEY = "0123456789abcdef"
_OTHER = "fedcba9876543210"
_PLAIN = {"A": b"A", "B": b"B", "C": b"C", "P": b"P;k=s"}


def _mark(kind: str, code: int | None = None, key: str = _KEY) -> bytes:
    if kind == "L":
        return b"\x1b[?2004l"
    body = _PLAIN.get(kind) or b"D;%d%s" % (code or 0, b";k=p" if kind == "E" else b"")
    return b"\x1b]133;%s;aid=%s\x07" % (body, key.encode())


def _cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[begin:end] for begin, end in itertools.pairwise(edges)]


_kinds = st.sampled_from("ABCDEPL")
_pieces = st.lists(
    st.one_of(
        st.builds(_mark, _kinds, st.integers(0, 255)),
        st.builds(_mark, st.sampled_from("ABCDEP"), st.integers(0, 255), st.just(_OTHER)),
        st.binary(max_size=20),
        st.sampled_from(
            [b"\x1b", b"\x1b]", b"\x1b]133;", b"\x1b]133;D;7", b"\x07", b"\x1b[?20", b"\x1b]0;title\x07"]
        ),
    ),
    max_size=30,
).map(b"".join)


@given(_pieces, st.lists(st.integers(0, 10_000), max_size=20), st.integers(0, 10**12))
def test_any_cut_gives_the_same_marks(data: bytes, places: list[int], begin: int) -> None:
    whole = MarkReader(_KEY, begin).feed(data)
    reader = MarkReader(_KEY, begin)
    cut = [mark for piece in _cut(data, places) for mark in reader.feed(piece)]
    assert cut == whole
    assert reader.position == begin + len(data)


@given(_pieces)
def test_marks_are_what_stands_there_and_nothing_else(data: bytes) -> None:
    found = MarkReader(_KEY).feed(data)
    for mark in found:
        assert data[mark.start : mark.end] in {_mark(mark.kind, mark.exit_code), *_zeros(mark)}
    own = re.compile(
        rb"\x1b\]133;(?:[ABC]|P;k=s|D;\d{1,6}(?:;k=p)?);aid=" + _KEY.encode() + rb"\x07|\x1b\[\?2004l"
    )
    assert len(found) == len(own.findall(data))


def _zeros(mark: Mark) -> set[bytes]:
    return {_mark(mark.kind, mark.exit_code)}


def test_what_is_not_there_is_skipped() -> None:
    reader = MarkReader(_KEY)
    assert reader.feed(_mark("D", 3)[:10]) == []
    reader.skip(1000)
    rest = _mark("D", 3)[10:]
    begin = 1000 + len(rest)
    assert reader.feed(rest + _mark("B")) == [Mark("B", begin, begin + len(_mark("B")))]


@pytest.mark.parametrize("key", ["", "short", "with;semicolon", "a" * 65, "0123456789abcde\n"])
def test_a_key_is_a_word(key: str) -> None:
    with pytest.raises(ValueError, match="key"):
        MarkReader(key)


def _run(*parts: tuple[str, int] | str) -> tuple[CommandRun, bytes]:
    """Feed marks (a letter, or letter and code) and texts; return the run and its output."""
    data = b"".join(
        part.encode()
        if isinstance(part, str) and len(part) != 1
        else _mark(*(part if isinstance(part, tuple) else (part,)))
        for part in parts
    )
    run = CommandRun()
    run.take(MarkReader(_KEY).feed(data))
    return run, b"".join(data[begin:end] for begin, end in run.ranges(len(data)))


def test_output_lies_between_the_marks() -> None:
    run, output = _run("echo x", "L", "C", "out", ("D", 3), "noise", "A", ("E", 3), "prompt", "B")
    assert (output, run.exit_code, run.is_over, run.is_parsed) == (b"out", 3, True, True)


def test_several_commands_are_one_and_the_last_code_counts() -> None:
    run, output = _run(
        "L", "C", "one", ("D", 1), "noise", "A", "C", "two", ("D", 0), "A", ("E", 0), "$ ", "B"
    )
    assert (output, run.exit_code) == (b"onetwo", 0)


def test_what_a_shell_cannot_parse_has_its_complaint_for_output() -> None:
    run, output = _run("echo )", "L", "no such thing", ("D", 2), "A", ("E", 2), "$ ", "B")
    assert (output, run.exit_code, run.is_parsed, run.is_over) == (b"no such thing", 2, False, True)
    run, output = _run("L", "C", "one", ("D", 0), "A", "syntax error", ("D", 2), "A", ("E", 2), "B")
    assert (output, run.exit_code) == (b"onesyntax error", 2)


def test_a_prompt_that_is_drawn_again_ends_nothing() -> None:
    run, _ = _run(("E", 7), "$ ", "B", "typed", ("E", 7), "$ ", "B")
    assert (run.is_over, run.has_begun) == (False, False)
    run, output = _run("A", "B", "A", "B", "C", "out", ("D", 0), "A", "B")
    assert (run.is_over, output) == (True, b"out")


def test_without_the_marks_before_a_prompt_those_in_it_do() -> None:
    run, output = _run("L", "C", "out", ("E", 5), "$ ", "B")
    assert (output, run.exit_code, run.is_over) == (b"out", 5, True)


def test_what_is_not_over_has_given_what_there_is() -> None:
    run, output = _run("L", "C", "so far")
    assert (output, run.exit_code, run.is_over) == (b"so far", None, False)
    run, _ = _run("P")
    assert run.wants_more


_marks = st.lists(st.tuples(_kinds, st.integers(0, 255)), max_size=40).map(
    lambda kinds: [
        Mark(kind, 10 * place, 10 * place + 5, code if kind in "DE" else None)  # type: ignore[arg-type] # a letter
        for place, (kind, code) in enumerate(kinds)
    ]
)


@given(_marks, st.integers(0, 40))
def test_any_marks_leave_a_run_that_makes_sense(marks: list[Mark], place: int) -> None:
    run = CommandRun()
    run.take(marks[:place])
    run.take(marks[place:])
    once = CommandRun()
    once.take(marks)
    end = 10 * len(marks)
    assert (once.ranges(end), once.exit_code, once.is_over) == (run.ranges(end), run.exit_code, run.is_over)
    edges = [edge for pair in run.ranges(end) for edge in pair]
    assert edges == sorted(edges)
    assert not run.is_over or (run.exit_code is not None and run.has_begun)


@given(_marks)
def test_a_shell_is_ready_only_at_its_prompt(marks: list[Mark]) -> None:
    state = newest_state(marks)
    kinds = [mark.kind for mark in marks if mark.kind != "L"]
    assert not (state.is_ready and state.wants_more)
    if state.is_ready:
        assert "B" in kinds
        last = len(kinds) - kinds[::-1].index("B")
        assert not {"C", "D", "P"} & set(kinds[last:])
    if "C" in kinds and not {"D", "E"} & set(kinds[kinds.index("C") :]):
        assert state.exit_code is None


def test_the_state_of_a_shell_is_read_from_its_newest_marks() -> None:
    def of(*parts: tuple[str, int] | str) -> tuple[bool, bool, int | None]:
        state = newest_state(
            MarkReader(_KEY).feed(
                b"".join(_mark(*(part if isinstance(part, tuple) else (part,))) for part in parts)
            )
        )
        return state.is_ready, state.wants_more, state.exit_code

    assert of() == (False, False, None)
    assert of("B") == (True, False, None)
    assert of(("D", 3), "A", ("E", 3), "B") == (True, False, 3)
    assert of(("D", 3), "A", "B", "C") == (False, False, None)
    assert of(("D", 3), "A", "B", "P") == (False, True, 3)
    assert of("C", "B") == (False, False, None)
    assert of("C", ("E", 4), "B") == (True, False, 4)
    assert of(("D", 3), "A", ("E", 3), "B", ("E", 0), "B") == (True, False, 3)
