"""Commands whose shim died: who holds their descriptors now, and how their exit codes are still learned.

Sources of an exit code, in this order: the shim's exit record, the guardian's note of what it reaped, the zombie's
/proc stat, the kernel through the pidfd (>= 6.15); else the process is lost. Never invented.

Reaping what the kernel hands to the supervisor: guardians that it started, and what dead ones leave behind.

A command among them whose exit code nobody has read yet is left alone: the zombie is the durable copy.
"""

import contextlib
import os
import time
from collections.abc import Callable

from outlive.core.layout import Layout
from outlive.keeper.common import sockets, tree
from outlive.keeper.common.disk import Reserve
from outlive.keeper.common.failpoints import hit
from outlive.keeper.common.files import is_written, read_end, read_exit, read_pid, write_whole
from outlive.keeper.common.kernel import (
    BOOT_ID,
    boottime_ns,
    exit_status_of_zombie,
    open_pidfd,
    pidfd_exit_status,
    start_ticks,
    stat_fields,
)
from outlive.keeper.supervisor.endings.exit_handler import ExitHandler
from outlive.keeper.supervisor.loop import Loop
from outlive.keeper.supervisor.managed_process import ManagedProcess
from outlive.keeper.supervisor.starts.launcher import known_start
from outlive.keeper.supervisor.starts.shim_pool import ShimPool
from outlive.protocols.frames import (
    ExitRecord,
    PidRecord,
    encode_exit,
    encode_pid,
    exit_from_wait,
)
from outlive.protocols.keeper import Flags, Phase

_LOOK_S = 0.004
_LOOKS = 250  # one second: a zombie may wait for a guardian that is being started again
_HOLDER_RETRY_S = 0.01
_RECORD_RETRY_S = 0.25  # a disk that takes nothing
# A test's way to an older kernel: OUTLIVE_DEGRADE=pidfd_info in the keeper's environment.
_KNOWS_PIDFD_INFO = "pidfd_info" not in os.environ.get("OUTLIVE_DEGRADE", "").split(",")


class Orphans:
    """Takes over when a shim is gone."""

    def __init__(
        self,
        loop: Loop,
        layout: Layout,
        pool: ShimPool,
        endings: ExitHandler,
        reserve: Reserve,
        *,
        start_again: Callable[[ManagedProcess], None],
        log: Callable[[str], None],
    ) -> None:
        """`start_again` starts a committed process that certainly never executed."""
        self._loop = loop
        self._layout = layout
        self._pool = pool
        self._endings = endings
        self._reserve = reserve
        self._start_again = start_again
        self._log = log
        self._waiting: list[ManagedProcess] = []

    def shim_lost(self, kept: ManagedProcess) -> None:
        """Go on without the shim: its link closed, or nobody listens on the folder's socket."""
        kept.shim = None
        if not kept.is_orphan:  # else only a holder died: the supervisor still has everything
            kept.is_orphan = True
            self._log(f"the shim of {kept.process_id} is gone")
            record = read_pid(kept.folder)
            if kept.phase >= Phase.EXITED:
                self._endings.look_for_tree(kept)
            elif record is not None:
                self._runs(kept, record)
                self._watch(kept, record.boot_id)
            elif is_written(f"{kept.folder}/pid"):
                self._find_spawned(kept, _LOOKS)
            else:
                self._never_ran(kept)
                return
        self._find_holder(kept)

    def _runs(self, kept: ManagedProcess, record: PidRecord) -> None:
        """Take note that the command was started, also when its shim could not say so any more."""
        kept.pid, kept.ticks, kept.started_ns = record.pid, record.start_ticks, record.started_ns
        kept.answer_all({"pid": record.pid, "started_ns": record.started_ns})
        if kept.phase == Phase.STARTING:
            kept.phase = Phase.STOPPING if kept.stop_at else Phase.RUNNING
            self._endings.stops.arm_timeout(kept, started_boottime_ns=record.boottime_ns)

    def _never_ran(self, kept: ManagedProcess) -> None:
        if kept.phase >= Phase.EXITED:
            return
        kept.is_orphan = False
        assert self._endings.pump is not None
        for stream in kept.streams:
            self._endings.pump.hold(stream)
            stream.close_log()
        for letter in list(kept.fds):
            kept.close_fd(letter)
        os.close(kept.idx)
        self._start_again(kept)

    def _find_spawned(self, kept: ManagedProcess, looks: int) -> None:
        """Find a command that was spawned by a shim which died before it could write the pid."""
        ended = read_end(kept.folder)
        if ended is not None:
            self._tell(kept, ended)
            return
        carriers = tree.carriers_of(b"OUTLIVE_PROCESS_ID=" + kept.process_id.encode())
        leaders = [pid for pid in carriers if (fields := stat_fields(pid)) and int(fields[3]) == pid]
        if leaders:
            pid = min(leaders)
            self._adopt(kept, pid, start_ticks(pid))
            self._watch(kept, BOOT_ID)
        elif (note := self._unclaimed_note(kept)) is not None:
            identity = os.path.basename(note).split(".")
            self._adopt(kept, int(identity[0]), int(identity[1]))
            self._learn_exit(kept, 0)
        elif looks:
            step = 1 if looks > _LOOKS - 3 else _LOOKS // 10  # each look reads every process's environment
            self._loop.later(_LOOK_S * step, lambda: self._find_spawned(kept, max(0, looks - step)))
        else:
            self._tell(kept, ExitRecord(kind="lost", number=0, ended_ns=time.time_ns(), note="may have run"))

    def _adopt(self, kept: ManagedProcess, pid: int, ticks: int) -> None:
        """Write the pid record that the shim could not write any more."""
        record = PidRecord(
            pid=pid,
            start_ticks=ticks,
            started_ns=time.time_ns(),
            boottime_ns=boottime_ns(),
            shim_pid=0,
            boot_id=BOOT_ID,
        )
        with contextlib.suppress(OSError):
            content = b"starting\n" + encode_pid(record)
            self._reserve.fit(lambda: write_whole(f"{kept.folder}/pid", content))
        self._runs(kept, record)

    def _unclaimed_note(self, kept: ManagedProcess) -> str | None:
        """Return the path of the note of a command that ended at once, when there is exactly one candidate."""
        created_ns = os.stat(f"{kept.folder}/pid").st_ctime_ns
        candidates = []
        with contextlib.suppress(OSError):
            for name in os.listdir(self._layout.notes):
                path = f"{self._layout.notes}/{name}"
                record = None if name.endswith(".new") else read_exit(path)
                if record is not None and record.ended_ns >= created_ns:
                    candidates.append(path)
        return candidates[0] if len(candidates) == 1 else None

    def clear_notes(self) -> None:
        """Remove the notes when no command is left that one could be about."""
        for name in os.listdir(self._layout.notes):
            with contextlib.suppress(OSError):
                os.unlink(f"{self._layout.notes}/{name}")

    def _watch(self, kept: ManagedProcess, boot_id: str) -> None:
        """Wait for the end of an orphaned command whose pid is known."""
        ended = read_end(kept.folder)
        if ended is not None:
            self._tell(kept, ended)
            return
        if kept.pidfd < 0 and boot_id == BOOT_ID:
            kept.pidfd = open_pidfd(kept.pid, kept.ticks)
        if kept.pidfd < 0 or boot_id != BOOT_ID:
            self._learn_exit(kept, 0 if boot_id != BOOT_ID else _LOOKS)
            return
        self._loop.watch(kept.pidfd, lambda _events: self._gone(kept))

    def resume_watch(self, kept: ManagedProcess) -> None:
        """Watch a command that an earlier supervisor had already found orphaned, and which has a holder."""
        if read_pid(kept.folder) is None:
            self._find_spawned(kept, _LOOKS)
        elif kept.pidfd < 0 or start_ticks(kept.pid) not in {0, kept.ticks}:
            self._learn_exit(kept, _LOOKS)
        else:
            self._loop.watch(kept.pidfd, lambda _events: self._gone(kept))

    def _gone(self, kept: ManagedProcess) -> None:
        self._loop.unwatch(kept.pidfd)
        self._learn_exit(kept, _LOOKS)

    def _learn_exit(self, kept: ManagedProcess, looks: int) -> None:
        if kept.phase >= Phase.EXITED:
            return
        note_path = f"{self._layout.notes}/{kept.pid}.{kept.ticks}"
        ended = read_end(kept.folder) or read_exit(note_path)
        if ended is None:
            status = exit_status_of_zombie(kept.pid, kept.ticks)
            if status is None and kept.pidfd >= 0 and _KNOWS_PIDFD_INFO:
                status = pidfd_exit_status(kept.pidfd)
            if status is not None:
                ended = exit_from_wait(status, time.time_ns())
        if ended is None and looks:
            self._loop.later(_LOOK_S, lambda: self._learn_exit(kept, looks - 1))
            return
        self._tell(kept, ended or ExitRecord(kind="lost", number=0, ended_ns=time.time_ns()))
        if kept.phase >= Phase.EXITED:
            with contextlib.suppress(OSError):
                os.unlink(note_path)  # only now: the record is written

    def _tell(self, kept: ManagedProcess, ended: ExitRecord) -> None:
        if kept.phase >= Phase.EXITED:  # told meanwhile, while the disk took nothing
            return
        hit("orphan.learned")
        if read_end(kept.folder) is None:
            try:
                self._reserve.fit(lambda: write_whole(f"{kept.folder}/exit", encode_exit(ended)))
            except FileNotFoundError:
                pass  # somebody deleted the folder: there is no place for it, and none will come
            except OSError:  # nothing else may remember it: nobody is told before it is on disk
                self._loop.later(_RECORD_RETRY_S, lambda: self._tell(kept, ended))
                return
        kept.answer_all(known_start(kept.folder))
        self._endings.exited(
            kept,
            kind=ended.kind,
            number=ended.number,
            is_empty=ended.kind == "failed",
            ended_ns=ended.ended_ns,
        )

    def _find_holder(self, kept: ManagedProcess) -> None:
        """Give duplicates of the descriptors to an idle shim, so that they are held twice again."""
        if kept.is_closed or kept.shim is not None:
            return
        shim = self._pool.take()
        if shim is None:
            self._loop.later(_HOLDER_RETRY_S, lambda: self._find_holder(kept))
            return
        try:
            listener = self._reserve.fit(lambda: sockets.listen_unix(f"{kept.folder}/sock", backlog=4))
        except OSError:  # no inode, or a read-only file system: it is held once, by us
            self._pool.give_back(shim)
            self._loop.later(_RECORD_RETRY_S, lambda: self._find_holder(kept))
            return
        held = dict(kept.fds)
        if kept.pidfd >= 0:
            held["p"] = kept.pidfd
        words = f"hold L{''.join(held)} {kept.folder}".encode()
        try:
            sockets.send(shim.socket, words, [listener.fileno(), *held.values()])
        except OSError:
            self._loop.later(_HOLDER_RETRY_S, lambda: self._find_holder(kept))
            return
        finally:
            listener.close()
        shim.kept = kept
        kept.shim = shim
        hit("orphan.held")

    def without_descriptors(self, kept: ManagedProcess) -> None:
        """Go on with a command whose shim and supervisor died at the same instant: its pipes are gone."""
        kept.flags |= Flags.HOLDER_LOST
        self.shim_lost(kept)


_REAPER_LOOK_S = 1.0


class Reaper:
    """Looks once a second: zombies cost nothing but their pid."""

    def __init__(
        self, loop: Loop, layout: Layout, *, guardians: set[int], claimed: Callable[[], set[int]]
    ) -> None:
        """`guardians` are no commands; `claimed` returns the pids of commands whose exit is still to be read."""
        self._loop = loop
        self._layout = layout
        self._guardians = guardians
        self._claimed = claimed
        loop.later(_REAPER_LOOK_S, self._look)

    def _look(self) -> None:
        self._loop.later(_REAPER_LOOK_S, self._look)
        try:
            if os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                return
        except ChildProcessError:
            return
        claimed = self._claimed()
        for pid in tree.children(os.getpid()):
            fields = stat_fields(pid)
            if not fields or fields[0] != b"Z" or pid in claimed:
                continue
            # A command leads its POSIX session. Its start may not be known yet: leave a note, as a guardian does.
            if int(fields[3]) == pid and pid not in self._guardians:
                self._note(pid, int(fields[19]))
            self._guardians.discard(pid)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)

    def _note(self, pid: int, ticks: int) -> None:
        status = exit_status_of_zombie(pid, ticks)
        if status is not None:
            with contextlib.suppress(OSError):
                write_whole(
                    f"{self._layout.notes}/{pid}.{ticks}", encode_exit(exit_from_wait(status, time.time_ns()))
                )
