"""Lines of output: nothing lost, nothing twice, terminal noise gone, what is left out named exactly."""

import re

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlive.core.cursor import BEGINNING, Cursor
from outlive.frontends.mcp.tools.table import LEAN_TOOLS
from outlive.protocols.mcp.texts import body
from outlive.protocols.plain import Line, LineSplitter, collapse, strip_ansi

_PIECES = st.lists(st.tuples(st.integers(0, 1), st.binary(min_size=1, max_size=20)), max_size=20)
_CALL = re.compile(r'\[\.\.\. (\d+) bytes omitted: read\(id="p", cursor="(\S+)", end="(\S+)"\) \.\.\.\]')


def _lines(*texts: str) -> list[Line]:
    splitter = LineSplitter(BEGINNING)
    splitter.feed(0, "".join(text + "\n" for text in texts).encode())
    return splitter.lines


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


@given(st.text(max_size=100))
def test_plain_text_has_no_control_characters(text: str) -> None:
    """S4.13.plain."""
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", strip_ansi(text.replace("\n", "")))


@pytest.mark.promise("S4.13.plain")
def test_progress_and_repetition_collapse_and_data_does_not() -> None:
    progress = [f"Downloading [{'=' * n}{' ' * (9 - n)}] {n}0%" for n in range(10)]
    assert _texts(collapse(_lines("begin", *progress, "end"))) == [
        "begin",
        progress[0],
        "[... 8 similar lines ...]",
        progress[-1],
        "end",
    ]
    assert _texts(collapse(_lines(*["same"] * 5))) == ["same", "[... 3 equal lines ...]", "same"]
    for kept in (["same"] * 3, [str(n) for n in range(50)], [f"id {n}: row" for n in range(50)]):
        assert _texts(collapse(_lines(*kept))) == kept


@pytest.mark.promise("S4.13.plain")
@pytest.mark.parametrize(
    ("step", "odd"),
    [
        ("tests/test_a.py::test_{} PASSED   [ {}%]", "tests/test_a.py::test_x FAILED   [ 50%]"),
        ("[gw1] [ {1}%] PASSED tests/test_{0}.py", "[gw0] [ 50%] FAILED tests/test_x.py"),
        ("[ {1}%] Building CXX object {0}.o", "[ 50%] Linking CXX executable x"),
        ("[{1}/90] Compiling {0}.c", "x.c:3: warning: unused"),
    ],
)
def test_steps_collapse_and_the_odd_one_among_them_stays(step: str, odd: str) -> None:
    words = ["alpha", "beta", "gamma", "delta", "epsilon"]
    steps = [step.format(word, 10 + number) for number, word in enumerate(words)]
    mark = "[... 3 similar lines ...]"
    assert _texts(collapse(_lines(*steps, odd, *steps))) == [
        steps[0],
        mark,
        steps[-1],
        odd,
        steps[0],
        mark,
        steps[-1],
    ]


@pytest.mark.promise("S4.13.plain")
@pytest.mark.parametrize("row", ["[{}] a", "A [{}]", "a passed [{}]", "ok {} - works", "id {}: PASSED"])
def test_tables_of_numbers_are_no_steps(row: str) -> None:
    rows = [row.format(number) for number in range(10, 20)]
    assert _texts(collapse(_lines(*rows))) == rows


@given(st.lists(st.sampled_from(["a", "b", "1%", "2%", ""]), max_size=40))
def test_collapsed_lines_still_cover_everything(texts: list[str]) -> None:
    """S4.13.answers."""
    position = BEGINNING
    lines = _lines(*texts)
    for line in collapse(lines):
        assert line.start == position
        position = line.end
    assert position == (lines[-1].end if lines else BEGINNING)


@pytest.mark.promise("S4.13.answers")
@given(
    st.lists(st.text(alphabet="ab", max_size=30), min_size=1, max_size=30),
    st.lists(st.text(alphabet="cd", max_size=30), max_size=10),
    st.integers(100, 400),
)
def test_an_answer_keeps_its_budget_and_names_what_it_leaves_out(
    head: list[str], tail: list[str], budget: int
) -> None:
    lines = _lines(*head, *["x" * 50] * 3, *tail)
    first, last = lines[: len(head)], lines[len(head) + 3 :]
    text = body(first, last, budget=budget, process_id="p")
    found = _CALL.search(text)
    if found is None:
        assert not tail
        assert text == "\n".join(head)
        return
    assert len(text) - len(found[0]) <= budget + 2
    start, end = Cursor.parse(found[2]), Cursor.parse(found[3])
    assert end.stdout - start.stdout == int(found[1]) > 0
    before, after = text.split(found[0])
    every = [*first, *last]
    shown = [line.text for line in every if line.end <= start]
    assert before == "".join(text + "\n" for text in shown)
    shown = [line.text for line in every if line.start >= end]
    assert after == "".join("\n" + text for text in shown)


def test_one_line_that_is_too_long_shows_both_ends() -> None:
    """S4.13.answers."""
    line = _lines("a" * 500 + "b" * 500)
    text = body(line, [], budget=100, process_id="p")
    assert text.startswith("a" * 50 + "\n[... 900 characters of this line omitted: ")
    assert 'read(id="p", cursor="0.0", end="1001.0", budget=1001)' in text
    assert text.endswith("\n" + "b" * 50)
    for budget in (1000, 1001):
        assert body(line, [], budget=budget, process_id="p") == line[0].text


@pytest.mark.promise("S4.13.size")
def test_the_lean_schemas_are_small() -> None:
    assert len(orjson.dumps([tool.definition() for tool in LEAN_TOOLS])) <= 8192
