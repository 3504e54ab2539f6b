"""docs/comparison.md: every answer was tried by a test, is kept by a promise, or says where it is written;
README.md shows the same.
"""

import re

from tests.docs.comparison import ANSWERS, PAGE, Cell, cells, readme_table
from tests.docs.pages import ROOT, generated, page, words
from tests.promises import PROMISES

_CELLS = list(cells())
_TRIALS = {
    name
    for place in (
        "comparison/test_*.py",
        "extensions/docker/test_docker_alone.py",
        "extensions/hosts/test_codex_exec_server.py",
    )
    for path in (ROOT / "tests").glob(place)
    for name in re.findall(r"^(?:async )?def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
}
_IDS = {promise.id for promise in PROMISES}


def _is_known(cell: Cell) -> bool:
    """Return whether a source says how it can be checked: a trial, a promise, an address, or that all trials
    show it.
    """
    named = words(cell.source)
    if cell.program == "outlive":
        return any(word in _IDS for word in named)
    return (
        any(word in _TRIALS for word in named) or "](https://" in cell.source or "tests above" in cell.source
    )


def test_every_program_is_asked_the_same_questions() -> None:
    by_subject: dict[str, list[str]] = {}
    for cell in _CELLS:
        by_subject.setdefault(cell.subject, []).append(cell.program)
    assert len(by_subject) == 9
    first, *others = by_subject.values()
    assert len(first) == len(set(first)) == 8
    assert all(programs == first for programs in others)


def test_every_answer_says_how_it_is_known() -> None:
    assert [cell for cell in _CELLS if cell.answer not in ANSWERS or not _is_known(cell)] == []


def test_every_trial_and_promise_that_is_named_exists_and_no_trial_is_left_out() -> None:
    named = set(words(page(PAGE)))
    trials = {word for word in named if word.startswith("test_")}
    assert trials == _TRIALS
    kept = {word for cell in _CELLS if cell.program == "outlive" for word in words(cell.source)}
    assert kept - _IDS <= {"lost", "docs/docker.md"}


def test_the_readme_shows_the_answers_of_the_page() -> None:
    assert generated(page("README.md"), "comparison") == readme_table(), "run `python -m tests.docs.tables`"
