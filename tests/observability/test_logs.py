"""Logging: one line a record, fields behind the text, and never a wait for whoever reads."""

import io
import json
import logging
import os
import re
import threading
from datetime import UTC, datetime, timedelta

import pytest

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
from outlive.observability.logs import (
    JsonFormatter,
    LineFormatter,
    LogForm,
    LogWriter,
    log_each,
    log_event,
    logging_to,
)

_BEGUN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
EXAMPLE = ProcessRecord(  # noqa: S604 -- `shell` is the name of one
    process_id=new_process_id(1, b"0123456789abcd"),
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
    assert "failed reference=abc\n    Traceback" in stream.getvalue()
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


_MANY = (
    {"process_id": "a", "exit": 0, "cause": Cause.CANCEL, "duration_s": None},
    {"process_id": "b ü", "exit": -15, "cause": "", "duration_s": 0.25},
)


class _Heard(logging.Handler):
    """Keeps the records that come one by one, as a program that embeds us does."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


def _own_logger() -> tuple[logging.Logger, logging.Logger]:
    """Return a logger and its root, apart from those of the tests' own handlers."""
    root = logging.RootLogger(logging.INFO)
    return logging.Manager(root).getLogger("outlive.test"), root


def _written(form: LogForm, *others: logging.Handler, one_by_one: bool = False) -> list[str]:
    """Return what is written of `_MANY`, without the time."""
    logger, _ = _own_logger()
    stream = io.StringIO()
    writer = LogWriter(stream, form=form, hide=lambda text: text.replace("ü", "*").replace("\\u00fc", "*"))
    for handler in (writer, *others):
        logger.addHandler(handler)
    if one_by_one:
        for fields in _MANY:
            logger.info("it happened", extra=fields)
    else:
        log_each(logger, logging.INFO, "it happened", iter(_MANY))
        log_each(logger, logging.DEBUG, "nobody listens", iter(_MANY))
    writer.close()
    return [re.sub(r"\d{4}-[^ ]+( [\d:.]+)?", "", line, count=1) for line in stream.getvalue().splitlines()]


@pytest.mark.parametrize("form", ["console", "json"])
def test_many_lines_of_one_event_are_the_ones_that_many_records_would_have_become(form: LogForm) -> None:
    lines = _written(form)
    assert lines == _written(form, one_by_one=True)
    assert len(lines) == 2
    assert "ü" not in "".join(lines)
    assert "b *" in lines[1]


def test_a_foreign_handler_hears_of_each_of_many_and_so_do_we() -> None:
    heard = _Heard()
    assert _written("json", heard) == _written("json")
    assert [record.__dict__["process_id"] for record in heard.records] == ["a", "b ü"]
    assert [record.getMessage() for record in heard.records] == ["it happened"] * 2


def test_a_handler_of_an_ancestor_and_a_filter_are_asked_as_ever() -> None:
    heard = _Heard()
    child, root = _own_logger()
    root.addHandler(heard)
    stream = io.StringIO()
    writer = LogWriter(stream)
    writer.addFilter(lambda record: record.__dict__["process_id"] == "a")
    child.addHandler(writer)
    log_each(child, logging.INFO, "it happened", _MANY)
    writer.close()
    assert len(heard.records) == 2
    assert len(stream.getvalue().splitlines()) == 1


def test_many_at_once_are_bounded_line_by_line() -> None:
    stream = io.StringIO()
    handler = LogWriter(stream)
    record = logging.makeLogRecord({"msg": "x"})
    handler.emit_each(record, ({"n": number} for number in range(30_000)))
    handler.close()
    lines = stream.getvalue().splitlines()
    dropped = sum(int(line.split()[0][1:]) for line in lines if line.startswith("("))
    assert dropped + sum("n=" in line for line in lines) == 30_000
    assert dropped > 0
