"""Answers and notifications: shapes, numbers, and nothing unsaid."""

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from outlive.core.errors import SLUGS, error_from_slug
from outlive.core.identity import ProcessId
from outlive.core.lifecycle import Cause, State
from outlive.core.process import Owner, ProcessRecord
from outlive.protocols.jsonrpc.answers import (
    ERROR_NUMBERS,
    encode_batch,
    encode_error,
    encode_gap,
    encode_notification,
    encode_process_notification,
    encode_result,
)
from outlive.protocols.jsonrpc.views import process_view, status_word

_RECORD = ProcessRecord(
    process_id=ProcessId("01arz3ndektsv4rrffq69g5fav"),
    command="make",
    shell=None,
    cwd="/x",
    state=State.RUNNING,
    owner=Owner(principal="uid:0", connection_id="c"),
    pid=7,
    created_at=datetime(2026, 1, 2, tzinfo=UTC),
)


def test_every_slug_has_a_number_and_no_number_is_for_nothing() -> None:
    """S0.11."""
    assert set(ERROR_NUMBERS) == set(SLUGS)


@pytest.mark.parametrize(
    ("slug", "number"),
    [
        ("command_not_allowed", -32002),
        ("command_opaque", -32002),
        ("process_running", -32602),
        ("invalid_params", -32602),
        ("process_ambiguous", -32602),
        ("start_failed", -32603),
        ("cwd_missing", -32603),
        ("not_found", -32603),
        ("connection_limit", -32001),
        ("no_process", -32003),
        ("process_not_found", -32003),
        ("stream_timeout", -32004),
        ("parse_error", -32700),
        ("invalid_request", -32600),
        ("binary_frame", -32600),
        ("method_not_found", -32601),
    ],
)
def test_the_documents_numbers_are_these(slug: str, number: int) -> None:
    """S0.11."""
    assert ERROR_NUMBERS[slug] == number


@pytest.mark.parametrize("slug", sorted(SLUGS))
def test_every_error_carries_reason_and_hint(slug: str) -> None:
    """S0.11: details beside them never hide them."""
    error = error_from_slug(slug, "What happened.", details={"pid": 7, "reason": "x"})
    message = json.loads(encode_error(b'"id"', error))
    assert message["jsonrpc"] == "2.0"
    assert message["id"] == "id"
    assert message["error"]["code"] == ERROR_NUMBERS[slug]
    assert message["error"]["message"] == "What happened."
    assert message["error"]["data"] == {"pid": 7, "reason": slug, "hint": SLUGS[slug][1]}


def test_results_and_batches_echo_their_ids() -> None:
    """JSON-RPC 2.0, sections 5 and 6."""
    answers = [encode_result(b"1", {"a": 1}), encode_result(b'"x"', {})]
    assert json.loads(encode_batch(answers)) == [
        {"jsonrpc": "2.0", "id": 1, "result": {"a": 1}},
        {"jsonrpc": "2.0", "id": "x", "result": {}},
    ]


@pytest.mark.parametrize(
    ("record", "status", "exit_code", "error"),
    [
        (replace(_RECORD, state=State.EXITED, exit_code=0), "completed", 0, None),
        (replace(_RECORD, state=State.EXITED, exit_code=3), "failed", 3, None),
        (replace(_RECORD, state=State.SIGNALED, exit_signal=9), "failed", -9, None),
        (replace(_RECORD, state=State.SIGNALED, exit_signal=15, error="Late."), "failed", -15, "Late."),
        (replace(_RECORD, state=State.LOST, error="Unknown."), "failed", None, "Unknown."),
    ],
)
def test_completed_tells_how_it_ended(
    record: ProcessRecord, status: str, exit_code: int | None, error: str | None
) -> None:
    """S0.8, S0.9: nothing is invented."""
    message = json.loads(encode_process_notification("completed", record, cursor="4.2"))
    assert message["method"] == "process.completed"
    assert message["params"] == {
        "status": status,
        "pid": 7,
        "pgid": 7,
        "exit_code": exit_code,
        "error": error,
        "process_id": _RECORD.process_id,
        "cursor": "4.2",
    }
    assert status_word(record) == status


@pytest.mark.parametrize("word", ["started", "paused", "resumed", "cancelled"])
def test_the_other_notifications_tell_no_end(word: str) -> None:
    """S0.5, S0.10: even when the process has ended meanwhile."""
    ended = replace(_RECORD, state=State.EXITED, exit_code=1, error="x")
    params = json.loads(encode_process_notification(word, ended, cursor="0.0"))["params"]
    assert (params["status"], params["exit_code"], params["error"]) == (word, None, None)


def test_a_gap_tells_where() -> None:
    """S0.20."""
    message = json.loads(encode_gap("p", 1, 10, 20, cursor="0.20"))
    assert message["method"] == "process.gap"
    assert message["params"] == {"process_id": "p", "type": "stderr", "from": 10, "to": 20, "cursor": "0.20"}


def test_a_view_shows_a_process_in_words_of_json() -> None:
    """S0.19: and everything in it can be encoded."""
    record = replace(_RECORD, state=State.PAUSED, cause=Cause.TIMEOUT, stdout_bytes=5, tags={"a": "b"})
    view = json.loads(encode_notification("x", process_view(record)))["params"]
    assert (view["status"], view["state"], view["cause"], view["cursor"]) == (
        "paused",
        "paused",
        "timeout",
        "5.0",
    )
    assert (view["tags"], view["streams"], view["created_at"]) == (
        {"a": "b"},
        "open",
        "2026-01-02T00:00:00+00:00",
    )
    assert process_view(_RECORD)["cause"] is None
    assert status_word(_RECORD) == "started"
