"""`NoticeRequests`: what a start asks to be notified of, checked, and owed before the process runs.

Which channels there are, and what they are told, belongs to `observability.notify`.
The note is written before the backend is asked: a server that is killed in between owes a notice for a
process that never ran, which the next one forgets. The other order would lose the notice of a process that
did run, and a person would wait for it.
"""

import asyncio

from outlive.core.command import NotifyEvent
from outlive.core.errors import InvalidRequest, LimitExceeded
from outlive.engine.processes.process import Process
from outlive.store.owed_notices import OwedNotices


class NoticeRequests:
    """Takes the requests of starts. On the engine's loop only."""

    def __init__(self, offered: frozenset[NotifyEvent], *, owed: OwedNotices) -> None:
        self._offered = offered
        self._owed = owed

    def check(self, events: tuple[NotifyEvent, ...]) -> None:
        """Let a start pass whose notices can be sent.

        Raises:
            InvalidRequest: The operator has named no channel, or notifies of none of these events.
        """
        # One of them is enough: a caller may ask for more than this operator sends, with the same arguments
        # everywhere.
        if self._offered.intersection(events):
            return
        if self._offered:
            text = f"notify: this server notifies of {', '.join(sorted(self._offered))} only."
            hint = (
                "Ask for one of these, or have the operator change --notify-on (silence: "
                "--notify-silence, too)."
            )
        else:
            text = "notify: this server sends no notices: its operator has named no channel."
            hint = (
                "Start it with --notify-webhook URL or --notify-command PROGRAM (docs/notify.md), or "
                "leave notify out."
            )
        raise InvalidRequest("invalid_params", text, hint=hint)

    async def owe(self, process: Process, events: tuple[NotifyEvent, ...]) -> None:
        """Note what is owed, so that no crash from now on loses it.

        Raises:
            LimitExceeded: `disk_full`: it cannot be written.
        """
        wanted = self._offered.intersection(events)
        try:
            # A file in a thread: a slow disk delays this start alone.
            await asyncio.to_thread(self._owed.put, process.process_id, wanted)
        except OSError as error:
            text = f"What to notify of cannot be written: {error.strerror}."
            raise LimitExceeded("disk_full", text) from error
