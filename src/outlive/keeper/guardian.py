"""The guardian: the clean image that shims are forked from, and the supervisor's watcher.

Stateless. A subreaper: it adopts commands whose shim died and leaves a note of how each of them ended.
Guardian and supervisor start each other again (spawn, never fork of the supervisor).

Packets on guardian.sock: from the supervisor `hello PID`, `fork` + one descriptor for each new shim (its link), `pong`,
`retire`; to the supervisor `hello PID forked`, `ping`, and `forked` once the links of a `fork` are closed here.
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
from outlive.keeper import failpoints, kernel, shim, shim_files, sockets
from outlive.keeper.failpoints import hit
from outlive.keeper.image import Recorder, fill_heap_holes
from outlive.keeper.kernel import become_subreaper, die_with, stat_fields
from outlive.keeper.locks import forget_retirement, holder_of, is_in_place, is_retired, take_lock
from outlive.keeper.spawn import keeper_argv, keeper_environment, restore_soft_limit, spawn_detached
from outlive.protocols import frames
from outlive.protocols.frames import SPEC_VERSION, ExitRecord, encode_exec, encode_exit

__all__ = ["Guardian", "log", "main", "use_standard_files"]

_SHIM_PARTS = (
    failpoints,
    frames,
    kernel,
    shim_files,
    sockets,
    shim,
    shim.Holdings,
    shim.Shim,
    frames.ExitRecord,
)
# CPython 3.11 specializes code after 8 runs, and that is a write to its page.
_WARM_UP_COMMANDS = 16
_TICK_MS = 1000
# Unanswered pings before the supervisor counts as hung. Ticks, not seconds: a suspended machine kills nobody.
_HUNG_TICKS = int(os.environ.get("OUTLIVE_KEEPER_HUNG_TICKS", "5"))
_QUICK_DEATH_S = 0.3
_MAX_QUICK_DEATHS = 20
# Told by SIGTERM to end: the supervisor, which waits for its commands, is watched a little longer than it waits.
_SHUTDOWN_S = float(os.environ.get("OUTLIVE_KEEPER_SHUTDOWN_S", "60")) + 5


def log(text: str) -> None:
    """Write one line to the keeper's log (descriptor 2)."""
    line = f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} [{os.getpid()}] {text}\n"
    with contextlib.suppress(OSError):
        os.write(2, line.encode())


def use_standard_files(layout: Layout) -> None:
    """Point descriptors 0 and 1 to /dev/null and 2 to the keeper's log, in any working folder but a user's."""
    os.chdir("/")
    os.umask(0o077)
    null = os.open("/dev/null", os.O_RDWR)
    target = os.open(layout.keeper_log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for number, source in ((0, null), (1, null), (2, target)):
        os.dup2(source, number)
    for fd in {null, target} - {0, 1, 2}:
        os.close(fd)


def main(state_dir: str, *, is_first: bool) -> None:
    """Run a guardian until it is retired; returns at once when another one serves this state folder."""
    layout = Layout(state_dir)
    if is_first and os.fork():
        os._exit(
            0
        )  # the launcher waits for this process; the guardian is its child in a POSIX session of its own
    if is_first:
        os.setsid()
    use_standard_files(layout)
    signal.signal(signal.SIGCHLD, shim.ignore_child_signal)
    # Shims inherit this: one that died of a shutdown's TERM could not write how its command ended (decision 62).
    signal.signal(signal.SIGTERM, shim.ignore_child_signal)
    for name in (signal.SIGINT, signal.SIGHUP):
        signal.signal(name, signal.SIG_IGN)
    gc.disable()
    restore_soft_limit()
    lock = take_lock(layout.guardian_lock)
    if lock is None:
        return
    become_subreaper()
    # The supervisor comes up while the image is being prepared: it needs shims only for the first start.
    supervisor = 0
    if holder_of(layout.supervisor_lock) is None:
        if is_first:
            forget_retirement(layout.supervisor_lock)
        elif is_retired(layout.supervisor_lock):
            return  # the supervisor that spawned us has left for good meanwhile
        supervisor = spawn_detached(keeper_argv("supervisor", state_dir), keeper_environment("supervisor"))
    wake, alarm = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(alarm, warn_on_full_buffer=False)
    for left in os.listdir(state_dir):
        if left.startswith("warm-up."):  # of one that was killed
            _remove_folder(f"{state_dir}/{left}")
    # Unarmed, or the warm-up's own shim would take a failpoint's token.
    armed, failpoints.armed = failpoints.armed, ""
    own_shim = _warm_up(f"{state_dir}/warm-up.{os.getpid()}", wake=wake, alarm=alarm)
    failpoints.armed = armed
    guardian = Guardian(layout, lock, own_shim, wake=wake, supervisor=supervisor)
    guardian.is_wanted = is_first and not supervisor
    gc.collect()  # empties the interpreter's free lists too, whose next objects lie anywhere
    fill_heap_holes()
    gc.freeze()
    guardian.run()


class Guardian:
    """The guardian's loop: forks shims on request, reaps, pings the supervisor and starts it again."""

    def __init__(self, layout: Layout, lock: int, own_shim: shim.Shim, *, wake: int, supervisor: int) -> None:
        """Listen; the caller holds the lock and has spawned `supervisor` (0: there was one).

        Each fork becomes `own_shim`; `wake` tells of signals.
        """
        self._layout = layout
        self._lock = lock
        self._listener = sockets.listen_unix(layout.guardian_socket)
        self._supervisor: socket.socket | None = None
        self._supervisor_pid = 0
        self._unanswered = 0
        self._alone_ticks = 0
        self._spawned_at = 0.0
        self._quick_deaths = 0
        # Launched by a client while a supervisor was still there, maybe to leave: one is wanted all the same.
        self.is_wanted = False
        self._own = {supervisor}  # shims and supervisors: no commands, so their ends leave no note
        self._leaves_at = math.inf  # told to end: when the supervisor has ended, or then
        self._own_shim = own_shim
        self._wake = wake
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
        pid, uid = sockets.peer_of(connection)
        # Only the process that holds the supervisor's lock may ask for forks.
        if uid != os.getuid() or pid != holder_of(self._layout.supervisor_lock):
            connection.close()
            return
        if self._supervisor is not None:
            self._lose_supervisor()
        self._supervisor = connection
        self._supervisor_pid = pid
        self.is_wanted = False
        self._unanswered = 0
        self._poll.register(connection.fileno(), select.POLLIN)
        self._say(b"hello %d forked" % os.getpid())

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
            self._fork(fds)
        elif message == b"pong":
            self._unanswered = 0
        elif message == b"retire":
            if self._is_at_home():
                with contextlib.suppress(FileNotFoundError):
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
        self._own.add(
            spawn_detached(keeper_argv("supervisor", self._layout.root), keeper_environment("supervisor"))
        )

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
        return True

    def _wait_alone(self) -> bool:
        """Start a supervisor when none comes; False when the last one left for good before it had met us.

        Also when we were told to end, or the state folder is gone: no supervisor could begin there.
        """
        if self._is_leaving():
            return False
        if self.is_wanted:
            forget_retirement(self._layout.supervisor_lock)
        elif is_retired(self._layout.supervisor_lock):
            return False
        # Three ticks without one: it died before it connected, or its lock was still held when it came.
        self._alone_ticks += 1
        if self._alone_ticks >= 3 and holder_of(self._layout.supervisor_lock) is None:
            self._start_supervisor()
        return True

    def _fork(self, links: list[int]) -> None:
        """Fork one shim for each link.

        All in one go: what the guardian itself writes between two forks is a copy of its own for each child.
        """
        hit("guardian.fork")
        for link in links:
            os.set_blocking(link, False)
        for link in links:
            pid = os.fork()
            if not pid:
                self._become_shim(link, links)
            self._own.add(pid)
        for link in links:
            os.close(link)
        self._say(b"forked")  # from now on a shim's death closes its link

    def _become_shim(self, link: int, links: list[int]) -> None:
        try:
            assert self._supervisor is not None
            # A sibling's link that stayed open here would hide the sibling's death from the supervisor.
            ours = {self._lock, self._listener.fileno(), self._supervisor.fileno()}
            self._own_shim.run(link, ours.union(links) - {link})
        except BaseException as error:  # noqa: BLE001 - a forked child must never return into the guardian's loop
            log(f"shim failed: {error!r}")
        finally:
            os._exit(0)

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
            else:
                self._note(child)
            os.waitpid(child.si_pid, 0)

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
            fd = os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            os.write(fd, encode_exit(record))
            os.close(fd)
            os.rename(path + ".new", path)


def _warm_up(folder: str, *, wake: int, alarm: int) -> shim.Shim:
    """Run commands through a shim in this very process, so that forked shims share what running touches.

    A forked child plays the supervisor. Returns the shim.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    os.mkdir(folder, 0o700)
    guardian = os.getpid()
    driver = os.fork()
    if not driver:
        try:
            die_with(guardian)  # else it would go on holding the guardian's lock
            ours.close()
            _drive(theirs, folder)
        finally:
            os._exit(0)
    theirs.close()
    ours.setblocking(False)  # noqa: FBT003 - positional only
    link = socket.SocketType(fileno=ours.detach())
    warm = shim.Shim(link, wake=wake, alarm=alarm)
    recorder = Recorder()
    try:
        for turn in range(_WARM_UP_COMMANDS):
            if turn == 1:
                recorder.gather(_SHIM_PARTS)
            warm.run(os.dup(link.fileno()))
    except (OSError, AssertionError) as error:
        log(f"warm-up failed: {error!r}")
    _remove_folder(folder)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(driver, 0)
    return warm


def _remove_folder(folder: str) -> None:
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            os.unlink(f"{folder}/{name}")
        os.rmdir(folder)


def _drive(link: socket.socket, folder: str) -> None:
    """Play the supervisor, and in the middle of each command its successor."""
    patience_s = 60  # dying between two packets of a command would leave the shim holding it
    link.settimeout(patience_s)
    program = next((path for path in ("/bin/true", "/usr/bin/true") if os.path.exists(path)), "/nonexistent")
    with open(f"{folder}/spec", "wb") as file:
        file.write(SPEC_VERSION + b" 2\n{}" + encode_exec(program, "/", ("true",), {"A": "b"}))
    listener = sockets.listen_unix(f"{folder}/sock")
    null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    for _ in range(_WARM_UP_COMMANDS):
        for name in ("pid", "exit"):
            os.close(os.open(f"{folder}/{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600))
        link.recv(100)
        sockets.send(link, b"spawn LoeIOE " + folder.encode(), (listener.fileno(), *[null] * 5))
        link.recv(100)
        link = sockets.connect_unix(f"{folder}/sock")
        link.settimeout(patience_s)
        if link.recv(100).split()[5] == b"-":  # the state; it had not ended yet
            link.recv(100)
        link.send(b"release")
        link.send(b"quit")
