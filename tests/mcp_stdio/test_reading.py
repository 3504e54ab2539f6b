"""What the relay reads: lines of a host, answers of a server cut anywhere, and what a dead server leaves
behind.
"""

import json
import socket
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared.inbound import encode_header_value

from outlive.frontends.mcp.stdio.messages import (
    Envelope,
    Malformed,
    RelayedRequest,
    RelaySession,
    read_envelope,
)
from outlive.protocols.mcp.messages import Message

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["id", "method", "params", "_meta", "name", "requestId", "result", "jsonrpc"]),
            inner,
        )
    ),
    max_leaves=12,
)
_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"
)


@given(_JSON)
def test_every_line_is_a_message_or_has_an_answer(raw: object) -> None:
    read = read_envelope(json.dumps(raw).encode())
    if isinstance(read, Malformed):
        assert json.loads(read.answer)["error"]["code"] in {-32700, -32600}
    else:
        assert json.loads(read.body) == raw
        assert all(text.isprintable() for _, text in read.headers(RelaySession("s", "2025-11-25")))


@given(st.binary(max_size=40))
def test_no_bytes_are_an_accident(line: bytes) -> None:
    assert isinstance(read_envelope(line), Envelope | Malformed)


@given(st.text(max_size=20))
def test_header_values_are_encoded_as_the_official_client_does(name: str) -> None:
    params = {"name": name, "_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}
    envelope = Envelope(b"", Message(kind="request", method="tools/call", request_id=1, params=params))
    assert dict(envelope.headers(None))["Mcp-Name"] == encode_header_value(name)


@given(
    st.lists(st.text(st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp")), max_size=12), max_size=4),
    st.lists(st.integers(1, 30), max_size=12),
    st.sampled_from(["\n", "\r\n"]),
)
def test_events_are_whole_wherever_the_stream_is_cut(texts: list[str], cuts: list[int], end: str) -> None:
    messages = [json.dumps({"text": text}, ensure_ascii=False).encode() for text in texts]
    events = b"".join(
        f": alive{end}{end}event: message{end}data: ".encode() + message + (end * 2).encode()
        for message in messages
    )
    chunks = []
    for size in cuts:
        chunk, events = events[:size], events[size:]
        chunks += [b"%x\r\n%b\r\n" % (len(chunk), chunk)] if chunk else []
    chunks += [b"%x\r\n%b\r\n" % (len(events), events)] if events else []
    ours, theirs = socket.socketpair()
    with theirs, RelayedRequest(ours) as exchange:
        theirs.sendall(_HEAD + b"".join(chunks) + b"0\r\n\r\n")
        assert exchange.read_answer().is_stream
        assert list(exchange.read_messages()) == messages


@pytest.mark.parametrize(
    "said", [b"", b"HTTP/1.1 200", _HEAD, _HEAD + b"5\r\nda", _HEAD + b"2\r\nda\r\n", b"junk junk junk\r\n"]
)
def test_an_answer_that_breaks_off_is_an_error_of_the_connection(said: bytes) -> None:
    ours, theirs = socket.socketpair()
    with RelayedRequest(ours) as exchange:
        exchange.send(b"{}", [])
        theirs.recv(65536)
        theirs.sendall(said)
        theirs.close()
        with pytest.raises(ConnectionError) as broken:
            _read_all(exchange)
        assert not isinstance(broken.value, ConnectionResetError)


@pytest.mark.parametrize("read_bytes", [0, 1, 100])
@pytest.mark.promise("M.restart")
def test_a_request_that_was_not_read_whole_is_told_apart(read_bytes: int) -> None:
    """unix_release_sock: the kernel resets a stream whose end leaves bytes unread."""
    ours, theirs = socket.socketpair()
    with RelayedRequest(ours) as exchange:
        assert exchange.send(b"{}" * 100, [])
        if read_bytes:
            theirs.recv(read_bytes)
        theirs.close()
        with pytest.raises(ConnectionResetError):
            exchange.read_answer()


def test_an_abandoned_exchange_ends_its_reader() -> None:
    ours, theirs = socket.socketpair()
    with theirs, RelayedRequest(ours) as exchange:
        threading.Timer(0, exchange.abandon).start()
        with pytest.raises(ConnectionError):
            exchange.read_answer()


def _read_all(exchange: RelayedRequest) -> list[bytes]:
    exchange.read_answer()
    return list(exchange.read_messages())
