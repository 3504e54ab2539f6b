"""What Linux says of sockets that are not ours: which user owns the other end of a TCP connection, which
process's socket is at the other end of a Unix one, on which ports processes listen, which paths are listened
at.

The kernel is asked by netlink (sock_diag(7)): 11 us for one socket, 0.2 ms for all that listen. /proc/net/tcp
has the same for TCP, but lists every connection of the machine and walks over all of the kernel's hash table,
5 ms a file (measured on Linux 6.18): it is read where netlink is refused (gVisor, seccomp), and for processes
in a network namespace of their own. Nothing waits for another process.
"""

import contextlib
import errno
import os
import re
import socket
import struct
from collections.abc import Iterator, Mapping

from outlive.core.values import dataclass
from outlive.kernel.processes import sockets_of

Address = tuple[str, int]

# Numbers and structures of linux/netlink.h, linux/sock_diag.h, linux/inet_diag.h and linux/unix_diag.h.
_NETLINK_SOCK_DIAG, _SOCK_DIAG_BY_FAMILY = 4, 20
_REQUEST, _DUMP = 1, 0x300  # NLM_F_REQUEST, NLM_F_DUMP
_ERROR = 2  # NLMSG_ERROR
_HEADER = struct.Struct("=IHHII")  # struct nlmsghdr
_TCP_REQUEST = struct.Struct("=BBBxI")  # struct inet_diag_req_v2 before its sockid
_PORTS = struct.Struct("!HH")
_SOCKID_BYTES, _ADDRESS_BYTES = 48, 16
_NO_COOKIE = b"\0\0\0\0" + b"\xff" * 8  # any interface, any cookie
_TCP_ANSWER = struct.Struct("=BBBB48sIIIII")  # struct inet_diag_msg
_UNIX_REQUEST = struct.Struct("=BBHIII8s")  # struct unix_diag_req
_UNIX_ANSWER_BYTES = 16  # struct unix_diag_msg
_UNIX_DIAG_PEER, _SHOW_PEER = 2, 4
_ATTRIBUTE = struct.Struct("=HH")  # struct rtattr
_INODE = struct.Struct("=I")
_ALL_STATES = 0xFFFFFFFF
_TIME_WAIT, _CLOSE, _LISTEN = 6, 7, 10  # include/net/tcp_states.h
_UNUSABLE = frozenset({_LISTEN, _TIME_WAIT, _CLOSE})
_PACKET = 64 * 1024
_PATIENCE_S = 1.0  # the kernel answers at once
# Lets a test pretend that the kernel lacks unix_diag: OUTLIVE_DEGRADE=unix_diag in the environment.
_HAS_UNIX_DIAG = "unix_diag" not in os.environ.get("OUTLIVE_DEGRADE", "").split(",")
# Errors that say something about us (no descriptors, no memory) and nothing about a peer.
_NO_ROOM = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
# How a socket of /proc/net/unix begins (proc_net_unix(5)); its path may hold line ends.
_A_SOCKET = re.compile(rb"[0-9a-f]+: [0-9A-F]{8} ")


def _ask(request: bytes, *, flags: int = 0) -> Iterator[bytes]:
    """Yield the kernel's answers: one, or those of a dump.

    Raises:
        OSError: It refuses the request, or has no such socket (ENOENT).
    """
    # A new netlink socket for each question: opening takes 3 us, and none has to be closed at the end.
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _NETLINK_SOCK_DIAG) as netlink:
        netlink.settimeout(_PATIENCE_S if flags else 0.0)  # it has answered one when `send` returns
        size = _HEADER.size + len(request)
        netlink.send(_HEADER.pack(size, _SOCK_DIAG_BY_FAMILY, _REQUEST | flags, 1, 0) + request)
        while True:
            packet, at = netlink.recv(_PACKET), 0
            while at < len(packet):
                length, kind, *_ = _HEADER.unpack_from(packet, at)
                if kind == _ERROR:
                    number = -struct.unpack_from("=i", packet, at + _HEADER.size)[0]
                    raise OSError(number, os.strerror(number))
                if kind != _SOCK_DIAG_BY_FAMILY:  # the end of a dump
                    return
                yield packet[at + _HEADER.size : at + length]
                if not flags:
                    return
                at += (length + 3) & ~3


def _tcp_rows(path: str) -> Iterator[tuple[str, str, int, int, int]]:
    """Yield own end, other end, state, uid and inode of each socket of a table of proc_net_tcp(5)."""
    with contextlib.suppress(OSError), open(path, encoding="ascii") as file:
        next(file, None)
        for line in file:
            words = line.split(None, 10)
            yield words[1], words[2], int(words[3], 16), int(words[7]), int(words[9])


@dataclass(frozen=True, slots=True)
class SocketOwner:
    """The user that owns a socket, and the inode number that /proc/PID/fd shows for it."""

    uid: int
    inode: int


class SocketTable:
    """Asks for one TCP socket at a time, by its two addresses and two ports.

    A socket without an answer has no known owner.
    """

    def __init__(self) -> None:
        self.is_quick = True  # until netlink was refused; while True, `find` reads no files

    def find(self, local: Address, remote: Address) -> SocketOwner | None:
        """Return the owner of the socket whose own end is `local` and whose other end is `remote`.

        None when there is no such socket, or no process holds it any more. Where `is_quick` is False this
        reads files, which may take milliseconds.
        """
        if self.is_quick:
            try:
                return _tcp_owner(local, remote)
            except OSError:
                self.is_quick = False
        return find_in_proc(local, remote)


def _tcp_owner(local: Address, remote: Address) -> SocketOwner | None:
    family = _family(local[0])
    ends = [socket.inet_pton(family, host) for host, _ in (local, remote)]
    wanted = _PORTS.pack(local[1], remote[1]) + b"".join(end.ljust(_ADDRESS_BYTES, b"\0") for end in ends)
    request = _TCP_REQUEST.pack(family, socket.IPPROTO_TCP, 0, _ALL_STATES) + wanted + _NO_COOKIE
    try:
        (answer,) = _ask(request)
    except FileNotFoundError:
        return None
    _, state, _, _, found, _, _, _, uid, inode = _TCP_ANSWER.unpack_from(answer)
    # Without such a connection the kernel may answer with a listener on the port. A connection that is being
    # closed has neither an inode nor its true uid any more.
    if state in _UNUSABLE or not inode or found[:4] != wanted[:4]:
        return None
    return SocketOwner(uid, inode)


def find_in_proc(local: Address, remote: Address, *, root: str = "/proc/net") -> SocketOwner | None:
    """Return the owner by the tables of /proc; an IPv4 connection may stand in either one."""
    ends = (_as_listed(*local), _as_listed(*remote))
    tables = {"tcp6": ends}
    if _family(local[0]) == socket.AF_INET:
        mapped = (_as_listed(f"::ffff:{local[0]}", local[1]), _as_listed(f"::ffff:{remote[0]}", remote[1]))
        tables = {"tcp": ends, "tcp6": mapped}
    for name, wanted in tables.items():
        for own, other, state, uid, inode in _tcp_rows(f"{root}/{name}"):
            if (own, other) == wanted:
                return None if state in _UNUSABLE or not inode else SocketOwner(uid, inode)
    return None


def _family(host: str) -> int:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _as_listed(host: str, port: int) -> str:
    """Return an address as the tables show it: 32-bit words of the host in the machine's byte order, the port
    in hex.
    """
    raw = socket.inet_pton(_family(host), host)
    words = [int.from_bytes(raw[start : start + 4], "little") for start in range(0, len(raw), 4)]
    return "".join(f"{word:08X}" for word in words) + f":{port:04X}"


class ListeningPorts:
    """One look at the ports on which processes listen, for processes that are asked for right after it.

    Blocking: for a thread. Not shared between threads.
    """

    def __init__(self) -> None:
        self._by_namespace: dict[str, Mapping[int, int]] = {}

    def of(self, pid: int) -> set[int]:
        """Return the ports on which a process listens; none for one that is gone, or another user's."""
        with contextlib.suppress(OSError):
            inodes = set(sockets_of(pid)) - {0}
            if inodes:
                table = self._table(pid)
                return {table[inode] for inode in inodes & table.keys()}
        return set()

    def _table(self, pid: int) -> Mapping[int, int]:
        namespace = os.readlink(f"/proc/{pid}/ns/net")
        if namespace not in self._by_namespace:
            is_ours = namespace == os.readlink("/proc/self/ns/net")
            self._by_namespace[namespace] = (is_ours and _asked_ports()) or _listed_ports(pid)
        return self._by_namespace[namespace]


def is_listening(port: int) -> bool:
    """Return whether anything on this machine listens on a TCP port; never connects to it."""
    return port in (_asked_ports() or _listed_ports(os.getpid())).values()


def _asked_ports() -> Mapping[int, int]:
    """Return ports by the inodes of the sockets that listen, of this network namespace; none where netlink is
    refused.
    """
    found: dict[int, int] = {}
    for family in (socket.AF_INET, socket.AF_INET6):
        request = _TCP_REQUEST.pack(family, socket.IPPROTO_TCP, 0, 1 << _LISTEN) + bytes(_SOCKID_BYTES)
        with contextlib.suppress(OSError, struct.error):  # this machine may lack the address family
            for answer in _ask(request, flags=_DUMP):
                _, _, _, _, ends, _, _, _, _, inode = _TCP_ANSWER.unpack_from(answer)
                found[inode] = _PORTS.unpack_from(ends)[0]
    return found


def _listed_ports(pid: int) -> Mapping[int, int]:
    """Return the same by the tables of a process's network namespace."""
    return {
        inode: int(own.rpartition(":")[2], 16)
        for name in ("tcp", "tcp6")
        for own, _, state, _, inode in _tcp_rows(f"/proc/{pid}/net/{name}")
        if state == _LISTEN
    }


def other_end(connection: socket.SocketType) -> int:
    """Return the inode of the socket at a Unix connection's other end, 0 where the kernel does not name it.

    Raises:
        OSError: We are out of descriptors or memory (EMFILE, ENFILE, ENOMEM).
    """
    if not _HAS_UNIX_DIAG:
        return 0
    inode = os.fstat(connection.fileno()).st_ino
    request = _UNIX_REQUEST.pack(socket.AF_UNIX, 0, 0, _ALL_STATES, inode, _SHOW_PEER, b"\xff" * 8)
    try:
        (answer,) = _ask(request)
    except OSError as error:  # the kernel has no unix_diag, or the socket is gone
        if error.errno in _NO_ROOM:
            raise
        return 0
    # Attributes follow the message, each aligned to 4 bytes (netlink(7)); the peer's inode is one of them.
    at = _UNIX_ANSWER_BYTES
    while at + _ATTRIBUTE.size < len(answer):
        length, kind = _ATTRIBUTE.unpack_from(answer, at)
        if kind == _UNIX_DIAG_PEER:
            return int(_INODE.unpack_from(answer, at + _ATTRIBUTE.size)[0])
        at += max(4, length + 3 & ~3)
    return 0


def bound_paths(ends: tuple[bytes, ...]) -> Iterator[bytes]:
    """Yield the absolute paths of Unix sockets with one of these ends, of this network namespace."""
    with open("/proc/net/unix", "rb") as file:
        lines = file.read().split(b"\n")
    for at, line in enumerate(lines):
        if line.endswith(ends):
            start = at
            while not _A_SOCKET.match(lines[start]):
                start -= 1
            _, is_absolute, path = b"\n".join(lines[start : at + 1]).partition(b" /")
            if is_absolute:
                yield b"/" + path
