"""Which viewer of a terminal types: `TerminalHolds`, for viewers that take part (`hold` in their address,
docs/ws-terminal.md).

A terminal is held by one viewer or by none. It is in memory alone: after a restart viewers connect again, and
ask again. Viewers that know nothing of it are not in here, and type as they always could.
"""

from typing import Protocol

from outlive.core.identity import ProcessId


class Participant(Protocol):
    """A viewer that takes part."""

    def holder_changed(self) -> None:
        """Report which viewer holds the terminal now, and how many take part."""


class TerminalHolds:
    """The viewers that take part, by terminal, and which of them holds it. On the event loop only."""

    def __init__(self) -> None:
        self._joined: dict[ProcessId, list[Participant]] = {}
        self._holders: dict[ProcessId, Participant] = {}

    def holder(self, process_id: ProcessId) -> Participant | None:
        """Return the viewer that holds a terminal."""
        return self._holders.get(process_id)

    def count(self, process_id: ProcessId) -> int:
        """Return how many viewers of a terminal take part."""
        return len(self._joined.get(process_id, ()))

    def join(self, process_id: ProcessId, viewer: Participant) -> None:
        """Let a viewer take part; it has to `leave`."""
        self._joined.setdefault(process_id, []).append(viewer)
        self._report(process_id)

    def leave(self, process_id: ProcessId, viewer: Participant) -> None:
        """Forget a viewer that is gone: what it held is free."""
        joined = self._joined.get(process_id, [])
        if viewer not in joined:
            return
        joined.remove(viewer)
        if not joined:
            del self._joined[process_id]
        if self._holders.get(process_id) is viewer:
            del self._holders[process_id]
        self._report(process_id)

    def take(self, process_id: ProcessId, viewer: Participant, *, is_over: bool) -> bool:
        """Let a viewer hold a terminal that is free, or with `is_over` any.

        Return whether it holds it now.
        """
        had = self._holders.get(process_id)
        if had is not None and had is not viewer and not is_over:
            return False
        self._holders[process_id] = viewer
        self._report(process_id)
        return True

    def release(self, process_id: ProcessId, viewer: Participant) -> None:
        """Let go of a terminal; nothing happens to one that another viewer holds."""
        if self._holders.get(process_id) is viewer:
            del self._holders[process_id]
            self._report(process_id)

    def _report(self, process_id: ProcessId) -> None:
        for viewer in self._joined.get(process_id, ()):
            viewer.holder_changed()
