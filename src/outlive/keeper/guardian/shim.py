"""The shim: the small process beside each command, parent and subreaper of its tree, holder of its descriptors.

No data goes through it. It spawns the command, keeps duplicates of the keeper's ends of the pipes, records the command's
start and end in `pid`, reaps the tree, and hands everything to the supervisor that connects to the folder's socket: to the
process that holds the supervisor's lock, and to no other. It never decides anything about the command; the supervisor does.

The protocol is frozen, because old shims meet new supervisors. A packet is words separated by spaces, paths last:

  to the shim     spawn LETTERS FOLDER   descriptors in the order of the letters; see below
                  hold LETTERS FOLDER    only hold them (the command's own shim died)
                  keep LETTERS           hold these, too, beside what is held
                  close LETTERS          close these: i the write end of stdin; o, e when no reader is left
                  release [patient]      let go of everything; `spawn` or `hold` may follow at once; patient: until the next
                                         release it wakes without interrupting other processes (only the program can)
                  quit
  from the shim   hello PID              once, after the fork
                  spawned PID TICKS NS   | failed ERRNO PLACE
                  kept LETTERS           after `keep`; a shim of an earlier version ignores `keep` and sends nothing
                  exited KIND NUMBER EMPTY NS
                  empty                  no descendant is left
                  state own|hold LETTERS PID TICKS KIND NUMBER EMPTY NS   to a new supervisor, with descriptors

Letters: L listener; o e read ends of stdout and stderr; i write end of stdin; m pty master; r w the relay (`output.pump`); p pidfd.
In upper case the command's own ends: I O E stdin, stdout, stderr; T the terminal's slave side; S a file in memory with
those variables of its environment that no file on disk may hold.

A thousand shims live at once, and each function, class or named constant that is used for the first time after the fork
costs each of them memory pages: hence numbers and bytes instead of objects (decision 23).
"""

import contextlib
import errno
import os
import select
import socket
import time
from collections.abc import Iterable

from outlive.keeper.common import sockets
from outlive.keeper.common.kernel import BOOT_ID, become_subreaper, boottime_ns, start_ticks
from outlive.keeper.common.lock_proof import WatchedLock
from outlive.keeper.common.spawn import hit
from outlive.keeper.guardian.shim_files import add_line, add_secrets, open_empty, read_whole, spawn_command
from outlive.keeper.sandbox import confine
from outlive.protocols.frames import (
    EXTENDED,
    USUAL_UMASK,
    ExitRecord,
    decode_exec,
    encode_exit,
    pid_line,
    spec_exec_block,
    split_extended,
    take_begins,
)

_POLLIN = select.POLLIN
_COMMAND_ENDS = "IOETS"
_HELD_LETTERS = "oeimrwp"
_EXTENDED = EXTENDED.encode()
_BOOT_ID = BOOT_ID.encode()
_PIPE = os.O_CLOEXEC | os.O_NONBLOCK
_LOOK = os.WEXITED | os.WNOHANG | os.WNOWAIT


def ignore_child_signal(_number: int, _frame: object) -> None:
    """Handle SIGCHLD by doing nothing: the wakeup descriptor makes the loop look for ended children."""


class Holdings:
    """What a shim holds: the link to its supervisor, the descriptors, the listening socket of the process's folder."""

    __slots__ = (
        "_alarm",
        "_empty",
        "_ended",
        "_fds",
        "_folder",
        "_is_linked",
        "_link",
        "_listener",
        "_mode",
        "_pid",
        "_poll",
        "_ticks",
        "_wake",
        "lock",
    )

    def __init__(self, link: socket.SocketType, *, lock: WatchedLock, wake: int, alarm: int) -> None:
        """Make before the fork what `run` then only puts other descriptors into.

        Args:
            link: Its number is where `run` puts the link to the supervisor.
            lock: The record lock that a supervisor holds.
            wake: The number for the read end of the pipe that becomes readable after a signal,
            alarm: and for its write end, which is `signal.set_wakeup_fd`'s already.
        """
        self._link = link
        self._wake = wake
        self._alarm = alarm
        self.lock = lock
        self._is_linked = False
        self._poll = select.poll()
        self._poll.register(wake, _POLLIN)
        self._forget()

    def _forget(self) -> None:
        self._mode = ""
        self._folder = b""
        self._fds: dict[str, int] = {}
        self._listener = -1
        self._pid = 0
        self._ticks = 0
        self._ended: ExitRecord | None = None
        self._empty = False

    def _connect(self, link: int) -> None:
        """Put a new link in the place of the old one."""
        place = self._link.fileno()
        os.dup2(link, place, False)  # noqa: FBT003 - parsing a keyword costs a page
        os.close(link)
        self._poll.register(place, _POLLIN)
        self._is_linked = True

    def _say(self, words: bytes) -> None:
        if not self._is_linked:
            return
        try:
            os.write(self._link.fileno(), words)
        except OSError:
            return  # a dead or overloaded supervisor is no reason to stop: its successor asks for the state

    def _drop_link(self) -> None:
        """Read no more from the link; its number stays taken until the next supervisor's link is put there."""
        self._poll.unregister(self._link.fileno())
        self._is_linked = False

    def _close(self, letters: str) -> None:
        for letter in letters:
            fd = self._fds.pop(letter, -1)
            if fd >= 0:
                os.close(fd)

    def _release(self) -> None:
        if self._listener >= 0:
            self._poll.unregister(self._listener)
            os.close(self._listener)
        self._close("".join(self._fds))
        self._forget()

    def _meet_supervisor(self) -> None:
        try:
            connection = sockets.accept_from(self._listener)
        except OSError:
            time.sleep(0.05)  # out of descriptors: poll(2) reports the connection again, so try again soon
            return
        if connection is None:
            return
        if not self.lock.is_held_by(connection):
            connection.close()
            return
        self._connect(connection.detach())
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
        with contextlib.suppress(OSError):
            sockets.send(self._link, words.encode(), tuple(self._fds.values()))


class Shim(Holdings):
    """One shim; `run` returns after `quit`, or once it has nothing to hold and no supervisor."""

    __slots__ = ()

    def run(self, link: int, not_ours: Iterable[int] = ()) -> None:
        """Serve until there is nothing left to do.

        Args:
            link: The link to the supervisor, non-blocking; it is moved to another number.
            not_ours: Descriptors of the guardian to close.
        """
        wake, alarm = os.pipe2(_PIPE)
        for fd, place in ((wake, self._wake), (alarm, self._alarm)):
            os.dup2(fd, place, False)  # noqa: FBT003 - parsing a keyword costs a page
            os.close(fd)
        self._connect(link)
        for fd in not_ours:
            os.close(fd)
        # Before the first command starts: prctl(2) does not pass this on at fork, and orphans must come to us.
        become_subreaper()
        self._say(b"hello %d" % os.getpid())
        while self._is_linked or self._mode:
            for fd, _ in self._poll.poll():
                if fd == self._wake:
                    os.read(fd, 512)
                    self._reap()
                elif fd == self._listener:
                    self._meet_supervisor()
                elif self._is_linked and not self._obey():
                    return

    def _obey(self) -> bool:
        packet = sockets.receive(self._link, size=8192)
        if packet is None:
            return True
        message, fds = packet
        verb, _, rest = message.partition(b" ")
        if not message:
            # The supervisor has ended. The command goes on; its next supervisor connects to the listener.
            self._drop_link()
            self._leave_if_forsaken()
        elif verb in {b"spawn", b"hold"}:
            letters, _, folder = rest.partition(b" ")
            self._take(letters.decode(), folder, fds, spawns=verb == b"spawn")
        elif verb == b"keep":
            self._keep(rest.decode(), fds)
        elif verb == b"close":
            self._close(rest.decode())
        elif verb == b"release":
            self._release()
        elif verb == b"quit":
            return False
        return True

    def _take(self, letters: str, folder: bytes, fds: list[int], *, spawns: bool) -> None:
        self._folder = folder
        self._fds = dict(zip(letters, fds, strict=False))
        self._listener = self._fds.pop("L")
        self._poll.register(self._listener, _POLLIN)
        self._mode = "own" if spawns else "hold"
        if spawns:
            hit("shim.received")
            self._spawn()
        else:
            self._empty = True  # the command is not our child: its tree is not ours to watch

    def _keep(self, letters: str, fds: list[int]) -> None:
        """Hold more descriptors: all of them or none, since the sender relies on us only after our answer."""
        count = len(letters)
        is_new = len({*self._fds, *letters}) == len(self._fds) + count
        if self._mode and len(fds) == count and is_new and not letters.strip(_HELD_LETTERS):
            self._fds.update(zip(letters, fds, strict=True))
            hit("shim.kept")
            self._say(b"kept " + letters.encode())
            return
        for fd in fds:
            os.close(fd)

    def _spawn(self) -> None:
        place = b"spec"
        try:
            block = spec_exec_block(read_whole(self._folder + b"/spec"))
            program, cwd, argv, env = decode_exec(block)
            steps: list[bytes] = []
            if program == _EXTENDED:
                steps, program, argv = split_extended(argv)
                add_secrets(env, self._fds.get("S", -1))
            umask, nice = take_begins(env)
            umask = USUAL_UMASK if umask is None else umask
            place = b"pid"
            record = open_empty(self._folder + b"/pid")
            try:
                os.write(record, b"starting\n")
                place = b"cwd"
                os.chdir(cwd)
                place = b"program"
                hit("shim.starting")
                # posix_spawn(3) cannot set a niceness, and raising our own would be for good: only root may lower it again.
                if steps or (nice is not None and nice != os.getpriority(os.PRIO_PROCESS, 0)):
                    self._pid, init = confine.spawn(
                        steps, program, argv, env, self._fds, umask=umask, nice=nice
                    )
                    if init:  # recorded, so that a supervisor can end the whole PID namespace without us
                        add_line(self._folder + b"/init", b"%d %d\n" % (init, start_ticks(init)))
                else:
                    self._pid = spawn_command(program, argv, env, self._fds, umask=umask)
                hit("shim.spawned")
                place = b"record"
                self._ticks = start_ticks(self._pid)
                now = time.time_ns()
                os.write(
                    record,
                    pid_line(self._pid, self._ticks, now, boottime_ns(), os.getpid(), _BOOT_ID),
                )
            finally:
                os.close(record)
        except OSError as error:
            if not self._pid:
                self._failed(
                    error.errno or errno.EIO, error.place if isinstance(error, confine.Refused) else place
                )
                return
            now = time.time_ns()  # the command runs, only its record could not be written (full disk)
        finally:
            self._close(_COMMAND_ENDS)
            os.chdir("/")
        hit("shim.recorded")
        self._say(b"spawned %d %d %d" % (self._pid, self._ticks, now))

    def _failed(self, number: int, place: bytes) -> None:
        self._ended = ExitRecord(kind="failed", number=number, ended_ns=time.time_ns(), note=place.decode())
        self._empty = True
        with contextlib.suppress(OSError):
            add_line(self._folder + b"/pid", encode_exit(self._ended))
        self._say(b"failed %d %s" % (number, place))

    def _reap(self) -> None:
        """Record the command's end before it is reaped: until then the zombie is the durable copy."""
        while True:
            try:
                child = os.waitid(os.P_ALL, 0, _LOOK)
            except ChildProcessError:
                self._became_empty()
                return
            if child is None:
                return
            if child.si_pid == self._pid and self._ended is None:
                kind = "exited" if child.si_code == os.CLD_EXITED else "signaled"
                ended = ExitRecord(kind=kind, number=child.si_status, ended_ns=time.time_ns())
                if not self._record(ended) or self._empty:
                    return
            else:
                os.waitpid(child.si_pid, 0)

    def _record(self, ended: ExitRecord) -> bool:
        hit("shim.exiting")
        try:
            add_line(self._folder + b"/pid", encode_exit(ended))
        except OSError as error:
            # On a read-only file system the supervisor records the end once it can.
            if error.errno not in {errno.ENOENT, errno.EROFS}:
                # A full disk: keep the zombie, and wake again after a short sleep, which is harmless here.
                time.sleep(0.05)
                os.write(self._alarm, b"\0")
                return False
            # The state folder was deleted: there is no place for the record, and there will be none.
        hit("shim.exit_written")
        self._ended = ended
        os.waitpid(self._pid, 0)
        hit("shim.reaped")
        # No other child left means that the whole tree has ended: a shim is its subreaper.
        try:
            os.waitid(os.P_ALL, 0, _LOOK)
        except ChildProcessError:
            self._empty = True
        words = f"exited {ended.kind} {ended.number} {int(self._empty)} {ended.ended_ns}"
        self._say(words.encode())
        if not self._is_linked:
            self._leave_if_forsaken()
        return True

    def _became_empty(self) -> None:
        if self._ended is not None and not self._empty:
            self._empty = True
            self._say(b"empty")
            if not self._is_linked:
                self._leave_if_forsaken()

    def _leave_if_forsaken(self) -> None:
        """Let go when all is over and no supervisor can come: it would connect to a socket that has been deleted.

        If the folder was moved, one will come.
        """
        if self._empty and self.lock.is_deleted():
            try:
                os.stat(self._folder)
            except OSError:
                self._release()
