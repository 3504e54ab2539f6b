"""`Telemetry`: has the engine's ends and the server's metrics sent to an OpenTelemetry collector while it is
open.

A subscriber of the engine's events, which slows nothing. How something is sent, and what becomes of it while
the collector is away, is `sender`'s. What ended while no server watched, or so shortly before one was killed
that it was not put down, is looked for once.
"""

import asyncio
import contextlib
import hashlib
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from outlive import __version__
from outlive.core.errors import OutliveError
from outlive.core.events import Event, ProcessCompleted
from outlive.core.layout import Layout
from outlive.engine import Engine
from outlive.extensions.observe.telemetry.sender import TelemetrySender, positive_number
from outlive.extensions.observe.telemetry_plan import TelemetryPlan
from outlive.observability.metrics import Family

_logger = logging.getLogger(__name__)

_INTERVAL_MS = 60_000  # between two sets of metrics, as the SDK has it
# An end is put down within 0.1 s, on a machine that hardly responds within seconds. What was put down is
# known, and not sent again.
_OVERLAP = timedelta(seconds=10)
# Servers without a collector may have run in between: what ended under them is no news.
_LONGEST = timedelta(days=1)


class Telemetry:
    """Sends while it is open. On the event loop."""

    def __init__(
        self,
        engine: Engine,
        plan: TelemetryPlan,
        layout: Layout,
        *,
        shows_line: bool = False,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        """Take what is sent, and from where.

        Args:
            engine: Whose ends become spans.
            plan: Which signals are sent, and where to.
            layout: The state folder, where spans wait for a collector.
            shows_line: Whether spans have the whole command, redacted.
            environ: Where OpenTelemetry's variables about pauses and sizes stand.
        """
        self._engine = engine
        self._plan = plan
        self._interval_s = positive_number(environ, "OTEL_METRIC_EXPORT_INTERVAL", _INTERVAL_MS) / 1000
        self._stack = contextlib.AsyncExitStack()
        self._tasks: asyncio.TaskGroup | None = None
        self._sender = TelemetrySender(
            plan,
            layout.spans,
            version=__version__,
            instance=_instance(layout),
            shows_line=shows_line,
            environ=environ,
        )

    async def open(self) -> None:
        """Send from now on.

        To be opened before the engine, so that no end of its first moments is missed.
        """
        written_at_s = await asyncio.to_thread(self._sender.open)
        self._stack.push_async_callback(asyncio.to_thread, self._sender.close)
        tasks = self._tasks = await self._stack.enter_async_context(asyncio.TaskGroup())
        if self._plan.traces:
            self._stack.callback(self._engine.events.subscribe(self._note, kinds=(ProcessCompleted,)))
            if written_at_s is not None:
                looking = self._catch_up(datetime.fromtimestamp(written_at_s, UTC))
                self._stack.callback(tasks.create_task(looking, name="telemetry, unseen ends").cancel)

    async def close(self) -> None:
        """Try once more, for at most two seconds."""
        await self._stack.aclose()

    def report(self, metrics: Callable[[], Sequence[Family]]) -> None:
        """Send what `metrics` returns once a minute, and at the end: a server that lived for less has
        something to say, too.
        """
        if self._tasks is None:
            raise AssertionError("it is open")
        if self._plan.metrics:
            running = self._tasks.create_task(self._offer_often(metrics), name="telemetry metrics")
            self._stack.callback(lambda: self._sender.offer(metrics()))
            self._stack.callback(running.cancel)

    def counts(self) -> Mapping[str, tuple[int, int]]:
        """Return by signal how much the collector has taken, and how much was given up."""
        return self._sender.counts()

    def _note(self, event: Event) -> None:
        if isinstance(event, ProcessCompleted):
            self._sender.note(event.record)

    async def _catch_up(self, written_at: datetime) -> None:
        """Send what has ended since the last server wrote something down, as far as that was not put down
        itself.
        """
        since = max(written_at - _OVERLAP, datetime.now(UTC) - _LONGEST)
        try:
            for record in await self._engine.queries.ended_since(since, limit=self._sender.most):
                self._sender.note(record)
        except OutliveError as error:  # the registry does not answer
            _logger.warning("ends that no server saw are not sent", extra={"reason": error.code})

    async def _offer_often(self, metrics: Callable[[], Sequence[Family]]) -> None:
        while True:
            await asyncio.sleep(self._interval_s)
            self._sender.offer(metrics())


def _instance(layout: Layout) -> str:
    """Return what tells the server of this state folder from others: nothing that a path or a host's name
    could be read from.
    """
    return hashlib.blake2b(os.fsencode(f"{os.uname().nodename} {layout.root}"), digest_size=16).hexdigest()
