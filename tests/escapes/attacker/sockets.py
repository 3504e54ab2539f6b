"""Ways out by sockets: of the network, of others on this machine, and of families that few programs need."""

import ctypes
import os
import socket
import struct
from collections.abc import Callable
from functools import partial
from typing import Any

from tests.escapes.attacker.calling import Kept, Missing, Told

_PATIENCE_S = 3.0
_FAMILIES = {
    "AX25": 3, "IPX": 4, "APPLETALK": 5, "X25": 9, "KEY": 15, "PACKET": 17, "RDS": 21, "PPPOX": 24, "LLC": 26, "CAN": 29,  # noqa: E501 -- cut nowhere better: a table, or another program's text
    "TIPC": 30, "BLUETOOTH": 31, "IUCV": 32, "RXRPC": 33, "PHONET": 35, "CAIF": 37, "ALG": 38, "NFC": 39, "VSOCK": 40, "KCM": 41,  # noqa: E501 -- cut nowhere better: a table, or another program's text
    "QIPCRTR": 42, "SMC": 43, "XDP": 44, "MCTP": 45,
}  # fmt: skip
_TYPES = (1, 2, 3, 4, 5)


def _make(family: int) -> None:
    """Make a socket of a family, whatever kind it has; one that this kernel lacks cannot be reached."""
    last = OSError()
    for kind in _TYPES:
        try:
            socket.socket(family, kind).close()
        except OSError as error:
            last = error
            if error.errno == 1:
                continue
        else:
            return
    raise last


def _pair(family: int) -> None:
    for end in socket.socketpair(family, socket.SOCK_SEQPACKET):
        end.close()


def _connect_abstract(name: str, kind: int) -> None:
    with socket.socket(socket.AF_UNIX, kind) as client:
        client.settimeout(_PATIENCE_S)
        client.connect("\0" + name)


def _send_abstract(name: str) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as client:
        client.sendto(b"from inside", "\0" + name)


def _connect_path(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(_PATIENCE_S)
        client.connect(path)


def _connect(port: int, *, host: str = "127.0.0.1") -> None:
    socket.create_connection((host, port), timeout=_PATIENCE_S).close()


def _listen() -> None:
    """Listen where others would reach it: on all addresses but our own loopback's."""
    with socket.create_server(("0.0.0.0", 0)):
        pass
    if len(socket.if_nameindex()) == 1:
        raise Kept("there is no interface but lo")


def _send(port: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.connect(("127.0.0.1", port))
        sender.send(b"from inside")
        sender.settimeout(_PATIENCE_S)
        sender.recv(16)  # nobody there: ECONNREFUSED


def _raw() -> None:
    socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP).close()


def _make_link() -> None:
    """Ask the kernel for a new interface (RTM_NEWLINK)."""
    name = b"outlive0"
    attribute = struct.pack("<HH", 4 + len(name) + 1, 3) + name + b"\0" * 4
    kind = struct.pack("<HH", 4 + 5, 1) + b"dummy\0\0\0"[:8]
    info = struct.pack("<HH", 4 + len(kind), 18) + kind
    body = struct.pack("<BxHiII", 0, 0, 0, 0, 0) + attribute[:16] + info
    header = struct.pack("<IHHII", 16 + len(body), 16, 0x605, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as link:
        link.send(header + body)
        answer = link.recv(4096)
    failure = struct.unpack_from("<i", answer, 16)[0]
    if failure:
        raise OSError(-failure, os.strerror(-failure))


def _audit() -> None:
    """Hear the audit log (NETLINK_AUDIT, its multicast group)."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 9) as link:
        link.bind((0, 1))


def _interfaces() -> None:
    names = [name for _, name in socket.if_nameindex()]
    if names == ["lo"]:
        raise Kept("there is no interface but lo")


def attempts(told: dict[str, Any]) -> dict[str, Callable[[Told], None]]:
    """Return all ways by name."""
    ways: dict[str, Callable[[], object]] = {
        f"socket_{name.lower()}": partial(_make, one) for name, one in _FAMILIES.items()
    }
    ways |= {
        "socket_high_bits": _high_bits,
        "socketpair_tipc": partial(_pair, _FAMILIES["TIPC"]),
        "abstract_stream": partial(_connect_abstract, told["abstract_stream"], socket.SOCK_STREAM),
        "abstract_seqpacket": partial(_connect_abstract, told["abstract_seqpacket"], socket.SOCK_SEQPACKET),
        "abstract_datagram": partial(_send_abstract, told["abstract_datagram"]),
        "path_socket": partial(_connect_path, told["path_socket"]),
        "raw_socket": _raw,
        "new_link": _make_link,
        "audit": _audit,
        "tcp": partial(_connect, told["tcp"]),
        "tcp_ipv6": partial(_connect, told["tcp6"], host="::1"),
        "udp": partial(_send, told["udp"]),
        "listen": _listen,
        "interfaces": _interfaces,
    }
    return {name: lambda _told, way=way: way() and None for name, way in ways.items()}  # type: ignore[misc]


def _high_bits() -> None:
    """A family whose upper half is set: the kernel looks at the lower one only."""
    number = {"x86_64": 41, "aarch64": 198}.get(os.uname().machine)
    if number is None:
        raise Missing("no number is known here")
    libc = ctypes.CDLL(None, use_errno=True)
    if (
        libc.syscall(ctypes.c_long(number), ctypes.c_long(38 | 1 << 32), ctypes.c_long(5), ctypes.c_long(0))
        < 0
    ):
        raise OSError(ctypes.get_errno(), "socket")
