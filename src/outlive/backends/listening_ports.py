"""On which TCP ports the processes of this machine listen: `ListeningPorts`, one look at the kernel's table
for many processes.

The kernel is asked for its listening sockets alone, by netlink (sock_diag(7)): 0.2 ms. /proc/net/tcp lists
the same, but walks over all of the kernel's hash table, 5 ms a file (measured on Linux 6.18): it is read
where netlink is refused, and for processes in a network namespace of their own. `server.access.socket_table`
asks for one connection by its addresses. Blocking: for a thread.
"""

import contextlib
import os
import socket
import struct
from collections.abc import Iterable, Mapping

# Numbers and structures of linux/netlink.h, linux/sock_diag.h and linux/inet_diag.h.
_NETLINK_SOCK_DIAG, _SOCK_DIAG_BY_FAMILY = 4, 20
_REQUEST_AND_DUMP = 0x301  # NLM_F_REQUEST | NLM_F_DUMP
_HEADER = struct.Struct("=IHHII")  # struct nlmsghdr
_REQUEST = struct.Struct("=BBBxI48x")  # struct inet_diag_req_v2 whose sockid is empty
_LISTEN = 10  # TCP_LISTEN
_PORT = struct.Struct("!H")
_INODE = struct.Struct("=I")
_PORT_AT, _INODE_AT = _HEADER.size + 4, _HEADER.size + 68  # within one answer
_PACKET = 64 * 1024
_PATIENCE_S = 1.0  # the kernel answers at once
_SOCKET = "socket:["
_LISTENING = b" 0A "  # the column `st` of proc_net_tcp(5)


class ListeningPorts:
    """One look, for processes that are asked for right after it. Not shared between threads."""

    def __init__(self) -> None:
        self._by_namespace: dict[str, Mapping[int, int]] = {}

    def of(self, pid: int) -> set[int]:
        """Return the ports on which a process listens; none for one that is gone, or another user's."""
        with contextlib.suppress(OSError):
            inodes = set(_sockets_of(pid))
            if inodes:
                table = self._table(pid)
                return {table[inode] for inode in inodes & table.keys()}
        return set()

    def _table(self, pid: int) -> Mapping[int, int]:
        namespace = os.readlink(f"/proc/{pid}/ns/net")
        table = self._by_namespace.get(namespace)
        if table is None:
            is_ours = namespace == os.readlink("/proc/self/ns/net")
            table = self._by_namespace[namespace] = _listed(pid) if not is_ours else _asked(pid)
        return table


def _sockets_of(pid: int) -> Iterable[int]:
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):  # closed meanwhile
            target = os.readlink(f"/proc/{pid}/fd/{fd}")
            if target.startswith(_SOCKET):
                yield int(target[len(_SOCKET) : -1])


def _asked(pid: int) -> Mapping[int, int]:
    """Return ports by the inodes of their sockets, of this network namespace."""
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, _NETLINK_SOCK_DIAG) as netlink:
            netlink.settimeout(_PATIENCE_S)
            found: dict[int, int] = {}
            for family in (socket.AF_INET, socket.AF_INET6):
                found |= _dump(netlink, family)
            return found
    except (OSError, struct.error):  # refused (gVisor, seccomp)
        return _listed(pid)


def _dump(netlink: socket.socket, family: int) -> dict[int, int]:
    request = _REQUEST.pack(family, socket.IPPROTO_TCP, 0, 1 << _LISTEN)
    netlink.send(
        _HEADER.pack(_HEADER.size + len(request), _SOCK_DIAG_BY_FAMILY, _REQUEST_AND_DUMP, 1, 0) + request
    )
    found: dict[int, int] = {}
    while True:
        packet, at = netlink.recv(_PACKET), 0
        while at < len(packet):
            length, kind, *_ = _HEADER.unpack_from(packet, at)
            if (
                kind != _SOCK_DIAG_BY_FAMILY
            ):  # NLMSG_DONE, or an error: an address family that this machine lacks
                return found
            (port,) = _PORT.unpack_from(packet, at + _PORT_AT)
            (inode,) = _INODE.unpack_from(packet, at + _INODE_AT)
            found[inode] = port
            at += (length + 3) & ~3


def _listed(pid: int) -> Mapping[int, int]:
    """Return the same by the tables of a process's network namespace."""
    found: dict[int, int] = {}
    for name in ("tcp", "tcp6"):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/net/{name}", "rb") as file:
            for line in file:
                if _LISTENING in line:
                    words = line.split(None, 10)
                    found[int(words[9])] = int(words[1].rpartition(b":")[2], 16)
    return found
