"""`TelemetrySender`: two threads between the event loop and a collector that may be slow, or away for days.

One puts spans down on disk (`span_file`), the other sends them and the newest metrics. Nothing here ever
waits for them but `close`, which does for two seconds. What waits is bounded: beyond it the oldest spans are
given up, and counted.
"""

import contextlib
import importlib
import logging
import os
import queue
import threading
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Literal, Protocol

from outlive.core.process import ProcessRecord
from outlive.extensions.observe.telemetry.command_span import CommandSpan, span_from
from outlive.extensions.observe.telemetry.span_file import LeftSpans, SpanFile
from outlive.extensions.observe.telemetry_plan import TelemetryPlan
from outlive.observability.metrics import Family

_logger = logging.getLogger(__name__)

# A thread that wakes for every end would take the interpreter lock from the event loop.
_COLLECT_S = 0.05
_CLOSE_S = 2.0  # what a dead collector may cost an ordered stop
_LEFT_FOR_LAST_WORDS_S = 0.5  # of that, for an attempt that is interrupted
_FIRST_PAUSE_S, _MOST_PAUSE_S = 1.0, 60.0  # after an attempt that failed, doubled each time


# What becomes of spans: the collector has them; it is tried again; they are given up, since they would be
# refused again.
Verdict = Literal["taken", "away", "refused"]


class Exporting(Protocol):
    """What `sdk.Exporters` does, which takes 460 ms to import and is therefore loaded by the thread that
    sends.
    """

    @property
    def last_outcome(self) -> str:
        """What came of the last request."""

    def send_spans(self, spans: Sequence[CommandSpan]) -> Verdict:
        """Send spans; return what becomes of them."""

    def send_metrics(self, found: Sequence[Family], *, begun_ns: int, now_ns: int) -> bool:
        """Send metrics; return whether they were taken."""

    def shutdown(self) -> None:
        """Wait for no further attempt."""


class TelemetrySender:
    """Sends while it is open. `note` and `offer` are called on the event loop, and only queue."""

    def __init__(
        self,
        plan: TelemetryPlan,
        path: str,
        *,
        version: str,
        instance: str,
        shows_line: bool,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        """Take what is sent; nothing begins before `open`.

        Args:
            plan: Which signals are sent, and where to.
            path: The file in which spans wait until they are taken.
            version: The product's, for the resource.
            instance: What tells this server from others, for the resource.
            shows_line: Whether spans have the whole command.
            environ: Where OpenTelemetry's variables about pauses and sizes stand.
        """
        self._plan = plan
        self._about = (version, instance)
        self._shows_line = shows_line
        # As the SDK's own batch processor has them ("Batch LogRecord and Span Processor" of its environment
        # variables).
        self._delay_s = positive_number(environ, "OTEL_BSP_SCHEDULE_DELAY", 5000) / 1000
        self._most = positive_number(environ, "OTEL_BSP_MAX_QUEUE_SIZE", 2048)
        self._batch = min(positive_number(environ, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512), self._most)
        self._file = SpanFile(path, most=self._most)
        self._ended: queue.SimpleQueue[ProcessRecord | None] = queue.SimpleQueue()
        self._turn = threading.Condition()
        # What follows is read and written in turn.
        self._waiting: dict[str, CommandSpan] = {}
        self._metrics: tuple[Sequence[Family], int] | None = None
        self._is_closing = False
        self._is_well = True  # what the last attempt said; the sending thread's own
        self._exporters: Exporting | None = None
        self._sent = {"spans": 0, "metrics": 0}
        self._dropped = {"spans": 0, "metrics": 0}
        self._begun_ns = time.time_ns()
        self._threads = [
            threading.Thread(target=self._keep, name="telemetry-file", daemon=True),
            threading.Thread(target=self._send, name="telemetry", daemon=True),
        ]

    @property
    def most(self) -> int:
        """How many spans wait at most."""
        return self._most

    def open(self) -> float | None:
        """Begin, with what earlier servers have left.

        Return when they wrote it last (Unix seconds; None: never). Blocks.
        """
        left = self._file.open() if self._plan.traces else LeftSpans()
        self._take(left.spans)
        for thread in self._threads:
            thread.start()
        return left.written_at_s

    def close(self) -> None:
        """Try once more, for at most two seconds; spans that are left wait on disk for the next server.

        Blocks.
        """
        deadline = time.monotonic() + _CLOSE_S
        self._ended.put(None)
        keeping, sending = self._threads
        keeping.join(_CLOSE_S - _LEFT_FOR_LAST_WORDS_S)
        with self._turn:
            self._is_closing = True
            self._turn.notify()
        sending.join(max(0.0, deadline - _LEFT_FOR_LAST_WORDS_S - time.monotonic()))
        if sending.is_alive():
            with self._turn:
                exporters = self._exporters
            if exporters is not None:
                exporters.shutdown()
            sending.join(max(0.0, deadline - time.monotonic()))
        self._file.close()

    def note(self, record: ProcessRecord) -> None:
        """Send the span of a process that has ended, unless that is known to have been done."""
        if self._ended.qsize() < self._most:
            self._ended.put(record)
        else:  # the disk does not take them as fast
            with self._turn:
                self._dropped["spans"] += 1

    def offer(self, found: Sequence[Family]) -> None:
        """Send metrics, as they are now; those before them count for nothing any more."""
        with self._turn:
            self._dropped["metrics"] += self._metrics is not None
            self._metrics = (found, time.time_ns())
            self._turn.notify()

    def counts(self) -> Mapping[str, tuple[int, int]]:
        """Return by signal how much was taken, and how much given up: spans, and sets of metrics."""
        with self._turn:
            return {signal: (self._sent[signal], self._dropped[signal]) for signal in self._sent}

    def _keep(self) -> None:
        """Put spans down, and pass them on; the first thread's only function."""
        is_open = True
        while is_open:
            records = [self._ended.get()]
            time.sleep(_COLLECT_S if records[0] is not None else 0)
            with contextlib.suppress(queue.Empty):
                while len(records) < self._most:
                    records.append(self._ended.get_nowait())
            is_open = None not in records
            try:
                self._put_down([record for record in records if record is not None])
            except (
                Exception
            ):  # the outermost loop of a thread: one process's fault must not silence the others
                _logger.exception("spans are lost")

    def _put_down(self, records: Sequence[ProcessRecord]) -> None:
        now = datetime.now(UTC)
        spans = [
            span
            for record in records
            if not self._file.knows(record.process_id)
            and (span := span_from(record, now=now, shows_line=self._shows_line)) is not None
        ]
        if spans:
            self._file.add(spans)
            self._take(spans)

    def _take(self, spans: Sequence[CommandSpan]) -> None:
        """Have spans wait for the sending thread; of more than fit the oldest are given up."""
        with self._turn:
            self._waiting |= {span.process_id: span for span in spans}
            # The newest tell most about what happens now, once the collector is back.
            beyond = [*self._waiting][: max(0, len(self._waiting) - self._most)]
            for process_id in beyond:
                del self._waiting[process_id]
            self._dropped["spans"] += len(beyond)
            self._turn.notify()
        if beyond:
            self._file.settle(beyond)

    def _send(self) -> None:
        """Send what waits; the second thread's only function."""
        pause_s, since = 0.0, time.monotonic() - self._delay_s  # the first span need not wait for others
        while True:
            with self._turn:
                self._wait_for_work(since, pause_s)
                is_last = self._is_closing
                spans = [*self._waiting.values()][: self._most if is_last else self._batch]
                metrics, self._metrics = self._metrics, None
            is_taken = self._attempt(spans, metrics)
            since = time.monotonic()
            if is_last:
                return
            # A collector that is away is asked less and less often: each attempt may take ten seconds of this
            # thread.
            pause_s = 0.0 if is_taken else min(max(pause_s * 2, _FIRST_PAUSE_S), _MOST_PAUSE_S)

    def _wait_for_work(self, since: float, pause_s: float) -> None:
        """Return when something is to be sent, in turn: a batch is full, or has waited long enough, or
        metrics are there.
        """
        while not self._is_closing:
            rest = (
                since + pause_s - time.monotonic()
            )  # of the pause after a failure; none or less without one
            is_full = len(self._waiting) >= self._batch
            if not pause_s and self._waiting and not is_full:
                rest = since + self._delay_s - time.monotonic()
            if rest <= 0 and (self._waiting or self._metrics is not None):
                return
            if not pause_s and self._metrics is not None:
                return
            self._turn.wait(rest if rest > 0 else None)

    def _attempt(self, spans: Sequence[CommandSpan], metrics: tuple[Sequence[Family], int] | None) -> bool:
        """Send once; return whether everything was taken."""
        if not spans and metrics is None:
            return True
        try:
            exporters = self._loaded()
            is_taken = True
            if metrics is not None:
                found, now_ns = metrics
                is_taken = exporters.send_metrics(found, begun_ns=self._begun_ns, now_ns=now_ns)
                self._count("metrics", 1, is_taken=is_taken)
            verdict = exporters.send_spans(spans) if spans else "taken"
            if verdict == "away":
                is_taken = False
            elif spans:
                self._settle(spans, is_taken=verdict == "taken")
        except Exception:  # the outermost loop of a thread: what one attempt met must not end the next ones
            _logger.exception("telemetry failed")
            return False
        if is_taken != self._is_well:
            extra = {"reason": exporters.last_outcome}
            if is_taken:
                _logger.info("the collector takes telemetry again", extra=extra)
            else:  # one line for each time that it begins
                _logger.warning("the collector does not take telemetry; it is tried again", extra=extra)
            self._is_well = is_taken
        return is_taken

    def _count(self, signal: str, count: int, *, is_taken: bool) -> None:
        with self._turn:
            (self._sent if is_taken else self._dropped)[signal] += count

    def _settle(self, spans: Sequence[CommandSpan], *, is_taken: bool) -> None:
        if not is_taken:
            _logger.warning("the collector has refused spans: they are given up", extra={"count": len(spans)})
        with self._turn:
            for span in spans:
                # One that was given up meanwhile is counted already; a newer one of the same process is
                # another object.
                if self._waiting.get(span.process_id) is span:
                    del self._waiting[span.process_id]
            (self._sent if is_taken else self._dropped)["spans"] += len(spans)
        self._file.settle(span.process_id for span in spans)

    def _loaded(self) -> Exporting:
        if self._exporters is None:
            sdk = importlib.import_module("outlive.extensions.observe.telemetry.sdk")
            version, instance = self._about
            made: Exporting = sdk.Exporters(self._plan, version=version, instance=instance)
            with self._turn:
                self._exporters = made
        return self._exporters


def positive_number(environ: Mapping[str, str], name: str, default: int) -> int:
    """Return what one of OpenTelemetry's variables says; `default` where it is no whole number above zero."""
    text = environ.get(name, "").strip()
    return int(text) if text.isascii() and text.isdigit() and int(text) > 0 else default
