"""The ids of requests that are no JSON."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlive.protocols.request_ids import find_request_id

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["id", "method", "params", "_meta", "requestId", "result", "error", "jsonrpc"]),
            inner,
        )
    ),
    max_leaves=12,
)
# Without escapes (json.dumps escapes DEL, too): what stands in the bytes is looked for, and clients number
# their requests or name them plainly.
_PLAIN = st.text(
    st.characters(min_codepoint=0x20, exclude_characters='\\"\x7f', exclude_categories=["Cs"]), max_size=12
)
_IDS = st.integers(-(10**18) + 1, 10**18 - 1) | _PLAIN


@pytest.mark.promise("M.ids")
@given(request_id=_IDS, params=_JSON, is_last=st.booleans(), rest=st.binary(max_size=5))
def test_a_request_that_is_no_json_has_its_id(
    request_id: str | int,
    params: object,
    is_last: bool,
    rest: bytes,
) -> None:
    named: dict[str, object] = {"id": request_id}
    others: dict[str, object] = {"jsonrpc": "2.0", "method": "id", "params": params}
    message = {**others, **named} if is_last else {**named, **others}
    for ascii_only in (True, False):
        body = json.dumps(message, ensure_ascii=ascii_only).encode()
        assert find_request_id(body + rest) == (
            request_id if not ascii_only or str(request_id).isascii() else None
        )


@given(request_id=_IDS, params=_JSON, cut=st.integers(0, 200))
def test_a_request_that_breaks_off_has_its_id_or_none(
    request_id: str | int, params: object, cut: int
) -> None:
    body = json.dumps({"params": params, "id": request_id, "method": "x"}, ensure_ascii=False).encode()
    assert find_request_id(body[:cut]) in {None, request_id}


@given(st.binary(max_size=80) | _JSON.map(lambda raw: json.dumps(raw).encode()))
def test_no_bytes_are_an_accident(body: bytes) -> None:
    found = find_request_id(body)
    assert type(found) in {type(None), str, int}


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (b'{"id": 7, oops', 7),
        (b'{"id": "a\\"b\\\\", oops', 'a"b\\'),
        (b'{"id": "\\u0041"', None),
        (b'{"id": "\xff"', None),
        (b'{"id": 7', None),  # it may go on
        (b'{"id": 1.5, ', None),
        (b'{"id": 01, ', None),
        (b'{"id": true, "x": 1', None),
        (b'{"params": {"id": 7}, ', None),
        (b'{"params": [{"id": 7}], "id": 8,', 8),
        (b'{"x": "open, "id": 7}', None),
        (b'{"x": 1} {"id": 7}', None),
        (b'[{"id": 7}, ', None),
        (b"}", None),
        (b"", None),
        (b'{"x": "' + b"y" * 70_000 + b'", "id": 7,', 7),
        (b'{"x": "' + b"\\n" * 1_000_000 + b'", "id": 7,', 7),
        (b'{"x": [' + b"{}," * 20_000 + b'{}], "id": 7,', 7),
        (b'{"x": "' + b"y" * (4 << 20) + b'", "id": 7,', None),
        (b'{"x": [' + b"{}," * 40_000 + b'{}], "id": 7,', None),
    ],
    ids=itertools.count(),
)
def test_only_the_outermost_member_in_the_first_4_mib_counts(body: bytes, found: str | int | None) -> None:
    assert find_request_id(body) == found
