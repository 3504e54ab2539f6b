"""Which user owns a TCP socket of this machine (`SocketTable`), and which process holds it (`Holders`).

`SocketTable` asks the kernel for one connection by its two addresses and two ports: by netlink (sock_diag(7),
11 us), or where that is refused (gVisor, seccomp) from /proc/net/tcp, which lists every connection of the
machine. A socket in neither has no known owner.

`Holders` searches /proc/PID/fd on the event loop, a part in each turn. A thread would be slower: each of its
hundreds of system calls would release the interpreter lock and wait for it again, several turns of a busy
loop (decision 91). Reading the names of descriptors never blocks. Another process's memory, which can block,
is read by `peers`; what a caller may do is decided by `authenticator`.
"""

import asyncio
import errno
import itertools
import os
import socket
import struct
from collections.abc import Iterable, Iterator

from outlive.core.values import dataclass
from outlive.keeper.common.callers import sockets_of

Address = tuple[str, int]

# Numbers and structures of linux/netlink.h, linux/sock_diag.h and linux/inet_diag.h.
_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_NLM_F_REQUEST = 1
_HEADER = struct.Struct("=IHHII")  # struct nlmsghdr
_REQUEST = struct.Struct("=BBBxI")  # struct inet_diag_req_v2 before its sockid
_PORTS = struct.Struct("!HH")
_NO_COOKIE = b"\0\0\0\0" + b"\xff" * 8  # any interface, any cookie
_ANSWER = struct.Struct("=BBBB48sIIIII")  # struct inet_diag_msg
_ADDRESS_BYTES = 16
_ALL_STATES = 0xFFFFFFFF
_LISTEN, _TIME_WAIT, _CLOSE = 10, 6, 7
_UNUSABLE = frozenset({_LISTEN, _TIME_WAIT, _CLOSE})
_MAX_PACKET = 8192


@dataclass(frozen=True, slots=True)
class SocketOwner:
    """The user that owns a socket, and the inode number that /proc/PID/fd shows for it."""

    uid: int
    inode: int


class SocketTable:
    """Asks for one socket at a time."""

    def __init__(self) -> None:
        self.is_quick = True  # until netlink was refused; while True, `find` reads no files

    def find(self, local: Address, remote: Address) -> SocketOwner | None:
        """Return the owner of the socket whose own end is `local` and whose other end is `remote`.

        None when there is no such socket, or no process holds it any more. Where `is_quick` is False this
        reads files, which may take milliseconds.
        """
        if self.is_quick:
            try:
                # A new netlink socket for each question: opening takes 3 us, and none has to be closed at the
                # end.
                with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _NETLINK_SOCK_DIAG) as netlink:
                    netlink.settimeout(0.0)  # the kernel has answered when `send` returns
                    return _ask(netlink, local, remote)
            except OSError:
                self.is_quick = False
        return find_in_proc(local, remote)


def _ask(netlink: socket.socket, local: Address, remote: Address) -> SocketOwner | None:
    family = socket.AF_INET6 if ":" in local[0] else socket.AF_INET
    ends = [socket.inet_pton(family, host) for host, _ in (local, remote)]
    wanted = _PORTS.pack(local[1], remote[1]) + b"".join(end.ljust(_ADDRESS_BYTES, b"\0") for end in ends)
    body = _REQUEST.pack(family, socket.IPPROTO_TCP, 0, _ALL_STATES) + wanted + _NO_COOKIE
    head = _HEADER.pack(_HEADER.size + len(body), _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 1, 0)
    netlink.send(head + body)
    packet = netlink.recv(_MAX_PACKET)
    _, kind, *_ = _HEADER.unpack_from(packet)
    if kind != _SOCK_DIAG_BY_FAMILY:  # NLMSG_ERROR with the number of the error
        number = -struct.unpack_from("=i", packet, _HEADER.size)[0]
        if number == errno.ENOENT:
            return None
        raise OSError(number, os.strerror(number))
    _, state, _, _, found, _, _, _, uid, inode = _ANSWER.unpack_from(packet, _HEADER.size)
    # Without such a connection the kernel may answer with a listener on the port. A connection that is being
    # closed has neither an inode nor its true uid any more.
    if state in _UNUSABLE or not inode or found[:4] != wanted[:4]:
        return None
    return SocketOwner(uid, inode)


def find_in_proc(local: Address, remote: Address, *, root: str = "/proc/net") -> SocketOwner | None:
    """Return the owner by /proc/net/tcp and tcp6 (proc_net_tcp(5)).

    An IPv4 connection may stand in either table.
    """
    ends = [_as_listed(*local), _as_listed(*remote)]
    tables = {"tcp6": ends}
    if ":" not in local[0]:
        tables = {"tcp": ends, "tcp6": [_as_listed(f"::ffff:{host}", port) for host, port in (local, remote)]}
    for name, (own, other) in tables.items():
        try:
            with open(f"{root}/{name}", encoding="ascii") as file:
                for line in file:
                    words = line.split(None, 10)
                    if words[1:3] == [own, other]:
                        state, uid, inode = int(words[3], 16), int(words[7]), int(words[9])
                        return None if state in _UNUSABLE or not inode else SocketOwner(uid, inode)
        except OSError:
            continue
    return None


def _as_listed(host: str, port: int) -> str:
    """Return an address as the tables show it: 32-bit words of the host in the machine's byte order, the port
    in hex.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    raw = socket.inet_pton(family, host)
    words = [int.from_bytes(raw[start : start + 4], "little") for start in range(0, len(raw), 4)]
    return "".join(f"{word:08X}" for word in words) + f":{port:04X}"


_EACH_TURN = 2000  # descriptors, 4 us each: most searches end in the turn in which they begin
_FEW = 64
_MOST_SEEN = 65_536  # sockets remembered from one walk: 10 MB


class Holders:
    """Searches on one event loop. One walk through /proc answers all callers that ask during it.

    The newest walk's findings are remembered, and checked again before they count: of a thousand clients that
    connect together, most ask after the walk has passed their process (decision 146).
    """

    def __init__(self, *, each_turn: int = _EACH_TURN) -> None:
        """Begin without questions; `each_turn` descriptors are looked at in each turn of the loop."""
        self._each_turn = each_turn
        self._likely: dict[int, None] = {}
        self._asked: dict[int, list[asyncio.Future[int | None]]] = {}  # by inode: for the next walk
        self._wanted: dict[int, list[asyncio.Future[int | None]]] = {}  # by inode: for the walk under way
        self._walk: Iterator[tuple[int, int]] | None = None
        self._seen: dict[int, int] = {}  # inode of a socket: the first process that was seen with it

    async def find(self, inode: int, likely: Iterable[int]) -> int | None:
        """Return a process that holds the socket `inode`, looking at `likely` ones first, then at the
        youngest.

        None when no process is seen with it: it is another user's, in another pid namespace, or gone.

        Cancellation: safe.
        """
        seen = self._seen.get(inode)
        if seen is not None and is_held_by(inode, seen):
            return seen
        loop = asyncio.get_running_loop()
        place: asyncio.Future[int | None] = loop.create_future()
        is_idle = not (self._asked or self._wanted)
        self._asked.setdefault(inode, []).append(place)
        self._likely.update(dict.fromkeys(likely))
        if is_idle:
            self._go_on(loop)
        return await place

    def _go_on(self, loop: asyncio.AbstractEventLoop) -> None:
        """Walk for one turn, and schedule the next one while a caller waits."""
        if self._walk is None:
            self._wanted, self._asked = self._asked, {}
            self._walk = _sockets(self._likely)
            self._likely = {}
            self._seen = {}
        for number, (pid, inode) in enumerate(self._walk, 1):
            if inode and len(self._seen) < _MOST_SEEN:
                self._seen.setdefault(inode, pid)
            self._found(inode, pid)
            if not self._wanted or number == self._each_turn:
                break
        else:  # every process was looked at
            for inode in list(self._wanted):
                self._settle(self._wanted, inode, None)
        if not self._wanted:
            self._walk = None
        if self._wanted or self._asked:
            loop.call_soon(self._go_on, loop)

    def _found(self, inode: int, pid: int) -> None:
        """Answer the callers that wait for a socket, also those that asked during the walk: it may reach
        theirs only now.
        """
        self._settle(self._wanted, inode, pid)
        self._settle(self._asked, inode, pid)

    @staticmethod
    def _settle(waiting: dict[int, list[asyncio.Future[int | None]]], inode: int, pid: int | None) -> None:
        for place in waiting.pop(inode, ()):
            if not place.done():  # else its caller has given up
                place.set_result(pid)


def is_held_by(inode: int, pid: int) -> bool:
    """Tell whether the socket is among the first 64 descriptors of a process: 2 us each."""
    return inode in itertools.islice(sockets_of(pid), _FEW)


def _sockets(likely: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield each descriptor's process and the inode of its socket (0: none), the likely processes' first."""
    tried = set()
    for pid in likely:
        tried.add(pid)
        for inode in sockets_of(pid):
            yield pid, inode
    for pid in sorted((int(name) for name in os.listdir("/proc") if name.isdigit()), reverse=True):
        if pid not in tried:
            yield pid, 0
            for inode in sockets_of(pid):
                yield pid, inode
