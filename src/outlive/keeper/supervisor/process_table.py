"""The table of everything that the supervisor keeps, by key, and the release of what needs no keeping any
more.

`Unrecovered` has the processes that the journal calls live while their shims have not answered yet, and the
requests that wait for them. A new supervisor serves before every shim has answered. A process that it does
not hold yet it may neither start a second time nor call ended: a request about it waits. The takeover itself
is in `endings.takeover`.
"""

import os
from collections.abc import Callable, Collection
from typing import Protocol

from outlive.core.identity import id_to_bytes
from outlive.core.layout import Layout
from outlive.core.values import dataclass, field
from outlive.keeper.supervisor.inputs import Inputs
from outlive.keeper.supervisor.loop import Loop, Timer
from outlive.keeper.supervisor.managed_process import ManagedProcess, ShimLink
from outlive.keeper.supervisor.output.pump import Pump
from outlive.kernel.processes import start_ticks, this_boot
from outlive.kernel.state_files import Journal, read_pid
from outlive.protocols.frames import PidRecord
from outlive.protocols.keeper import RECORD, Phase

_MAX_WAITING_BYTES = 32 << 20  # of all requests that wait; a server's inputs are the large ones
_REQUEST_BYTES = 1024  # counted for each request beside its payload


@dataclass(eq=False, slots=True)
class _Waiting:
    """A request that goes on with `act`, unless its time ends before."""

    act: Callable[[], None]
    size: int
    timer: Timer | None = None


class Unrecovered:
    """Processes, each until `remove`; `by_key` has their ids.

    Until then the pids in their folders show which callers live inside.
    """

    def __init__(self, loop: Loop, layout: Layout, live: Collection[str]) -> None:
        self._loop = loop
        self._layout = layout
        self.by_key = {id_to_bytes(process_id): process_id for process_id in live}
        self._records: dict[bytes, PidRecord] = {}
        self._in_containers: set[bytes] = set()
        self._waiting: dict[bytes, list[_Waiting]] = {}
        self._waiting_bytes = 0

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.by_key)

    def __contains__(self, key: bytes) -> bool:
        """Return whether a process is among them."""
        return key in self.by_key

    def ids(self) -> list[str]:
        """Return the ids of all, oldest first."""
        return list(self.by_key.values())

    def note_container(self, key: bytes) -> None:
        """Record that a command is in a container: its pids are numbers of another namespace, and no caller
        is of its tree.
        """
        self._in_containers.add(key)
        self._records.pop(key, None)

    def doorbells(self) -> dict[bytes, bytes]:
        """Return doorbells by key that say only that these processes may live."""
        return {key: RECORD.pack(key, 0, 0, 0, 0, Phase.STARTING, 0, 0, 0) for key in self.by_key}

    # -- requests

    def wait(
        self,
        key: bytes,
        act: Callable[[], None],
        *,
        late: Callable[[], None],
        size: int,
        within_s: float,
    ) -> None:
        """Call `act` once a process is recovered, or known to be gone, in the order of the requests.

        Otherwise call `late`.

        `size` is the number of bytes that the request holds: beyond 32 MiB of all together `late` is called
        at once.
        """
        one = _Waiting(act, size + _REQUEST_BYTES)
        if self._waiting_bytes + one.size > _MAX_WAITING_BYTES:
            late()
            return
        self._waiting_bytes += one.size
        waiting = self._waiting.setdefault(key, [])
        waiting.append(one)

        def expire() -> None:
            self._waiting_bytes -= one.size
            waiting.remove(one)
            late()

        one.timer = self._loop.later(within_s, expire)

    def remove(self, key: bytes) -> None:
        """Record that a process is recovered, or gone: the requests that wait for it go on. Idempotent."""
        self.by_key.pop(key, None)
        self._records.pop(key, None)
        waiting = self._waiting.pop(key, [])
        for one in waiting:
            self._waiting_bytes -= one.size
            if one.timer is not None:
                one.timer.cancel()
        for one in waiting:
            one.act()

    # -- callers that live inside

    def shim_sessions(self) -> set[int]:
        """Return the POSIX sessions of the shims that live."""
        found: set[int] = set()
        for record in self._identities():
            try:
                session = os.getsid(record.shim_pid) if record.shim_pid else 0
            except ProcessLookupError:
                continue
            # A shim begins before its command: a process that began later has only got its pid.
            if session and session not in found and 0 < start_ticks(record.shim_pid) <= record.start_ticks:
                found.add(session)
        return found

    def command_sessions(self, sessions: Collection[int]) -> set[int]:
        """Return those of the given POSIX sessions that one of the commands leads, or has led."""
        return {
            record.pid
            for record in self._identities()
            if record.pid in sessions and start_ticks(record.pid) in {0, record.start_ticks}
        }

    def _identities(self) -> Collection[PidRecord]:
        """Return pid and start time of the commands, as recorded in their folders: read once, 2,000 of them
        in some 30 ms.
        """
        for key in self.by_key.keys() - self._records.keys() - self._in_containers:
            record = read_pid(self._layout.process(self.by_key[key]))
            if record is not None and record.boot_id == this_boot():
                self._records[key] = record
        return self._records.values()


class BusyShims(Protocol):
    """The pool, as far as the table needs it: `starts` imports this module."""

    def release(self, shim: ShimLink) -> None:
        """Have a shim let go of its process."""


@dataclass(eq=False, slots=True)
class ManagedProcesses:
    """Processes that are alive or not yet let go of, `by_key`; `unrecovered` has those that are not taken
    over yet.

    A process is entered before anything can happen to it: by `launcher` at its start, by `takeover`
    afterwards. `pool` and `pump` are set later, since they are built after the table.
    """

    loop: Loop
    journal: Journal
    inputs: Inputs
    unrecovered: Unrecovered
    touch: Callable[[ManagedProcess], None]
    pool: BusyShims | None = field(default=None, init=False)
    pump: Pump | None = field(default=None, init=False)
    by_key: dict[bytes, ManagedProcess] = field(default_factory=dict, init=False)

    def __len__(self) -> int:
        """Return how many processes there are, taken over or not."""
        return len(self.by_key) + len(self.unrecovered)

    def recovered(self, process: ManagedProcess) -> None:
        """Report a process that was taken over, if it was kept, and go on with the requests that wait for
        it.
        """
        if process.key in self.by_key:
            self.touch(process)
        self.unrecovered.remove(process.key)

    def living(self) -> list[ManagedProcess]:
        """Return the processes, of those taken over, whose output is not complete or whose tree is not
        empty.
        """
        return [
            process for process in self.by_key.values() if process.phase < Phase.DONE or not process.is_empty
        ]

    def living_ids(self) -> list[str]:
        """Return the ids of all processes that live, or may live because they are not taken over yet."""
        return [*(process.process_id for process in self.living()), *self.unrecovered.ids()]

    def unread_pids(self) -> set[int]:
        """Return the pids of the commands whose exit is not known yet."""
        return {process.pid for process in self.by_key.values() if process.phase < Phase.EXITED}

    def forget(self, process: ManagedProcess) -> None:
        """Release everything about a process that has ended, its output and its tree included; idempotent."""
        if self.by_key.pop(process.key, None) is None:
            return
        self.inputs.abandon(process)
        self.touch(process)
        assert self.pump is not None
        self.pump.forget(process)
        for fd in process.fds.values():
            self.loop.unwatch(fd)
            os.close(fd)
        if process.pidfd >= 0:
            self.loop.unwatch(process.pidfd)
            os.close(process.pidfd)
        for stream in process.streams:
            stream.close_log()
        os.close(process.idx)
        process.let_go_of_what_was_given()
        if process.shim is not None:
            assert self.pool is not None
            self.pool.release(process.shim)
        # Last: until here a new supervisor would take the process over, and find its end in the records.
        self.journal.end(process.process_id)
        process.end()
