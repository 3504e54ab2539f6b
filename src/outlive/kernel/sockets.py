"""Unix sockets of the keeper: paths of any length, descriptors in messages, and which process is the peer.

`sun_path` holds 107 bytes (unix(7)); longer paths are reached through /proc/self/fd/<folder>/<name>. To
listen, our pid stands there: /proc/net/unix shows that name (`kernel/own_places.py` reads it).

What a packet means is decided by the protocols (`protocols.keeper`, `native/shim/shim_loop.h`), not here.
"""

import contextlib
import errno
import os
import socket
import stat
import struct
from collections.abc import Iterator, Sequence

from outlive.kernel.processes import has_exited

_SUN_PATH_BYTES = 107
_MAX_FDS = 16
_MAX_PACKET = 256 * 1024  # above the largest SEQPACKET message the default send buffer allows
_UCRED = struct.Struct("3i")
_FDS_SPACE = socket.CMSG_SPACE(_MAX_FDS * 4)
_CREDENTIALS_SPACE = socket.CMSG_SPACE(_UCRED.size)
_CLOEXEC = int(socket.MSG_CMSG_CLOEXEC)
_RIGHTS = int(socket.SCM_RIGHTS)
_SO_PEERPIDFD = 77  # asm-generic/socket.h, Linux 6.5
# Errors that say something about us (no descriptors, no memory), and nothing about the peer.
_WANTS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
# Lets a test pretend that the kernel is older: OUTLIVE_DEGRADE=peer_pidfd in the environment.
_HAS_PEER_PIDFD = "peer_pidfd" not in os.environ.get("OUTLIVE_DEGRADE", "").split(",")


def _is_short(path: str) -> bool:
    return len(os.fsencode(path)) <= _SUN_PATH_BYTES


@contextlib.contextmanager
def _short(path: str, process: str = "self") -> Iterator[str]:
    if _is_short(path):
        yield path
        return
    folder = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/{process}/fd/{folder}/{os.path.basename(path)}"
    finally:
        os.close(folder)


def listen_unix(
    path: str, kind: int = socket.SOCK_SEQPACKET, *, backlog: int = 64, is_new: bool = False
) -> socket.socket:
    """Return a non-blocking socket that listens on `path`, replacing a stale one (in a new folder there is
    none).

    Raises:
        OSError: The folder is missing or not writable.
    """
    listener = socket.socket(socket.AF_UNIX, kind | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
    try:
        # As this /proc numbers us, which may be that of another PID namespace.
        with _short(path, "self" if _is_short(path) else os.readlink("/proc/self")) as address:
            if not is_new:
                with contextlib.suppress(OSError):  # missing; any other error shows again at `bind`
                    os.unlink(address)
            listener.bind(address)
        listener.listen(backlog)
    except OSError:
        listener.close()
        raise
    return listener


def connect_unix(
    path: str, kind: int = socket.SOCK_SEQPACKET, *, names_senders: bool = False
) -> socket.socket:
    """Return a connected, non-blocking socket; with `names_senders` it is for `receive_named`.

    Raises:
        OSError: No process listens (ConnectionRefusedError, FileNotFoundError), or the backlog is full
            (BlockingIOError).
    """
    connection = socket.socket(socket.AF_UNIX, kind | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
    try:
        if names_senders:  # before connecting, so that the peer's first message already carries its sender
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        if _is_short(path):
            connection.connect(path)
            return connection
        with _short(path) as address:
            connection.connect(address)
    except OSError:
        connection.close()
        raise
    return connection


def connect_own(path: str, *, names_senders: bool = False) -> socket.socket:
    """Return a connected, non-blocking SEQPACKET socket, as `connect_unix`, but only if `path` is a socket of
    our own user.

    A symbolic link in its place is refused. The socket is checked and connected to through one descriptor
    (O_PATH, open(2)), so it cannot be exchanged in between.

    Raises:
        OSError: As `connect_unix`; EPERM: something else is at `path`.
    """
    place = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        about = os.fstat(place)
        if not stat.S_ISSOCK(about.st_mode) or about.st_uid != os.geteuid():
            raise OSError(errno.EPERM, "not a socket of our own", path)
        return connect_unix(f"/proc/self/fd/{place}", names_senders=names_senders)
    finally:
        os.close(place)


def accept(listener: socket.socket) -> socket.socket | None:
    """Return the next connection (non-blocking), or None when no more wait."""
    try:
        connection, _ = listener.accept()
    except (BlockingIOError, ConnectionAbortedError):
        return None
    connection.settimeout(0.0)
    return connection


def peer_of(connection: socket.SocketType) -> tuple[int, int]:
    """Return pid and uid of the peer as the kernel saw them at connect (SO_PEERCRED, unix(7))."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
    pid, uid, _ = _UCRED.unpack(raw)
    return pid, uid


def peer_pidfd(connection: socket.SocketType) -> int | None:
    """Return a pidfd of the process that connected (or, for a connection of ours, of the one that listens).

    Close it.

    A pidfd stands for one process for ever, while a pid may be another process's by the time it is used. What
    was learned by the pid in between holds if `has_exited` is still False afterwards.

    Returns:
        A descriptor with close-on-exec; None where the kernel has no such call (before Linux 6.5).

    Raises:
        ProcessLookupError: The process has exited.
        OSError: We are out of descriptors or memory (EMFILE, ENFILE, ENOMEM); this says nothing about the
        peer.
    """
    if not _HAS_PEER_PIDFD:
        return None
    try:
        pidfd = connection.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD)
    except OSError as error:
        if error.errno == errno.ENOPROTOOPT:
            return None
        if error.errno in _WANTS:
            raise
        raise ProcessLookupError(errno.ESRCH, "the peer has exited") from error
    if has_exited(pidfd):
        os.close(pidfd)
        raise ProcessLookupError(errno.ESRCH, "the peer has exited")
    return pidfd


def send(connection: socket.SocketType, message: bytes, fds: Sequence[int] = ()) -> bool:
    """Send one packet, with descriptors if any; False when the peer's buffer is full (nothing was sent).

    Raises:
        OSError: The peer is gone (BrokenPipeError, ConnectionResetError).
    """
    try:
        if fds:
            ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack(f"{len(fds)}i", *fds))]
            connection.sendmsg([message], ancillary, socket.MSG_NOSIGNAL)
        else:
            connection.send(message, socket.MSG_NOSIGNAL)
    except BlockingIOError:
        return False
    return True


def peek(connection: socket.SocketType, *, size: int = _MAX_PACKET) -> bytes | None:
    """Return the next packet without taking it: its descriptors stay there, and `receive` returns the same
    packet.
    """
    try:
        return connection.recv(size, socket.MSG_PEEK)
    except BlockingIOError:
        return None
    except ConnectionResetError:  # reported once, see `receive`
        return peek(connection, size=size)


def receive_named(connection: socket.SocketType) -> tuple[bytes, list[int], int] | None:
    """Return what `receive` does and the sender's pid, which the kernel vouches for (SO_PASSCRED, unix(7)); 0
    at the end.

    Afterwards the socket names no more senders, unless there was no packet.
    """
    try:
        message, ancillary, _, _ = connection.recvmsg(_MAX_PACKET, _FDS_SPACE + _CREDENTIALS_SPACE, _CLOEXEC)
    except BlockingIOError:
        return None
    except ConnectionResetError:  # reported once, see `receive`
        return receive_named(connection)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 0)
    pids = [_UCRED.unpack(raw)[0] for _, kind, raw in ancillary if kind == socket.SCM_CREDENTIALS]
    return message, _descriptors_in(ancillary), pids[0] if pids and message else 0


def receive(connection: socket.SocketType, *, size: int = _MAX_PACKET) -> tuple[bytes, list[int]] | None:
    """Receive one packet and its descriptors (close-on-exec).

    B"" is the end, None means that no packet is there.
    """
    try:
        message, ancillary, _, _ = connection.recvmsg(size, _FDS_SPACE, _CLOEXEC)
    except BlockingIOError:
        return None
    except ConnectionResetError:
        # Reported once, before the packets that the peer had sent: it died with messages of ours unread. Its
        # own packets still count (a shim once threw away the descriptors it had just been given), so receive
        # again.
        return receive(connection, size=size)
    return message, _descriptors_in(ancillary) if ancillary else []


def _descriptors_in(ancillary: Sequence[tuple[int, int, bytes]]) -> list[int]:
    fds: list[int] = []
    for _, kind, raw in ancillary:  # a Unix socket delivers descriptors or, if asked for, credentials
        if kind == _RIGHTS:
            fds += memoryview(raw).cast("i")
    return fds
