"""JSON values as MCP's messages."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlive.protocols.mcp.messages import (
    McpError,
    Message,
    read_message,
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
