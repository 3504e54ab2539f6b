"""Where doorbells arrive: the table of live processes and who must be loaded or looked after.

Runs on the event loop for every doorbell, some ten thousand a second: no task, no await, no I/O. What needs files
(`strangers`, `missing`) is left to `takeover`, which is woken.

The table of live processes: by key, and by what questions name: the connection and the principal.

On a shared server one caller's list, tools and stops look at that caller's processes, not at everybody's.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Iterable

from outlive.backends.contract import Bell
from outlive.core.identity import id_from_bytes
from outlive.engine.announcer import Announcer
from outlive.engine.process import Process
from outlive.protocols.keeper import Flags
from outlive.store.rows import ProcessFilter


class LiveTable:
    """Processes that can still change. Used on the event loop; no I/O.

    Attributes:
        by_key: They by the 16-byte form of their id. `enter` and `leave` alone change it.
    """

    def __init__(self) -> None:
        """Begin without any."""
        self.by_key: dict[bytes, Process] = {}
        self._of_connection: dict[str, dict[bytes, Process]] = {}
        self._of_principal: dict[str, dict[bytes, Process]] = {}

    def enter(self, process: Process) -> None:
        """From now on a process is live, instead of another object of the same id if there is one."""
        if process.key in self.by_key:
            self.leave(process)
        self.by_key[process.key] = process
        self._of_principal.setdefault(process.principal, {})[process.key] = process
        if process.connection_id is not None:
            self._of_connection.setdefault(process.connection_id, {})[process.key] = process

    def leave(self, process: Process) -> bool:
        """From now on a process is not live any more; tell whether it was."""
        known = self.by_key.pop(process.key, None)
        if known is None:
            return False
        _remove(self._of_principal, known.principal, known.key)
        if known.connection_id is not None:
            _remove(self._of_connection, known.connection_id, known.key)
        return True

    def of_connection(self, connection_id: str) -> list[Process]:
        """Return what a connection started, in no order; a copy."""
        return list(self._of_connection.get(connection_id, {}).values())

    def of_principal(self, principal: str) -> Collection[Process]:
        """Return what a principal started, over any connection, in no order: no copy, so go through it without an await."""
        return self._of_principal.get(principal, {}).values()

    def candidates(self, wanted: ProcessFilter) -> Collection[Process]:
        """Return those of which some may match, all that do among them, in no order; as `of_principal` no copy."""
        if wanted.connection_id is not None:
            return self._of_connection.get(wanted.connection_id, {}).values()
        if wanted.principal is not None:
            return self.of_principal(wanted.principal)
        return self.by_key.values()


def _remove(index: dict[str, dict[bytes, Process]], name: str, key: bytes) -> None:
    """Take a process out of an index, and its name with the last one: names come and go for ever."""
    others = index[name]
    del others[key]
    if not others:
        del index[name]


_SYNC = int(Flags.SYNC)


class ProcessTable:
    """The `BackendListener` of the engine.

    Attributes:
        table: Processes that can still change. `enter` and `leave` alone change it.
        live: They by the 16-byte form of their id.
        strangers: Newest doorbell of processes that are not loaded yet.
        missing: Processes that the keeper did not mention any more after a reconnect: they have finished.
        doubtful: Processes that may have finished before we were connected, so that nobody tells of it.
        work: Set when `strangers`, `missing` or `doubtful` got an entry.
        synced: Set once everything live has been told for the first time.
    """

    def __init__(
        self,
        *,
        changed: Callable[[Process, int], None],
        announcer: Announcer,
    ) -> None:
        """`changed` is called with `Change` bits before the process is kicked; `announcer` tells of the links."""
        self._changed = changed
        self._announcer = announcer
        self.table = LiveTable()
        self.live = self.table.by_key
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
            if process.is_acknowledged and not process.location.is_node
        }
        self._mentioned = set()

    def link_ready(self, keeper_pid: int, sessions: tuple[int, ...] = ()) -> None:
        """Pass on that the keeper answers."""
        self._announcer.keeper_connected(keeper_pid, sessions)

    def link_closed(self) -> None:
        """Pass on that the keeper is gone for the moment."""
        self._announcer.keeper_disconnected()

    def node_changed(self, name: str, reason: str | None) -> None:
        """Pass on that a node is away, or there again."""
        self._announcer.node_changed(name, reason)

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
                changes = process.absorb(out, err, pid, code, phase, cause, flags, descendants, now_ns=now_ns)
                process.kick()  # first: clients wait for it
                if changes:
                    self._changed(process, changes)
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
        if self._mentioned is not None and process.is_acknowledged and not process.location.is_node:
            self._expected.add(process.key)

    def enter(self, process: Process) -> None:
        """From now on a process is live, instead of another object of the same id if there is one."""
        self.table.enter(process)

    def is_told(self, key: bytes) -> bool:
        """Whether a process is live, or the keeper has told of it and it is about to be loaded."""
        return key in self.live or key in self.strangers

    def leave(self, process: Process) -> bool:
        """From now on a process is not live any more; tell whether it was."""
        return self.table.leave(process)

    def adopt(self, process: Process) -> None:
        """Enter a process that was loaded for a stranger's doorbell, and absorb that."""
        self.enter(process)
        bell = self.strangers.pop(process.key, None)
        if bell is not None:
            self.ring([bell])

    def release(self, process: Process) -> None:
        """Let go of a process that cannot change any more."""
        if self.leave(process):
            process.close_logs()

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
