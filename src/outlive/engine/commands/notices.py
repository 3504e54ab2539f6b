"""`Notices`: which starts may ask for notices, and what is noted of it before the process runs.

The note is written before the backend is asked: a server that is killed in between owes a notice for a
process that never ran, which the next one forgets. The other order would lose the notice of a process that
did run, and a person would wait for it.
"""

from typing import Protocol

from outlive.core.command import NotifyEvent
from outlive.core.errors import InvalidRequest
from outlive.core.identity import ProcessId


class Notices(Protocol):
    """The notices that this server sends (`extensions.observe`). On the engine's loop only."""

    def check(self, events: tuple[NotifyEvent, ...]) -> None:
        """Let a start pass whose notices can be sent.

        Raises:
            InvalidRequest: The operator has named no channel, or notifies of none of these events.
        """

    async def owe(self, process_id: ProcessId, events: tuple[NotifyEvent, ...]) -> None:
        """Note what is owed, so that no crash from now on loses it.

        Raises:
            LimitExceeded: `disk_full`: it cannot be written.
        """

    def of(self, process_id: str) -> frozenset[NotifyEvent]:
        """Return the events of a process that are notified of: it is kept as long as there are any."""


class NoNotices:
    """The notices of a server without a channel."""

    def check(self, _events: tuple[NotifyEvent, ...]) -> None:
        """Refuse the start.

        Raises:
            InvalidRequest: Always.
        """
        raise InvalidRequest(
            "invalid_params",
            "notify: this server sends no notices: its operator has named no channel.",
            hint=(
                "Start it with --notify-webhook URL or --notify-command PROGRAM (docs/notify.md), or "
                "leave notify out."
            ),
        )

    async def owe(self, _process_id: ProcessId, _events: tuple[NotifyEvent, ...]) -> None:
        """Owe nothing."""

    def of(self, _process_id: str) -> frozenset[NotifyEvent]:
        """Return no event."""
        return frozenset()
