"""Frames to values, and what is no frame of ours."""

import json

import pytest

from outlive import PROTOCOL
from outlive.client.messages import (
    Ended,
    OutputMissing,
    OutputPiece,
    ServerAnswer,
    ServerHello,
    encode_bytes,
    encode_request,
    read_frame,
)
from outlive.client.results import Completion
from outlive.core.cursor import Cursor
from outlive.core.errors import SLUGS, OutliveError, ProtocolViolation, error_from_slug
from outlive.protocols.jsonrpc.answers import encode_error, encode_gap, encode_result
from outlive.protocols.jsonrpc.output import binary_output_frame
from outlive.protocols.jsonrpc.requests import Request, parse_binary, parse_frame
from outlive.protocols.websocket_frames import split_frames

_ID = "01m7ybywps7gsyjzmq1eandhcn"


def _completed(exit_code: int | None) -> str:
    params = {"process_id": _ID, "exit_code": exit_code, "error": None, "cursor": "3.4", "status": "failed"}
    return json.dumps({"jsonrpc": "2.0", "method": "process.completed", "params": params})


def test_a_request_is_what_the_server_reads() -> None:
    read = parse_frame(encode_request(7, "get", {"process_id": "ü"}))
    assert isinstance(read, Request)
    assert (read.method, read.request_id, json.loads(read.params)) == ("get", b"7", {"process_id": "ü"})


def test_binary_output_keeps_its_bytes() -> None:
    data = bytes(range(256)) + b"\n\n"
    ((_, payload),) = split_frames(binary_output_frame(_ID, 1, data, end=900))
    assert read_frame(payload) == OutputPiece(_ID, "stderr", data, 900)


def test_answers_and_gaps_are_read() -> None:
    assert read_frame(encode_result(b"3", {"a": 1}).decode()) == ServerAnswer(3, {"a": 1}, None)
    gap = encode_gap(_ID, 0, 10, 20, cursor="20.0").decode()
    assert read_frame(gap) == OutputMissing(_ID, "stdout", 10, 20)


@pytest.mark.parametrize("slug", sorted(SLUGS))
def test_every_error_comes_back_as_what_it_was(slug: str) -> None:
    sent = error_from_slug(slug, "It did not work.", hint="Do this.", details={"pid": 7})
    answer = read_frame(encode_error(b"1", sent).decode())
    assert isinstance(answer, ServerAnswer)
    got = answer.error
    assert type(got) is type(sent)
    assert isinstance(got, OutliveError)
    assert (got.code, got.message, got.hint, dict(got.details)) == (
        slug,
        sent.message,
        "Do this.",
        {"pid": 7},
    )


def test_an_error_of_a_newer_server_is_an_error_all_the_same() -> None:
    error = {"code": -1, "message": "New.", "data": {"reason": "of_tomorrow", "hint": "Wait."}}
    answer = read_frame(json.dumps({"jsonrpc": "2.0", "id": 1, "error": error}))
    assert isinstance(answer, ServerAnswer)
    assert answer.error is not None
    assert (answer.error.code, answer.error.message, answer.error.hint) == ("internal_error", "New.", "Wait.")


@pytest.mark.parametrize(
    ("sent", "exit_code", "exit_signal", "returncode"),
    [(0, 0, None, 0), (255, 255, None, 255), (-15, None, 15, -15), (None, None, None, None)],
)
def test_an_end_is_a_code_or_a_signal_or_unknown(
    sent: int | None, exit_code: int | None, exit_signal: int | None, returncode: int | None
) -> None:
    completion = Completion(exit_code=exit_code, exit_signal=exit_signal, error=None, cursor=Cursor(3, 4))
    assert read_frame(_completed(sent)) == Ended(_ID, completion)
    assert completion.returncode == returncode


def _greeting(**other: object) -> str:
    offered = {"backend": "local", "max_message_bytes": 100_000, "scope": "run", "new": 1}
    params = {
        "session_id": "s",
        "resumed": True,
        "version": "9.8.7",
        "protocol": PROTOCOL,
        "capabilities": offered,
    }
    return json.dumps({"jsonrpc": "2.0", "method": "connected", "params": {**params, "new": 1, **other}})


def test_what_a_server_says_besides_is_passed_over() -> None:
    assert read_frame('{"jsonrpc":"2.0","method":"process.dreamt","params":{}}') is None
    expected = ServerHello("s", is_resumed=True, backend="local", input_bytes=100_000 - 4096, scope="run")
    assert read_frame(_greeting()) == expected


@pytest.mark.parametrize("spoken", [PROTOCOL + 1, None])
def test_a_server_of_another_protocol_is_refused_by_its_number(spoken: int | None) -> None:
    """Nothing else of its greeting is looked at: it may be of any shape."""
    with pytest.raises(ProtocolViolation, match=f"outlive 9.8.7.* speaks protocol {spoken}") as refused:
        read_frame(_greeting(protocol=spoken, capabilities=7))
    assert refused.value.code == "protocol_mismatch"
    assert "same version" in refused.value.hint


@pytest.mark.parametrize("frame", ["", "1", "[]", "null", '{"method":"connected"}', b"", b"{}\nx", b"\xff\n"])
def test_what_is_none_of_ours_is_refused(frame: str | bytes) -> None:
    if frame == "":
        frame = "no JSON"
    with pytest.raises(ProtocolViolation):
        read_frame(frame)


def test_a_piece_of_input_fits_into_a_message_and_goes_as_it_is() -> None:
    offered = {"backend": "local", "scope": "run"}
    greetings = [
        read_frame(_greeting(capabilities={**offered, "max_message_bytes": size}))
        for size in (100, 100_000, 1 << 30)
    ]
    sizes = [one.input_bytes for one in greetings if isinstance(one, ServerHello)]
    assert sizes == [50, 100_000 - 4096, 1 << 20]
    read = parse_binary(encode_bytes(7, "write", {"process_id": _ID}, b"\n\xff"))
    assert isinstance(read, Request)
    assert read.payload is not None
    assert read.params is not None
    assert (read.method, bytes(read.payload)) == ("write", b"\n\xff")
    assert json.loads(read.params) == {"process_id": _ID}
