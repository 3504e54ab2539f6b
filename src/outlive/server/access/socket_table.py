"""Whose a TCP socket of this machine is: `SocketTable` asks the kernel for one connection by its four numbers.

By netlink (sock_diag(7)), 11 us; where that is not to be had (gVisor, seccomp) from /proc/net/tcp, which lists
every connection of the machine. What neither shows belongs to nobody here.

Which process holds a socket: `Holders` looks through /proc on the event loop, a little in each turn.

Not in a thread: each of its hundreds of system calls would give the interpreter away and wait for it again, several
turns of a busy loop (decision 91). Reading whose descriptors are what waits for nobody; another process's memory is not
read here.
"""

import asyncio
import errno
import itertools
import os
import socket
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from outlive.keeper.common.callers import sockets_of

Address = tuple[str, int]

# linux/netlink.h, linux/sock_diag.h, linux/inet_diag.h
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
    """The user whose socket it is, and the number by which /proc/PID/fd names it."""

    uid: int
    inode: int


class SocketTable:
    """Asks for one socket at a time."""

    def __init__(self) -> None:
        """Nothing is known yet about what this machine allows."""
        self.is_quick = True  # until netlink was refused: `find` reads no files

    def find(self, local: Address, remote: Address) -> SocketOwner | None:
        """Return whose the socket is that has `local` as its own end and `remote` as the other one.

        None when there is none, or nobody holds it any more. Where `is_quick` is False this reads files, which may
        take milliseconds.
        """
        if self.is_quick:
            try:
                # One for each question: opening takes 3 us, and there is nothing to close in the end.
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
    # Where no connection has the four numbers the kernel may answer with a listener on the port. One that is
    # being closed has neither inode nor a true uid any more.
    if state in _UNUSABLE or not inode or found[:4] != wanted[:4]:
        return None
    return SocketOwner(uid, inode)


def find_in_proc(local: Address, remote: Address, *, root: str = "/proc/net") -> SocketOwner | None:
    """Do the same from /proc/net/tcp and tcp6 (proc_net_tcp(5)); an IPv4 connection may stand in either."""
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
    """Return an end as the tables show it: 32-bit words of the address in the machine's order, the port as read."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    raw = socket.inet_pton(family, host)
    words = [int.from_bytes(raw[start : start + 4], "little") for start in range(0, len(raw), 4)]
    return "".join(f"{word:08X}" for word in words) + f":{port:04X}"


_EACH_TURN = 2000  # descriptors, 4 us each: most searches end in the turn in which they begin
_FEW = 64
_MOST_SEEN = 65_536  # sockets of a walk: 10 MB


class Holders:
    """Searches on one event loop. All who ask meanwhile are answered by one walk through /proc together.

    What the newest walk has seen is remembered, and looked at again before it counts: of a thousand clients that connected together most
    ask when the walk has passed them (decision 146).
    """

    def __init__(self, *, each_turn: int = _EACH_TURN) -> None:
        """Nobody asks; `each_turn` descriptors are looked at in each turn of the loop."""
        self._each_turn = each_turn
        self._likely: dict[int, None] = {}
        self._asked: dict[int, list[asyncio.Future[int | None]]] = {}
        self._wanted: dict[int, list[asyncio.Future[int | None]]] = {}
        self._walk: Iterator[tuple[int, int]] | None = None
        self._seen: dict[int, int] = {}  # socket: the first process that was seen with it

    async def find(self, inode: int, likely: Iterable[int]) -> int | None:
        """Return a process that holds the socket `inode`, looking at `likely` ones first, then at the youngest.

        None when it is not to be seen: another user's, in another pid namespace, or gone.

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
        """Walk for one turn, and see to the next one if somebody still waits."""
        if self._walk is None:
            self._wanted, self._asked = self._asked, {}
            self._walk = _sockets(self._likely)
            self._likely = {}
            self._seen = {}
        for number, (pid, inode) in enumerate(self._walk, 1):
            if inode and len(self._seen) < _MOST_SEEN:
                self._seen.setdefault(inode, pid)
            self._tell(inode, pid)
            if not self._wanted or number == self._each_turn:
                break
        else:  # everybody was looked at
            for inode in list(self._wanted):
                self._settle(self._wanted, inode, None)
        if not self._wanted:
            self._walk = None
        if self._wanted or self._asked:
            loop.call_soon(self._go_on, loop)

    def _tell(self, inode: int, pid: int) -> None:
        """Answer those who wait for a socket, also who has asked since the walk began: it may have passed theirs, or not."""
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
