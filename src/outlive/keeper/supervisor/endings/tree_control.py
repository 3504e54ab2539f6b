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

    def roots(self, kept: ManagedProcess) -> tuple[list[int], list[int]]:
        """Return (roots, members): the tree is everything below the roots, the members, and everything below those."""
        if kept.shim is not None and not kept.is_orphan:
            return [kept.shim.pid], []
        members = tree.carriers_of(b"OUTLIVE_PROCESS_ID=" + kept.process_id.encode())
        is_running = kept.pid and kept.phase < Phase.EXITED and start_ticks(kept.pid) == kept.ticks
        if is_running and kept.pid not in members:
            members.append(kept.pid)
        if init := _init_of(kept):  # its namespace ends with it, whatever its processes' environment says
            members.append(init)
        return [], members

    def pause(self, kept: ManagedProcess) -> bool:
        """Stop the whole tree; False when it did not settle (the caller's repeat tries again)."""
        settled = self._order(kept, "freeze") or self._freeze(kept)
        with contextlib.suppress(OSError):  # it is stopped all the same; only a successor would not know that
            self._reserve.fit(lambda: write_whole(f"{kept.folder}/paused", b"sigstop\n"))
        kept.phase = Phase.PAUSED
        self._touch(kept)
        return settled

    def _freeze(self, kept: ManagedProcess) -> bool:
        roots, members = self.roots(kept)
        return tree.freeze(roots, extra=members)

    def resume(self, kept: ManagedProcess) -> None:
        """Continue the whole tree."""
        self.send(kept, [signal.SIGCONT])
        with contextlib.suppress(OSError):  # missing, or the file system is read-only
            os.unlink(f"{kept.folder}/paused")
        kept.phase = Phase.RUNNING
        self._touch(kept)

    def signal_tree(self, kept: ManagedProcess, number: int, *, whole_tree: bool) -> None:
        """Send one signal to the main process or to its whole tree."""
        if whole_tree:
            self.send(kept, [number])
        elif not self._order(kept, f"one {number}") and kept.pidfd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(kept.pidfd, number)

    def signal_group(self, kept: ManagedProcess, number: int) -> None:
        """Send one signal to the process group that the command leads, as its terminal would."""
        if self._order(kept, f"group {number}") or kept.pidfd < 0:
            return
        try:
            signal.pidfd_send_signal(kept.pidfd, number, None, _WHOLE_GROUP)
        except ProcessLookupError:
            return
        except OSError:  # an older kernel; a group's number is not reused before its leader was reaped
            if kept.phase < Phase.EXITED:
                with contextlib.suppress(OSError):
                    os.killpg(kept.pid, number)

    def send(self, kept: ManagedProcess, numbers: list[int]) -> None:
        """Send signals to every process of the tree, once."""
        if self._order(kept, " ".join(map(str, ["tree", *map(int, numbers)]))):
            return
        roots, members = self.roots(kept)
        tree.send_all(roots, numbers, extra=members)

    def _order(self, kept: ManagedProcess, words: str) -> bool:
        """Have the shim of a command elsewhere carry out an order; False: the tree is here, and the caller must act.

        An order that cannot be sent is lost, as a signal to an ended process is; stops repeat theirs.
        """
        if kept.shim is None or not kept.shim.stands_in or kept.is_orphan:
            return False
        with contextlib.suppress(OSError):
            sockets.send(kept.shim.socket, words.encode())
        return True

    def is_empty(self, kept: ManagedProcess) -> bool:
        """Return whether a walk finds no process; for orphaned commands, which have no shim to report that."""
        return not self.roots(kept)[1]

    def count(self, kept: ManagedProcess) -> int:
        """Return how many processes live below the shim, the init of a namespace, copiers and zombies not counted."""
        init = _init_of(kept)
        return sum(
            pid != init and not tree.is_dead(pid) and not _is_copier(pid)
            for pid in tree.descendants(self.roots(kept)[0])
        )


def _is_copier(pid: int) -> bool:
    """Return whether a process is our copier beside a filter (`native/filter`): it ends some microseconds after the filter.

    A command may give a process of its own this name; that is then missing in a number which people read, and in nothing else.
    """
    return read_small(f"/proc/{pid}/comm") == _COPIER_NAME


def _init_of(kept: ManagedProcess) -> int:
    """Return the init of a sealed command's PID namespace (`sandbox.seal`); 0 where there is none."""
    pid, _, ticks = (read_small(f"{kept.folder}/init") or b"0").partition(b" ")
    return int(pid) if ticks and start_ticks(int(pid)) == int(ticks) else 0
