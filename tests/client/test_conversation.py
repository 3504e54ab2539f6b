"""One connection's memory: answers by number, output of the followed process, and its bound."""

import json

import pytest

from outlive.client.channel import FOLLOWER, Conversation
from outlive.client.messages import OutputPiece
from outlive.core.cursor import BEGINNING
from outlive.core.errors import LimitExceeded

_ID = "01m7ybywps7gsyjzmq1eandhcn"
_MIB = 1 << 20


def _output(end: int, data: bytes, process_id: str = _ID) -> bytes:
    params = {"type": "stdout", "process_id": process_id, "end": end, "truncated": False}
    return (
        json.dumps({"jsonrpc": "2.0", "method": "process.output", "params": params}).encode() + b"\n" + data
    )


def _result(request_id: int | None) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "result": {}})


def test_an_answer_wakes_who_asked() -> None:
    conversation = Conversation()
    first, second = conversation.ask("get", {})[0], conversation.ask("get", {})[0]
    assert conversation.take(_result(second)) == second
    assert conversation.answer(first) is None
    assert conversation.answer(second) is not None


def test_an_answer_that_nobody_waits_for_is_passed_over() -> None:
    conversation = Conversation()
    request_id = conversation.ask("wait", {})[0]
    conversation.forget(request_id)
    assert conversation.take(_result(request_id)) is None
    assert conversation.answer(request_id) is None


def test_output_counts_from_the_answer_to_the_attach_on() -> None:
    """What is on its way from an earlier subscription would be out of order."""
    conversation = Conversation()
    request_id = conversation.ask_attach(_ID, BEGINNING)[0]
    assert conversation.take(_output(900, b"old")) is None
    assert conversation.take(_result(request_id)) == request_id
    assert conversation.take(_output(1, b"x", process_id="another")) is None
    assert conversation.take(_output(1, b"a")) == FOLLOWER
    assert conversation.next_message() == OutputPiece(_ID, "stdout", b"a", 1)
    assert conversation.next_message() is None


def test_what_piles_up_behind_other_answers_is_bounded_and_asked_for_again() -> None:
    conversation = Conversation()
    conversation.take(_result(conversation.ask_attach(_ID, BEGINNING)[0]))
    for number in range(1, 100):
        conversation.take(_output(number * _MIB, bytes(_MIB)))
    kept = 0
    while (told := conversation.next_message()) is not None:
        assert isinstance(told, OutputPiece)
        kept += len(told.data)
        assert told.end == kept
    assert 0 < kept <= 4 * _MIB
    assert conversation.has_message, "the follower must hear that it has to attach again"
    conversation.take(_result(conversation.ask_attach(_ID, BEGINNING)[0]))
    assert not conversation.has_message


def test_a_single_piece_over_the_bound_is_kept_all_the_same() -> None:
    conversation = Conversation()
    conversation.take(_result(conversation.ask_attach(_ID, BEGINNING)[0]))
    conversation.take(_output(8 * _MIB, bytes(8 * _MIB)))
    assert conversation.next_message() is not None
    assert not conversation.has_left_out


def test_an_error_for_nobody_ends_the_conversation() -> None:
    error = {"code": -32001, "message": "Full.", "data": {"reason": "connection_limit", "hint": ""}}
    with pytest.raises(LimitExceeded):
        Conversation().take(json.dumps({"jsonrpc": "2.0", "id": None, "error": error}))


def test_processes_are_followed_side_by_side() -> None:
    """Each from the answer to its own attach on; one that is attached to again is silent until then."""
    conversation = Conversation()
    other = _ID[:-1] + "p"
    first = conversation.ask_attach(_ID, BEGINNING)[0]
    conversation.take(_result(first))
    second = conversation.ask_attach(other, BEGINNING, beside=True)[0]
    assert conversation.take(_output(1, b"a")) == FOLLOWER
    assert conversation.take(_output(1, b"x", process_id=other)) is None
    conversation.take(_result(second))
    assert conversation.take(_output(1, b"x", process_id=other)) == FOLLOWER
    again = conversation.ask_attach(_ID, BEGINNING, beside=True)[0]
    assert conversation.take(_output(2, b"b")) is None
    conversation.take(_result(again))
    assert conversation.take(_output(1, b"a")) == FOLLOWER
    conversation.ask_attach(_ID, BEGINNING)
    assert conversation.take(_output(2, b"y", process_id=other)) is None
    assert conversation.next_message() is None
