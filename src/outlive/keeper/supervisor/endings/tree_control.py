"""Control of one command's whole tree: which processes belong to it, pause, resume, signals: `TreeControl`.

A shim is a subreaper, so everything that its command ever started is below it, daemons included. Signals are
repeated to a fixpoint. A pid is signalled only through a pidfd, and only after its ancestry was checked again
with the pidfd open: a reused pid is never hit. When a tree is stopped for good is decided in `terminator`.
"""

import contextlib
import os
import signal
import time
from collections.abc import Callable

from outlive.core.values import dataclass
from outlive.keeper.supervisor.managed_process import ManagedProcess
from outlive.kernel.disk import Reserve
from outlive.kernel.files import read_small, write_whole
from outlive.kernel.processes import (
    DEAD,
    STOPPED,
    carriers_of,
    descendants,
    has_in_mask,
    is_dead,
    open_pidfd,
    start_ticks,
    stat_fields,
    wake,
)
from outlive.protocols.frames import decoded
from outlive.protocols.keeper import Phase

_COPIER_NAME = b"outlive-copier\n"  # native/filter/copier.h
_WHOLE_GROUP = 1 << 2  # PIDFD_SIGNAL_PROCESS_GROUP, Linux 6.9


@dataclass(eq=False, slots=True)
class TreeControl:
    """Finds and signals trees.

    Commands without a shim of their own are found by the id in their environment. `touch` is called after
    each change; `reserve` has room for what is recorded.
    """

    reserve: Reserve
    touch: Callable[[ManagedProcess], None]

    def roots(self, process: ManagedProcess) -> tuple[list[int], list[int]]:
        """Return (roots, members): the tree is everything below the roots, the members, and everything below
        those.

        The command itself is a member as long as it runs, so a control reaches it whatever became of its
        shim. The shim is continued if it was stopped: else no end would be reported.
        """
        if process.shim is not None:
            wake(process.shim.pid)
        fields = stat_fields(process.pid) if process.pid and process.phase < Phase.EXITED else []
        is_running = bool(fields) and int(fields[19]) == process.ticks and fields[0] not in DEAD
        members = [process.pid] if is_running else []
        if process.shim is not None and not process.is_orphan:
            # In a container a shim has no number of ours before its command was born.
            return [process.shim.pid] if process.shim.pid else [], members
        carriers = carriers_of(process.process_id)
        members += [pid for pid in carriers if pid not in members]
        if init := _init_of(process):  # its namespace ends with it, whatever its processes' environment says
            members.append(init)
        return [], members

    def pause(self, process: ManagedProcess) -> bool:
        """Stop the whole tree; False where nothing of it is found.

        A tree that did not settle is tried again by the caller's repeat.
        """
        roots, members = self.roots(process)
        if not members and not descendants(roots):
            return False
        freeze(roots, extra=members)
        with contextlib.suppress(OSError):  # it is stopped all the same; only a successor would not know that
            self.reserve.fit(lambda: write_whole(f"{process.folder}/paused", b"sigstop\n"))
        process.phase = Phase.PAUSED
        self.touch(process)
        return True

    def resume(self, process: ManagedProcess) -> bool:
        """Continue the whole tree; False as `send`."""
        if not self.send(process, [signal.SIGCONT]):
            return False
        with contextlib.suppress(OSError):  # missing, or the file system is read-only
            os.unlink(f"{process.folder}/paused")
        process.phase = Phase.RUNNING
        self.touch(process)
        return True

    def signal_tree(self, process: ManagedProcess, number: int, *, whole_tree: bool) -> bool:
        """Send one signal to the main process or to its whole tree; False as `send`."""
        if whole_tree:
            return self.send(process, [number])
        if not _is_at_hand(process):
            return False
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(process.pidfd, number)
        return True

    def signal_group(self, process: ManagedProcess, number: int) -> bool:
        """Send one signal to the process group that the command leads, as its terminal would; False as
        `send`.
        """
        if not _is_at_hand(process):
            return False
        try:
            signal.pidfd_send_signal(process.pidfd, number, None, _WHOLE_GROUP)
        except ProcessLookupError:
            pass
        except OSError:  # an older kernel; a group's number is not reused before its leader was reaped
            if process.phase < Phase.EXITED:
                with contextlib.suppress(OSError):
                    os.killpg(process.pid, number)
        return True

    def send(self, process: ManagedProcess, numbers: list[int]) -> bool:
        """Send signals to every process of the tree, once; False where nothing of it is found."""
        roots, members = self.roots(process)
        return send_all(roots, numbers, extra=members) > 0

    def end_held_shim(self, process: ManagedProcess, *, after_s: float) -> None:
        """Kill a shim that was found stopped at every call for so long, although each call continues it, once
        nothing lives below it.

        Nothing is lost: we hold its descriptors, and the guardian notes the end of the command.
        """
        shim = process.shim
        if shim is None or not wake(shim.pid):
            process.held_since = 0.0
            return
        process.held_since = process.held_since or time.monotonic()
        is_held = time.monotonic() - process.held_since >= after_s
        if is_held and all(map(is_dead, descendants([shim.pid]))):
            with contextlib.suppress(ProcessLookupError):
                os.kill(shim.pid, signal.SIGKILL)  # its link is open, so the pid is still its own

    def is_empty(self, process: ManagedProcess) -> bool:
        """Return whether a walk finds no process.

        For orphaned commands, which have no shim to report that.
        """
        return not self.roots(process)[1]

    def count(self, process: ManagedProcess) -> int:
        """Return how many processes live below the shim, the init of a namespace, copiers and zombies not
        counted.
        """
        init = _init_of(process)
        return sum(
            pid != init and not is_dead(pid) and not _is_copier(pid)
            for pid in descendants(self.roots(process)[0])
        )


def _is_at_hand(process: ManagedProcess) -> bool:
    """Return whether there is a pidfd of the command, which is opened now if there was no descriptor for
    it.
    """
    if process.pidfd < 0 and process.pid:
        process.pidfd = open_pidfd(process.pid, process.ticks)
    return process.pidfd >= 0


def _is_copier(pid: int) -> bool:
    """Return whether a process is our copier beside a filter (`native/filter`): it ends some microseconds
    after the filter.

    A command may give a process of its own this name; that is then missing in a number which people read, and
    in nothing else.
    """
    return read_small(f"/proc/{pid}/comm") == _COPIER_NAME


def _init_of(process: ManagedProcess) -> int:
    """Return the init of a sealed command's PID namespace (`sandbox.seal`); 0 where there is none."""
    pid, ticks = decoded(read_small(f"{process.folder}/init"), _two_numbers) or (0, 0)
    return pid if pid > 0 and start_ticks(pid) == ticks else 0


def _two_numbers(raw: bytes) -> tuple[int, int]:
    first, second = map(int, raw.split())
    return first, second


_MAX_ROUNDS = 64  # walks: a tree that still forks after so many is one that forks as fast as it is stopped
_EAGER_ROUNDS = 8  # the first walks, without a rest in between
_ROUND_S = 0.0005  # of rest between the later ones


def signal_one(pid: int, parents: set[int], number: int) -> bool:
    """Signal `pid` if its parent is still one of `parents`.

    Return whether it was alive and got the signal.
    """
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        # With the pidfd open the pid cannot be reused unnoticed: what /proc says now is about the process to
        # be signalled.
        fields = stat_fields(pid)
        if not fields or fields[0] in DEAD or int(fields[1]) not in parents:
            return False
        signal.pidfd_send_signal(pidfd, number)
    except OSError:
        return False
    finally:
        os.close(pidfd)
    return True


def send_all(roots: list[int], numbers: list[int], *, extra: list[int] = []) -> int:  # noqa: B006 - never changed
    """Send the signals to every process below `roots` once; return how many there are, zombies included.

    `extra` are members themselves (an orphaned command whose parent is not a root).
    """
    members = [*extra, *descendants(roots + extra)]
    parents = {*roots, *members}
    for pid in members:
        # The parent of an orphan is not in the tree: whichever process has adopted it is accepted.
        allowed = parents | {int(fields[1])} if pid in extra and (fields := stat_fields(pid)) else parents
        for number in numbers:
            signal_one(pid, allowed, number)
    return len(members)


def freeze(roots: list[int], *, extra: list[int] = []) -> bool:  # noqa: B006 - never changed
    """Stop (SIGSTOP) the tree to a fixpoint: until a walk finds no running process.

    False if it never settles.
    """
    quiet = 0
    for tried in range(_MAX_ROUNDS):
        members = [*extra, *descendants(roots + extra)]
        if not any(_may_run(pid) for pid in members):
            quiet += 1
            if quiet == 2:  # a single walk can miss a child that is just being forked
                return True
            continue
        quiet = 0
        if tried > _EAGER_ROUNDS:  # on a busy machine processes need a moment to take the signal
            time.sleep(_ROUND_S)
        send_all(roots, [signal.SIGSTOP], extra=extra)
    return False


def _may_run(pid: int) -> bool:
    """Return whether a process may still execute its own code after SIGSTOP was sent to it.

    A parent in vfork(2) waits uninterruptibly (state D) until its child executes or ends. If the child was
    stopped first, the parent's SIGSTOP stays pending and the parent never shows state T, but it does not run
    either.
    """
    fields = stat_fields(pid)
    if not fields or fields[0] in DEAD | STOPPED:
        return False
    pending = (has_in_mask(pid, name, signal.SIGSTOP) for name in (b"SigPnd", b"ShdPnd"))
    return fields[0] != b"D" or not any(pending)
