"""Which process is at the other end of a connection (`PeerProcess`), whether a command encloses it
(`Ancestry`), and what else bounds it (`Confinement`).

A pid identifies a process only while that process lives: afterwards the kernel gives the number to another
one. So a caller is held by a pidfd from the moment its connection is accepted, and what /proc says about its
pid counts only if the process still lives after /proc was read.

Descent is decided by /proc/PID/stat alone. A shim is named there after its command (native/shim/start.c), of
whichever keeper of our user it is, and no command can change that. Guardian, supervisor and each command lead
a POSIX session of their own, and shims stay in their guardian's: so a keeper knows its own. A process is
inside when it, or one of its ancestors, is such a shim or is in one of these sessions. A daemon that made a
session of its own is still below its shim, which is a subreaper; a daemon whose shim was killed is mostly
still in its command's session. Commands that enclose the server, too, do not count (decision 219). The
memory of other processes is never read (as /proc/PID/environ would be): a process could make that read wait
for ever.

What a caller may do is decided elsewhere (`supervisor.requests` and the server); this module only says which
process it is.
"""

import os
import socket
import time
from collections.abc import Callable, Collection

from outlive.kernel.processes import has_exited, read_proc, sockets_of, start_ticks, status_number
from outlive.kernel.socket_tables import other_end
from outlive.kernel.sockets import peer_of, peer_pidfd

_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")  # the unit of start times in /proc/PID/stat
_BESIDE_TICKS = _TICKS_A_SECOND // 2  # half a second, see `AcceptTurns`


class PeerProcess:
    """A process that connected, and its user. Holds one descriptor until `close`."""

    __slots__ = ("_inode", "_pidfd", "pid", "uid")

    def __init__(self, pid: int, uid: int, *, pidfd: int, inode: int = 0) -> None:
        """Own a pidfd from now on (-1: the process is gone).

        `inode`: the socket that the process must still hold to be the caller; 0 where the kernel itself
        returned the pidfd, which needs no such check.
        """
        self.pid = pid
        self.uid = uid
        self._pidfd = pidfd
        self._inode = inode

    @classmethod
    def behind(cls, connection: socket.SocketType, turns: "AcceptTurns") -> "PeerProcess":
        """Return the process that connected to a Unix socket.

        The connection was just accepted in one of these turns.

        Before Linux 6.5 the kernel returns only the pid, which may be another process's by now. Then the
        process with that pid is the caller if it holds the other end of the connection. Two things can hide
        the other end: a kernel without sock_diag(7), and a process that has closed its /proc to us. In these
        cases the process is the caller if it began before the previous turn of the accept loop, because a
        connection of that time would have been accepted in that turn. Every other process counts as gone; a
        true caller that has just begun is recognised when it connects again.

        Raises:
            OSError: There are no descriptors left.
        """
        pid, uid = peer_of(connection)
        inode = 0  # 0 while the pidfd needs no second proof
        try:
            pidfd = peer_pidfd(connection)
            # Before Linux 6.5: the pid has to be tied to this connection in another way.
            if pidfd is None:
                inode = other_end(connection)
                pidfd = os.pidfd_open(pid) if pid > 0 else -1
                if pidfd >= 0 and not (inode and _shows_descriptors(pid)):
                    # The other end cannot be seen: the start time decides.
                    inode = 0
                    if not 0 < start_ticks(pid) < turns.previous_ticks:
                        os.close(pidfd)
                        pidfd = -1
        except ProcessLookupError:
            pidfd = -1
        # Whatever is accepted from now on has connected after this connection, or lay beside it in the
        # backlog.
        turns.finish()
        return cls(pid, uid, pidfd=pidfd, inode=inode)

    @classmethod
    def holding(cls, inode: int, pid: int, uid: int) -> "PeerProcess":
        """Return a process that was just seen to hold a socket.

        It counts as gone if it does not hold the socket any more.

        Raises:
            OSError: There are no descriptors left.
        """
        try:
            pidfd = os.pidfd_open(pid) if pid > 0 else -1
        except ProcessLookupError:
            pidfd = -1
        return cls(pid, uid, pidfd=pidfd, inode=inode)

    def is_there(self) -> bool:
        """Return whether the process lives, so that its pid has been its own all the time.

        A zombie counts as gone.
        """
        if self._pidfd < 0:
            return False
        if self._inode and self._inode not in sockets_of(self.pid):
            return False
        return not has_exited(self._pidfd)

    def close(self) -> None:
        """Close the pidfd: the process counts as gone from now on."""
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1


class AcceptTurns:
    """`previous_ticks`: a moment before which no connection that is accepted now was made, in clock ticks
    since boot.

    The kernel keeps a listener's backlog in the order of the connections, and the accept loop empties it. So
    a connection that is accepted after another one was also made later, except for connections that waited in
    the backlog together; half a second is longer than accepting all of those takes.
    """

    __slots__ = ("previous_ticks",)

    def __init__(self) -> None:
        self.previous_ticks = _now_ticks()

    def finish(self) -> None:
        """Record that a connection was accepted."""
        self.previous_ticks = max(self.previous_ticks, _now_ticks() - _BESIDE_TICKS)


def _now_ticks() -> int:
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * _TICKS_A_SECOND)


def _shows_descriptors(pid: int) -> bool:
    return os.access(f"/proc/{pid}/fd", os.R_OK)


# Deeper than any real tree; the walk must end even when the chain changes while it is walked.
_MAX_DEPTH = 256
_MAX_KNOWN = 4096  # remembered judgements; the oldest is forgotten first, and is only judged once more


# What a shim that serves a command is called, before the end of the command's process id.
_SHIM_PREFIX = b"outlive:"
_UNLIMITED = 1 << 63  # above any limit that a shim sets
# namespaces(7), as people call them.
_NAMESPACES = {"user": "user", "mnt": "mount", "pid": "PID", "net": "network"}


class Confinement:
    """What bounds a process, is inherited, and cannot be taken off: filters of system calls, namespaces, and
    the limit of file locks, which a shim lowers for what it starts (native/shim/shim_loop.c).

    A namespace is None where /proc does not show it to us: a process that is gone or has closed its /proc.
    """

    __slots__ = ("filters", "locks", "namespaces")

    def __init__(self, filters: int, locks: int, namespaces: tuple[str | None, ...]) -> None:
        self.filters = filters
        self.locks = locks
        self.namespaces = namespaces

    @classmethod
    def of(cls, pid: int) -> "Confinement":
        """Read it; never blocks."""
        filters = status_number(pid, b"Seccomp_filters") or 0  # no such line before Linux 5.9
        return cls(filters, _limit_of_locks(pid), tuple(_namespace(pid, kind) for kind in _NAMESPACES))

    def beyond(self, other: "Confinement") -> str | None:
        """Return how it is bounded where `other` is not, "" if it is not; None if that cannot be told."""
        if self.locks < other.locks:
            return "that a command of outlive has started"
        if self.filters > other.filters:
            return "with more filters of system calls"
        for name, own, others in zip(_NAMESPACES.values(), self.namespaces, other.namespaces, strict=True):
            if own != others:
                return None if own is None else f"in another {name} namespace"
        return ""


def _limit_of_locks(pid: int) -> int:
    limits = read_proc(f"/proc/{pid}/limits", 4096) or b""
    hard = limits.partition(b"Max file locks ")[2].split(None, 2)[1:2]
    return int(hard[0]) if hard and hard[0].isdigit() else _UNLIMITED


def _namespace(pid: int, kind: str) -> str | None:
    try:
        return os.readlink(f"/proc/{pid}/ns/{kind}")
    except OSError:
        return None


class Ancestor:
    """One process of a lineage, as read from /proc/PID/stat (proc_pid_stat(5)).

    Pid and `ticks` together identify it.
    """

    __slots__ = ("name", "parent", "pid", "session", "ticks")

    def __init__(self, pid: int, name: bytes, *, parent: int, session: int, ticks: int) -> None:
        self.pid = pid
        self.name = name
        self.parent = parent
        self.session = session
        self.ticks = ticks

    @property
    def command(self) -> str:
        """The end of the process id of the command whose shim this is, of a keeper of our user; else ""."""
        if not self.name.startswith(_SHIM_PREFIX):
            return ""
        if status_number(self.pid, b"Uid") not in {None, os.getuid()}:
            return ""
        return self.name.removeprefix(_SHIM_PREFIX).decode("ascii", "replace")


class Descent:
    """Whether a command encloses a process (None: it is gone, or hidden), and the `chain` that was walked to
    decide it.

    `is_ours`: the command is this keeper's. `command`: the end of the process id of the nearest one that a
    shim names, "" without one. `is_known`: this process was judged before and was found outside, so nothing
    but itself was looked at.
    """

    __slots__ = ("chain", "command", "is_inside", "is_known", "is_ours")

    def __init__(
        self,
        chain: list[Ancestor],
        *,
        is_inside: bool | None,
        is_ours: bool = False,
        command: str = "",
        is_known: bool = False,
    ) -> None:
        self.is_inside = is_inside
        self.is_ours = is_ours
        self.command = command
        self.chain = chain
        self.is_known = is_known


class Ancestry:
    """Judges processes.

    A verdict "outside" stays valid: a process never gets new ancestors, it can only lose the nearest.
    """

    def __init__(
        self,
        sessions: Callable[[Collection[int]], Collection[int]],
        *,
        of: int,
        outside: Collection[tuple[int, int]] = frozenset(),
    ) -> None:
        """Take a function that returns those of the given POSIX sessions that are the keeper's, or a
        command's.

        `of` is the process that is asked: the commands that enclose it, too, make no caller one of theirs.
        `outside` are processes (pid, start ticks) that the keeper has started and that are
        no commands; more may come.
        """
        self._sessions = sessions
        self._exempt = outside
        above = _lineage_of(of)
        shims = {one: one.command for one in above[1:]}
        # Ends of the process ids of the commands that enclose the process that is asked.
        self.commands = {name for name in shims.values() if name}
        self._above = {(one.pid, one.ticks) for one in above if one is above[0] or shims[one]}
        # Processes found outside, by pid and start ticks. True: judged itself; False: only an ancestor of one
        # that was.
        self._outside: dict[tuple[int, int], bool] = {}

    def judge(self, pid: int) -> Descent:
        """Decide whether a command encloses a process, and not the one that is asked."""
        first = _look(pid)
        if first is None:
            return Descent([], is_inside=None)
        key = (pid, first.ticks)
        if key in self._exempt or key in self._above:
            return Descent([], is_inside=False, is_known=True)
        if key in self._outside:
            is_known = self._outside.pop(key)
            self._outside[key] = True  # put at the end: it was used, so it is forgotten last
            return Descent([], is_inside=False, is_known=is_known)
        chain = lineage(first, is_known=self._is_known)
        if chain is None:
            return Descent([], is_inside=None)
        is_ours = bool(self._sessions({one.session for one in chain} - {0}))  # 0: a pid namespace hides it
        command = next((name for one in chain if (name := one.command)), "")
        if is_ours or command:
            return Descent(chain, is_inside=True, is_ours=is_ours, command=command)
        for one in reversed(chain):
            self._outside[one.pid, one.ticks] = one is first
        while len(self._outside) > _MAX_KNOWN:
            self._outside.pop(next(iter(self._outside)))
        return Descent(chain, is_inside=False)

    def _is_known(self, key: tuple[int, int]) -> bool:
        return key in self._outside or key in self._exempt or key in self._above

    def forget(self, pid: int) -> None:
        """Forget that a process is outside: another source has proved the opposite."""
        for key in [key for key in self._outside if key[0] == pid]:
            del self._outside[key]

    def forget_all(self) -> None:
        """Forget every verdict: sessions are known now that were not known before."""
        self._outside.clear()


def _lineage_of(pid: int) -> list[Ancestor]:
    """Return a process and its ancestors; [] when it is gone, only itself where the chain cannot be read."""
    first = _look(pid)
    return [] if first is None else lineage(first) or [first]


def lineage(
    first: Ancestor, *, is_known: Callable[[tuple[int, int]], bool] = lambda _key: False
) -> list[Ancestor] | None:
    """Return a process and its ancestors, up to the first process of the machine, or to one that is known.

    None when the chain broke while it was walked: then nothing is known about the process.
    """
    chain = [first]
    while (parent := chain[-1].parent) > 1:
        found = _look(parent)
        if found is None or found.ticks > chain[-1].ticks or len(chain) > _MAX_DEPTH:
            # The parent has ended meanwhile, and a younger process may have got its pid: a true parent is
            # always older, also one that adopts orphans (prctl(2) PR_SET_CHILD_SUBREAPER). A second look at
            # the child shows which process has adopted it.
            again = _look(chain[-1].pid)
            if again is None or again.ticks != chain[-1].ticks or again.parent == parent:
                return None
            chain[-1] = again
            continue
        if is_known((found.pid, found.ticks)):
            break
        chain.append(found)
    return chain


def _look(pid: int) -> Ancestor | None:
    if pid <= 0:  # 0 stands for a parent in another pid namespace
        return None
    raw = read_proc(f"/proc/{pid}/stat", 1024)
    if raw is None:
        return None
    # The name may hold blanks and parentheses: the other fields begin after the last closing one.
    end = raw.rindex(b")")
    fields = raw[end + 2 :].split(None, 20)
    name = raw[raw.index(b"(") + 1 : end]
    return Ancestor(pid, name, parent=int(fields[1]), session=int(fields[3]), ticks=int(fields[19]))
