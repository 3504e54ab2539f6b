"""Commands whose shim died: a new holder for their descriptors, and the sources of their exit codes
(`Orphans`).

An exit code is looked for in this order: the shim's exit record, the guardian's note of what it reaped, the
zombie's /proc/PID/stat, the kernel through the pidfd (Linux 6.15). If none has it, the process is lost: an
exit code is never invented.

`Reaper` reaps the children that the kernel hands to the supervisor: guardians that it started, and what dead
guardians leave behind. A command among them stays a zombie until its exit code was read: the zombie is the
durable copy.
"""

import contextlib
import os
import time
from collections.abc import Callable

from outlive.core.layout import Layout
from outlive.core.values import dataclass, field
from outlive.keeper.supervisor.endings.exit_handler import ExitHandler
from outlive.keeper.supervisor.loop import Loop
from outlive.keeper.supervisor.managed_process import ManagedProcess
from outlive.keeper.supervisor.starts.launcher import known_start
from outlive.keeper.supervisor.starts.shim_pool import ShimPool
from outlive.kernel import sockets
from outlive.kernel.calls import find_ended, pidfd_exit_status
from outlive.kernel.disk import Reserve
from outlive.kernel.failpoints import hit
from outlive.kernel.files import is_written, write_whole
from outlive.kernel.processes import (
    boottime_ns,
    carriers_of,
    children,
    exit_status_of_zombie,
    open_pidfd,
    start_ticks,
    stat_fields,
    this_boot,
)
from outlive.kernel.state_files import read_end, read_exit, read_pid
from outlive.protocols.frames import (
    ExitRecord,
    PidRecord,
    encode_exit,
    encode_pid,
    exit_from_wait,
)
from outlive.protocols.keeper import Flags, Phase

_LOOK_S = 0.004  # between two looks for an exit code
_LOOKS = 250  # one second together: a zombie may wait for a guardian that is being started again
_HOLDER_RETRY_S = 0.01  # until an idle shim is asked for again
_RECORD_RETRY_S = 0.25  # until the next attempt on a disk that accepts nothing
# Lets a test pretend that the kernel is older: OUTLIVE_DEGRADE=pidfd_info in the keeper's environment.
_KNOWS_PIDFD_INFO = "pidfd_info" not in os.environ.get("OUTLIVE_DEGRADE", "").split(",")


@dataclass(eq=False, slots=True)
class Orphans:
    """Takes over the shim's duties when a shim is gone.

    `start_again` starts a committed process that certainly never executed.
    """

    loop: Loop
    layout: Layout
    pool: ShimPool
    endings: ExitHandler
    reserve: Reserve
    start_again: Callable[[ManagedProcess], None]
    log: Callable[[str], None]
    _waiting: list[ManagedProcess] = field(default_factory=list, init=False)

    def shim_lost(self, process: ManagedProcess) -> None:
        """Go on without the shim: its link has closed, or no process listens on the folder's socket."""
        process.shim = None
        if not process.is_orphan:  # otherwise only a holder died: the supervisor still has every descriptor
            process.is_orphan = True
            self.log(f"the shim of {process.process_id} is gone")
            self.loop.look_soon()  # the command may be our child now, and have ended
            record = read_pid(process.folder)
            if process.phase >= Phase.EXITED:
                self.endings.look_for_tree(process)
            elif record is not None:
                self._runs(process, record)
                self._watch(process, record.boot_id)
            elif is_written(f"{process.folder}/pid"):
                self._find_spawned(process, _LOOKS)
            else:
                self._never_ran(process)
                return
        self._find_holder(process)

    def _runs(self, process: ManagedProcess, record: PidRecord) -> None:
        """Record that the command was started, which its shim may have been unable to report."""
        process.pid, process.ticks, process.started_ns = record.pid, record.start_ticks, record.started_ns
        process.answer_all({"pid": record.pid, "started_ns": record.started_ns})
        if process.phase == Phase.STARTING:
            process.phase = Phase.STOPPING if process.stop_at else Phase.RUNNING
            self.endings.stops.arm_timeout(process, started_boottime_ns=record.boottime_ns)

    def _never_ran(self, process: ManagedProcess) -> None:
        if process.phase >= Phase.EXITED:
            return
        process.is_orphan = False
        assert self.endings.pump is not None
        self.endings.pump.forget(process)
        for stream in process.streams:
            stream.close_log()
        for letter in list(process.fds):
            process.close_fd(letter)
        os.close(process.idx)
        self.start_again(process)

    def _find_spawned(self, process: ManagedProcess, looks: int) -> None:
        """Find the command of a shim that died before it could record the pid."""
        ended = read_end(process.folder)
        if ended is not None:
            self._tell(process, ended)
            return
        carriers = carriers_of(process.process_id)
        leaders = [pid for pid in carriers if (fields := stat_fields(pid)) and int(fields[3]) == pid]
        if leaders:
            pid = min(leaders)
            self._adopt(process, pid, start_ticks(pid))
            self._watch(process, this_boot())
        elif (note := self._unclaimed_note(process)) is not None:
            identity = os.path.basename(note).split(".")
            self._adopt(process, int(identity[0]), int(identity[1]))
            self._learn_exit(process, 0)
        elif looks:
            # A look reads every process's environment: soon, then seldom.
            step = 1 if looks > _LOOKS - 3 else _LOOKS // 10
            self.loop.later(_LOOK_S * step, lambda: self._find_spawned(process, max(0, looks - step)))
        else:
            self._tell(process, _may_have_run())

    def _adopt(self, process: ManagedProcess, pid: int, ticks: int) -> None:
        """Write the pid record that the shim could not write."""
        record = PidRecord(
            pid=pid,
            start_ticks=ticks,
            started_ns=time.time_ns(),
            boottime_ns=boottime_ns(),
            shim_pid=0,
            input_pipe=0,
            boot_id=this_boot(),
        )
        with contextlib.suppress(OSError):
            content = b"starting\n" + encode_pid(record)
            self.reserve.fit(lambda: write_whole(f"{process.folder}/pid", content))
        self._runs(process, record)

    def _unclaimed_note(self, process: ManagedProcess) -> str | None:
        """Return the path of the note about a command that ended at once, if exactly one note may be about
        it.
        """
        candidates = []
        with contextlib.suppress(OSError):
            created_ns = os.stat(f"{process.folder}/pid").st_ctime_ns
            for name in os.listdir(self.layout.notes):
                path = f"{self.layout.notes}/{name}"
                record = None if name.endswith(".new") else read_exit(path)
                if record is not None and record.ended_ns >= created_ns:
                    candidates.append(path)
        return candidates[0] if len(candidates) == 1 else None

    def clear_notes(self) -> None:
        """Remove the notes; to be called when no command is left that one could be about."""
        for name in os.listdir(self.layout.notes):
            with contextlib.suppress(OSError):
                os.unlink(f"{self.layout.notes}/{name}")

    def _watch(self, process: ManagedProcess, boot_id: str) -> None:
        """Wait for the end of an orphaned command whose pid is known."""
        ended = read_end(process.folder)
        if ended is not None:
            self._tell(process, ended)
            return
        if process.pidfd < 0 and boot_id == this_boot():
            process.pidfd = open_pidfd(process.pid, process.ticks)
        if process.pidfd < 0 or boot_id != this_boot():
            # After a boot the pid means nothing; without a pidfd it may still be found in a note or as a
            # zombie.
            self._learn_exit(process, 0 if boot_id != this_boot() else _LOOKS)
            return
        self.loop.watch(process.pidfd, lambda _events: self._gone(process))

    def resume_watch(self, process: ManagedProcess) -> None:
        """Watch a command that an earlier supervisor found orphaned and gave to a holder."""
        if read_pid(process.folder) is None:
            self._find_spawned(process, _LOOKS)
        elif process.pidfd < 0 or start_ticks(process.pid) not in {0, process.ticks}:
            self._learn_exit(process, _LOOKS)
        else:
            self.loop.watch(process.pidfd, lambda _events: self._gone(process))

    def _gone(self, process: ManagedProcess) -> None:
        self.loop.unwatch(process.pidfd)
        self._learn_exit(process, _LOOKS)

    def _learn_exit(self, process: ManagedProcess, looks: int) -> None:
        if process.phase >= Phase.EXITED:
            return
        note_path = f"{self.layout.notes}/{process.pid}.{process.ticks}"
        ended = read_end(process.folder) or read_exit(note_path)
        if ended is None:
            status = exit_status_of_zombie(process.pid, process.ticks)
            if status is None and process.pidfd >= 0 and _KNOWS_PIDFD_INFO:
                status = pidfd_exit_status(process.pidfd)
            if status is not None:
                ended = exit_from_wait(status, time.time_ns())
        if ended is None and looks:
            self.loop.later(_LOOK_S, lambda: self._learn_exit(process, looks - 1))
            return
        self._tell(process, ended or ExitRecord(kind="lost", number=0, ended_ns=time.time_ns()))
        if process.phase >= Phase.EXITED:
            with contextlib.suppress(OSError):
                os.unlink(note_path)  # only now that the record is written

    def _tell(self, process: ManagedProcess, ended: ExitRecord, *, is_empty: bool = False) -> None:
        if process.phase >= Phase.EXITED:  # reported meanwhile, while the disk accepted nothing
            return
        hit("orphan.learned")
        if read_end(process.folder) is None:
            try:
                self.reserve.fit(lambda: write_whole(f"{process.folder}/exit", encode_exit(ended)))
            except FileNotFoundError:
                pass  # the folder was deleted: there is no place for the record, and there will be none
            except OSError:  # no other copy may exist: the end is not reported before it is on disk
                self.loop.later(_RECORD_RETRY_S, lambda: self._tell(process, ended, is_empty=is_empty))
                return
        process.answer_all(known_start(process.folder))
        self.endings.exited(
            process,
            kind=ended.kind,
            number=ended.number,
            is_empty=is_empty or ended.kind == "failed",
            ended_ns=ended.ended_ns,
        )

    def _find_holder(self, process: ManagedProcess) -> None:
        """Give duplicates of the descriptors to an idle shim, so that two processes hold them again."""
        if process.is_closed or process.shim is not None:
            return
        shim = self.pool.take()
        if shim is None:
            self.loop.later(_HOLDER_RETRY_S, lambda: self._find_holder(process))
            return
        try:
            listener = self.reserve.fit(lambda: sockets.listen_unix(f"{process.folder}/sock", backlog=4))
        except OSError:  # no inode, or a read-only file system: until then only we hold them
            self.pool.give_back(shim)
            self.loop.later(_RECORD_RETRY_S, lambda: self._find_holder(process))
            return
        held = dict(process.fds)
        if process.pidfd >= 0:
            held["p"] = process.pidfd
        words = f"hold L{''.join(held)} {process.folder}".encode()
        try:
            sockets.send(shim.socket, words, [listener.fileno(), *held.values()])
        except OSError:
            self.loop.later(_HOLDER_RETRY_S, lambda: self._find_holder(process))
            return
        finally:
            listener.close()
        shim.process = process
        process.shim = shim
        hit("orphan.held")

    def call_ended(self, process: ManagedProcess, ended: ExitRecord | None, *, is_empty: bool) -> None:
        """Record the end of a command that cannot live: as it is known, or as lost.

        For all that its files say after a power cut it may have run. `is_empty`: nothing of its tree lives.
        """
        process.is_orphan = True
        if ended is None or ended.kind != "failed":
            process.flags |= Flags.HOLDER_LOST
        self._tell(process, ended or _may_have_run(), is_empty=is_empty)

    def without_descriptors(self, process: ManagedProcess) -> None:
        """Go on with a command whose shim and supervisor died at the same instant: its pipes are lost."""
        process.flags |= Flags.HOLDER_LOST
        self.shim_lost(process)


def _may_have_run() -> ExitRecord:
    return ExitRecord(kind="lost", number=0, ended_ns=time.time_ns(), note="may have run")


class Reaper:
    """Reaps in each round of looks: until then a zombie costs only its pid."""

    def __init__(
        self, loop: Loop, layout: Layout, *, guardians: set[int], claimed: Callable[[], set[int]]
    ) -> None:
        """Take the pids of `guardians`, which are no commands; `claimed` returns those whose exit is still to
        be read.
        """
        self._layout = layout
        self._guardians = guardians
        self._claimed = claimed
        loop.regularly(self._look)

    def _look(self) -> bool:
        try:
            if find_ended() is None:
                return False
        except ChildProcessError:
            return False
        claimed = self._claimed()
        for pid in children(os.getpid()):
            fields = stat_fields(pid)
            if not fields or fields[0] != b"Z" or pid in claimed:
                continue
            # A command leads its POSIX session. Its start may not be known yet: leave a note, as a guardian
            # does.
            if int(fields[3]) == pid and pid not in self._guardians:
                self._note(pid, int(fields[19]))
            self._guardians.discard(pid)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        return False

    def _note(self, pid: int, ticks: int) -> None:
        status = exit_status_of_zombie(pid, ticks)
        if status is not None:
            with contextlib.suppress(OSError):
                write_whole(
                    f"{self._layout.notes}/{pid}.{ticks}", encode_exit(exit_from_wait(status, time.time_ns()))
                )
