"""What a pattern is said to need is in every line that it matches, as RE2 sees it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlive.core.errors import InvalidRequest
from outlive.protocols.output.line_query import LineQuery, fold, needed_literals

_ATOMS = [
    "error",
    "Kasse",
    "straße",
    "K",
    "\u017f",
    "a",
    ".",
    "\\.",
    "\\d",
    "\\w",
    "[a-k]",
    "[]x]",
    "[[:alpha:]s]",
    "(",
    ")",
    "|",
    "x{2}",
    "{",
    "$",
]
_SIGNS = ["", "", "", "?", "*", "+", "{0,2}", "{2}", "+?", "*?"]
patterns = st.lists(
    st.tuples(st.sampled_from(_ATOMS), st.sampled_from(_SIGNS)).map("".join), min_size=1, max_size=8
)
texts = st.lists(
    st.sampled_from(
        [
            "error",
            "ERROR",
            "Kasse",
            "\u212aasse",
            "straße",
            "\u017ftraße",
            "k",
            "K",
            "s",
            ".",
            "x",
            "{",
            "a",
            "7",
            " ",
            "*",
        ]
    ),
    max_size=10,
)


@given(patterns, texts, st.booleans())
@settings(max_examples=600)
def test_every_line_that_matches_contains_what_is_needed(
    parts: list[str], words: list[str], fold_case: bool
) -> None:
    try:
        query = LineQuery("".join(parts), is_regex=True, ignores_case=fold_case)
    except InvalidRequest:
        return
    line = "".join(words).encode()
    literals = needed_literals(query)
    if literals is not None and line and next(query.lines(line), None) is not None:
        assert any(literal in fold(line) for literal in literals)


@given(st.text(min_size=1, max_size=12), st.text(max_size=5), st.text(max_size=5))
def test_a_text_is_in_the_lines_that_contain_it(text: str, before: str, behind: str) -> None:
    try:
        query = LineQuery(text)
        line = (before + text + behind).encode()
    except (InvalidRequest, UnicodeEncodeError):
        return
    literals = needed_literals(query)
    assert literals is None or any(literal in fold(line) for literal in literals)


@pytest.mark.parametrize(
    ("pattern", "needed"),
    [
        ("Connection refused", (b"connection refused",)),
        ("error: .*timeout after", (b"timeout after",)),
        ("panicked|segfault", (b"panicked", b"segfault")),
        ("(error|failed): code", (b": code",)),
        (r"req=[0-9a-f]{16} took", (b" took",)),
        (r"main\.py:\d+ warning", (b"main.py:",)),
        ("colours?", (b"colour",)),
        ("panic|err", None),
        (r"\d+\.\d+", None),
        ("(?i)whatever", None),
        (r"\x41bcdefgh", None),
        ("secret\\*\\*\\*\\*word", (b"secret",)),
        ("x" * 200, (b"x" * 60,)),
    ],
)
def test_the_longest_text_that_a_pattern_needs_is_found(
    pattern: str, needed: tuple[bytes, ...] | None
) -> None:
    assert needed_literals(LineQuery(pattern, is_regex=True)) == needed


def test_without_case_no_letter_is_needed_whose_capital_is_not_known() -> None:
    assert needed_literals(LineQuery("größe der kasse", ignores_case=True)) == (b"e der kasse",)
    assert needed_literals(LineQuery("größe")) == ("größe".encode(),)
