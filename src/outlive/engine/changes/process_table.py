"""Where doorbells arrive: `ProcessTable`, which processes live and which must be loaded or looked after.

Runs on the event loop for every doorbell, some ten thousand a second: no task, no await, no I/O. What needs files
(`strangers`, `missing`) is left to `recovery`, which is woken.
"""

import asyncio
import time
from collections.abc import Iterable

from outlive.backends.contract import Bell
from outlive.core.identity import id_from_bytes
from outlive.engine.changes.change_handler import ChangeHandler
from outlive.engine.processes.event_publisher import EventPublisher
from outlive.engine.processes.live_table import LiveTable
from outlive.engine.processes.process import Process
from outlive.protocols.keeper import Flags

_SYNC = int(Flags.SYNC)


class ProcessTable:
    """The `BackendListener` of the engine.

    Attributes:
        processes: Processes that can still change.
        live: They by the 16-byte form of their id.
        strangers: Newest doorbell of processes that are not loaded yet.
        missing: Processes that the keeper did not mention any more after a reconnect: they have finished.
        doubtful: Processes that may have finished before we were connected, so that nobody tells of it.
        work: Set when `strangers`, `missing` or `doubtful` got an entry.
        synced: Set once everything live has been told for the first time.
    """

    def __init__(self, processes: LiveTable, *, changes: ChangeHandler, events: EventPublisher) -> None:
        """Take what is live, what follows from a change, and what publishes the state of the links."""
        self._changes = changes
        self._events = events
        self.processes = processes
        self.live = processes.by_key
        self.strangers: dict[bytes, Bell] = {}
        self.missing: list[Process] = []
        self.doubtful: list[Process] = []
        self.work = asyncio.Event()
        self.synced = asyncio.Event()
        self._expected: set[bytes] = set()
        self._mentioned: set[bytes] | None = None

    def link_opened(self) -> None:
        """Begin to note who is mentioned: who was live and is not has finished meanwhile."""
        # A start that was not acknowledged yet may be unknown over there: it is sent again, not missed.
        # What runs on a node is not the keeper's to mention.
        self._expected = {
            key
            for key, process in self.live.items()
            if process.status.is_acknowledged and not process.location.is_elsewhere
        }
        self._mentioned = set()

    def link_ready(self, keeper_pid: int, sessions: tuple[int, ...] = ()) -> None:
        """Pass on that the keeper answers."""
        self._events.keeper_connected(keeper_pid, sessions)

    def link_closed(self) -> None:
        """Pass on that the keeper is gone for the moment."""
        self._events.keeper_disconnected()

    def node_changed(self, name: str, reason: str | None) -> None:
        """Pass on that a node is away, or there again."""
        self._events.node_changed(name, reason)

    def ring(self, bells: Iterable[Bell]) -> None:
        """Take over doorbells."""
        live = self.live
        now_ns = time.time_ns()
        for bell in bells:
            key, out, err, pid, code, phase, cause, flags, descendants = bell
            process = live.get(key)
            if process is None:
                if flags & _SYNC:
                    self._sync()
                    continue
                self.strangers[key] = bell
                self.work.set()
            else:
                changes = process.status.absorb(out, err, pid, code, phase, cause, flags, descendants, now_ns)
                process.subscribers.wake()  # first: clients wait for it
                if changes:
                    self._changes.changed(process, changes)
            if self._mentioned is not None:
                self._mentioned.add(key)

    def doubt(self, process: Process) -> None:
        """Have somebody look whether a process whose start had been carried out already has finished, too.

        Its start was sent again after a reconnect, so it was not among those whom the keeper was to mention.
        """
        self.doubtful.append(process)
        self.work.set()

    def expect(self, process: Process) -> None:
        """Enter a process that the keeper has still to tell of: if it does not, it has finished."""
        self.enter(process)
        if (
            self._mentioned is not None
            and process.status.is_acknowledged
            and not process.location.is_elsewhere
        ):
            self._expected.add(process.key)

    def enter(self, process: Process) -> None:
        """From now on a process is live, instead of another object of the same id if there is one."""
        self.processes.enter(process)

    def is_told(self, key: bytes) -> bool:
        """Whether a process is live, or the keeper has told of it and it is about to be loaded."""
        return key in self.live or key in self.strangers

    def leave(self, process: Process) -> bool:
        """From now on a process is not live any more; tell whether it was."""
        return self.processes.leave(process)

    def adopt(self, process: Process) -> None:
        """Enter a process that was loaded for a stranger's doorbell, and absorb that."""
        self.enter(process)
        bell = self.strangers.pop(process.key, None)
        if bell is not None:
            self.ring([bell])

    def _sync(self) -> None:
        mentioned, self._mentioned = self._mentioned or set(), None
        for key in self._expected - mentioned:
            process = self.live.get(key)
            if process is not None and not process.is_finished:
                self.missing.append(process)
                self.work.set()
        self._expected = set()
        self.synced.set()

    def stranger_ids(self) -> list[str]:
        """Return the ids of the processes that must be loaded."""
        return [id_from_bytes(key) for key in self.strangers]
