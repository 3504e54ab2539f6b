"""The extension's share of a server: notices of its processes, and telemetry."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol, Self

from outlive.core.command import NOTIFY_EVENTS, NotifyEvent
from outlive.extensions.observe.notices.channels import NotifyCommand, Webhook
from outlive.extensions.observe.notices.notice import NoticeChannel
from outlive.extensions.observe.notices.notice_sender import NoticeSender
from outlive.extensions.observe.notices.owed_notices import Alerting, OwedNotices
from outlive.extensions.observe.options import ObserveOptions
from outlive.extensions.observe.telemetry_plan import telemetry_plan
from outlive.extensions.server_part import Built, Given, ServerPart
from outlive.observability.metrics import Family

_logger = logging.getLogger(__name__)


class _Telemetry(Protocol):
    """`telemetry.telemetry.Telemetry`, which few servers import."""

    async def open(self) -> None: ...
    async def close(self) -> None: ...
    def report(self, metrics: Callable[[], Sequence[Family]]) -> None: ...
    def counts(self) -> Mapping[str, tuple[int, int]]: ...


class ObservePart(ServerPart):
    """Notifies on the channels that the operator has named, and sends to the collector."""

    def __init__(self, given: Given) -> None:
        super().__init__(given)
        self._options = options = given.settings.of(ObserveOptions)
        self._channels = _channels(options, given.environ)
        offered = _offered(options) if self._channels else frozenset()
        self._owed = OwedNotices(given.layout, offered)
        self.notices = self._owed if offered else None
        self._plan = telemetry_plan(options, given.environ)
        self.passes_trace = options.pass_traceparent and bool(self._plan.traces)
        self._telemetry: _Telemetry | None = None

    def join(self, built: Built) -> None:
        """Take the engine and the metrics."""
        self._built = built
        options = self._options
        alerting = Alerting(
            silence_s=options.notify_silence_s if "silence" in self._owed.offered else None,
            disk_bytes=options.notify_disk_bytes,
        )
        self._sender = NoticeSender(
            built.engine,
            self._channels,
            layout=self.given.layout,
            owed=self._owed,
            alerting=alerting,
            shows_last_line=options.notify_last_line,
        )

    async def begin(self) -> None:
        """Read what earlier servers owe, and open telemetry before the engine finds what ended meanwhile."""
        await asyncio.to_thread(self._owed.open)
        self._telemetry = self._sent_telemetry()
        if self._telemetry is not None:
            await self._telemetry.open()
            self._telemetry.report(self._built.metric_families)

    async def end(self) -> None:
        """Send what is left."""
        if self._telemetry is not None:
            await self._telemetry.close()

    def families(self) -> Iterable[Family]:
        """Return what became of the signals."""
        return () if self._telemetry is None else _counted(self._telemetry.counts())

    async def __aenter__(self) -> Self:
        """Notify from now on."""
        if self._channels:
            await self._sender.open()
        return self

    async def __aexit__(self, *_exception: object) -> None:
        """Notify of nothing more."""
        await self._sender.close()

    def _sent_telemetry(self) -> _Telemetry | None:
        """Return what sends spans and metrics, not yet open.

        None where no collector is named, or the packages are missing, which is logged.
        """
        if not (self._plan.is_active or self._plan.trouble):
            return None
        from outlive.extensions.observe.telemetry import has_packages, why_not_sent  # noqa: PLC0415 -- few need it

        if obstacle := why_not_sent(self._plan):
            _logger.warning(obstacle)
        if not (self._plan.is_active and has_packages()):
            return None
        from outlive.extensions.observe.telemetry.telemetry import Telemetry  # noqa: PLC0415 -- as above

        shows_line = self._options.otlp_command_lines
        given = self.given
        return Telemetry(
            self._built.engine, self._plan, given.layout, shows_line=shows_line, environ=given.environ
        )


def _channels(options: ObserveOptions, environ: Mapping[str, str]) -> list[NoticeChannel]:
    """Return the ways to notify that the operator has named; the first settles what is owed."""
    found: list[NoticeChannel] = []
    if options.notify_webhook:
        found.append(Webhook(options.notify_webhook))
    if options.notify_command:
        found.append(NotifyCommand(options.notify_command, environ))
    return found


def _offered(options: ObserveOptions) -> frozenset[NotifyEvent]:
    """Return the events that a process may ask to be notified of."""
    chosen = {event for event in NOTIFY_EVENTS if event in options.notify_on}
    return frozenset(chosen - ({"silence"} if options.notify_silence_s is None else set()))


def _counted(counts: Mapping[str, tuple[int, int]]) -> Iterator[Family]:
    """Yield what became of what a collector was to get."""
    about = (
        "What a collector has taken.",
        "What no collector took: it was away for too long, or refused it.",
    )
    for place, name in enumerate(("outlive.telemetry_sent", "outlive.telemetry_dropped")):
        yield Family(
            name=name,
            about=about[place],
            kind="counter",
            labels=("signal",),
            samples=[((signal,), pair[place]) for signal, pair in sorted(counts.items())],
        )
