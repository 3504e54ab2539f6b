"""The guardian: the small clean process that makes shims, and starts the supervisor again when it ends.

It keeps no state. Where services are wanted it starts the server again, too, when that was killed
(`ServerStarter`, decision 195): by this very Python with the package that it belongs to, and in the keeper's
environment. Nothing in the state folder decides what is executed, since a command may write there. The
supervisor is told which process it is (`introduction`): a child of ours would count as living in a command's
tree otherwise.

`ShimMaker` executes the program (`native/shim`), which the guardian was given open. The guardian is a
subreaper: it adopts commands whose shim died, and leaves a note of how each of them ended. Guardian and
supervisor start each other again, each by a spawn (the supervisor is never forked). The guardian never
touches a command or its output; shims and the supervisor do.

Packets on guardian.sock, from the supervisor: `spawn` with one descriptor for each new shim (its link),
`pong`, `retire`, `unserved` when a server has hung up. To the supervisor: `hello PID`, `ping`, `server PID
TICKS` for a server that it has started, `spawned` once the links of a request are closed here, and before
that `useless REASON` if the program cannot be executed; also later, if a shim's end shows that.

Any other process that connects is hung up on. It says by that alone that the supervisor leaves it unanswered:
the supervisor is pinged immediately.
"""

import contextlib
import errno
import math
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable

from outlive.core.layout import Layout
from outlive.keeper.common.spawn import (
    LOCK_FLAG,
    keeper_environment,
    restore_soft_limit,
    spawn_keeper,
    take_handed_lock,
    take_handed_program,
)
from outlive.keeper.common.standard_files import log, use_standard_files
from outlive.kernel import sockets
from outlive.kernel.calls import become_subreaper, find_ended, set_dumpable, stopped_children
from outlive.kernel.disk import Reserve
from outlive.kernel.failpoints import hit
from outlive.kernel.files import write_whole
from outlive.kernel.folder_identity import claim_folder
from outlive.kernel.lock_proof import WatchedLock
from outlive.kernel.locks import forget_retirement, holder_of, is_in_place, is_retired, take_lock
from outlive.kernel.processes import start_ticks, stat_fields, wake
from outlive.kernel.state_files import is_server_wanted
from outlive.protocols.frames import ExitRecord, encode_exit

# Ticks of a second without a server until one is started: a client or an operator may be about to do it, and
# goes first.
_NO_SERVER_TICKS = 2
_FIRST_REST_S, _LONGEST_REST_S = 2.0, 60.0
_SETTLED_S = 60.0  # a server that served so long is started at once after its end
_TERMINAL = 4  # index in `stat_fields`: the controlling terminal, 0 without one
_UMASK = 0o022  # of a server that no person's program has started; ours is for the keeper's own files


class ServerStarter:
    """Looks in each of the guardian's ticks."""

    def __init__(self, layout: Layout, own: set[int]) -> None:
        self._layout = layout
        self._own = own
        self._pid = 0
        self.alone_ticks = 0  # without a server where one is wanted
        self._begun_at = self._next_at = 0.0
        self._rest_s = _FIRST_REST_S
        self.introduction = (
            b""  # the packet that names the newest one to a supervisor; empty: none was started
        )

    def tick(self, now: float) -> bool:
        """Start a server if one is due; return whether one was started."""
        if not is_server_wanted(self._layout) or self._is_served():
            self.alone_ticks = 0
            return False
        self.alone_ticks += 1
        if self.alone_ticks < _NO_SERVER_TICKS or now < self._next_at:
            return False
        if now - self._begun_at > _SETTLED_S:
            self._rest_s = _FIRST_REST_S
        self._begun_at = now
        self._next_at = now + self._rest_s
        self._rest_s = min(_LONGEST_REST_S, self._rest_s * 2)
        log("services are wanted and no server runs: starting one")
        try:
            self._start()
        except OSError as error:  # no room for a process, or for its log; this may pass
            log(f"no server can be started now: {error.strerror}")
            return False
        return True

    def wake(self) -> None:
        """Continue the server if a command has stopped it; one at a terminal was stopped by its user
        (Ctrl-Z).
        """
        holder = holder_of(self._layout.server_lock)
        if holder and (fields := stat_fields(holder)) and fields[_TERMINAL] == b"0":
            wake(holder)

    def _is_served(self) -> bool:
        """Return whether a server serves, or the one that was started here has not ended yet: it may still be
        about to.
        """
        is_starting = self._pid != 0 and self._pid in self._own
        return is_starting or holder_of(self._layout.server_lock) is not None

    def _start(self) -> None:
        root = self._layout.root
        # As `discovery.server` starts one for a client; `-P` keeps the working folder out of the module path.
        argv = [sys.executable, "-P", "-m", "outlive", "serve", "--self-started", "--state-dir", root]
        output = os.open(
            self._layout.server_log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600
        )
        umask = os.umask(_UMASK)
        try:
            pid = os.posix_spawn(
                argv[0],
                argv,
                keeper_environment(),
                file_actions=[(os.POSIX_SPAWN_DUP2, output, 1), (os.POSIX_SPAWN_DUP2, output, 2)],
                setsid=True,
                setsigmask=(),
                # Ignored here, and a server's commands would inherit that.
                setsigdef=(signal.SIGINT, signal.SIGHUP, signal.SIGPIPE),
            )
        finally:
            os.umask(umask)
            os.close(output)
        self._pid = pid
        self._own.add(pid)
        self.introduction = b"server %d %d" % (pid, start_ticks(pid))


SHIM_LINK = 3  # the descriptor that a shim's link to the supervisor has
_PASSED_ON = ("OUTLIVE_FAILPOINT", "OUTLIVE_DEGRADE")
# fork(2) fails with these when the limit of the user or of a control group is reached, or memory is
# exhausted.
_NO_ROOM = frozenset({errno.EAGAIN, errno.ENOMEM})


class ShimMaker:
    """Makes the guardian's shims; their pids go into `own`."""

    def __init__(
        self, state_dir: str, program: int, lock: int, own: set[int], *, log: Callable[[str], None]
    ) -> None:
        """Take the open program (`keeper.common.program`).

        Shims serve the supervisor: the process with the record lock `lock`.
        """
        self._program = program
        self._argv = ["outlive-shim", "shim", state_dir, LOCK_FLAG]
        self._env = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        self._lock = lock
        self._own = own
        self._spawned: set[int] = set()
        self._log = log
        self._lacks_room = False
        self._useless = ""  # why the program is, as it was logged

    def make(self, links: list[int]) -> str:
        """Make a shim for each link, and close the links here.

        Return why the program is of no use, "" if it is.

        Without room for processes links end, and the supervisor asks again.
        """
        hit("guardian.fork")
        trouble = ""
        try:
            for link in links:
                self._spawn(link)
            self._lacks_room = False
        except OSError as error:
            if error.errno in _NO_ROOM:
                if not self._lacks_room:
                    self._log(f"no more shims for now: {error.strerror}")
                self._lacks_room = True
            else:
                trouble = self._trouble(f"it cannot be executed: {error.strerror}")
        for link in links:
            os.close(link)
        return trouble

    def _spawn(self, link: int) -> None:
        pid = os.posix_spawn(
            f"/proc/self/fd/{self._program}",
            self._argv,
            self._env,
            # The lock is the shim's standard input: a command's own input replaces it, so no command gets the
            # lock's file.
            file_actions=[(os.POSIX_SPAWN_DUP2, self._lock, 0), (os.POSIX_SPAWN_DUP2, link, SHIM_LINK)],
            setsigmask=(),
        )
        self._spawned.add(pid)
        self._own.add(pid)

    def ended(self, child: os.waitid_result) -> str:
        """Record the end of one of our children.

        Return why the program is of no use, if this end shows that, else "".
        """
        if child.si_pid not in self._spawned:
            return ""
        self._spawned.discard(child.si_pid)
        # A shim ends with 0 when it has nothing to hold, and ignores every signal that can be ignored. Any
        # other end, except by SIGKILL (the out-of-memory killer, a user), means that the program does not
        # work on this machine.
        has_exited = child.si_code == os.CLD_EXITED
        if child.si_status == (0 if has_exited else signal.SIGKILL):
            return ""
        return self._trouble(f"it ended with {'exit code' if has_exited else 'signal'} {child.si_status}")

    def _trouble(self, reason: str) -> str:
        # Once: a shim that was begun shows nothing yet, since the program is of no use only by its end.
        if reason != self._useless:
            self._log(f"the program of shims is of no use here: {reason}")
        self._useless = reason
        return reason


_REST_S = 10.0  # between two ticks while all is well
_TICK_S = 1.0  # while a ping is unanswered, or something is missing
# Unanswered pings until the supervisor counts as hung: with the second after which a client says that it
# waits, less than five. Ticks, not seconds: a suspended machine must not end it.
_HUNG_TICKS = int(os.environ.get("OUTLIVE_KEEPER_HUNG_TICKS", "3"))
# Ticks until a supervisor that never connected counts as hung; taking over takes it a second.
_UNMET_TICKS = 10 * _HUNG_TICKS
_ALONE_TICKS = 3  # until a supervisor follows one that ended before it connected
_MOST_RESTS = 5  # ends in a row by which the ticks are doubled, up to a minute and a half
_QUICK_DEATH_S = 0.3
_MAX_QUICK_DEATHS = 20
# After a SIGTERM the supervisor waits for its commands; the guardian watches it a little longer than that.
_SHUTDOWN_S = float(os.environ.get("OUTLIVE_KEEPER_SHUTDOWN_S", "60")) + 5


def main(state_dir: str, *, is_first: bool) -> None:
    """Run a guardian until it is retired; returns at once when another one serves this state folder."""
    set_dumpable(is_dumpable=False)  # closed to other processes
    layout = Layout(state_dir)
    if is_first and os.fork():
        # The launcher waits for this process; its child is the guardian, in a POSIX session of its own.
        os._exit(0)
    if is_first:
        os.setsid()
    handed, program = take_handed_lock(), take_handed_program()
    use_standard_files(layout)
    for name in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(name, _ignore_signal)
    for name in (signal.SIGINT, signal.SIGHUP):
        signal.signal(name, signal.SIG_IGN)
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
    # The supervisor starts beside this process: it needs shims only for the first start.
    supervisor = 0
    if holder_of(layout.supervisor_lock) is None:
        if is_first:
            forget_retirement(layout.supervisor_lock)
        elif is_retired(layout.supervisor_lock):
            return  # the supervisor that spawned this guardian has left for good meanwhile
        supervisor = spawn_keeper("supervisor", state_dir, program=program, lock=proof.fileno())
    wake, alarm = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(alarm, warn_on_full_buffer=False)
    guardian = Guardian(layout, lock, proof, program=program, wake=wake, supervisor=supervisor)
    guardian.is_wanted = is_first and not supervisor
    guardian.run()


def _ignore_signal(_number: int, _frame: object) -> None:
    """Handle a signal by doing nothing: the wakeup descriptor makes the loop look."""


class Guardian:
    """The guardian's loop: starts shims on request, reaps, pings the supervisor and starts it again."""

    def __init__(
        self, layout: Layout, lock: int, proof: WatchedLock, *, program: int, wake: int, supervisor: int
    ) -> None:
        """Listen; the caller holds the lock and has spawned `supervisor` (0: one was running).

        `proof` is the supervisor's record lock; `program` the open program of shims; `wake` is readable after
        a signal.
        """
        self._layout = layout
        self._lock = lock
        self._reserve = Reserve(layout.root)
        self._listener = self._reserve.fit(lambda: sockets.listen_unix(layout.guardian_socket))
        self._proof = proof
        self._supervisor: socket.socket | None = None
        self._supervisor_pid = 0
        self._unanswered = 0
        self._alone_ticks = 0
        self._spawned_at = 0.0
        self._quick_deaths = 0
        self._next_tick = time.monotonic() + _TICK_S
        self._is_due = False  # a look was asked for while a ping was unanswered
        self._failures = 0  # supervisors in a row that could not start
        # True when a client launched the guardian while a supervisor was still there, perhaps about to leave
        # for good: a supervisor has to follow all the same.
        self.is_wanted = False
        self._spawned = supervisor  # pid of the newest one
        # Pids of shims and supervisors: they are no commands, so their ends leave no note.
        self._own = {supervisor}
        self._leaves_at = math.inf  # after a SIGTERM: leave at this time, or when the supervisor has ended
        self._program = program
        self._maker = ShimMaker(layout.root, program, proof.fileno(), self._own, log=log)
        self._servers = ServerStarter(layout, self._own)
        self._wake = wake
        self._poll = select.poll()

    def run(self) -> None:
        """Serve until retired."""
        self._poll.register(self._wake, select.POLLIN)
        self._poll.register(self._listener.fileno(), select.POLLIN)
        while True:
            wait_ms = max(0, math.ceil((self._next_tick - time.monotonic()) * 1000))
            for fd, _ in self._poll.poll(wait_ms):
                if fd == self._wake:
                    if signal.SIGTERM in os.read(self._wake, 512):
                        self._leaves_at = time.monotonic() + _SHUTDOWN_S
                    self._reap()
                elif fd == self._listener.fileno():
                    self._meet()
                elif self._supervisor is not None and fd == self._supervisor.fileno() and not self._obey():
                    return
            if time.monotonic() >= self._next_tick:
                self._next_tick = time.monotonic() + _TICK_S
                if not self._tick():
                    return

    def _meet(self) -> None:
        connection = sockets.accept(self._listener)
        if connection is None:
            return
        if not _is_supervisor(self._proof, connection):
            connection.close()
            self._look_now()
            return
        # A second supervisor that holds the lock proves that the first has ended, though its link is still
        # open here.
        if self._supervisor is not None:
            self._lose_supervisor()
        self._supervisor = connection
        self._supervisor_pid = sockets.peer_of(connection)[0]
        self.is_wanted = False
        self._unanswered = self._alone_ticks = self._failures = 0
        self._poll.register(connection.fileno(), select.POLLIN)
        self._greet()

    def _look_now(self) -> None:
        """Have the next tick at once, or a second after the answer to a ping that is unanswered: too many
        callers must not hurry those.
        """
        self._is_due = True
        if self._supervisor is not None and not self._unanswered:
            self._next_tick = 0.0

    def _greet(self) -> None:
        # Before the hello, behind which the supervisor asks for shims.
        if self._servers.introduction:
            self._say(self._servers.introduction)
        self._say(b"hello %d" % os.getpid())

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
            # The link ended, so the supervisor did.
            self._lose_supervisor()
            if self._is_leaving() or is_retired(self._layout.supervisor_lock):
                return False
            self._start_supervisor()
        elif message == b"spawn":
            self._report(self._maker.make(fds))
            self._say(b"spawned")  # from now on no process but the shim holds its link: its death closes it
        elif message == b"unserved":
            self._look_now()
        elif message == b"pong":
            self._unanswered = 0
            if not self._servers.alone_ticks and not self._is_due:
                self._next_tick = time.monotonic() + _REST_S
            self._is_due = False
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
        self._next_tick = time.monotonic() + _TICK_S

    def _start_supervisor(self) -> None:
        hit("guardian.respawn")
        now = time.monotonic()
        # A supervisor that dies at once must not keep a whole core busy: after some quick deaths the ticks
        # start the next one (three seconds later).
        self._quick_deaths = self._quick_deaths + 1 if now - self._spawned_at < _QUICK_DEATH_S else 0
        self._spawned_at = now
        self._alone_ticks = 0
        if self._quick_deaths > _MAX_QUICK_DEATHS:
            self._quick_deaths = 0
            log("the supervisor dies again and again: waiting before the next one")
            return
        try:
            self._spawned = spawn_keeper(
                "supervisor", self._layout.root, program=self._program, lock=self._proof.fileno()
            )
        except OSError as error:  # no room for a process; this may pass, and the ticks try again
            log(f"no supervisor can be started now: {error.strerror}")
            return
        self._own.add(self._spawned)

    def _tick(self) -> bool:
        if time.monotonic() > self._leaves_at:
            return False
        self._servers.wake()
        if not self._is_leaving() and self._servers.tick(time.monotonic()):
            self._say(self._servers.introduction)
        if self._supervisor is None:
            return self._wait_alone()
        if self._unanswered >= _HUNG_TICKS and not _waits_for_disk(self._supervisor_pid):
            log(f"supervisor {self._supervisor_pid} does not answer: ending it")
            # The pid is the lock holder's, and its connection is still open: the pid cannot have been reused.
            os.kill(self._supervisor_pid, signal.SIGKILL)
            self._unanswered = 0
            return True
        if self._unanswered:
            wake(self._supervisor_pid)
        self._unanswered += 1
        self._say(b"ping")
        return True

    def _wait_alone(self) -> bool:
        """Start a supervisor when none connects; False when the last one left for good before it had
        connected.

        Also False when this process was asked to end, or the state folder is gone: no supervisor could begin
        there.
        """
        if self._is_leaving():
            return False
        if self.is_wanted:
            # On a read-only file system the mark stays, and as long as it does no supervisor begins.
            with contextlib.suppress(OSError):
                forget_retirement(self._layout.supervisor_lock)
        elif is_retired(self._layout.supervisor_lock):
            return False
        # Some ticks without one: it ended before it connected, or found its lock still held by its
        # predecessor.
        self._alone_ticks += 1
        holder = holder_of(self._layout.supervisor_lock)
        if holder is None:
            if self._alone_ticks >= self._rest_ticks():
                self._start_supervisor()
        elif holder and self._alone_ticks < _UNMET_TICKS:
            wake(holder)
        elif holder:
            log(f"supervisor {holder} has not come to meet us: ending it")
            self._alone_ticks = 0
            with contextlib.suppress(ProcessLookupError):
                os.kill(holder, signal.SIGKILL)
        return True

    def _rest_ticks(self) -> int:
        """Return how many ticks without a supervisor pass before the next one."""
        return _ALONE_TICKS << min(max(0, self._failures - 1), _MOST_RESTS)

    def _report(self, trouble: str) -> None:
        if trouble:
            self._say(b"useless " + trouble.encode())

    def _reap(self) -> None:
        for pid in stopped_children():
            if pid in self._own:  # not a command that we have adopted: that one may be paused
                wake(pid)
        while True:
            try:
                child = find_ended()
            except ChildProcessError:
                return
            if child is None:
                return
            if child.si_pid in self._own:
                self._own.discard(child.si_pid)
                self._look_now()  # it may be the server
                self._report(self._maker.ended(child))
            else:
                self._note(child)
            os.waitpid(child.si_pid, 0)
            was_killed = child.si_pid == self._spawned and child.si_code != os.CLD_EXITED
            # It has no link whose end would show its death.
            is_unmet = was_killed and self._supervisor is None
            if child.si_pid == self._spawned and not was_killed and child.si_status:
                self._failures += 1
                log(f"no supervisor can start, {self._failures} in a row: the next in {self._rest_ticks()} s")
            if is_unmet and not self._is_leaving() and not is_retired(self._layout.supervisor_lock):
                self._start_supervisor()

    def _note(self, child: os.waitid_result) -> None:
        """Leave a note of an adopted command's end; the supervisor finds it by pid and start time.

        A command leads its POSIX session; a process that does not is only a descendant of a command.
        """
        fields = stat_fields(child.si_pid)
        if int(fields[3]) != child.si_pid:
            return
        kind = "exited" if child.si_code == os.CLD_EXITED else "signaled"
        record = ExitRecord(kind=kind, number=child.si_status, ended_ns=time.time_ns())
        path = f"{self._layout.notes}/{child.si_pid}.{int(fields[19])}"
        with contextlib.suppress(OSError):
            self._reserve.fit(lambda: write_whole(path, encode_exit(record)))


def _waits_for_disk(pid: int) -> bool:
    """Return whether a process is in an uninterruptible wait: killed, it would only not do what it was asked
    for, once the disk answers.
    """
    try:
        return stat_fields(pid)[0] == b"D"
    except OSError:
        return False


def _is_supervisor(proof: WatchedLock, connection: socket.socket) -> bool:
    """Return whether the peer holds the supervisor's record lock: no other process may ask for shims."""
    try:
        return proof.is_held_by(connection)
    except OSError:  # out of descriptors; the supervisor connects again
        return False
