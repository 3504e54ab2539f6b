"""Text frames to requests: what is one, what is none, and how ids are kept."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlive.core.cursor import BEGINNING, Cursor
from outlive.core.errors import InvalidRequest
from outlive.protocols.jsonrpc.requests import (
    MAX_BATCH,
    Batch,
    Request,
    RequestRefusal,
    Resumption,
    parse_binary,
    parse_frame,
)


def _request(**members: object) -> str:
    return json.dumps({"jsonrpc": "2.0", "method": "list"} | members)


def _refused(frame: str) -> RequestRefusal:
    parsed = parse_frame(frame)
    assert isinstance(parsed, RequestRefusal)
    assert parsed.error.hint
    return parsed


def test_a_request_is_taken_apart() -> None:
    """JSON-RPC 2.0, section 4."""
    parsed = parse_frame('{"jsonrpc":"2.0","id": 7 ,"method":"get","params":{"process_id":"x"},"more":1}')
    assert parsed == Request(method="get", params=b'{"process_id":"x"}', request_id=b"7")


@pytest.mark.parametrize(
    ("given_id", "raw", "label"),
    [
        ("3", b"3", "3"),
        ('"3"', b'"3"', "3"),
        ('"a\\u0062\\n"', b'"a\\u0062\\n"', "ab\n"),
        ("-1.5e3", b"-1.5e3", "-1.5e3"),
        (
            "123456789012345678901234567890",
            b"123456789012345678901234567890",
            "123456789012345678901234567890",
        ),
        ("null", b"null", None),
        ('""', b'""', ""),
    ],
)
def test_an_id_keeps_its_text_and_has_a_label(given_id: str, raw: bytes, label: str | None) -> None:
    """S0.11: echoed with its type, to the digit."""
    parsed = parse_frame(f'{{"jsonrpc":"2.0","id":{given_id},"method":"list"}}')
    assert isinstance(parsed, Request)
    assert (parsed.request_id, parsed.label) == (raw, label)


@pytest.mark.parametrize("frame", [_request(), _request(params=None)])
def test_without_an_id_it_is_a_notification(frame: str) -> None:
    """Section 4.1; no params are empty ones."""
    parsed = parse_frame(frame)
    assert parsed == Request(method="list", params=b"{}", request_id=None)
    assert isinstance(parsed, Request)
    assert parsed.label is None


@pytest.mark.parametrize(
    "frame",
    [
        "",
        " ",
        "{",
        "nonsense",
        "[1,",
        '{"id":01}',
        "\ufeff{}",
        '{"a":"\\ud800"}',
        "[" * 100_000,
    ],
)
def test_what_is_no_json_is_a_parse_error(frame: str) -> None:
    """S0.11: id null where none stands in the bytes; nesting beyond the stack included."""
    refusal = _refused(frame)
    assert (refusal.error.code, refusal.request_id) == ("parse_error", b"null")


@pytest.mark.parametrize(
    ("frame", "request_id"),
    [
        ('{"id":1} x', b"1"),
        ('{"id": "a\\"é", "method": "get", "params": {', '"a\\"é"'.encode()),
        ('{"jsonrpc": "2.0", "method": "get", "params": {}, "id": -7,', b"-7"),
        ('{"id": 3, "params": ' + "[" * 100_000, b"3"),
    ],
)
def test_a_request_that_is_no_json_is_answered_under_its_id(frame: str, request_id: bytes) -> None:
    refusal = _refused(frame)
    assert (refusal.error.code, refusal.request_id) == ("parse_error", request_id)


@pytest.mark.parametrize(
    ("frame", "request_id"),
    [
        ("42", b"null"),
        ('"x"', b"null"),
        ("null", b"null"),
        ("[]", b"null"),
        ("{}", b"null"),
        ('{"jsonrpc":"1.0","id":1,"method":"x"}', b"1"),
        ('{"jsonrpc":2.0,"id":1,"method":"x"}', b"1"),
        ('{"id":"a","method":"x"}', b'"a"'),
        ('{"jsonrpc":"2.0","id":1}', b"1"),
        ('{"jsonrpc":"2.0","id":1,"method":5}', b"1"),
        ('{"jsonrpc":"2.0","id":{},"method":"x"}', b"null"),
        ('{"jsonrpc":"2.0","id":[1],"method":"x"}', b"null"),
        ('{"jsonrpc":"2.0","id":true,"method":"x"}', b"null"),
        ('{"jsonrpc":"2.0","id":1,"result":{}}', b"1"),
    ],
)
def test_what_is_no_request_is_an_invalid_request(frame: str, request_id: bytes) -> None:
    """S0.11: with its id where that can be read."""
    refusal = _refused(frame)
    assert (refusal.error.code, refusal.request_id) == ("invalid_request", request_id)


def test_a_batch_holds_requests_and_refusals_in_order() -> None:
    """Section 6."""
    parsed = parse_frame(f"[{_request(id=1)}, 1, {_request()}]")
    assert isinstance(parsed, Batch)
    assert [type(entry) for entry in parsed.entries] == [Request, RequestRefusal, Request]


def test_a_batch_has_a_limit() -> None:
    assert isinstance(parse_frame(json.dumps([1] * MAX_BATCH)), Batch)
    assert _refused(json.dumps([1] * (MAX_BATCH + 1))).error.code == "invalid_request"


_json = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text()),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(), inner, max_size=4)),
    max_leaves=12,
)
_members = st.fixed_dictionaries(
    {}, optional={"jsonrpc": st.just("2.0"), "id": _json, "method": _json, "params": _json}
)


@given(
    frame=st.one_of(
        st.text(), _json.map(json.dumps), _members.map(json.dumps), st.lists(_members).map(json.dumps)
    )
)
def test_no_frame_raises(frame: str) -> None:
    """Whatever comes, there is an answer to it."""
    assert isinstance(parse_frame(frame), Request | RequestRefusal | Batch)


@given(payload=st.binary(max_size=300))
def test_a_binary_frame_is_a_request_and_its_bytes(payload: bytes) -> None:
    parsed = parse_binary(_request(id=3, method="write").encode() + b"\n" + payload)
    assert isinstance(parsed, Request)
    assert parsed.payload is not None
    assert (parsed.method, parsed.request_id, bytes(parsed.payload)) == ("write", b"3", payload)


@pytest.mark.parametrize(
    "frame",
    [b"", b"abc", b'{"jsonrpc":"2.0","id":1,"method":"list"}', b"[{}]\nx", b"\nx", b'{"\xff"}\nx', b"{}\nx"],
)
def test_what_is_no_request_and_bytes_is_refused(frame: bytes) -> None:
    assert isinstance(parse_binary(frame), RequestRefusal)


@pytest.mark.promise("M.ids")
@pytest.mark.parametrize(
    "frame",
    [
        b'{"jsonrpc":"2.0","id":7,"method":"list"}',
        b'{"id":7,"method":"write", oops}\nx',
        b'{"method":"write","params":{"x":"\xff"},"id":7}\nx',
    ],
)
def test_the_refusal_of_a_binary_frame_has_its_id(frame: bytes) -> None:
    refused = parse_binary(frame)
    assert isinstance(refused, RequestRefusal)
    assert refused.request_id == b"7"


@given(frame=st.binary(max_size=300))
def test_no_binary_frame_raises(frame: bytes) -> None:
    assert isinstance(parse_binary(frame), Request | RequestRefusal)


def test_nothing_said_is_nothing_to_resume() -> None:
    """S0.14."""
    assert Resumption.parse({}) == Resumption()


def test_one_cursor_means_the_last_process() -> None:
    """S0.14."""
    said = Resumption.parse({"session_id": "s", "cursor": "10.4", "output": "chunk", "more": "x"})
    assert (said.session_id, said.cursor, said.output) == ("s", Cursor(10, 4), "chunk")
    assert said.position("p") == BEGINNING


def test_several_cursors_name_their_processes() -> None:
    """S0.14, S0.13: for clients with concurrent commands."""
    said = Resumption.parse({"cursor": "p:1.2, q:0"})
    assert said.cursor is None
    assert (said.position("p"), said.position("q"), said.position("r")) == (
        Cursor(1, 2),
        BEGINNING,
        BEGINNING,
    )


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ({"cursor": "x"}, "invalid_cursor"),
        ({"cursor": "p:x"}, "invalid_cursor"),
        ({"cursor": "p:1,"}, "invalid_cursor"),
        ({"cursor": ",".join(["p:1"] * 1001)}, "invalid_cursor"),
        ({"output": "morse"}, "invalid_params"),
    ],
)
def test_nonsense_is_refused(query: dict[str, str], code: str) -> None:
    """S0.11."""
    with pytest.raises(InvalidRequest) as refused:
        Resumption.parse(query)
    assert refused.value.code == code
