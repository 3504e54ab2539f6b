"""The extension's share of a server: the notices of its processes."""

import asyncio
from collections.abc import Mapping
from typing import Self

from outlive.core.command import NOTIFY_EVENTS, NotifyEvent
from outlive.extensions.observe.notices.alerts import Alerting
from outlive.extensions.observe.notices.command import NotifyCommand
from outlive.extensions.observe.notices.notice import NoticeChannel
from outlive.extensions.observe.notices.notice_sender import NoticeSender
from outlive.extensions.observe.notices.owed_notices import OwedNotices
from outlive.extensions.observe.notices.webhook import Webhook
from outlive.extensions.observe.options import ObserveOptions
from outlive.extensions.server_part import Built, Given, ServerPart


class ObservePart(ServerPart):
    """Notifies on the channels that the operator has named."""

    def __init__(self, given: Given) -> None:
        super().__init__(given)
        self._options = options = given.settings.of(ObserveOptions)
        self._channels = _channels(options, given.environ)
        offered = _offered(options) if self._channels else frozenset()
        self._owed = OwedNotices(given.layout, offered)
        self.notices = self._owed if offered else None

    def join(self, built: Built) -> None:
        """Take the engine."""
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
        """Read what earlier servers owe."""
        await asyncio.to_thread(self._owed.open)

    async def __aenter__(self) -> Self:
        """Notify from now on."""
        if self._channels:
            await self._sender.open()
        return self

    async def __aexit__(self, *_exception: object) -> None:
        """Notify of nothing more."""
        await self._sender.close()


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
