"""How processes end: exits, drained output, empty trees, and letting go: `ExitHandler`.

A process is EXITED when its main process has ended. It is DONE when its pipes are drained to "would block"
(after a stop, and with `after_exit` "kill" or "wait", only when its tree is empty, too). It is let go of when
it is DONE, its streams are closed and its tree is empty.

Stops are carried out by `terminator`; exits that no shim reports are found by `orphans`.
"""

import contextlib
import errno
import os
import signal
import time
from collections.abc import Callable

from outlive.keeper.sandbox.cgroups import ran_out_of_memory, remove_groups
from outlive.keeper.supervisor.endings.terminator import Terminator
from outlive.keeper.supervisor.endings.tree_control import TreeControl
from outlive.keeper.supervisor.loop import Loop
from outlive.keeper.supervisor.managed_process import ManagedProcess
from outlive.keeper.supervisor.output.pump import Pump
from outlive.kernel.disk import Reserve
from outlive.kernel.failpoints import hit
from outlive.kernel.files import write_once, write_whole
from outlive.kernel.processes import boottime_ns, this_boot
from outlive.kernel.state_files import read_end
from outlive.protocols.frames import OUT_OF_MEMORY, ExitRecord, encode_exit
from outlive.protocols.keeper import CauseCode, DoneRecord, Flags, Phase, to_json

# Between two looks at a tree without a shim: each reads the environment of every process.
_ORPHAN_LOOK_S = 0.05
_RETRY_S = 0.25  # until the next attempt to write to a disk that is full or read-only
_SHUTDOWN_NOTE = "Ended by a shutdown: of the machine, or of the unit that the keeper runs in."

# Plain integers: each operation on a Flag costs a microsecond.
_GAPS, _HOLDER_LOST, _NOT_STALLED = int(Flags.GAPS), int(Flags.HOLDER_LOST), ~int(Flags.STALLED)

# The flag of a doorbell for each kind of end in a record; "exited" has none.
EXIT_FLAGS = {"signaled": Flags.SIGNALED, "failed": Flags.FAILED, "lost": Flags.LOST}
_KINDS = {int(flag): kind for kind, flag in EXIT_FLAGS.items()}
_EXIT_MASK = sum(_KINDS)


class ExitHandler:
    """Makes every transition towards the end.

    `forget` is called for each process that needs no keeping any more.
    """

    def __init__(
        self,
        loop: Loop,
        trees: TreeControl,
        reserve: Reserve,
        *,
        touch: Callable[[ManagedProcess], None],
        forget: Callable[[ManagedProcess], None],
    ) -> None:
        self._loop = loop
        self._trees = trees
        self._reserve = reserve
        self._touch = touch
        self._forget = forget
        self.stops = Terminator(loop, trees, reserve, touch=touch, pursued=self._pursued)
        self.pump: Pump | None = None
        self._is_shutdown = False

    def shut_down(self) -> None:
        """Record a shutdown: from now on it is the cause if a command ends by a SIGTERM that we have not
        sent.
        """
        self._is_shutdown = True

    def _pursued(self, process: ManagedProcess) -> None:
        if process.is_orphan:
            self.look_for_tree(process)
        self._advance(process)

    def exited(
        self, process: ManagedProcess, *, kind: str, number: int, is_empty: bool, ended_ns: int
    ) -> None:
        """Record the main process's end; idempotent."""
        if process.phase >= Phase.EXITED:
            return
        process.phase = Phase.EXITED
        process.code = number
        process.flags |= EXIT_FLAGS.get(kind, 0)
        process.ended_ns = ended_ns
        process.is_empty = is_empty
        # Its shim wrote the end to a path from which the folder was moved meanwhile.
        if process.is_adopted and read_end(process.folder) is None:
            ended = ExitRecord(kind=kind, number=number, ended_ns=ended_ns)
            with contextlib.suppress(OSError):
                write_whole(f"{process.folder}/exit", encode_exit(ended))
        if self._is_shutdown and kind == "signaled" and number == signal.SIGTERM and not process.cause:
            process.cause, process.note = int(CauseCode.SHUTDOWN), _SHUTDOWN_NOTE
        # The kernel's out-of-memory killer sends SIGKILL, too: the control group's counter tells them apart.
        if kind == "signaled" and number == signal.SIGKILL and not process.cause:
            process.cause = int(CauseCode.OOM if _ran_out_of_memory(process) else CauseCode.NONE)
        if process.timeout_timer is not None:
            process.timeout_timer.cancel()
        hit("exit.noticed")
        if not is_empty and process.spec.after_exit == "kill" and not process.stop_at:
            self.stops.kill(process)
        if process.is_orphan and not is_empty:
            self.look_for_tree(process)
        self._touch(process)
        self._advance(process)

    def was_done(self, process: ManagedProcess, *, is_empty: bool, record: DoneRecord) -> None:
        """Restore a process whose `done` an earlier supervisor wrote: only its open streams and its tree
        remain.
        """
        process.phase = Phase.DONE
        process.is_empty = is_empty
        process.cause = record.cause
        process.note = record.note
        process.descendants = record.descendants
        self._touch(process)
        if process.is_orphan:
            self.look_for_tree(process)
        self._advance(process)

    def emptied(self, process: ManagedProcess) -> None:
        """Record that no descendant is left."""
        process.is_empty = True
        self._advance(process)

    def stream_ended(self, process: ManagedProcess) -> None:
        """Continue towards the end after a stream was closed."""
        if process.phase >= Phase.EXITED:
            self._advance(process)

    def look_for_tree(self, process: ManagedProcess) -> None:
        """Watch an orphaned command's tree by polling: it has no shim that reports when the tree is empty."""
        if process.is_empty or process.phase < Phase.EXITED:
            return
        if self._trees.is_empty(process):
            self.emptied(process)
        else:
            self._loop.later(_ORPHAN_LOOK_S, lambda: self.look_for_tree(process))

    def _advance(self, process: ManagedProcess) -> None:
        """Go as far towards the end as is possible now."""
        if process.phase < Phase.EXITED:
            return
        if process.phase == Phase.EXITED:
            must_be_empty = bool(process.stop_at) or process.spec.after_exit in {"kill", "wait"}
            if must_be_empty and not process.is_empty:
                return
            assert self.pump is not None
            if not self.pump.drain(process) or process.phase != Phase.EXITED:
                # The disk is full (the pump retries), or draining closed the last stream, which called this
                # again.
                return
            if not self._tell_done(process):
                self._loop.later(_RETRY_S, lambda: self._advance(process))
                return
        if process.phase == Phase.DONE and process.is_empty and process.is_closed and not process.is_owed:
            self._loop.later(
                0.0, lambda: self._let_go(process)
            )  # in the next turn: servers learn the end first

    def _tell_done(self, process: ManagedProcess) -> bool:
        """Record that all output is in the log, then report it.

        On a read-only file system the record is owed.
        """
        hit("exit.drained")
        ends = {stream.index: stream.offset for stream in process.streams}
        process.descendants = 0 if process.is_empty else self._trees.count(process)
        record = {
            "out": ends.get(0, 0),
            "err": ends.get(1, 0),
            "cause": process.cause,
            "note": process.note,
            "at_ns": time.time_ns(),
            "boot_id": this_boot(),
            "boottime_ns": boottime_ns(),
            "descendants": process.descendants,
            "gaps": bool(process.flags & _GAPS),
            "holder_lost": bool(process.flags & _HOLDER_LOST),
            "closed": process.is_closed,
        }
        content = to_json(record).encode()
        error = self._write_end(process, content)
        if error not in {0, errno.EROFS}:
            return False
        if error:
            process.is_owed = True
            self._loop.later(_RETRY_S, lambda: self._pay(process, content))
        hit("exit.done")
        process.phase = Phase.DONE
        process.flags &= _NOT_STALLED
        self._touch(process)
        return True

    def _write_end(self, process: ManagedProcess, content: bytes) -> int:
        """Write `done`, and before it how the command ended if its shim could not.

        Return 0, or the error's number.

        A shim tries only once on a read-only file system, which may be writable again by now.
        """
        try:
            if read_end(process.folder) is None:
                kind = _KINDS.get(process.flags & _EXIT_MASK, "exited")
                ended = ExitRecord(
                    kind=kind, number=process.code, ended_ns=process.ended_ns, note=process.failed_at or ""
                )
                self._reserve.fit(lambda: write_whole(f"{process.folder}/exit", encode_exit(ended)))
            self._reserve.fit(lambda: write_once(f"{process.folder}/done", content))
        except FileNotFoundError:
            pass  # the folder was deleted: there is no place for the record, and there will be none
        except OSError as error:
            return error.errno or errno.EIO
        return 0

    def _pay(self, process: ManagedProcess, content: bytes) -> None:
        """Write an owed record once the file system accepts it."""
        if self._write_end(process, content):
            self._loop.later(_RETRY_S, lambda: self._pay(process, content))
            return
        process.is_owed = False
        self._advance(process)

    def _let_go(self, process: ManagedProcess) -> None:
        # Descendants may have written after `done`: `closed` holds the final sizes of the logs.
        if process.descendants and not os.path.exists(f"{process.folder}/closed"):
            ends = {stream.index: stream.offset for stream in process.streams}
            record = {"out": ends.get(0, 0), "err": ends.get(1, 0), "at_ns": time.time_ns()}
            with contextlib.suppress(OSError):
                self._reserve.fit(lambda: write_whole(f"{process.folder}/closed", to_json(record).encode()))
        process.descendants = 0
        if process.kill_timer is not None:
            process.kill_timer.cancel()
        remove_groups(process.spec.groups)
        hit("exit.let_go")
        self._forget(process)


def _ran_out_of_memory(process: ManagedProcess) -> bool:
    if process.spec.container:
        ended = read_end(process.folder)
        return ended is not None and ended.note == OUT_OF_MEMORY
    return bool(process.spec.groups) and ran_out_of_memory(process.spec.groups)
