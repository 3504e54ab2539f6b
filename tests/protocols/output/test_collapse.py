"""Runs of lines that say the same again are shortened, data is not, and every byte stays named."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlive.core.cursor import BEGINNING
from outlive.protocols.output.collapse import STEP_FORMS, StepForm, alike_key, collapse
from outlive.protocols.output.error_lines import looks_like_error
from tests.protocols.output.making import made_lines, texts_of


@pytest.mark.promise("S4.13.plain")
def test_progress_and_repetition_collapse_and_data_does_not() -> None:
    progress = [f"Downloading [{'=' * n}{' ' * (9 - n)}] {n}0%" for n in range(10)]
    assert texts_of(collapse(made_lines("begin", *progress, "end"))) == [
        "begin",
        progress[0],
        "[... 8 similar lines ...]",
        progress[-1],
        "end",
    ]
    assert texts_of(collapse(made_lines(*["same"] * 5))) == ["same", "[... 3 equal lines ...]", "same"]
    for kept in (["same"] * 3, [str(n) for n in range(50)], [f"id {n}: row" for n in range(50)]):
        assert texts_of(collapse(made_lines(*kept))) == kept


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
    assert texts_of(collapse(made_lines(*steps, odd, *steps))) == [
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
    assert texts_of(collapse(made_lines(*rows))) == rows


@given(st.lists(st.sampled_from(["a", "b", "1%", "2%", ""]), max_size=40))
def test_collapsed_lines_still_cover_everything(texts: list[str]) -> None:
    """S4.13.answers."""
    position = BEGINNING
    lines = made_lines(*texts)
    for line in collapse(lines):
        assert line.start == position
        position = line.end
    assert position == (lines[-1].end if lines else BEGINNING)


@pytest.mark.promise("S4.13.plain")
@pytest.mark.parametrize("form", STEP_FORMS, ids=lambda form: form.tool)
def test_steps_of_each_tool_are_alike_and_its_other_lines_are_not(form: StepForm) -> None:
    (key,) = {alike_key(text) for text in form.taken}
    assert alike_key(form.left) != key
    steps = [*form.taken, *form.taken, *form.taken]
    shown = texts_of(collapse(made_lines(*steps, form.left, *steps)))
    assert len(shown) == 7
    assert shown[3] == form.left
    assert not any(map(looks_like_error, form.taken))


@pytest.mark.promise("S4.13.plain")
@pytest.mark.parametrize(
    "progress",
    [
        [f"{n}%|{'█' * n}{' ' * (9 - n)}| {n}/10 [00:0{n}<00:0{9 - n}, {n + 1}.5it/s]" for n in range(1, 10)],
        [f"Receiving objects:  {n}% ({n}/100), {n}.00 KiB | {n}.50 MiB/s" for n in range(10, 20)],
        [f"2024-05-01T10:00:0{n}.123Z INFO heartbeat of the scheduler, {n} ms" for n in range(9)],
        [f"[   12.00000{n}] usb device is not responding" for n in range(9)],
        [f"Waiting for the database ({n}/30)..." for n in range(9)],
        [f"Processing record {n}" for n in range(9)],
        [f"#9 {n}.123   Compiling serde v1.0.{n}" for n in range(9)],
        [f"  {n}.5 MB / 90.1 MB" for n in range(9)],
    ],
)
def test_progress_and_a_log_that_says_the_same_collapse(progress: list[str]) -> None:
    shown = texts_of(collapse(made_lines(*progress)))
    assert shown == [progress[0], f"[... {len(progress) - 2} similar lines ...]", progress[-1]]


@pytest.mark.promise("S4.13.plain")
@pytest.mark.parametrize(
    "rows",
    [
        [f"-rw-r--r-- 1 root root {n}12 May  1 10:0{n} file{n}.txt" for n in range(9)],
        [f"2024-05-0{n},{n}12,{n}.5" for n in range(1, 9)],
        [f"10:00:0{n} {n}.25" for n in range(9)],
        [f"2024-05-01 10:00:0{n}" for n in range(9)],
        [f"test_adds_{n} ... ok" for n in range(9)],
        [f"--- PASS: Test{n} (0.00s)" for n in range(9)],
        [f"epoch {n} loss 0.{n}12" for n in range(9)],
        [f"Warning: line {n} has no newline" for n in range(9)],
        [f"2024-05-01 10:00:0{n} INFO user {n} has signed in" for n in range(9)],
    ],
)
def test_rows_whose_digits_are_the_information_stay(rows: list[str]) -> None:
    assert texts_of(collapse(made_lines(*rows))) == rows


def test_a_mark_keeps_the_cursors_of_what_it_stands_for() -> None:
    """S4.13.answers."""
    lines = made_lines(*["same"] * 6)
    first, mark, last = collapse(lines)
    assert mark.is_mark
    assert (first.end, last.start) == (mark.start, mark.end)
