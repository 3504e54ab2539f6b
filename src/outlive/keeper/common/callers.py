"""The process at the other end of a connection: `PeerProcess`, told apart from all that get its pid later.

A pid is an identity only while its process lives. So a caller is held by a pidfd from the moment its connection is
accepted, and what /proc says about its pid counts only if it still lives after that was read.

Who lives below a keeper: `Ancestry`, told from nothing but /proc/PID/stat.

Guardian, supervisor and each command lead a POSIX session of their own, and shims stay in their guardian's. A process
belongs to the keeper's trees when it, or one of its ancestors, is in one of these sessions. A daemon that made a
session of its own is still below its shim, a subreaper; one whose shim was killed is mostly still in its command's
session. Nothing of another process's memory is read: a process could make that wait for ever.
"""

import errno
import os
import socket
import struct
import time
from collections.abc import Callable, Collection, Iterator

from outlive.keeper.common.kernel import start_ticks
from outlive.keeper.common.sockets import has_exited, peer_of, peer_pidfd

# linux/netlink.h, linux/sock_diag.h, linux/unix_diag.h
_NETLINK_SOCK_DIAG, _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST = 4, 20, 1
_UNIX_DIAG_PEER, _SHOW_PEER, _ALL_STATES = 2, 4, 0xFFFFFFFF
_HEADER = struct.Struct("=IHHII")  # struct nlmsghdr
_REQUEST = struct.Struct("=BBHIII8s")  # struct unix_diag_req
_MESSAGE_BYTES = 16  # struct unix_diag_msg
_ATTRIBUTE = struct.Struct("=HH")  # struct rtattr
_INODE = struct.Struct("=I")
_NO_COOKIE = b"\xff" * 8
_MAX_PACKET = 8192
_SOCKET = "socket:["
_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")  # the unit of start times in /proc/PID/stat
_BESIDE_TICKS = _TICKS_A_SECOND // 2
# A test's way to a kernel without it: OUTLIVE_DEGRADE=unix_diag in the environment.
_HAS_UNIX_DIAG = "unix_diag" not in os.environ.get("OUTLIVE_DEGRADE", "").split(",")
_NO_ROOM = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})


class PeerProcess:
    """A process and its user. Holds one descriptor until `close`."""

    __slots__ = ("_inode", "_pidfd", "pid", "uid")

    def __init__(self, pid: int, uid: int, *, pidfd: int, inode: int = 0) -> None:
        """Take a pidfd, which is closed with this (-1: the process is gone).

        `inode`: the socket that the process must hold to be the caller; 0 where the pidfd is the kernel's own word.
        """
        self.pid = pid
        self.uid = uid
        self._pidfd = pidfd
        self._inode = inode

    @classmethod
    def behind(cls, connection: socket.SocketType, turns: "AcceptTurns") -> "PeerProcess":
        """Return who connected to a Unix socket, whose connection was just accepted in one of these turns.

        Before Linux 6.5 the kernel tells the pid only, which may be another process's by now: then the process that has
        it is the caller if it holds the other end. Where that cannot be seen (sock_diag(7) is missing, or the process has
        closed its /proc to us), it is the caller if it began before the accept loop's previous turn: a connection of that
        turn would have been taken there. Any other process is as good as gone; a true caller that has just begun is
        known when it connects again.

        Raises:
            OSError: There are no descriptors left.
        """
        pid, uid = peer_of(connection)
        inode = 0
        try:
            pidfd = peer_pidfd(connection)
            if pidfd is None:
                inode = _other_end(connection)
                pidfd = os.pidfd_open(pid) if pid > 0 else -1
                if pidfd >= 0 and not (inode and _shows_descriptors(pid)):
                    inode = 0
                    if not 0 < start_ticks(pid) < turns.previous_ticks:
                        os.close(pidfd)
                        pidfd = -1
        except ProcessLookupError:
            pidfd = -1
        turns.finish()
        return cls(pid, uid, pidfd=pidfd, inode=inode)

    @classmethod
    def holding(cls, inode: int, pid: int, uid: int) -> "PeerProcess":
        """Return a process that was just seen to hold a socket; gone if it does not hold it any more.

        Raises:
            OSError: There are no descriptors left.
        """
        try:
            pidfd = os.pidfd_open(pid) if pid > 0 else -1
        except ProcessLookupError:
            pidfd = -1
        return cls(pid, uid, pidfd=pidfd, inode=inode)

    def is_there(self) -> bool:
        """Tell whether it lives, so that its pid has been its own since it came. A zombie has nothing to say any more."""
        if self._pidfd < 0:
            return False
        if self._inode and self._inode not in sockets_of(self.pid):
            return False
        return not has_exited(self._pidfd)

    def close(self) -> None:
        """Let go of the process: it is as good as gone from now on."""
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1


class AcceptTurns:
    """Before when everything that is accepted now was certainly not connected yet: `previous_ticks`, since boot.

    A listener's backlog is taken in the order of the connections, and whole. So what comes after one that was taken has
    connected later, but for those that lay beside it in the backlog; half a second is longer than these take.
    """

    __slots__ = ("previous_ticks",)

    def __init__(self) -> None:
        """Begin now, when the socket begins to listen."""
        self.previous_ticks = _now_ticks()

    def finish(self) -> None:
        """Note that a connection was taken."""
        self.previous_ticks = max(self.previous_ticks, _now_ticks() - _BESIDE_TICKS)


def _now_ticks() -> int:
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * _TICKS_A_SECOND)


def _shows_descriptors(pid: int) -> bool:
    return os.access(f"/proc/{pid}/fd", os.R_OK)


def sockets_of(pid: int) -> Iterator[int]:
    """Yield for each descriptor of a process the inode of its socket, 0 where it is none (proc_pid_fd(5)): 2 us each."""
    try:
        with os.scandir(f"/proc/{pid}/fd") as entries:
            for entry in entries:
                yield _socket_inode(entry.path)
    except OSError:  # another user's, or gone
        return


def _socket_inode(path: str) -> int:
    try:
        target = os.readlink(path)
    except OSError:
        return 0
    return int(target[len(_SOCKET) : -1]) if target.startswith(_SOCKET) else 0


def _other_end(connection: socket.SocketType) -> int:
    """Return the inode of the socket at a connection's other end (sock_diag(7)), 0 where the kernel does not tell."""
    if not _HAS_UNIX_DIAG:
        return 0
    request = _REQUEST.pack(
        socket.AF_UNIX, 0, 0, _ALL_STATES, os.fstat(connection.fileno()).st_ino, _SHOW_PEER, _NO_COOKIE
    )
    head = _HEADER.pack(_HEADER.size + len(request), _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 1, 0)
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _NETLINK_SOCK_DIAG) as netlink:
            netlink.settimeout(0.0)  # the kernel has answered when `send` returns
            netlink.send(head + request)
            packet = netlink.recv(_MAX_PACKET)
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise
        return 0
    if _HEADER.unpack_from(packet)[1] != _SOCK_DIAG_BY_FAMILY:
        return 0
    at = _HEADER.size + _MESSAGE_BYTES
    while at + _ATTRIBUTE.size < len(packet):
        length, kind = _ATTRIBUTE.unpack_from(packet, at)
        if kind == _UNIX_DIAG_PEER:
            return int(_INODE.unpack_from(packet, at + _ATTRIBUTE.size)[0])
        at += max(4, length + 3 & ~3)
    return 0


# O_NONBLOCK says what is true: procfs does not wait for anybody here.
_LOOK = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
_MAX_DEPTH = 256  # deeper than any tree of people; a chain that changes while it is walked must end
_MAX_KNOWN = 4096


class Ancestor:
    """One process of a lineage, as /proc/PID/stat told it (proc_pid_stat(5)); `ticks` makes the pid an identity."""

    __slots__ = ("parent", "pid", "session", "ticks")

    def __init__(self, pid: int, *, parent: int, session: int, ticks: int) -> None:
        """Keep what was read."""
        self.pid = pid
        self.parent = parent
        self.session = session
        self.ticks = ticks


class Descent:
    """Whether a process lives in the keeper's trees (None: it is gone, or hidden), and what was looked at for that.

    `is_known`: it was judged before and found outside, and nobody but itself was looked at.
    """

    __slots__ = ("chain", "is_inside", "is_known")

    def __init__(self, chain: list[Ancestor], *, is_inside: bool | None, is_known: bool = False) -> None:
        """Keep all three."""
        self.is_inside = is_inside
        self.chain = chain
        self.is_known = is_known


class Ancestry:
    """Judges processes. Who was found outside stays so: ancestors do not change, only the first one can be lost."""

    def __init__(self, sessions: Callable[[Collection[int]], Collection[int]]) -> None:
        """Take what returns those of some POSIX sessions that are the keeper's, or a command's."""
        self._sessions = sessions
        self._outside: dict[
            tuple[int, int], bool
        ] = {}  # True: judged itself, not only passed on another's way up

    def judge(self, pid: int) -> Descent:
        """Tell whether a process lives in the keeper's trees."""
        first = _look(pid)
        if first is None:
            return Descent([], is_inside=None)
        if (pid, first.ticks) in self._outside:
            is_known = self._outside.pop((pid, first.ticks))
            self._outside[pid, first.ticks] = True
            return Descent([], is_inside=False, is_known=is_known)
        chain = lineage(first, known=self._outside)
        if chain is None:
            return Descent([], is_inside=None)
        if self._sessions({one.session for one in chain} - {0}):  # 0: one that a pid namespace hides
            return Descent(chain, is_inside=True)
        for one in reversed(chain):
            self._outside[one.pid, one.ticks] = one is first
        while len(self._outside) > _MAX_KNOWN:
            self._outside.pop(next(iter(self._outside)))
        return Descent(chain, is_inside=False)

    def forget(self, pid: int) -> None:
        """Take back that a process is outside: something else has told so."""
        for key in [key for key in self._outside if key[0] == pid]:
            del self._outside[key]

    def forget_all(self) -> None:
        """Judge everybody anew: sessions are known now that were not before."""
        self._outside.clear()


def ancestry(pid: int) -> list[Ancestor] | None:
    """Return a process and its ancestors, as `lineage`; None also where it is gone, or hidden."""
    first = _look(pid)
    return None if first is None else lineage(first)


def lineage(first: Ancestor, *, known: Collection[tuple[int, int]] = ()) -> list[Ancestor] | None:
    """Return a process and its ancestors, up to the first of the machine, or to one that is `known`.

    None when the chain broke while it was walked.
    """
    chain = [first]
    while (parent := chain[-1].parent) > 1:
        found = _look(parent)
        if found is None or found.ticks > chain[-1].ticks or len(chain) > _MAX_DEPTH:
            # Its parent has ended meanwhile, and a younger process may have that pid (parents are older, also those
            # that adopt: prctl(2) PR_SET_CHILD_SUBREAPER). Whose child it is now is told by another look.
            again = _look(chain[-1].pid)
            if again is None or again.ticks != chain[-1].ticks or again.parent == parent:
                return None
            chain[-1] = again
            continue
        if (found.pid, found.ticks) in known:
            break
        chain.append(found)
    return chain


def _look(pid: int) -> Ancestor | None:
    if pid <= 0:  # of another pid namespace
        return None
    try:
        fd = os.open(f"/proc/{pid}/stat", _LOOK)
    except OSError:
        return None
    try:
        raw = os.read(fd, 1024)
    except OSError:
        return None
    finally:
        os.close(fd)
    fields = raw[raw.rindex(b")") + 2 :].split(None, 20)  # the name may contain blanks and parentheses
    return Ancestor(pid, parent=int(fields[1]), session=int(fields[3]), ticks=int(fields[19]))
