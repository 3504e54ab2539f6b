"""Control of one command's whole tree: which processes belong to it, pause, resume, signals: `TreeControl`.

The walk and the signals themselves are in `common.tree`; when a tree is stopped for good is decided in `terminator`.
"""

import contextlib
import os
import signal
from collections.abc import Callable

from outlive.keeper.common import sockets, tree
from outlive.keeper.common.disk import Reserve
from outlive.keeper.common.files import read_small, write_whole
from outlive.keeper.common.kernel import start_ticks
from outlive.keeper.supervisor.managed_process import ManagedProcess
from outlive.protocols.keeper import Phase

_COPIER_NAME = b"outlive-copier\n"  # native/filter/copier.h
_WHOLE_GROUP = 1 << 2  # PIDFD_SIGNAL_PROCESS_GROUP, Linux 6.9


class TreeControl:
    """Finds and signals trees. Commands without a shim of their own are found by the id in their environment."""

    def __init__(self, reserve: Reserve, *, touch: Callable[[ManagedProcess], None]) -> None:
        """Take the parts: `touch` is called after each change; `reserve` has room for what is recorded."""
        self._reserve = reserve
        self._touch = touch

    def roots(self, process: ManagedProcess) -> tuple[list[int], list[int]]:
        """Return (roots, members): the tree is everything below the roots, the members, and everything below those."""
        if process.shim is not None and not process.is_orphan:
            return [process.shim.pid], []
        members = tree.carriers_of(b"OUTLIVE_PROCESS_ID=" + process.process_id.encode())
        is_running = (
            process.pid and process.phase < Phase.EXITED and start_ticks(process.pid) == process.ticks
        )
        if is_running and process.pid not in members:
            members.append(process.pid)
        if init := _init_of(process):  # its namespace ends with it, whatever its processes' environment says
            members.append(init)
        return [], members

    def pause(self, process: ManagedProcess) -> bool:
        """Stop the whole tree; False when it did not settle (the caller's repeat tries again)."""
        settled = self._order(process, "freeze") or self._freeze(process)
        with contextlib.suppress(OSError):  # it is stopped all the same; only a successor would not know that
            self._reserve.fit(lambda: write_whole(f"{process.folder}/paused", b"sigstop\n"))
        process.phase = Phase.PAUSED
        self._touch(process)
        return settled

    def _freeze(self, process: ManagedProcess) -> bool:
        roots, members = self.roots(process)
        return tree.freeze(roots, extra=members)

    def resume(self, process: ManagedProcess) -> None:
        """Continue the whole tree."""
        self.send(process, [signal.SIGCONT])
        with contextlib.suppress(OSError):  # missing, or the file system is read-only
            os.unlink(f"{process.folder}/paused")
        process.phase = Phase.RUNNING
        self._touch(process)

    def signal_tree(self, process: ManagedProcess, number: int, *, whole_tree: bool) -> None:
        """Send one signal to the main process or to its whole tree."""
        if whole_tree:
            self.send(process, [number])
        elif not self._order(process, f"one {number}") and process.pidfd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(process.pidfd, number)

    def signal_group(self, process: ManagedProcess, number: int) -> None:
        """Send one signal to the process group that the command leads, as its terminal would."""
        if self._order(process, f"group {number}") or process.pidfd < 0:
            return
        try:
            signal.pidfd_send_signal(process.pidfd, number, None, _WHOLE_GROUP)
        except ProcessLookupError:
            return
        except OSError:  # an older kernel; a group's number is not reused before its leader was reaped
            if process.phase < Phase.EXITED:
                with contextlib.suppress(OSError):
                    os.killpg(process.pid, number)

    def send(self, process: ManagedProcess, numbers: list[int]) -> None:
        """Send signals to every process of the tree, once."""
        if self._order(process, " ".join(map(str, ["tree", *map(int, numbers)]))):
            return
        roots, members = self.roots(process)
        tree.send_all(roots, numbers, extra=members)

    def _order(self, process: ManagedProcess, words: str) -> bool:
        """Have the shim of a command elsewhere carry out an order; False: the tree is here, and the caller must act.

        An order that cannot be sent is lost, as a signal to an ended process is; stops repeat theirs.
        """
        if process.shim is None or not process.shim.stands_in or process.is_orphan:
            return False
        with contextlib.suppress(OSError):
            sockets.send(process.shim.socket, words.encode())
        return True

    def is_empty(self, process: ManagedProcess) -> bool:
        """Return whether a walk finds no process; for orphaned commands, which have no shim to report that."""
        return not self.roots(process)[1]

    def count(self, process: ManagedProcess) -> int:
        """Return how many processes live below the shim, the init of a namespace, copiers and zombies not counted."""
        init = _init_of(process)
        return sum(
            pid != init and not tree.is_dead(pid) and not _is_copier(pid)
            for pid in tree.descendants(self.roots(process)[0])
        )


def _is_copier(pid: int) -> bool:
    """Return whether a process is our copier beside a filter (`native/filter`): it ends some microseconds after the filter.

    A command may give a process of its own this name; that is then missing in a number which people read, and in nothing else.
    """
    return read_small(f"/proc/{pid}/comm") == _COPIER_NAME


def _init_of(process: ManagedProcess) -> int:
    """Return the init of a sealed command's PID namespace (`sandbox.seal`); 0 where there is none."""
    pid, _, ticks = (read_small(f"{process.folder}/init") or b"0").partition(b" ")
    return int(pid) if ticks and start_ticks(int(pid)) == int(ticks) else 0
