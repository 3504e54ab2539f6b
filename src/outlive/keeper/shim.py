"""The small process beside each command: parent and subreaper of its tree, holder of its descriptors.

It is in no data path. It spawns the command, keeps duplicates of the keeper's ends of the pipes, writes the exit
record, reaps the tree, and hands everything to whichever supervisor connects to the folder's socket.

The protocol is frozen (old shims meet new supervisors). Packets are words separated by spaces, paths last:

  to the shim     spawn LETTERS FOLDER   descriptors in the order of the letters; see below
                  hold LETTERS FOLDER    only hold them (the command's own shim died)
                  close i                close the write end of stdin
                  release                let go of everything and wait for the next command
                  quit
  from the shim   hello PID              once, after the fork
                  spawned PID TICKS NS   | failed ERRNO PLACE
                  exited KIND NUMBER EMPTY NS
                  empty                  no descendant is left
                  state own|hold LETTERS PID TICKS KIND NUMBER EMPTY NS   to a new supervisor, with descriptors
                  idle                   after release

Letters: L listener; o e read ends of stdout and stderr; i write end of stdin; m pty master; r w relay pipe;
p pidfd; in upper case the command's own ends: I O E stdin, stdout, stderr; T the terminal's slave side.
"""

import contextlib
import errno
import os
import select
import signal
import socket
import time

from outlive.keeper import sockets
from outlive.keeper.failpoints import hit
from outlive.keeper.kernel import BOOT_ID, become_subreaper, boottime_ns, start_ticks
from outlive.protocols.frames import (
    ExitRecord,
    PidRecord,
    decode_exec,
    encode_exit,
    encode_pid,
    spec_exec_block,
)

__all__ = ["Shim", "ignore_child_signal"]

_POLLIN = select.POLLIN
_COMMAND_ENDS = "IOET"
# What Python ignores must not be inherited by commands (signal(7): ignored dispositions survive exec).
_DEFAULT_SIGNALS = tuple(
    number for number in range(1, 65) if number not in {9, 19, 32, 33} and number in signal.valid_signals()
)


def ignore_child_signal(_number: int, _frame: object) -> None:
    """Handle SIGCHLD by doing nothing: the wakeup descriptor tells the loop."""


class Shim:
    """One shim's state; `run` returns when it is told to quit or has nothing to hold and no supervisor."""

    __slots__ = (
        "_alarm",
        "_empty",
        "_ended",
        "_fds",
        "_folder",
        "_link",
        "_listener",
        "_mode",
        "_pid",
        "_poll",
        "_ticks",
        "_wake",
    )

    def __init__(self, link: socket.socket) -> None:
        """Take the link to the supervisor; the caller has forked already and occupies descriptors 0 to 2."""
        self._link: socket.socket | None = link
        self._poll = select.poll()
        self._wake, self._alarm = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._forget()

    def _forget(self) -> None:
        self._mode = ""
        self._folder = ""
        self._fds: dict[str, int] = {}
        self._listener: socket.socket | None = None
        self._pid = 0
        self._ticks = 0
        self._ended: ExitRecord | None = None
        self._empty = False

    def run(self) -> None:
        """Serve until there is nothing left to do."""
        become_subreaper()
        signal.set_wakeup_fd(self._alarm, warn_on_full_buffer=False)
        poll = self._poll
        poll.register(self._wake, _POLLIN)
        assert self._link is not None
        poll.register(self._link.fileno(), _POLLIN)
        self._say(b"hello %d" % os.getpid())
        while True:
            for fd, _ in poll.poll():
                if fd == self._wake:
                    os.read(self._wake, 512)
                    self._reap()
                elif self._listener is not None and fd == self._listener.fileno():
                    self._meet_supervisor()
                elif self._is_link(fd) and not self._obey():
                    return
            if self._is_alone():
                return

    def _is_link(self, fd: int) -> bool:
        return self._link is not None and fd == self._link.fileno()

    def _is_alone(self) -> bool:
        return self._link is None and not self._mode

    def _say(self, words: bytes, fds: tuple[int, ...] = ()) -> None:
        if self._link is None:
            return
        # A dead or deaf supervisor is no reason to stop: its successor asks for the state.
        with contextlib.suppress(OSError):
            sockets.send(self._link, words, fds)

    # -- the supervisor's words

    def _obey(self) -> bool:
        assert self._link is not None
        packet = sockets.receive(self._link, size=8192)
        if packet is None:
            return True
        message, fds = packet
        verb, _, rest = message.partition(b" ")
        if not message:
            self._drop_link()
        elif verb in {b"spawn", b"hold"}:
            letters, _, folder = rest.partition(b" ")
            self._take(letters.decode(), folder, fds, spawns=verb == b"spawn")
        elif verb == b"close":
            self._close(rest.decode())
        elif verb == b"release":
            self._release()
        elif verb == b"quit":
            return False
        return True

    def _drop_link(self) -> None:
        assert self._link is not None
        self._poll.unregister(self._link.fileno())
        self._link.close()
        self._link = None

    def _take(self, letters: str, folder: bytes, fds: list[int], *, spawns: bool) -> None:
        self._folder = os.fsdecode(folder)
        self._fds = dict(zip(letters, fds, strict=False))
        self._listener = socket.socket(fileno=self._fds.pop("L"))
        self._listener.settimeout(0.0)
        self._poll.register(self._listener.fileno(), _POLLIN)
        self._mode = "own" if spawns else "hold"
        if spawns:
            hit("shim.received")
            self._spawn()
        else:
            self._empty = True

    def _close(self, letters: str) -> None:
        for letter in letters:
            fd = self._fds.pop(letter, -1)
            if fd >= 0:
                os.close(fd)

    def _release(self) -> None:
        if self._listener is not None:
            self._poll.unregister(self._listener.fileno())
            self._listener.close()
        self._close("".join(self._fds))
        self._forget()
        self._say(b"idle")

    def _meet_supervisor(self) -> None:
        assert self._listener is not None
        connection = sockets.accept(self._listener)
        if connection is None:
            return
        if sockets.peer_of(connection)[1] != os.getuid():
            connection.close()
            return
        if self._link is not None:
            self._drop_link()
        self._link = connection
        self._poll.register(connection.fileno(), _POLLIN)
        ended = self._ended
        letters = "".join(self._fds)
        words = "state {} {} {} {} {} {} {} {}".format(
            self._mode,
            letters or "-",
            self._pid,
            self._ticks,
            ended.kind if ended else "-",
            ended.number if ended else 0,
            int(self._empty),
            ended.ended_ns if ended else 0,
        )
        self._say(words.encode(), tuple(self._fds.values()))

    # -- the command

    def _spawn(self) -> None:
        place = "spec"
        try:
            block = spec_exec_block(_read(f"{self._folder}/spec"))
            program, cwd, argv, env = decode_exec(block)
            place = "pid"
            with contextlib.suppress(
                FileNotFoundError
            ):  # prepared; a start after a supervisor's death may lack it
                os.rename(f"{self._folder}/pid.new", f"{self._folder}/pid")
            record = os.open(
                f"{self._folder}/pid", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600
            )
            try:
                os.write(record, b"starting\n")
                place = "cwd"
                os.chdir(cwd)
                place = "program"
                hit("shim.starting")
                self._pid = os.posix_spawn(
                    program,
                    argv,
                    env,
                    file_actions=self._file_actions(),
                    setsid=True,
                    setsigmask=(),
                    setsigdef=_DEFAULT_SIGNALS,
                )
                hit("shim.spawned")
                place = "record"
                self._ticks = start_ticks(self._pid)
                now = time.time_ns()
                os.write(
                    record,
                    encode_pid(
                        PidRecord(
                            pid=self._pid,
                            start_ticks=self._ticks,
                            started_ns=now,
                            boottime_ns=boottime_ns(),
                            shim_pid=os.getpid(),
                            boot_id=BOOT_ID,
                        )
                    ),
                )
            finally:
                os.close(record)
        except OSError as error:
            if not self._pid:
                self._failed(error.errno or errno.EIO, place)
                return
            now = time.time_ns()  # the record could not be written (full disk); the command runs all the same
        finally:
            self._close(_COMMAND_ENDS)
            os.chdir("/")
        hit("shim.recorded")
        self._say(b"spawned %d %d %d" % (self._pid, self._ticks, now))

    def _file_actions(self) -> list[tuple[int, ...] | tuple[int, int, str, int, int]]:
        fds = self._fds
        if "T" in fds:
            # The POSIX session leader's first open of a terminal makes it the controlling one (tty_ioctl(4)).
            terminal = os.ttyname(fds["T"])
            return [
                (os.POSIX_SPAWN_OPEN, 0, terminal, os.O_RDWR, 0),
                (os.POSIX_SPAWN_DUP2, 0, 1),
                (os.POSIX_SPAWN_DUP2, 0, 2),
            ]
        return [
            (os.POSIX_SPAWN_DUP2, fds["I"], 0),
            (os.POSIX_SPAWN_DUP2, fds["O"], 1),
            (os.POSIX_SPAWN_DUP2, fds.get("E", fds["O"]), 2),
        ]

    def _failed(self, number: int, place: str) -> None:
        self._ended = ExitRecord(kind="failed", number=number, ended_ns=time.time_ns(), note=place)
        self._empty = True
        with contextlib.suppress(OSError):
            _replace(f"{self._folder}/exit", encode_exit(self._ended))
        self._say(b"failed %d %s" % (number, place.encode()))

    def _reap(self) -> None:
        """Record the command's end before it is reaped: the zombie is the durable copy until then."""
        while True:
            try:
                child = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                self._became_empty()
                return
            if child is None:
                return
            if child.si_pid == self._pid and self._ended is None:
                kind = "exited" if child.si_code == os.CLD_EXITED else "signaled"
                if not self._record(ExitRecord(kind=kind, number=child.si_status, ended_ns=time.time_ns())):
                    return
            else:
                os.waitpid(child.si_pid, 0)

    def _record(self, ended: ExitRecord) -> bool:
        hit("shim.exiting")
        try:
            _replace(f"{self._folder}/exit", encode_exit(ended))
        except OSError:
            # A full disk: keep the zombie, come back. SIGALRM is not used, a short sleep is harmless here.
            time.sleep(0.05)
            os.write(self._alarm, b"\0")
            return False
        hit("shim.exit_written")
        self._ended = ended
        os.waitpid(self._pid, 0)
        hit("shim.reaped")
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            self._empty = True
        words = f"exited {ended.kind} {ended.number} {int(self._empty)} {ended.ended_ns}"
        self._say(words.encode())
        return True

    def _became_empty(self) -> None:
        if self._ended is not None and not self._empty:
            self._empty = True
            self._say(b"empty")


def _read(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        chunks = []
        while chunk := os.read(fd, 1 << 20):
            chunks.append(chunk)
    finally:
        os.close(fd)
    return b"".join(chunks)


def _replace(path: str, content: bytes) -> None:
    fd = os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, content)
    finally:
        os.close(fd)
    os.rename(path + ".new", path)
