"""What a new supervisor does first: connect to the shim of every live process, take over its descriptors, go
on: `Takeover`.

An upgrade is nothing else. A refused connection means a dead shim. Write offsets are the sizes of the logs.
Shims are asked a slice in each turn: in between the supervisor serves everything else, and a process is
reported as soon as it is taken over (decision 139). Requests that arrive before wait in `unrecovered`.
"""

import os
import time
from collections import deque
from collections.abc import Callable

from outlive.core.identity import id_to_bytes, is_process_id
from outlive.core.layout import Layout
from outlive.core.spec import Spec
from outlive.core.values import dataclass, field
from outlive.keeper.supervisor.endings.exit_handler import EXIT_FLAGS, ExitHandler
from outlive.keeper.supervisor.endings.orphans import Orphans
from outlive.keeper.supervisor.lock_challenge import LockChallenge
from outlive.keeper.supervisor.loop import Loop
from outlive.keeper.supervisor.managed_process import ManagedProcess, ShimLink, Stream
from outlive.keeper.supervisor.output.limits import read_gaps, unbind
from outlive.keeper.supervisor.output.pump import Pump
from outlive.keeper.supervisor.process_table import ManagedProcesses
from outlive.keeper.supervisor.starts.launcher import open_logs, remembered_spec
from outlive.keeper.supervisor.starts.shim_pool import ShimPool
from outlive.kernel import sockets
from outlive.kernel.failpoints import hit
from outlive.kernel.files import is_written, read_small, set_aside
from outlive.kernel.processes import boottime_ns, open_pidfd, start_ticks, this_boot, wake
from outlive.kernel.state_files import Journal, boot_of, read_end, read_journal, read_pid
from outlive.protocols.frames import IDX, PidRecord, decoded
from outlive.protocols.keeper import Flags, Phase, decode_done, decode_stop

_RETRY_S = 0.02  # until a shim that could not be reached is connected to again
_SLICE_S = 0.01  # of asking in one turn: some hundred shims; their answers take as long in the next turns
_MOST_REFUSED = 50  # refusals of a container's shim that lives: the socket of a dead one refuses connections
_PATIENCE_S = 3.0  # for shims that do not answer: they are stopped or starved, not dead
_WAKE_S = 1.0  # between two attempts to continue those that are stopped


# Of a process whose own is damaged: what lives is controlled all the same, and its output is kept.
_UNKNOWN = Spec(program="", argv=(), env={}, cwd="/")
# mode ("own", "hold"), letters, pid, ticks, kind of the end ("-": none), number, empty, end in Unix
# nanoseconds
_State = tuple[str, str, int, int, str, int, int, int]


@dataclass(eq=False, slots=True)
class Takeover:
    """Takes over what lives. `finished` is called once, when every shim has answered (or 3 s are over).

    Nothing happens before `begin`. `born` lets a command in a container execute that waits for that.
    `is_same_boot`: what is to be taken over was started in this boot, for certain.
    """

    loop: Loop
    layout: Layout
    pool: ShimPool
    pump: Pump
    endings: ExitHandler
    orphans: Orphans
    table: ManagedProcesses
    challenge: LockChallenge
    born: Callable[[ManagedProcess, ShimLink], None]
    journal: Journal
    is_same_boot: bool
    log: Callable[[str], None]
    _to_ask: deque[str] = field(default_factory=deque, init=False)
    _asked: dict[int, ShimLink] = field(default_factory=dict, init=False)
    _delayed: set[ManagedProcess] = field(default_factory=set, init=False)
    _refused: dict[ManagedProcess, int] = field(default_factory=dict, init=False)
    _finished: Callable[[], None] | None = field(default=None, init=False)

    def begin(self, live: list[str], finished: Callable[[], None]) -> None:
        """Ask the shims of all live processes, from the first turn of the loop on."""
        self._finished = finished
        if not live:
            self.orphans.clear_notes()
        self._to_ask.extend(live)
        self.loop.later(0.0, self._ask_some)  # where an error is one process's, not the supervisor's

    def _ask_some(self) -> None:
        """Ask as many shims as a turn has time for."""
        until = time.monotonic() + _SLICE_S
        try:
            while self._to_ask and time.monotonic() < until:
                self._ask(self._to_ask.popleft())
        finally:  # an error about one shim must not keep the others from being asked
            if self._to_ask:
                self.loop.later(0.0, self._ask_some)
            else:
                hit("recovery.asked")
                self.loop.later(_PATIENCE_S, self._settle)
                self.loop.later(_WAKE_S, self._wake_silent)
                self._settle_if_all_answered()

    def _wake_silent(self) -> None:
        """Continue the shims that have not answered because a command has stopped them."""
        asked = [shim.process for shim in self._asked.values() if shim.process is not None]
        for process in [*asked, *self._delayed]:
            record = read_pid(process.folder)
            # A shim begins before its command: a process that began later has only got its pid.
            if record is not None and 0 < start_ticks(record.shim_pid) <= record.start_ticks:
                wake(record.shim_pid)
        if asked or self._delayed:
            self.loop.later(_WAKE_S, self._wake_silent)

    def _settle_if_all_answered(self) -> None:
        if not self._to_ask and not self._asked and not self._delayed:
            self._settle()

    def _settle(self) -> None:
        finished, self._finished = self._finished, None
        if finished is not None:
            if waiting := len(self._asked) + len(self._delayed):
                self.log(f"{waiting} shims have not answered yet")
            finished()

    def _ask(self, process_id: str) -> None:
        folder = self.layout.process(process_id)
        if not os.path.isdir(folder):  # in the journal, but the start was never committed
            self.journal.end(process_id)
            self.table.unrecovered.remove(id_to_bytes(process_id))
            return
        process = ManagedProcess(process_id, folder, remembered_spec(folder) or _UNKNOWN)
        spec = process.spec
        if spec.container:
            self.table.unrecovered.note_container(process.key)
        unbind(process)
        self._connect(process)

    def _connect(self, process: ManagedProcess) -> None:
        self._delayed.discard(process)
        try:
            link = sockets.connect_unix(f"{process.folder}/sock", names_senders=True)
        except BlockingIOError:
            # The backlog is full of connections of dead supervisors: the shim is stopped or starved, not
            # dead.
            self._connect_later(process)
            return
        except OSError as error:
            self.log(f"{process.process_id}: no shim answers: {error}")
            try:
                # An end that was recorded completely needs no shim any more.
                if is_written(f"{process.folder}/done") and _is_over(process):
                    self.journal.end(process.process_id)
                else:
                    self._without_shim(process)
            finally:
                self.table.recovered(process)
            return
        shim = ShimLink(link)
        shim.process = process
        process.shim = shim
        self._asked[link.fileno()] = shim
        # A shim of this machine sees the lock's holder itself, and asks nothing.
        inside = bool(process.spec.container)
        self.challenge.meet(
            link, lambda words, fds, pid: self._answered(shim, words, fds, pid), answers=inside
        )

    def _connect_later(self, process: ManagedProcess) -> None:
        self._delayed.add(process)
        self.loop.later(_RETRY_S, lambda: self._connect_again(process))

    def _connect_again(self, process: ManagedProcess) -> None:
        self._connect(process)
        self._settle_if_all_answered()

    def _without_shim(self, process: ManagedProcess) -> None:
        self.table.by_key[process.key] = process
        record, ended = self._restore(process), read_end(process.folder)
        can_live = self.is_same_boot if record is None else record.boot_id == this_boot()
        self._go_on(process, record, can_live=can_live)
        is_begun = record is not None or ended is not None or is_written(f"{process.folder}/pid")
        if not is_begun and can_live and process.spec is not _UNKNOWN:
            self.log(f"{process.process_id} was committed but never given to a shim: starting it")
            self.orphans.shim_lost(process)
            return
        for stream in process.streams:
            stream.is_open = False  # no process holds its source any more
        if self._was_done(process, is_empty=not can_live):
            return
        if not can_live or (record is None and (ended is not None or not is_begun)):
            self.orphans.call_ended(process, ended, is_empty=not can_live)
        else:
            self.orphans.without_descriptors(process)

    def _restore(self, process: ManagedProcess) -> PidRecord | None:
        """Read what the folder holds: pid, pause, gaps; open the logs at their ends.

        Return the pid record.
        """
        set_aside(f"{process.folder}/pid")  # where the shim adds the end
        out, err, process.idx = open_logs(process.folder)
        process.streams = [
            Stream(process, index, source=-1, log=log, offset=os.fstat(log).st_size if log >= 0 else 0)
            for index, log in enumerate((out, err))
        ]
        if process.spec.stdio != "pipes":
            process.streams.pop().close_log()
        for index, (begin, end) in enumerate(read_gaps(process.folder)):
            process.released[index] = end - begin
            process.flags |= Flags.GAPS if end else 0
        _check_idx(process, self.log)
        record = read_pid(process.folder)
        if record is not None:
            process.pid, process.ticks, process.started_ns = record.pid, record.start_ticks, record.started_ns
            process.phase = Phase.RUNNING
            if record.boot_id == this_boot():
                process.pidfd = open_pidfd(record.pid, record.start_ticks)
        if os.path.exists(f"{process.folder}/paused"):
            process.phase = Phase.PAUSED
        return record

    def _answered(self, shim: ShimLink, message: bytes, fds: list[int], pid: int) -> None:
        """Take over what the shim holds: `state own|hold LETTERS PID TICKS KIND NUMBER EMPTY NS`.

        Its socket was made by the supervisor of its start, which SO_PEERCRED would name (unix(7)); `pid` is
        the pid of the process that answers.
        """
        shim.pid = pid
        process = shim.process
        assert process is not None
        self._asked.pop(shim.socket.fileno(), None)
        state = _read_state(message)
        if state is None:
            for descriptor in fds:
                os.close(descriptor)
            shim.socket.close()
            process.shim = None
            refused = self._refused[process] = self._refused.get(process, 0) + 1
            # A container's shim refuses while it makes room, or if it looked at the lock while this process
            # was stopped.
            if process.spec.container and refused < _MOST_REFUSED:
                self._connect_later(process)
                return
        try:
            if state is None:
                self._without_shim(process)
            else:
                if process.spec is _UNKNOWN and "m" in state[1]:
                    process.spec = _UNKNOWN._replace(stdio="pty")
                self._refused.pop(process, None)
                self._take_over(process, shim, state, fds)
        finally:
            self.table.recovered(process)
            self._settle_if_all_answered()

    def _take_over(self, process: ManagedProcess, shim: ShimLink, state: _State, fds: list[int]) -> None:
        mode, letters, pid, ticks, kind, number, empty, ended_ns = state
        process.is_adopted = True
        self.table.by_key[process.key] = process
        record = self._restore(process)
        held = dict(zip(letters if letters != "-" else "", fds, strict=False))
        # The holder's pidfd is older than ours: it gives the exit code even after the pid was reaped.
        process.take_pidfd(held.pop("p", -1))
        process.fds = held
        if pid:
            process.pid, process.ticks = pid, ticks
            if process.pidfd < 0:  # the pid file is damaged, or was never written
                process.pidfd = open_pidfd(pid, ticks)
            if process.phase == Phase.STARTING:  # on a full disk the shim could not record the pid
                process.phase = Phase.RUNNING
        shim.is_inside = bool(process.spec.container) and mode == "own"
        for stream in process.streams:
            source = held.get("m" if process.spec.stdio == "pty" else "oe"[stream.index], -1)
            stream.source = source
            stream.is_open = source >= 0
            if not stream.index:
                stream.relay = held.get("w", -1)
                stream.may_be_relayed &= stream.relay < 0
        self.pool.adopt(shim)
        hit("recovery.taken")
        for stream in process.streams:
            if stream.is_open:
                self.pump.add(stream)
                # At once: an end must be known before the stream is reported as open, and no event tells of
                # bytes in a relay.
                self.pump.move(stream)
        process.is_orphan = mode != "own"
        self._go_on(process, record, can_live=True)
        if self._was_done(process, is_empty=bool(empty) and not process.is_orphan):
            return
        if shim.is_inside and not process.pid and kind == "-":  # it exists, and waits for leave to execute
            self.born(process, shim)
        elif process.is_orphan:
            self.orphans.resume_watch(process)
        elif kind != "-":
            self.endings.exited(process, kind=kind, number=number, is_empty=bool(empty), ended_ns=ended_ns)

    def _was_done(self, process: ManagedProcess, *, is_empty: bool) -> bool:
        """Restore the end that an earlier supervisor had recorded, if it had; return whether."""
        path = f"{process.folder}/done"
        done = decoded(read_small(path), decode_done)
        ended = None if done is None else read_end(process.folder)
        if done is None or ended is None:
            if is_written(path):  # it is damaged, and is written anew into an empty file
                os.truncate(path, 0)
            return False
        process.is_orphan = process.is_orphan or process.shim is None
        process.code = ended.number
        process.flags |= EXIT_FLAGS.get(ended.kind, 0)
        process.flags |= Flags.HOLDER_LOST if done.holder_lost else 0
        self.endings.was_done(process, is_empty=is_empty, record=done)
        return True

    def _go_on(self, process: ManagedProcess, record: PidRecord | None, *, can_live: bool) -> None:
        """Continue a stop that the earlier supervisor began, and the timeout.

        Of what ran before the machine's boot only the stop's reason counts.
        """
        if (stop := decoded(read_small(f"{process.folder}/stop"), decode_stop)) is not None:
            process.cause, process.note = stop.cause, stop.note
        if stop is not None and can_live:
            left_s = stop.grace_s - (boottime_ns() - stop.boottime_ns) / 1e9
            self.endings.stops.pursue(process, time.monotonic() + max(0.0, left_s))
        if record is not None and can_live:
            self.endings.stops.arm_timeout(process, started_boottime_ns=record.boottime_ns)


def _check_idx(process: ManagedProcess, log: Callable[[str], None]) -> None:
    """Check the invariant of the write-ahead run records: cumulative start + size - offset == total."""
    size = os.fstat(process.idx).st_size
    if size < IDX.size:
        return
    last = os.pread(process.idx, IDX.size, size - size % IDX.size - IDX.size)
    _, start, offset, stream = IDX.unpack(last)
    grown = process.streams[stream].offset - offset if stream < len(process.streams) else -1
    if grown < 0 or start + grown != process.total:
        log(f"{process.process_id}: idx does not agree with the logs: {start}+{grown} != {process.total}")
        if (
            grown < 0 or process.total < start + grown
        ):  # the logs are shorter than they were: they have been cut
            process.flags |= Flags.HOLDER_LOST


def surviving(layout: Layout) -> list[str]:
    """Return the ids of the processes that may live: those that the journal of the last supervisor names.

    Without a readable journal the folders say it, which takes a second for some 20,000.
    """
    if boot_of(layout.live) is not None:
        return read_journal(layout.live)
    return [name for name in sorted(os.listdir(layout.processes)) if _may_live(layout.process(name), name)]


def _may_live(folder: str, name: str) -> bool:
    record = read_pid(folder) if is_process_id(name) and not is_written(f"{folder}/done") else None
    if record is None or record.boot_id != this_boot():
        return False
    return start_ticks(record.pid) == record.start_ticks or read_end(folder) is not None


def _is_over(process: ManagedProcess) -> bool:
    """Return whether a done process has nothing left that could matter: without a shim it has no streams."""
    record = read_pid(process.folder)
    return record is None or record.boot_id != this_boot() or read_end(process.folder) is not None


def _read_state(message: bytes) -> _State | None:
    """Read a shim's `state`; None at its death, and for any other packet: a program in a container may send
    anything.
    """
    try:
        _, mode, letters, pid, ticks, kind, number, empty, ended_ns = message.decode().split()
        return mode, letters, int(pid), int(ticks), kind, int(number), int(empty), int(ended_ns)
    except ValueError:
        return None
