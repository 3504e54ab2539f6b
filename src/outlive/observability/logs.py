"""Logging, configured once: lines on stderr, written by a thread of their own so that nothing ever waits for them.

Owns the formats: "time level logger: text name=value" on a terminal, else JSON (decision 43). Never sees output, environment values or keys.
"""

import contextlib
import json
import logging
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Literal, TextIO

__all__ = ["JsonFormatter", "LineFormatter", "LogForm", "LogWriter", "logging_to"]

LogForm = Literal["console", "json"]

_CAPACITY = (
    10_000  # records; beyond it a stderr that nobody reads costs log lines instead of stopping the server
)
_CLOSE_PATIENCE_S = 1.0
# Lines are collected for so long: a thread that wakes for every record takes the interpreter from the event loop.
_COLLECT_S = 0.02
# What no line here shows and each record would be asked for (Python's "Optimization" chapter of its logging documentation).
_UNTOLD = ("logThreads", "logMultiprocessing", "logProcesses")
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class LineFormatter(logging.Formatter):
    """One line for each record, its `extra` fields behind the text as name=value."""

    def __init__(self) -> None:
        """Use local wall-clock time: these lines are for people in front of the machine."""
        super().__init__("%(asctime)s.%(msecs)03d %(levelname)s %(name)s: %(message)s", "%Y-%m-%d %H:%M:%S")
        self._second = (0, "")

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802 -- as above
        """Return the second, made once for all records of it."""
        second = int(record.created)
        if self._second[0] != second:
            self._second = (second, super().formatTime(record, datefmt))
        return self._second[1]

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 -- the base class's name
        """Return the line with its fields."""
        line = super().formatMessage(record)
        fields = [f"{name}={_shown(value)}" for name, value in vars(record).items() if name not in _STANDARD]
        return " ".join((line, *fields))


class JsonFormatter(logging.Formatter):
    """One JSON object for each record: time (UTC, ISO 8601), level, logger, event, its `extra` fields, traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; a field that JSON does not know is shown as text."""
        document: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
        }
        fields = {name: value for name, value in vars(record).items() if name not in _STANDARD}
        document |= {name: value for name, value in fields.items() if name not in document}
        if record.exc_info:
            document["traceback"] = self.formatException(record.exc_info)
        return json.dumps(document, default=str)


def _shown(value: object) -> str:
    text = str(value)
    return repr(text) if not text or " " in text or not text.isprintable() else text


class LogWriter(logging.Handler):
    """Hands records to a thread that formats and writes them.

    The queue is bounded: when it is full records are dropped and counted, and the next line that gets through
    says how many. Writing to a full stderr pipe would otherwise stop the event loop.
    """

    def __init__(
        self, stream: TextIO, *, form: LogForm = "console", hide: Callable[[str], str] | None = None
    ) -> None:
        """Begin to write to `stream`; `hide` takes secrets out of a line."""
        super().__init__()
        self._form = form
        self._hide = hide
        self.setFormatter(JsonFormatter() if form == "json" else LineFormatter())
        self._stream = stream
        self._queue: queue.Queue[logging.LogRecord | None] = queue.Queue(_CAPACITY)
        self._dropped = 0  # a lost increment under contention is harmless: it is a count for people
        self._thread = threading.Thread(target=self._run, name="log-writer", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Queue one record, or count it as dropped."""
        try:
            self._queue.put_nowait(record)
        except queue.Full:
            self._dropped += 1

    def close(self) -> None:
        """Write what is queued, for at most some seconds."""
        with contextlib.suppress(queue.Full):
            self._queue.put(None, timeout=_CLOSE_PATIENCE_S)
            self._thread.join(_CLOSE_PATIENCE_S)
        super().close()

    def _run(self) -> None:
        is_open = True
        while is_open:
            records = [self._queue.get()]
            if records[0] is not None:
                time.sleep(_COLLECT_S)
            with contextlib.suppress(queue.Empty):
                while len(records) < _CAPACITY:
                    records.append(self._queue.get_nowait())
            is_open = None not in records
            self._write([record for record in records if record is not None])

    def _write(self, records: list[logging.LogRecord]) -> None:
        lines: list[str] = []
        for record in records:
            try:
                line = self.format(record)
                lines.append(line if self._hide is None else self._hide(line))
            except Exception:  # noqa: BLE001 -- logging cannot log its own failure
                self._dropped += 1
        dropped, self._dropped = self._dropped, 0
        if dropped:
            lines.append(self._told_of_loss(dropped))
        try:
            self._stream.write("".join(line + "\n" for line in lines))
            self._stream.flush()
        except (OSError, ValueError):  # ValueError: the stream was closed under us
            self._dropped += dropped + len(records)

    def _told_of_loss(self, dropped: int) -> str:
        text = f"({dropped} log lines were dropped: nobody read them, or they could not be written)"
        return json.dumps({"event": text, "dropped": dropped}) if self._form == "json" else text


@contextlib.contextmanager
def logging_to(
    level: str,
    stream: TextIO | None = None,
    *,
    form: Literal["auto", "console", "json"] = "auto",
    hide: Callable[[str], str] | None = None,
) -> Iterator[None]:
    """Configure the root logger while the block runs; libraries are heard from WARNING on.

    Args:
        level: From which level on lines are written.
        stream: Where to; None: stderr.
        form: Lines for people or JSON objects; "auto" is the former on a terminal.
        hide: Takes secrets out of a line.
    """
    root = logging.getLogger()
    target = stream if stream is not None else sys.stderr
    if form == "auto":
        form = "console" if target is not None and target.isatty() else "json"
    writer = LogWriter(target, form=form, hide=hide)
    previous = root.level
    told = {name: getattr(logging, name) for name in _UNTOLD}
    for name in _UNTOLD:
        setattr(logging, name, False)
    root.addHandler(writer)
    root.setLevel(level.upper())
    for library in ("uvicorn", "uvicorn.error", "asyncio", "websockets", "mcp"):
        logging.getLogger(library).setLevel(logging.WARNING)
    try:
        yield
    finally:
        root.removeHandler(writer)
        root.setLevel(previous)
        for name, value in told.items():
            setattr(logging, name, value)
        writer.close()
