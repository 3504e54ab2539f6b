"""The sockets that the server listens on, opened before anything heavy is imported.

Owns binding: both IP families on one port number, the Unix socket, and the error for a taken port. Imports
the standard library only, so that a client can connect while the rest is still imported; `http_server` serves
on what this module opens.
"""

import contextlib
import errno
import os
import socket
from collections.abc import Mapping
from typing import Self

from outlive.core.errors import ConfigInvalid
from outlive.core.values import dataclass, field
from outlive.kernel.disk import Reserve
from outlive.kernel.sockets import listen_unix

# Clients that connect while the server still imports, or gets no processor time, wait in the backlog. When it
# is full, the kernel drops their packets, and after a while the connection. The kernel's cap,
# net.core.somaxconn, has this value since Linux 5.4.
BACKLOG = 4096
_NO_SUCH_FAMILY = frozenset({errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.EPROTONOSUPPORT})
_FREE_PORT_ATTEMPTS = 16


@dataclass(slots=True)
class Listeners:
    """Every listening socket of the server, and the port of each frontend (`ports`, by its name).

    Leaving the `with` block closes the sockets and removes `unix_path`.
    """

    sockets: list[socket.socket] = field(default_factory=list)
    ports: dict[str, int] = field(default_factory=dict)
    unix_path: str | None = None
    _unix_inode: tuple[int, int] | None = None

    def add_port(self, door: str, host: str, port: int) -> None:
        """Open a TCP port for a frontend.

        Raises:
            ConfigInvalid: `port_taken`, or the operating system does not allow it.
        """
        opened = open_port(host, port)
        self.sockets.extend(opened)
        self.ports[door] = opened[0].getsockname()[1]

    def add_unix(self, path: str) -> None:
        """Open the Unix socket; only the owner of the state folder can reach it."""
        self.sockets.append(open_unix(path))
        self.unix_path = path
        self._unix_inode = _inode(path)

    def __enter__(self) -> Self:
        """Hold the sockets."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close them all."""
        for listener in self.sockets:
            listener.close()
        # Compared by inode: the path may hold another server's socket by now, in a folder that replaced ours.
        if self.unix_path is not None and _inode(self.unix_path) == self._unix_inode:
            with contextlib.suppress(OSError):
                os.unlink(self.unix_path)


_PAGE_PORTS = ("rest", "mcp", "jsonrpc")  # every port shows the page; this is the order in which one is named
_EVERYWHERE = frozenset({"127.0.0.1", "localhost", "::1", "0.0.0.0", "::", ""})


def local_address(ports: Mapping[str, int], host: str, *, has_tls: bool) -> str | None:
    """Return where a browser of this machine reaches the server, without a slash at the end; None where it
    listens at no port.
    """
    port = next((ports[name] for name in _PAGE_PORTS if name in ports), None)
    if port is None:
        return None
    if host in _EVERYWHERE:
        # A certificate names localhost rather than an address.
        host = "localhost" if has_tls else "127.0.0.1"
    shown = f"[{host}]" if ":" in host else host
    return f"{'https' if has_tls else 'http'}://{shown}:{port}"


def _inode(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def open_unix(path: str) -> socket.socket:
    """Return a stream socket that listens on `path` (any length, mode 0600), replacing a stale one."""
    reserve = Reserve(os.path.dirname(path))
    listener = reserve.fit(lambda: listen_unix(path, socket.SOCK_STREAM, backlog=BACKLOG))
    # Between bind and chmod the state folder's own mode (0700) protects it.
    os.chmod(path, 0o600)
    return listener


def open_port(host: str, port: int) -> list[socket.socket]:
    """Return listening sockets on one port number: for 127.0.0.1 on ::1 too, where this machine has it.

    Node.js resolves localhost to ::1 first, so its clients would reach a foreign listener there instead of
    this server. A port number therefore counts as taken when it is taken in either family.

    Raises:
        ConfigInvalid: `port_taken`, or the operating system does not allow it.
    """
    for _ in range(_FREE_PORT_ATTEMPTS):
        first = _bind(host, port)
        if host != "127.0.0.1":
            return [first]
        try:
            return [first, _bind("::1", first.getsockname()[1])]
        except ConfigInvalid:
            first.close()
            if port:
                raise
        except OSError as error:
            if error.errno in _NO_SUCH_FAMILY:
                return [first]
            first.close()
            raise
    raise ConfigInvalid("port_taken", "No port was free on both 127.0.0.1 and ::1.")


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        # After a restart the old connections are in TIME_WAIT and would block the port. On Linux this option
        # does not allow two listeners on one port (socket(7)).
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Accepted connections inherit it. asyncio would set it only where the protocol number is given, too;
        # without it a short answer can wait 40 ms for an acknowledgement.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            where = f"[{host}]" if ":" in host else host
            raise ConfigInvalid(
                "port_taken", f"Port {port} on {where} is taken by another program."
            ) from error
        if error.errno in {errno.EACCES, errno.EPERM}:
            raise ConfigInvalid(
                "config_invalid",
                f"This user may not listen on port {port}.",
                hint="Choose a port above 1023, or 0 for any free one.",
            ) from error
        raise
    return listener
