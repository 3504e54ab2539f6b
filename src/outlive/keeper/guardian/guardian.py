"""The guardian: the small clean process that makes shims, and the supervisor's watcher.

Stateless. A subreaper: it adopts commands whose shim died and leaves a note of how each of them ended.
Guardian and supervisor start each other again (spawn, never fork of the supervisor).

Packets on guardian.sock: from the supervisor `fork` or `exec` + one descriptor for each new shim (its link), `pong`,
`retire`; to the supervisor `hello PID [exec] forked`, `ping`, and `forked` once the links of a request are closed here.
`exec` asks for shims that are a program of their own (`shim_program`); a hello without the word, also a later one, says that
there are none, and then an `exec` is carried out as a `fork`.
"""

import contextlib
import gc
import math
import os
import select
import signal
import socket
import time

from outlive.core.layout import Layout
from outlive.keeper.common import sockets
from outlive.keeper.common.disk import Reserve
from outlive.keeper.common.failpoints import hit
from outlive.keeper.common.files import write_whole
from outlive.keeper.common.folder_identity import claim_folder
from outlive.keeper.common.kernel import become_subreaper, set_dumpable, stat_fields
from outlive.keeper.common.lock_proof import WatchedLock
from outlive.keeper.common.locks import forget_retirement, holder_of, is_in_place, is_retired, take_lock
from outlive.keeper.common.shim_program import ShimProgram
from outlive.keeper.common.spawn import restore_soft_limit, spawn_with_lock, take_handed_lock
from outlive.keeper.common.standard_files import log, use_standard_files
from outlive.keeper.guardian import shim
from outlive.keeper.guardian.shim_maker import ShimMaker
from outlive.protocols.frames import ExitRecord, encode_exit

_TICK_MS = 1000
# Unanswered pings before the supervisor counts as hung. Ticks, not seconds: a suspended machine kills nobody.
_HUNG_TICKS = int(os.environ.get("OUTLIVE_KEEPER_HUNG_TICKS", "5"))
_UNMET_TICKS = (
    10 * _HUNG_TICKS
)  # without a word: it hangs, though it never answered a ping; taking over takes a second
_OLDER_TICKS = 5  # the same for one without the record lock: it is of an older version, and cannot be told from a stranger
_QUICK_DEATH_S = 0.3
_MAX_QUICK_DEATHS = 20
# Told by SIGTERM to end: the supervisor, which waits for its commands, is watched a little longer than it waits.
_SHUTDOWN_S = float(os.environ.get("OUTLIVE_KEEPER_SHUTDOWN_S", "60")) + 5


def main(state_dir: str, *, is_first: bool) -> None:
    """Run a guardian until it is retired; returns at once when another one serves this state folder."""
    set_dumpable(is_dumpable=False)  # for our shims, too
    layout = Layout(state_dir)
    if is_first and os.fork():
        os._exit(
            0
        )  # the launcher waits for this process; the guardian is its child in a POSIX session of its own
    if is_first:
        os.setsid()
    handed = take_handed_lock()
    use_standard_files(layout)
    signal.signal(signal.SIGCHLD, shim.ignore_child_signal)
    # Shims inherit this: one that died of a shutdown's TERM could not write how its command ended (decision 62).
    signal.signal(signal.SIGTERM, shim.ignore_child_signal)
    for name in (signal.SIGINT, signal.SIGHUP):
        signal.signal(name, signal.SIG_IGN)
    gc.disable()
    restore_soft_limit()
    try:
        claim_folder(layout)
        reserve = Reserve(state_dir)
        lock = reserve.fit(lambda: take_lock(layout.guardian_lock))
        proof = reserve.fit(lambda: WatchedLock(layout.supervisor_pid, held=handed))
    except OSError as error:
        log(f"the guardian's locks cannot be taken: {error.strerror}")
        return
    if lock is None:
        return
    become_subreaper()
    # The supervisor comes up beside us: it needs shims only for the first start.
    supervisor = 0
    if holder_of(layout.supervisor_lock) is None:
        if is_first:
            forget_retirement(layout.supervisor_lock)
        elif is_retired(layout.supervisor_lock):
            return  # the supervisor that spawned us has left for good meanwhile
        supervisor = spawn_with_lock("supervisor", state_dir, proof.fileno())
    wake, alarm = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(alarm, warn_on_full_buffer=False)
    # What each fork becomes is made before it: a fork then only puts its own link where this one was.
    link, other_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    other_end.close()
    own_shim = shim.Shim(socket.SocketType(fileno=link.detach()), lock=proof, wake=wake, alarm=alarm)
    guardian = Guardian(layout, lock, own_shim, wake=wake, supervisor=supervisor)
    guardian.is_wanted = is_first and not supervisor
    gc.freeze()
    guardian.run()


class Guardian:
    """The guardian's loop: starts shims on request, reaps, pings the supervisor and starts it again."""

    def __init__(self, layout: Layout, lock: int, own_shim: shim.Shim, *, wake: int, supervisor: int) -> None:
        """Listen; the caller holds the lock and has spawned `supervisor` (0: there was one).

        Each fork becomes `own_shim`; `wake` tells of signals.
        """
        self._layout = layout
        self._lock = lock
        self._reserve = Reserve(layout.root)
        self._listener = self._reserve.fit(lambda: sockets.listen_unix(layout.guardian_socket))
        self._proof = own_shim.lock
        self._supervisor: socket.socket | None = None
        self._supervisor_pid = 0
        self._unanswered = 0
        self._alone_ticks = 0
        self._spawned_at = 0.0
        self._quick_deaths = 0
        # Launched by a client while a supervisor was still there, maybe to leave: one is wanted all the same.
        self.is_wanted = False
        self._spawned = supervisor  # the newest
        self._own = {supervisor}  # shims and supervisors: no commands, so their ends leave no note
        self._leaves_at = math.inf  # told to end: when the supervisor has ended, or then
        program = ShimProgram(layout.root, self._proof.fileno())
        self._maker = ShimMaker(own_shim, program, self._own, log=log, given_up=self._greet)
        self._wake = wake
        self._has_offered = False
        self._poll = select.poll()

    def run(self) -> None:
        """Serve until retired."""
        self._poll.register(self._wake, select.POLLIN)
        self._poll.register(self._listener.fileno(), select.POLLIN)
        next_tick = time.monotonic() + _TICK_MS / 1000
        while True:
            wait_ms = max(0, int((next_tick - time.monotonic()) * 1000))
            for fd, _ in self._poll.poll(wait_ms):
                if fd == self._wake:
                    if signal.SIGTERM in os.read(self._wake, 512):
                        self._leaves_at = time.monotonic() + _SHUTDOWN_S
                    self._reap()
                elif fd == self._listener.fileno():
                    self._meet()
                elif self._supervisor is not None and fd == self._supervisor.fileno() and not self._obey():
                    return
            if time.monotonic() >= next_tick:
                next_tick = time.monotonic() + _TICK_MS / 1000
                if not self._tick():
                    return

    def _meet(self) -> None:
        connection = sockets.accept(self._listener)
        if connection is None:
            return
        if not _is_supervisor(self._proof, connection):
            connection.close()
            return
        if self._supervisor is not None:
            self._lose_supervisor()
        self._supervisor = connection
        self._supervisor_pid = sockets.peer_of(connection)[0]
        self.is_wanted = False
        self._unanswered = self._alone_ticks = 0
        self._poll.register(connection.fileno(), select.POLLIN)
        self._greet()

    def _greet(self) -> None:
        self._has_offered = self._maker.executes
        self._say(b"hello %d%s forked" % (os.getpid(), b" exec" if self._has_offered else b""))

    def _say(self, words: bytes) -> None:
        if self._supervisor is not None:
            with contextlib.suppress(OSError):
                sockets.send(self._supervisor, words)

    def _obey(self) -> bool:
        assert self._supervisor is not None
        packet = sockets.receive(self._supervisor, size=4096)
        if packet is None:
            return True
        message, fds = packet
        if not message:
            self._lose_supervisor()
            if self._is_leaving() or is_retired(self._layout.supervisor_lock):
                return False
            self._start_supervisor()
        elif message == b"fork":
            self._make_shims(fds, execute=False)
        elif message == b"exec":
            self._make_shims(fds, execute=True)
        elif message == b"pong":
            self._unanswered = 0
        elif message == b"retire":
            if self._is_at_home():
                with contextlib.suppress(OSError):
                    os.unlink(self._layout.guardian_socket)
            return False
        return True

    def _is_at_home(self) -> bool:
        return is_in_place(self._lock, self._layout.guardian_lock)

    def _is_leaving(self) -> bool:
        return self._leaves_at < math.inf or not self._is_at_home()

    def _lose_supervisor(self) -> None:
        assert self._supervisor is not None
        self._poll.unregister(self._supervisor.fileno())
        self._supervisor.close()
        self._supervisor = None
        self._unanswered = 0

    def _start_supervisor(self) -> None:
        hit("guardian.respawn")
        now = time.monotonic()
        # A supervisor that dies as soon as it lives must not take a whole core: after some quick deaths the
        # ticks start the next one (three seconds later).
        self._quick_deaths = self._quick_deaths + 1 if now - self._spawned_at < _QUICK_DEATH_S else 0
        self._spawned_at = now
        self._alone_ticks = 0
        if self._quick_deaths > _MAX_QUICK_DEATHS:
            self._quick_deaths = 0
            log("the supervisor dies again and again: waiting before the next one")
            return
        try:
            self._spawned = spawn_with_lock("supervisor", self._layout.root, self._proof.fileno())
        except OSError as error:  # no room for a process, which may pass: the ticks try again
            log(f"no supervisor can be started now: {error.strerror}")
            return
        self._own.add(self._spawned)

    def _tick(self) -> bool:
        if time.monotonic() > self._leaves_at:
            return False
        if self._supervisor is None:
            return self._wait_alone()
        if self._unanswered >= _HUNG_TICKS:
            log(f"supervisor {self._supervisor_pid} does not answer: ending it")
            # The pid is the lock holder's and our connection to it is open: it cannot have been reused.
            os.kill(self._supervisor_pid, signal.SIGKILL)
            self._unanswered = 0
            return True
        self._unanswered += 1
        self._say(b"ping")
        if self._maker.executes and not self._has_offered:  # it was still being compiled
            self._greet()
        return True

    def _wait_alone(self) -> bool:
        """Start a supervisor when none comes; False when the last one left for good before it had met us.

        Also when we were told to end, or the state folder is gone: no supervisor could begin there.
        """
        if self._is_leaving():
            return False
        if self.is_wanted:
            with contextlib.suppress(
                OSError
            ):  # a read-only file system: as long as the mark stands nobody begins
                forget_retirement(self._layout.supervisor_lock)
        elif is_retired(self._layout.supervisor_lock):
            return False
        # Three ticks without one: it gave up before it connected, or its lock was still held when it came.
        self._alone_ticks += 1
        holder = holder_of(self._layout.supervisor_lock)
        if holder is None:
            if self._alone_ticks >= 3:
                self._start_supervisor()
        elif holder and self._alone_ticks >= (_UNMET_TICKS if self._proof.is_held() else _OLDER_TICKS):
            log(f"supervisor {holder} has not come to meet us: ending it")
            self._alone_ticks = 0
            with contextlib.suppress(ProcessLookupError):
                os.kill(holder, signal.SIGKILL)
        return True

    def _make_shims(self, links: list[int], *, execute: bool) -> None:
        assert self._supervisor is not None
        ours = (self._lock, self._listener.fileno(), self._supervisor.fileno())
        self._maker.make(links, ours, execute=execute)
        self._say(b"forked")  # from now on a shim's death closes its link

    def _reap(self) -> None:
        while True:
            try:
                child = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if child is None:
                return
            if child.si_pid in self._own:
                self._own.discard(child.si_pid)
                self._maker.ended(child)
            else:
                self._note(child)
            os.waitpid(child.si_pid, 0)
            was_killed = child.si_pid == self._spawned and child.si_code != os.CLD_EXITED
            is_unmet = was_killed and self._supervisor is None  # no link will tell of its end
            if is_unmet and not self._is_leaving() and not is_retired(self._layout.supervisor_lock):
                self._start_supervisor()

    def _note(self, child: os.waitid_result) -> None:
        """Leave a note of an adopted command's end, for the supervisor to find by pid and start time.

        A command leads its POSIX session; whatever does not is only some descendant of one.
        """
        fields = stat_fields(child.si_pid)
        if int(fields[3]) != child.si_pid:
            return
        kind = "exited" if child.si_code == os.CLD_EXITED else "signaled"
        record = ExitRecord(kind=kind, number=child.si_status, ended_ns=time.time_ns())
        path = f"{self._layout.notes}/{child.si_pid}.{int(fields[19])}"
        with contextlib.suppress(OSError):
            self._reserve.fit(lambda: write_whole(path, encode_exit(record)))


def _is_supervisor(proof: WatchedLock, connection: socket.socket) -> bool:
    """Tell whether the supervisor's record lock is the peer's: nothing else may ask for shims."""
    try:
        return proof.asks(connection)
    except OSError:  # out of descriptors; it comes again
        return False
