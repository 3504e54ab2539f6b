"""Logging, configured once: lines on stderr, written by a thread of their own so that nothing ever waits for them.

Owns the format ("time level logger: text name=value"). Never sees output, environment values or keys.
"""

import contextlib
import logging
import queue
import sys
import threading
from collections.abc import Iterator
from typing import TextIO

__all__ = ["LineFormatter", "LogWriter", "logging_to"]

_CAPACITY = (
    10_000  # records; beyond it a stderr that nobody reads costs log lines instead of stopping the server
)
_CLOSE_PATIENCE_S = 1.0
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class LineFormatter(logging.Formatter):
    """One line for each record, its `extra` fields behind the text as name=value."""

    def __init__(self) -> None:
        """Use local wall-clock time: these lines are for people in front of the machine."""
        super().__init__("%(asctime)s.%(msecs)03d %(levelname)s %(name)s: %(message)s", "%Y-%m-%d %H:%M:%S")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 -- the base class's name
        """Return the line with its fields."""
        line = super().formatMessage(record)
        fields = [f"{name}={_shown(value)}" for name, value in vars(record).items() if name not in _STANDARD]
        return " ".join((line, *fields))


def _shown(value: object) -> str:
    text = str(value)
    return repr(text) if not text or " " in text or not text.isprintable() else text


class LogWriter(logging.Handler):
    """Hands records to a thread that formats and writes them.

    The queue is bounded: when it is full records are dropped and counted, and the next line that gets through
    says how many. Writing to a full stderr pipe would otherwise stop the event loop.
    """

    def __init__(self, stream: TextIO) -> None:
        """Begin to write to `stream`."""
        super().__init__()
        self.setFormatter(LineFormatter())
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
        while (record := self._queue.get()) is not None:
            try:
                self._write(record)
            except Exception:  # noqa: BLE001 -- logging cannot log its own failure
                # A record that cannot be formatted, or a stderr that was closed, must not end the log.
                self._dropped += 1

        with contextlib.suppress(OSError, ValueError):  # ValueError: the stream was closed under us
            self._write(None)

    def _write(self, record: logging.LogRecord | None) -> None:
        lines = [] if record is None else [self.format(record)]
        if self._dropped:
            lines.append(
                f"({self._dropped} log lines were dropped: nobody read them, or they could not be written)"
            )
            self._dropped = 0
        self._stream.writelines(line + "\n" for line in lines)
        self._stream.flush()


@contextlib.contextmanager
def logging_to(level: str, stream: TextIO | None = None) -> Iterator[None]:
    """Configure the root logger while the block runs; libraries are heard from WARNING on."""
    root = logging.getLogger()
    writer = LogWriter(stream if stream is not None else sys.stderr)
    previous = root.level
    root.addHandler(writer)
    root.setLevel(level.upper())
    for library in ("uvicorn", "uvicorn.error", "asyncio", "websockets"):
        logging.getLogger(library).setLevel(logging.WARNING)
    try:
        yield
    finally:
        root.removeHandler(writer)
        root.setLevel(previous)
        writer.close()
