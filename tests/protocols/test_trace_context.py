"""What counts as a `traceparent`, and which span a command is."""

import re

from hypothesis import given
from hypothesis import strategies as st

from outlive.core.identity import new_process_id
from outlive.protocols.trace_context import (
    read_traceparent,
    span_of,
    traceparent_in,
    traceparent_of,
    valid_traceparent,
)

_TRACE, _SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
_PARENT = f"00-{_TRACE}-{_SPAN}-01"
_ID = new_process_id(1_700_000_000_000_000_000, b"0123456789abcd")


def test_the_form_of_the_recommendation_is_read() -> None:
    found = read_traceparent(_PARENT)
    assert found is not None
    assert (found.trace_id, found.span_id, found.flags) == (_TRACE, _SPAN, 1)
    # Other flags than "sampled" are not ours to pass on; of a later version what follows is left out.
    assert valid_traceparent(f"00-{_TRACE}-{_SPAN}-fe") == f"00-{_TRACE}-{_SPAN}-00"
    assert valid_traceparent(f" cc-{_TRACE}-{_SPAN}-01-what-comes ") == _PARENT


def test_whatever_is_none_counts_as_none() -> None:
    for text in (
        "",
        "junk",
        f"ff-{_TRACE}-{_SPAN}-01",
        f"00-{'0' * 32}-{_SPAN}-01",
        f"00-{_TRACE}-{'0' * 16}-01",
        f"00-{_TRACE.upper()}-{_SPAN}-01",
        f"{_PARENT}-more",
        f"{_PARENT}\nX: y",
        f"{_PARENT}, {_PARENT}",
    ):
        assert valid_traceparent(text) == "", text
    assert valid_traceparent(7) == valid_traceparent(None) == ""


@given(st.text(alphabet="0123456789abcdef-\n fF", max_size=60))
def test_no_text_is_passed_on_that_is_not_in_the_form(text: str) -> None:
    assert re.fullmatch(r"(00-[0-9a-f]{32}-[0-9a-f]{16}-0[01])?", valid_traceparent(text))


def test_a_request_has_one_or_none() -> None:
    header = (b"traceparent", _PARENT.encode())
    assert traceparent_of([(b"host", b"x"), header]) == _PARENT
    assert traceparent_of([header, header]) == traceparent_of([]) == ""
    assert traceparent_in({"_meta": {"traceparent": _PARENT}}) == _PARENT
    for params in (None, {}, {"_meta": 1}, {"_meta": {"traceparent": [1]}}):
        assert traceparent_in(params) == ""


def test_a_command_is_the_same_span_whichever_server_asks() -> None:
    alone, child = span_of(_ID, ""), span_of(_ID, _PARENT)
    assert alone == span_of(_ID, "")
    assert child == span_of(_ID, _PARENT)
    assert (child.trace_id, child.parent_id) == (_TRACE, _SPAN)
    assert alone.parent_id == ""
    assert len(alone.span_id) == len(child.span_id) == 16
    assert read_traceparent(alone.traceparent) is not None


def test_the_node_of_a_command_has_a_span_of_its_own() -> None:
    """It runs there under the same process id, as a child of the span here."""
    here = span_of(_ID, _PARENT)
    there = span_of(_ID, here.traceparent)
    assert (there.trace_id, there.parent_id) == (here.trace_id, here.span_id)
    assert there.span_id != here.span_id


def test_what_a_caller_has_not_sampled_stays_unsampled() -> None:
    assert span_of(_ID, f"00-{_TRACE}-{_SPAN}-00").traceparent.endswith("-00")
