"""The table of everything that the supervisor keeps, by key, and the release of what needs no keeping any more."""

import os
from collections.abc import Callable

from outlive.keeper.common.journal import Journal
from outlive.keeper.supervisor.inputs import Inputs
from outlive.keeper.supervisor.loop import Loop
from outlive.keeper.supervisor.managed_process import ManagedProcess
from outlive.keeper.supervisor.output.pump import Pump
from outlive.keeper.supervisor.starts.shim_pool import ShimPool
from outlive.keeper.supervisor.unrecovered import Unrecovered
from outlive.protocols.keeper import Phase


class ManagedProcesses:
    """Processes that are alive or not yet let go of, `by_key`; `unrecovered` has those that are not taken over yet.

    A process is entered before anything can happen to it: by `launcher` at its start, by `takeover` afterwards.
    """

    def __init__(
        self,
        loop: Loop,
        journal: Journal,
        inputs: Inputs,
        unrecovered: Unrecovered,
        *,
        touch: Callable[[ManagedProcess], None],
    ) -> None:
        """Begin empty; `pool` and `pump` are set later, since they are built after the table."""
        self._loop = loop
        self._journal = journal
        self._inputs = inputs
        self._touch = touch
        self.unrecovered = unrecovered
        self.pool: ShimPool | None = None
        self.pump: Pump | None = None
        self.by_key: dict[bytes, ManagedProcess] = {}

    def __len__(self) -> int:
        """Return how many processes there are, taken over or not."""
        return len(self.by_key) + len(self.unrecovered)

    def recovered(self, kept: ManagedProcess) -> None:
        """Report a process that was taken over, if it was kept, and go on with the requests that wait for it."""
        if kept.key in self.by_key:
            self._touch(kept)
        self.unrecovered.remove(kept.key)

    def living(self) -> list[ManagedProcess]:
        """Return the processes, of those taken over, whose output is not complete or whose tree is not empty."""
        return [kept for kept in self.by_key.values() if kept.phase < Phase.DONE or not kept.is_empty]

    def living_ids(self) -> list[str]:
        """Return the ids of all processes that live, or may live because they are not taken over yet."""
        return [*(kept.process_id for kept in self.living()), *self.unrecovered.ids()]

    def command_pids(self) -> set[int]:
        """Return the pids of this machine's commands, also of those whose shim is dead; each leads a POSIX session."""
        here = {kept.pid for kept in self.by_key.values() if kept.pid and not kept.spec.container}
        return here | self.unrecovered.pids()

    def unread_pids(self) -> set[int]:
        """Return the pids of the commands whose exit is not known yet."""
        return {kept.pid for kept in self.by_key.values() if kept.phase < Phase.EXITED}

    def forget(self, kept: ManagedProcess) -> None:
        """Release everything about a process that has ended, its output and its tree included; idempotent."""
        if self.by_key.pop(kept.key, None) is None:
            return
        self._inputs.abandon(kept)
        self._touch(kept)
        assert self.pump is not None
        for stream in kept.streams:
            if stream.is_open:  # the rest of its output is not wanted
                self.pump.hold(stream)
        for fd in kept.fds.values():
            self._loop.unwatch(fd)
            os.close(fd)
        if kept.pidfd >= 0:
            self._loop.unwatch(kept.pidfd)
            os.close(kept.pidfd)
        for stream in kept.streams:
            stream.close_log()
        os.close(kept.idx)
        if kept.lent >= 0:
            os.close(kept.lent)
        if kept.listener is not None:
            kept.listener.close()
        if kept.shim is not None:
            assert self.pool is not None
            self.pool.release(kept.shim)
        # Last: until here a new supervisor would take the process over, and find its end in the records.
        self._journal.end(kept.process_id)
        kept.end()
