"""Logging, configured once: lines on stderr, written by a thread of their own so that no request ever waits
for them.

Owns the formats: "time level logger: text name=value" on a terminal, else JSON (decision 43). Which events
are logged is decided by the modules that log them; of the engine's events `ProcessLog` logs a summary line
for each process, approvals, and the keeper's connections. Output, environment values and keys never come
here.
"""

import asyncio
import contextlib
import itertools
import json
import logging
import operator
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Literal, TextIO, cast

from outlive.core.events import (
    ApprovalDecided,
    ApprovalRequested,
    Event,
    KeeperConnected,
    KeeperDisconnected,
    ProcessCompleted,
    ProcessRecovered,
    ProcessStarted,
)
from outlive.core.printable import printable
from outlive.core.process import ProcessRecord

LogForm = Literal["console", "json"]
_Fields = Mapping[str, object]

# Records in the queue. A stderr that no program reads then costs log lines instead of stopping the server.
_CAPACITY = 10_000
_CLOSE_S = 1.0  # for the last lines at the end of the server
# Warnings with the same text in ten seconds: enough to see what happens, too few to fill a disk.
_MOST_ALIKE = 20
_WINDOW_S = 10.0
_MOST_TEXTS = 256  # texts that are counted at once, so that the counts stay small
# Lines are collected for so long: a thread that wakes for every record takes the interpreter lock from the
# event loop.
_COLLECT_S = 0.02
# Facts that no line here shows and that logging would look up for each record (chapter "Optimization" of its
# documentation).
_UNUSED_FACTS = ("logThreads", "logMultiprocessing", "logProcesses")
# The attributes of every record: what else a record has are the `extra` fields of the call.
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_NO_FIELDS: _Fields = MappingProxyType({})
_encode = json.JSONEncoder(default=str).encode


class LineFormatter(logging.Formatter):
    """One line for each record, its `extra` fields behind the text as name=value."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s.%(msecs)03d %(levelname)s %(name)s: %(message)s", "%Y-%m-%d %H:%M:%S")
        # The latest second and its text: formatting it again costs more than the rest of a line.
        self._second = (0, "")

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802 -- as above
        """Return the text of the record's second, which is formatted once for all its records."""
        second = int(record.created)
        if self._second[0] != second:
            self._second = (second, super().formatTime(record, datefmt))
        return self._second[1]

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; what follows it, such as a traceback, stands behind a margin: it forges none."""
        text = super().format(record)
        return text if text.isprintable() else "\n    ".join(map(printable, text.split("\n")))

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 -- the base class's name
        """Return the line with its fields."""
        return super().formatMessage(record) + _listed(_extra(record))

    def format_each(self, record: logging.LogRecord, many: Iterable[_Fields]) -> list[str]:
        """Return a line for each set of further fields; their common part is formatted once."""
        head = self.format(record)
        return [head + _listed(fields) for fields in many]


class JsonFormatter(logging.Formatter):
    """One JSON object for each record: time (UTC, ISO 8601), level, logger, event, its `extra` fields,
    traceback.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; a value of a type that JSON does not have is shown as text."""
        document: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
        }
        document |= {name: value for name, value in _extra(record).items() if name not in document}
        if record.exc_info:
            document["traceback"] = self.formatException(record.exc_info)
        return _encode(document)

    def format_each(self, record: logging.LogRecord, many: Iterable[_Fields]) -> list[str]:
        """Return a line for each set of further fields; their common part is formatted once."""
        head = self.format(record)
        # The object's closing brace is replaced by the further members.
        return [f"{head[:-1]}, {_encode(fields)[1:]}" if fields else head for fields in many]


def _extra(record: logging.LogRecord) -> dict[str, object]:
    return {name: value for name, value in vars(record).items() if name not in _STANDARD}


def _listed(fields: _Fields) -> str:
    return "".join([f" {name}={_shown(value)}" for name, value in fields.items()])


def _shown(value: object) -> str:
    """Return a value for a line.

    Quoted where it could be mistaken for something else, or could forge a line.
    """
    text = str(value)
    return repr(text) if not text or " " in text or not text.isprintable() else text


class Damper:
    """Limits warnings that any caller can cause at will: at most 20 with the same text in ten seconds are
    written.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._windows: dict[
            tuple[str, str], list[float]
        ] = {}  # when the ten seconds began, how many came since

    def lets_through(self, record: logging.LogRecord) -> bool:
        """Return whether a record is written.

        The first one after some that were not carries their number, as `left_out`.
        """
        if not record.levelno or record.levelno < logging.WARNING:
            return True
        key, now = (record.name, str(record.msg)[:200]), self._now()
        window = self._windows.get(key)
        if window is None or now - window[0] > _WINDOW_S:
            if window is not None and window[1] > _MOST_ALIKE:
                record.left_out = int(window[1]) - _MOST_ALIKE
            if window is None and len(self._windows) >= _MOST_TEXTS:
                del self._windows[next(iter(self._windows))]
            self._windows[key] = [now, 1]
            return True
        window[1] += 1
        return window[1] <= _MOST_ALIKE


class LogWriter(logging.Handler):
    """Hands records to a thread that formats and writes them.

    The queue is bounded: when it is full, records are dropped and counted, and the next line that is written
    reports their number. Otherwise a full stderr pipe would stop the event loop.

    A record is queued once for each of its lines, together with the fields that only this line has.
    """

    def __init__(
        self,
        stream: TextIO,
        *,
        form: LogForm = "console",
        hide: Callable[[str], str] | None = None,
        keep_short: Callable[[], None] | None = None,
    ) -> None:
        """Begin to write to `stream`; `hide` removes secrets from a line, `keep_short` is called before each
        write.
        """
        super().__init__()
        self._keep_short = keep_short
        self._damper = Damper()
        self._form = form
        self._hide = hide
        self._lines = JsonFormatter() if form == "json" else LineFormatter()
        self._stream = stream
        self._queue: queue.SimpleQueue[tuple[logging.LogRecord, _Fields] | None] = queue.SimpleQueue()
        self._dropped = 0  # a lost increment under contention is harmless: it is a count for people
        self._thread = threading.Thread(target=self._run, name="log-writer", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Queue one record, or count it as dropped."""
        if self._damper.lets_through(record):
            self.emit_each(record, (_NO_FIELDS,))

    def emit_each(self, record: logging.LogRecord, many: Iterable[_Fields]) -> None:
        """Queue a record once for each set of further fields.

        Lines without room in the queue are counted as dropped.
        """
        room = _CAPACITY - self._queue.qsize()
        for number, fields in enumerate(many):
            if number < room:
                self._queue.put((record, fields))
            else:
                self._dropped += 1

    def close(self) -> None:
        """Write the queued lines, for at most a second."""
        self._queue.put(None)
        self._thread.join(_CLOSE_S)
        super().close()

    def _run(self) -> None:
        """Write until `close`; the thread's only function."""
        is_open = True
        while is_open:
            waiting = [self._queue.get()]
            if waiting[0] is not None:
                time.sleep(_COLLECT_S)
            with contextlib.suppress(queue.Empty):
                while len(waiting) < _CAPACITY:
                    waiting.append(self._queue.get_nowait())
            is_open = None not in waiting
            self._write([line for line in waiting if line is not None])

    def _write(self, waiting: list[tuple[logging.LogRecord, _Fields]]) -> None:
        lines: list[str] = []
        for record, group in itertools.groupby(waiting, key=operator.itemgetter(0)):
            many = [fields for _, fields in group]
            try:
                lines += self._hidden(self._lines.format_each(record, many))
            except Exception:  # noqa: BLE001 -- logging cannot log its own failure
                self._dropped += len(many)
        dropped, self._dropped = self._dropped, 0
        if dropped:
            lines.append(self._line_about_loss(dropped))
        if self._keep_short is not None:
            with contextlib.suppress(OSError):
                self._keep_short()
        try:
            self._stream.write("".join([f"{line}\n" for line in lines]))
            self._stream.flush()
        except (OSError, ValueError):  # ValueError: the stream was closed under us
            self._dropped += dropped + len(waiting)

    def _hidden(self, lines: list[str]) -> list[str]:
        """Return lines without their secrets.

        Usually there are none: then one pass over all lines together is enough.
        """
        hide = self._hide
        if hide is None:
            return lines
        text = "\n".join(lines)
        return lines if hide(text) == text else [hide(line) for line in lines]

    def _line_about_loss(self, dropped: int) -> str:
        text = f"({dropped} log lines were dropped: no program read them, or they could not be written)"
        return json.dumps({"event": text, "dropped": dropped}) if self._form == "json" else text


def log_each(logger: logging.Logger, level: int, event: str, many: Iterable[_Fields]) -> None:
    """Log `event` once for each set of fields, as `logger.log(level, event, extra=fields)` does.

    With no handlers but `LogWriter`s one record serves all lines, which is much cheaper. The fields must not
    have the names of every line's own (`time`, `level`, `logger`, `event`).
    """
    if not logger.isEnabledFor(level):
        return
    writers = _only_writers(logger, level)
    if not writers:
        for fields in many:
            logger.log(level, event, extra=fields)
        return
    record = logger.makeRecord(logger.name, level, "", 0, event, (), None)
    each = list(many)
    for writer in writers:
        writer.emit_each(record, each)


def _only_writers(logger: logging.Logger, level: int) -> list[LogWriter]:
    """Return the handlers of a logger; empty when one of them needs its records one by one."""
    handlers: list[logging.Handler] = []
    current: logging.Logger | None = logger
    while current is not None:
        handlers += current.handlers
        current = current.parent if current.propagate else None
    writers = [
        one for one in handlers if isinstance(one, LogWriter) and one.level <= level and not one.filters
    ]
    return writers if len(writers) == len(handlers) and not logger.filters else []


@contextlib.contextmanager
def logging_to(
    level: str,
    stream: TextIO | None = None,
    *,
    form: Literal["auto", "console", "json"] = "auto",
    hide: Callable[[str], str] | None = None,
    keep_short: Callable[[], None] | None = None,
) -> Iterator[None]:
    """Configure the root logger while the block runs; lines of libraries are written from WARNING on.

    Args:
        level: The lowest level whose lines are written.
        stream: Where lines go; None: stderr.
        form: Lines for people ("console") or JSON objects; "auto" is "console" on a terminal.
        hide: Removes secrets from a line.
        keep_short: Called in the writing thread before lines are written; it begins a new file when one has
            grown too long.
    """
    root = logging.getLogger()
    target = stream if stream is not None else sys.stderr
    if form == "auto":
        form = "console" if target is not None and target.isatty() else "json"
    writer = LogWriter(target, form=form, hide=hide, keep_short=keep_short)
    previous = root.level
    previous_facts = {name: getattr(logging, name) for name in _UNUSED_FACTS}
    for name in _UNUSED_FACTS:
        setattr(logging, name, False)
    root.addHandler(writer)
    root.setLevel(level.upper())
    for library in ("uvicorn", "uvicorn.error", "asyncio", "websockets", "mcp"):
        logging.getLogger(library).setLevel(logging.WARNING)
    # Several lines for each attempt, with the address in them: `telemetry.sender` says once that a collector
    # is away.
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        root.removeHandler(writer)
        root.setLevel(previous)
        for name, value in previous_facts.items():
            setattr(logging, name, value)
        writer.close()


_logger = logging.getLogger(__name__)

# Lines are written together after this pause: a writing thread that wakes for each event would hold up the
# event loop.
_PAUSE_S = 0.1


class ProcessLog:
    """Writes the lines of many events together, ten times a second at most: no client waits for them.

    On one event loop.
    """

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._timer: asyncio.TimerHandle | None = None

    def note(self, event: Event) -> None:
        """Write the event's line soon."""
        self._events.append(event)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_PAUSE_S, self.flush)

    def flush(self) -> None:
        """Write the waiting lines now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        events, self._events = self._events, []
        # Completions usually come in runs: one record serves the lines of a whole run (`log_each`).
        for kind, group in itertools.groupby(events, key=type):
            if kind is ProcessCompleted:
                _log_completed(cast("Iterable[ProcessCompleted]", group))
            else:
                for event in group:
                    log_event(event)


def logged_kinds() -> list[type[Event]]:
    """Return the kinds of events that have a line at the current level.

    The engine need not create the others.
    """
    kinds: list[type[Event]] = [
        ApprovalRequested,
        ApprovalDecided,
        ProcessCompleted,
        ProcessRecovered,
        KeeperConnected,
        KeeperDisconnected,
    ]
    return [*kinds, ProcessStarted] if _logger.isEnabledFor(logging.DEBUG) else kinds


def log_event(event: Event) -> None:
    """Write the line that belongs to an event, if any; the engine calls it on the loop."""
    match event:
        case ProcessCompleted():
            _log_completed((event,))
        case ApprovalRequested(record=record):
            _logger.info(
                "approval needed",
                extra={"process_id": record.process_id, "principal": record.owner.principal},
            )
        case ApprovalDecided(record=record):
            extra = {"process_id": record.process_id, "verdict": event.verdict, "by": event.by or None}
            _logger.info("approval decided", extra=extra)
        case ProcessRecovered(record=record):
            _logger.info("process found alive", extra={"process_id": record.process_id, "pid": record.pid})
        case ProcessStarted(record=record):
            _logger.debug("process started", extra={"process_id": record.process_id, "pid": record.pid})
        case KeeperConnected(pid=pid):
            _logger.info("keeper connected", extra={"pid": pid})
        case KeeperDisconnected():
            _logger.warning("keeper disconnected: processes go on, connecting again")
        case _:
            pass


def _log_completed(events: Iterable[ProcessCompleted]) -> None:
    log_each(_logger, logging.INFO, "process completed", (_summary(event.record) for event in events))


def _summary(record: ProcessRecord) -> dict[str, object]:
    """Return the fields of the line about a process's end.

    The command is not among them: it may hold secrets.
    """
    begun = record.started_at or record.created_at
    duration_s = (record.ended_at - begun).total_seconds() if record.ended_at is not None else None
    return {
        "process_id": record.process_id,
        "principal": record.owner.principal,
        "exit": record.wire_exit_code,
        "state": record.state,
        "cause": record.cause,
        "duration_s": duration_s,
        "bytes": record.stdout_bytes + record.stderr_bytes,
        "backend": record.location.backend,
    }
