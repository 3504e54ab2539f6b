"""The operator's own patterns: what is one, what is refused and why, and that they mean what `re` says they
mean.
"""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outlive.core.errors import ConfigInvalid
from outlive.policy.redaction import Redactor
from outlive.policy.secret_patterns import MOST_PATTERNS, parse_pattern, parse_patterns

_CLASSES = ["[a-c]", "[b-d]", "[^a]", r"\d", r"\w", ".", "x", r"\.", "[]-]", "[^]a]"]
_TIMES = ["", "{2}", "{1,3}", "{0,2}", "{2,}", "+", "*", "?"]
PARTS = st.tuples(st.sampled_from(_CLASSES), st.sampled_from(_TIMES)).map("".join)
ROWS = st.lists(PARTS, max_size=3).map("".join)
TEXT = st.text(st.sampled_from("abcdx0.]-\nabcd"), max_size=12)


@pytest.mark.parametrize(
    ("pattern", "text", "shown"),
    [
        ("acme_[A-Z0-9]{4}", "my acme_AB12CD!", "my acme_****CD!"),
        ("acme_[A-Z0-9]{4,}", "my acme_AB12CD!", "my acme_******!"),
        ('key="([^"]+)"', 'key="open sesame", key=""', 'key="***********", key=""'),
        ("id-[a-z]+-([0-9]+)", "id-x-12 id-12 id-xyz-7", "id-x-** id-12 id-xyz-*"),
        (r"a\.b\.c=[^=\s]+", "a.b.c=q w", "a.b.c=* w"),
        ("schlüssel: (.{1,700})", "schlüssel: süß", "schlüssel: *****"),  # by byte
        (r"token=\S{8,384}", "token=123456789 x", "token=********* x"),
        (r"[\[]", None, "begin with 3 or more characters"),
        ("abc[[:alpha:]]", None, "may get a meaning"),
        ("ab[cd]{3}", None, "begin with 3 or more characters"),
        ("abc", None, "something that is hidden"),
        ("abc[d]*", None, "something that is hidden"),
        ("abc(d)(e)", None, "one pair of plain parentheses"),
        ("abc(?:d)", None, "one pair of plain parentheses"),
        ("abc((d))", None, "one pair of plain parentheses"),
        ("abcd)", None, "one pair of plain parentheses"),
        ("abc(d", None, "not closed"),
        ("abc(d)+", None, "cannot be repeated"),
        ("abc[0-9]++", None, "cannot follow a repetition"),
        ("abc[0-9]+?", None, "cannot follow a repetition"),
        ("abc{", None, "no {5}, {5,} or {5,9}"),
        ("{abc}x", None, "written \\{"),
        ("abc[0-9]{3,1}", None, "allow nothing"),
        ("abc[0-9]{0}", None, "allow nothing"),
        ("abc[0-9]{20000}", None, "longer than 16384 bytes"),
        ("abc|def", None, "'|' at place 4 cannot be used: alternatives"),
        ("^abc.", None, "'^' at place 1 cannot be used"),
        ("abc.$", None, "'$' at place 5 cannot be used"),
        ("abc[0-9", None, "has no end"),
        ("abc[9-0]", None, "bad character range"),
        ("abc\\b.", None, "\\b at place 4 is not known"),
        ("abc\\", None, "is not known"),
        ("abcü+", None, "only ASCII"),
        ("abc[ü]", None, "a class is of ASCII"),
        (r"abc[^\w\W]", None, "takes nothing"),
        ("abc" + "[d]{2}" * 51, None, "more than 50 parts"),
        # What makes a search slow: a part that could give back to the next one.
        ("abc(a+a+b)", None, "can take what"),
        ("abc[a-z]*[a-z0-9]{8}", None, "can take what"),
        ("abc.+;", None, "can take what"),
        ("abc[0-9]+x?[0-9]+", None, "can take what"),
        # And a beginning that can occur in what follows, from each of which all of that is read.
        (r"token=\S+", None, "let that have 384 bytes at most"),
        ("abcab[a-z]{193}", None, "let that have 192 bytes at most"),
        ("aaa[a-z]{5}", None, "repeats itself"),
        ("abab[a-z]{5}", None, "repeats itself"),
    ],
)
def test_what_is_a_pattern_and_what_is_not(pattern: str, text: str | None, shown: str) -> None:
    if text is None:
        with pytest.raises(ValueError, match=re.escape(shown)):
            parse_pattern(pattern)
        with pytest.raises(ConfigInvalid, match=re.escape(shown)) as refused:
            parse_patterns("redact_extra", [pattern])
        assert "docs/redaction.md" in refused.value.hint
        return
    assert Redactor(patterns=False, extra=[parse_pattern(pattern)]).mask_text(text) == shown


def test_a_hundred_patterns_are_enough() -> None:
    texts = [f"acme{number}_[a-z]{{8}}" for number in range(MOST_PATTERNS)]
    assert len(parse_patterns("redact_extra", texts)) == MOST_PATTERNS
    with pytest.raises(ConfigInvalid, match="101 patterns"):
        parse_patterns("redact_extra", [*texts, "more_[a-z]{8}"])


@given(before=ROWS, secret=ROWS, after=ROWS, text=TEXT)
@settings(max_examples=500, deadline=None)
def test_a_pattern_that_is_taken_means_what_re_says(before: str, secret: str, after: str, text: str) -> None:
    pattern = f"key{before}({secret}){after}"
    try:
        ours = parse_pattern(pattern)
    except ValueError:
        return
    data = b"key" + text.encode()
    theirs = re.compile(pattern.encode()).match(data)
    found = ours.whole.match(data)
    assert (found and found.span(1)) == (theirs and theirs.span(1))


@given(before=ROWS, secret=ROWS, after=ROWS, text=TEXT, cut=st.integers(0, 12))
@settings(max_examples=500, deadline=None)
def test_what_may_still_become_one_is_known(
    before: str, secret: str, after: str, text: str, cut: int
) -> None:
    """Whatever of a text's beginning is shown as decided stays as it is when the rest has come."""
    try:
        redactor = Redactor(patterns=False, extra=[parse_pattern(f"key{before}({secret}){after}")])
    except ValueError:
        return
    data = b"key" + text.encode()
    begun = data[: cut + 3]
    spans, undecided, _ = redactor.examine(begun)
    now = {place for begin, end in spans for place in range(begin, end)}
    later = {place for begin, end in redactor.examine(data)[0] for place in range(begin, end)}
    assert {place for place in now if place < undecided} == {place for place in later if place < undecided}
