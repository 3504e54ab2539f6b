"""JSON values as MCP's messages."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared.inbound import InboundLadderRejection, classify_inbound_request, decode_header_value

from outlive.protocols.mcp.messages import (
    SESSION_REVISIONS,
    Declared,
    McpError,
    Message,
    check_stateless,
    decode_header,
    encode_header,
    object_param,
    progress_token,
    read_initialize,
    read_message,
    stateless_result,
    text_param,
)

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


_WELL_FORMED = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0")},
    optional={
        "id": st.integers() | st.text(max_size=3) | _JSON,
        "method": st.sampled_from(["ping", "notifications/cancelled"]) | _JSON,
        "params": st.dictionaries(st.sampled_from(["_meta", "requestId"]), _JSON) | _JSON,
        "result": _JSON,
        "error": _JSON,
    },
)


@given(_JSON | _WELL_FORMED)
def test_every_value_is_a_message_or_an_error(raw: object) -> None:
    message = _read(raw)
    if isinstance(message, McpError):
        assert message.code == -32600
        assert message.response()["id"] == message.request_id
        return
    assert isinstance(raw, dict)
    assert raw["jsonrpc"] == "2.0"
    assert (message.kind == "notification") == ("id" not in raw)
    assert (message.kind == "response") == ("method" not in raw)
    assert message.request_id == raw.get("id")
    meta = message.params.get("_meta")
    assert message.meta == (meta if isinstance(meta, dict) else {})
    assert isinstance(message.is_enveloped, bool)
    assert message.cancels is None or message.method == "notifications/cancelled"


def _read(raw: object) -> Message | McpError:
    try:
        return read_message(raw)
    except McpError as error:
        return error


@pytest.mark.parametrize(
    ("params", "is_enveloped"),
    [({"_meta": {"io.modelcontextprotocol/protocolVersion": 5}}, True), ({"_meta": {}}, False), ({}, False)],
)
def test_a_request_with_an_envelope_is_known(params: Mapping[str, Any], is_enveloped: bool) -> None:
    assert Message(kind="request", method="ping", params=params).is_enveloped is is_enveloped
    assert not Message(kind="request", method="initialize", params=params).is_enveloped


def test_an_error_shows_its_data_where_it_has_some() -> None:
    assert McpError(-1, "no", {"a": 1}, request_id="x").response() == {
        "jsonrpc": "2.0",
        "id": "x",
        "error": {"code": -1, "message": "no", "data": {"a": 1}},
    }
    assert "data" not in str(McpError(-1, "no").response())


_VERSION = "io.modelcontextprotocol/protocolVersion"
_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
_CLIENT = "io.modelcontextprotocol/clientInfo"
_NAMES = st.sampled_from(["run", "r\u00fcn", "=?base64?cnVu?=", " run", ""])
_REVISIONS = st.sampled_from(["2026-07-28", "2025-11-25", "2027-01-01"])
_METHODS = st.sampled_from(["tools/call", "tools/list", "resources/read", "x"])
_METAS = st.fixed_dictionaries(
    {},
    optional={
        _VERSION: _REVISIONS,
        _CAPABILITIES: st.just({"extensions": {"a": {}}}),
        _CLIENT: st.sampled_from([{"name": "Me", "version": "1"}, None]),
    },
)
_PARAMS = st.fixed_dictionaries({}, optional={"_meta": _METAS, "name": _NAMES, "uri": _NAMES})
_HEADERS = st.fixed_dictionaries(
    {"mcp-protocol-version": _REVISIONS},
    optional={"mcp-method": _METHODS, "mcp-name": _NAMES | _NAMES.map(encode_header)},
)


def _raw(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), text.encode("latin-1", "replace")) for name, text in headers.items()]


@pytest.mark.promise("M.stateless")
@given(method=_METHODS, params=_PARAMS, headers=_HEADERS, is_right=st.booleans())
def test_a_request_is_judged_as_the_official_sdk_judges_it(
    method: str,
    params: dict[str, Any],
    headers: dict[str, str],
    is_right: bool,
) -> None:
    if is_right:  # else hardly any would be
        params = {**params, "_meta": {**params.get("_meta", {}), _VERSION: "2026-07-28", _CAPABILITIES: {}}}
        named = {"mcp-name": encode_header(params["name"])} if "name" in params else {}
        headers = {"mcp-method": method, **named, **headers, "mcp-protocol-version": "2026-07-28"}
    official = classify_inbound_request({"method": method, "params": params}, headers=headers)
    message = Message(kind="request", method=method, params=params, request_id=1)
    verdict = _verdict(message, headers)
    if isinstance(verdict, McpError):
        assert isinstance(official, InboundLadderRejection)
        # A revision that is not served is said first where the body names none.
        is_other = headers["mcp-protocol-version"] != "2026-07-28" and not message.is_enveloped
        assert verdict.code == (-32022 if is_other else official.code)
    else:
        assert not isinstance(official, InboundLadderRejection)
        assert verdict.revision == official.protocol_version
        assert verdict.client == (official.client_info or {}).get("name", "").lower()
        assert verdict.capabilities == official.client_capabilities


def _verdict(message: Message, headers: Mapping[str, str]) -> Declared | McpError:
    try:
        return check_stateless(message, _raw(headers))
    except McpError as error:
        return error


@given(st.text(max_size=20))
def test_a_header_says_what_was_put_into_it(text: str) -> None:
    if text.isascii() or all(not "\ud800" <= mark <= "\udfff" for mark in text):
        assert decode_header(encode_header(text)) == text
    assert encode_header(text).isascii()


@given(st.text(max_size=12) | st.text("QUJDRA=", max_size=9).map(lambda text: f"=?base64?{text}?="))
def test_headers_are_read_as_the_official_sdk_reads_them(text: str) -> None:
    assert decode_header(text) == decode_header_value(text)


def _request(**meta: object) -> Message:
    known = {_VERSION: "2026-07-28", _CAPABILITIES: {}}
    return Message(kind="request", method="x", params={"_meta": {**known, **meta}}, request_id=1)


_GOOD = [(b"mcp-protocol-version", b"2026-07-28"), (b"mcp-method", b"x")]


@pytest.mark.parametrize(
    ("meta", "sentence"),
    [
        ({_VERSION: 5}, "protocolVersion is a string"),
        ({_CAPABILITIES: 5}, "clientCapabilities is an object"),
        ({_CAPABILITIES: {"extensions": 5}}, "extensions is an object"),
        ({_CLIENT: 5}, "clientInfo is an object"),
        ({_CLIENT: {}}, "version is a string"),
        ({_CLIENT: {"version": "1", "name": 5}}, "name is a string"),
    ],
)
def test_what_is_declared_has_the_types_of_the_revision(meta: dict[str, object], sentence: str) -> None:
    with pytest.raises(McpError, match=sentence) as refused:
        check_stateless(_request(**meta), _GOOD)
    assert refused.value.code == -32602


def test_a_header_that_comes_twice_is_refused() -> None:
    with pytest.raises(McpError, match="more than once") as refused:
        check_stateless(_request(), [*_GOOD, _GOOD[0]])
    assert refused.value.code == -32020


def test_another_revision_without_sessions_is_refused_with_the_one_that_is_served() -> None:
    headers = [(b"accept", b"*/*"), (b"mcp-protocol-version", b"2027-01-01"), _GOOD[1]]
    with pytest.raises(McpError, match="Unsupported") as refused:
        check_stateless(_request(**{_VERSION: "2027-01-01"}), headers)
    assert refused.value.data == {"requested": "2027-01-01", "supported": ["2026-07-28"]}


def test_notifications_declare_nothing_and_responses_have_no_place() -> None:
    told = Message(kind="notification", method="notifications/cancelled")
    assert check_stateless(told, _GOOD[:1]) == Declared(revision="2026-07-28")
    with pytest.raises(McpError, match="Unsupported"):
        check_stateless(told, [(b"mcp-protocol-version", b"1999")])
    with pytest.raises(McpError, match="Nothing is asked"):
        check_stateless(Message(kind="response", request_id=1), _GOOD)


_INITIALIZE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "Me", "version": "1"},
}


@given(st.text(max_size=12) | st.sampled_from(SESSION_REVISIONS))
def test_a_revision_is_agreed_on(asked: str) -> None:
    declared = read_initialize({**_INITIALIZE, "protocolVersion": asked})
    assert declared.revision == (asked if asked in SESSION_REVISIONS else "2025-11-25")
    assert declared.client == "Me"


@pytest.mark.parametrize("name", _INITIALIZE)
@pytest.mark.parametrize("odd", [None, 5, [], {}])
def test_an_initialize_without_one_of_its_members_is_refused(name: str, odd: object) -> None:
    if (name, odd) != ("capabilities", {}):
        with pytest.raises(McpError):
            read_initialize({**_INITIALIZE, name: odd})


def test_parameters_have_their_types() -> None:
    assert text_param({"a": "x"}, "a") == "x"
    assert object_param({}, "a") == object_param({"a": None}, "a") == {}
    wrongs: tuple[dict[str, Any], ...] = ({}, {"a": None}, {"a": []})
    for wrong in wrongs:
        with pytest.raises(McpError, match="a is an object"):
            object_param(wrong, "a", is_needed=True)
    with pytest.raises(McpError, match="a is a string"):
        text_param({"a": 5}, "a")


@pytest.mark.parametrize(
    ("meta", "token"), [(None, None), ({}, None), ({"progressToken": 0}, 0), ({"progressToken": True}, None)]
)
def test_a_progress_token_is_a_text_or_a_number(meta: object, token: object) -> None:
    assert progress_token(Message(kind="request", params={"_meta": meta})) == token
    with pytest.raises(McpError, match="progressToken"):
        progress_token(Message(kind="request", params={"_meta": {"progressToken": None}}))


@pytest.mark.promise("M.stateless")
def test_results_have_a_type_the_servers_name_and_how_long_they_last() -> None:
    server = {"name": "s", "version": "1"}
    shown = stateless_result("tools/list", {"tools": [], "_meta": {"a": 1}}, server)
    assert shown == {
        "resultType": "complete",
        "ttlMs": 0,
        "cacheScope": "private",
        "tools": [],
        "_meta": {"io.modelcontextprotocol/serverInfo": server, "a": 1},
    }
    assert "ttlMs" not in stateless_result("tools/call", {}, server)
    asking = stateless_result("prompts/list", {"resultType": "input_required"}, server)
    assert (asking["resultType"], "ttlMs" in asking) == ("input_required", False)


def test_an_extension_is_declared_by_its_name() -> None:
    assert Declared(revision="x", capabilities={"extensions": {"a": {}}}).has_extension("a")
    others: tuple[dict[str, Any], ...] = ({}, {"extensions": {}}, {"extensions": 5})
    for other in others:
        assert not Declared(revision="x", capabilities=other).has_extension("a")
