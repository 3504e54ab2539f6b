"""Responses and notifications as UTF-8 JSON (JSON-RPC 2.0, section 5).

Messages that carry output are in `output`; which members a process has is in `views`.
"""

from collections.abc import Mapping, Sequence

import orjson

from outlive.core.errors import OutliveError
from outlive.core.process import ProcessRecord
from outlive.protocols.jsonrpc.numbers import ERROR_NUMBERS
from outlive.protocols.jsonrpc.output import STREAM_NAMES


def encode_result(request_id: bytes, result: Mapping[str, object]) -> bytes:
    """Return a success; `request_id` is the JSON text of the request's id, repeated as it came."""
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (request_id, orjson.dumps(result))


def encode_error(request_id: bytes, error: OutliveError) -> bytes:
    """Return a failure: number, sentence, and in `data` the slug as `reason`, the hint and the details."""
    # Details first: they must not replace the members that every error has.
    data = {**error.details, "reason": error.code, "hint": error.hint}
    body = {"code": ERROR_NUMBERS[error.code], "message": error.message, "data": data}
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (request_id, orjson.dumps(body, default=str))


def encode_batch(answers: Sequence[bytes]) -> bytes:
    """Return the one array that answers a batch."""
    return b"[%b]" % b",".join(answers)


def encode_notification(method: str, params: Mapping[str, object]) -> bytes:
    """Return a notification."""
    return orjson.dumps({"jsonrpc": "2.0", "method": method, "params": params})


def encode_process_notification(word: str, record: ProcessRecord, *, cursor: str) -> bytes:
    """Return `process.<word>`: started, paused, resumed, cancelled or completed (promises S0.5, S0.8, S0.10).

    All have the same members; `status` is the word itself, except that a process is "completed" only with exit code 0 and
    complete output, and otherwise "failed". Only a completion has an exit code, an error, or `output_lost`.
    """
    # Members that do not apply are null, so that clients can rely on their presence.
    status, exit_code, error = word, None, None
    if word == "completed":
        exit_code, error = record.wire_exit_code, record.error
        status = "completed" if exit_code == 0 and not record.output_lost else "failed"
    params: dict[str, object] = {
        "status": status,
        "pid": record.pid,
        "pgid": record.pid,  # every command leads a POSIX session and group of its own (promise S0.3)
        "exit_code": exit_code,
        "error": error,
        "process_id": record.process_id,
        "cursor": cursor,
    }
    if word == "completed" and record.output_lost:
        params["output_lost"] = True
    return encode_notification(f"process.{word}", params)


def encode_queued(record: ProcessRecord) -> bytes:
    """Return `process.queued`: what a process waits for before it starts, and what has to be done for that."""
    params = {
        "status": "queued",
        "process_id": record.process_id,
        "waits_for": record.waits_for,
        "hint": record.hint,
    }
    return encode_notification("process.queued", params)


def encode_gap(process_id: str, stream: int, first: int, last: int, *, cursor: str) -> bytes:
    """Return `process.gap`: the log no longer holds bytes `first` to `last` of a stream (promise S0.20)."""
    params = {
        "process_id": process_id,
        "type": STREAM_NAMES[stream],
        "from": first,
        "to": last,
        "cursor": cursor,
    }
    return encode_notification("process.gap", params)
