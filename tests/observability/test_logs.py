"""Logging: one line a record, fields behind the text, and never a wait for whoever reads."""

import io
import json
import logging
import os
import threading
from datetime import UTC, datetime, timedelta

from outlive.core.events import (
    Event,
    KeeperConnected,
    KeeperDisconnected,
    ProcessClosed,
    ProcessCompleted,
    ProcessRecovered,
    ProcessStarted,
)
from outlive.core.identity import new_process_id
from outlive.core.lifecycle import Cause, State
from outlive.core.process import Owner, ProcessRecord
from outlive.observability.logs import JsonFormatter, LineFormatter, LogWriter, logging_to
from outlive.observability.process_log import log_event

_BEGUN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
EXAMPLE = ProcessRecord(  # noqa: S604 -- `shell` is the name of one
    process_id=new_process_id(1, b"0123456789"),
    command="secret --password hunter2",
    shell="/bin/bash",
    cwd="/",
    state=State.SIGNALED,
    owner=Owner(principal="uid:7"),
    pid=42,
    cause=Cause.CANCEL,
    exit_signal=15,
    created_at=_BEGUN,
    started_at=_BEGUN,
    ended_at=_BEGUN + timedelta(seconds=1.5),
    stdout_bytes=10,
    stderr_bytes=5,
)


def _lines(level: str, *events: Event) -> list[str]:
    stream = io.StringIO()
    with logging_to(level, stream, form="console"):
        for event in events:
            log_event(event)
    return stream.getvalue().splitlines()


def test_a_process_leaves_one_summary_line_without_its_command() -> None:
    (line,) = _lines("info", ProcessStarted(record=EXAMPLE), ProcessCompleted(record=EXAMPLE))
    for field in (
        "principal=uid:7",
        "exit=-15",
        "cause=cancel",
        "duration_s=1.5",
        "bytes=15",
        "backend=local",
    ):
        assert field in line
    assert "hunter2" not in line


def test_chatter_is_at_debug_and_the_rest_is_silent() -> None:
    events = (
        ProcessStarted(record=EXAMPLE),
        ProcessRecovered(record=EXAMPLE),
        KeeperConnected(pid=3),
        KeeperDisconnected(),
        ProcessClosed(record=EXAMPLE),
    )
    assert len(_lines("info", *events)) == 3
    assert len(_lines("debug", *events)) == 4
    (line,) = _lines("warning", *events)
    assert "WARNING" in line


def test_fields_stand_behind_the_text_and_odd_values_are_quoted() -> None:
    record = logging.makeLogRecord(
        {"msg": "went wrong", "name": "n", "levelname": "INFO", "path": "/a b", "n": 3}
    )
    assert LineFormatter().format(record).endswith("INFO n: went wrong path='/a b' n=3")
    record = logging.makeLogRecord({"msg": "x", "text": "two\nlines", "empty": ""})
    assert LineFormatter().format(record).endswith("text='two\\nlines' empty=''")


def test_a_traceback_follows_its_line() -> None:
    stream = io.StringIO()
    with logging_to("info", stream, form="console"):
        try:
            int("inner")
        except ValueError:
            logging.getLogger("x").exception("failed", extra={"reference": "abc"})
    assert "failed reference=abc\nTraceback" in stream.getvalue()
    assert "ValueError" in stream.getvalue().splitlines()[-1]


def test_libraries_are_heard_from_warning_on() -> None:
    stream = io.StringIO()
    with logging_to("debug", stream, form="console"):
        logging.getLogger("uvicorn.error").info("chatter")
        logging.getLogger("uvicorn.error").warning("trouble")
    assert "chatter" not in stream.getvalue()
    assert "trouble" in stream.getvalue()


def test_the_root_logger_is_left_as_it_was() -> None:
    root = logging.getLogger()
    before = (root.level, list(root.handlers))
    with logging_to("debug", io.StringIO(), form="console"):
        assert root.level == logging.DEBUG
    assert (root.level, list(root.handlers)) == before


def test_a_reader_that_stops_costs_lines_and_never_time() -> None:
    """The pipe is full, the queue fills, the rest is counted; nobody who logs ever waits."""
    reader, writer = os.pipe()
    records = 30_000
    with open(reader, encoding="utf-8") as lines, open(writer, "w", encoding="utf-8") as stream:
        handler = LogWriter(stream)
        record = logging.makeLogRecord({"msg": "x" * 100})
        for _ in range(records):
            handler.emit(record)
        seen: list[str] = []
        drain = threading.Thread(target=lambda: seen.extend(iter(lines.readline, "")))
        drain.start()
        handler.close()
        stream.close()
        drain.join(60)
    dropped = sum(int(line.split()[0][1:]) for line in seen if line.startswith("("))
    assert dropped > 0
    assert dropped + sum(not line.startswith("(") for line in seen) == records


def test_a_record_that_cannot_be_formatted_does_not_end_the_log() -> None:
    stream = io.StringIO()
    handler = LogWriter(stream)
    handler.emit(logging.makeLogRecord({"msg": "%d", "args": ("no number",)}))
    handler.emit(logging.makeLogRecord({"msg": "goes on"}))
    handler.close()
    assert "goes on" in stream.getvalue()
    assert "(1 log lines were dropped" in stream.getvalue()


def test_json_lines_hold_the_fields_and_the_traceback_and_are_the_form_where_no_terminal_is() -> None:
    stream = io.StringIO()
    with logging_to("info", stream):
        log_event(ProcessCompleted(record=EXAMPLE))
        try:
            int("inner")
        except ValueError:
            logging.getLogger("x").exception("failed", extra={"reference": "abc", "level": "mine"})
    summary, failed = map(json.loads, stream.getvalue().splitlines())
    assert summary["event"] == "process completed"
    assert (summary["exit"], summary["bytes"], summary["principal"]) == (-15, 15, "uid:7")
    assert summary["level"] == "info"
    assert datetime.fromisoformat(summary["time"]).tzinfo is not None
    assert "hunter2" not in stream.getvalue()
    assert (failed["reference"], failed["level"]) == ("abc", "error")
    assert failed["traceback"].startswith("Traceback")


def test_a_field_that_json_does_not_know_is_shown_as_text() -> None:
    record = logging.makeLogRecord({"msg": "x", "path": _BEGUN})
    assert json.loads(JsonFormatter().format(record))["path"] == str(_BEGUN)
