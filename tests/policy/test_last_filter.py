"""The filter at the end of a line: found only where it is certain, hinted at where it is likely."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlive.policy.last_filter import filter_hint, last_filter


@pytest.mark.parametrize(
    ("line", "name", "stages", "is_only"),
    [
        ("make 2>&1 | tail -30", "tail", 2, True),
        ("make|tail;", "tail", 2, True),
        ("cd /x && make 2>&1 | tail -n 30", "tail", 2, True),
        ("a | b | head -c 10", "head", 3, True),
        ("a | b && c | tail", "tail", 2, False),
        ("a | b | c && d | tail", "tail", 2, True),
        ("set -o pipefail; make | grep -n error", "grep", 2, True),
        ("make | grep -e error -A 3", "grep", 2, True),
        ("make | grep 'a | tail -1'", "grep", 2, True),
        ("make | tail -n +3", "tail", 2, True),
        ("make | egrep 'a|b' 2>&1", "egrep", 2, True),
        ("grep -c x f | tail -", "tail", 2, True),
        ("cd /x || exit 1; export CI=1; make | tail -3", "tail", 2, True),
    ],
)
def test_a_final_filter_is_found(line: str, name: str, stages: int, *, is_only: bool) -> None:
    found = last_filter(line)
    assert found is not None
    assert (found.name, found.stages, found.is_only, found.may_copy) == (name, stages, is_only, True)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "tail -5 log",
        "make",
        "make | tail -5 &",
        "make | tail -5 && echo done",
        "make | tail -5; echo $?",
        "make || tail -5",
        "make | tail -5 log",
        "make | grep error log",
        "make | tail -5 > log",
        "make | /usr/bin/tail -5",
        "make | command tail -5",
        "make | sort",
        "make |& tail -5",
        "make | tail -5 # the end",
        "(make) | tail -5",
        "make | tail -5\nmake | tail -5",
        "cat <<X | tail\nX",
        "make | tail -$n",
        "make | head *",
        "trap 'x' EXIT; make | tail",
        "type tail; make | tail",
        "set | grep x",
        "set -ev; make | tail",
        "export -p | grep x",
        "ulimit -f 0; make | tail",
        "set -o verbose; make | tail",
        "declare -p | grep x",
        "echo 'a | tail -5'",
        'echo "a | tail -5"',
    ],
)
def test_nothing_is_found_where_it_is_not_certain(line: str) -> None:
    assert last_filter(line) is None


@pytest.mark.parametrize("line", ["ps aux | grep make", "/bin/ps aux | tail -5", "pgrep -fa x | head -1"])
def test_no_process_more_runs_beside_what_lists_processes(line: str) -> None:
    found = last_filter(line)
    assert found is not None
    assert not found.may_copy


@pytest.mark.parametrize(
    "line",
    [
        "make | tail -5",
        "(make; x) |& tail -5;",
        "a\nb | head",
        "make | rg 'x'",
        "m | grep 'a|b'",
        "(m) | grep 'a|b'",
    ],
)
def test_a_hint_names_the_filter(line: str) -> None:
    hint = filter_hint(line)
    assert hint is not None
    assert hint.startswith("`| ")
    assert hint.count("\n") == 0


@pytest.mark.parametrize(
    "line",
    [
        "make",
        "make || tail -5 log",
        "tail -5 log",
        "make | tailor",
        "make | tail -5\necho x",
        "make |& tail -5; echo x",
        "(make) | grep x && echo found",
        "echo $(env | grep -c x)",
        "echo 'a | tail -5'",
    ],
)
def test_other_lines_get_no_hint(line: str) -> None:
    assert filter_hint(line) is None


@given(st.text(alphabet="|&;'\"\\$(){}<># \n\ttailhedgrp-5", max_size=60))
def test_any_text_is_read(line: str) -> None:
    """And what is certain ends in a filter that a hint knows, too."""
    found = last_filter(line)
    if found is not None:
        assert found.stages >= 2
        assert filter_hint(line) is not None
