"""The supervisor's local socket: connections of servers and of the command line, requests in, replies and
doorbells out.

A doorbell is a record of a process's newest state, sent to servers when it changes. `Doorbells` collects what
changed until the end of a turn; `ControlClients` sends it. A slow server never blocks the pump: a doorbell
that cannot be sent now waits in a dict, where a newer state replaces it. What a request means is decided in
`requests`.
"""

import os
import select
import socket
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial

from outlive.keeper.supervisor.inputs import MAX_LENT_FDS
from outlive.keeper.supervisor.loop import Loop
from outlive.keeper.supervisor.managed_process import Answer, ManagedProcess
from outlive.kernel import sockets
from outlive.kernel.callers import AcceptTurns, PeerProcess
from outlive.protocols.keeper import (
    DOORBELLS_PER_PACKET,
    RECORD,
    Flags,
    decode_message,
    encode_message,
)

_LATER_S = 0.05  # a change that a user does not wait for
_BULK_S = 0.004  # a stream in full flow: at most 250 doorbells a second, however often it moves


class Doorbells:
    """Collects changes until the end of a turn, when `take` hands out each process's newest state once.

    `dirty` has what changed since.
    """

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self.dirty: dict[bytes, ManagedProcess] = {}
        # What is due within each delay, and the delays whose timer runs.
        self._due: dict[float, dict[bytes, ManagedProcess]] = {_LATER_S: {}, _BULK_S: {}}
        self._timed: set[float] = set()

    def touch(self, process: ManagedProcess) -> None:
        """Send servers the newest state of a process at the end of this turn."""
        self.dirty[process.key] = process

    def touch_later(self, process: ManagedProcess, within_s: float = _LATER_S) -> None:
        """Send it within 50 ms (or `within_s`, one of the two delays), or with the next change, which mostly
        comes sooner.
        """
        self._due[within_s][process.key] = process
        if within_s not in self._timed:
            self._timed.add(within_s)
            self._loop.later(within_s, partial(self._be_due, within_s))

    def touch_bulk(self, process: ManagedProcess) -> None:
        """Send it within 4 ms, however often the stream moves in between."""
        self.touch_later(process, _BULK_S)

    def _be_due(self, within_s: float) -> None:
        self._timed.discard(within_s)
        self.dirty.update(self._due[within_s])

    def take(self) -> dict[bytes, bytes]:
        """Return the doorbells of what changed since the last call, by key.

        A state that was sent already is left out.
        """
        dirty, self.dirty = self.dirty, {}
        # What is sent now needs no later doorbell for its earlier change.
        for within_s, due in self._due.items():
            if due:
                self._due[within_s] = {key: process for key, process in due.items() if key not in dirty}
        bells = {}
        for key, process in dirty.items():
            if (bell := process.doorbell()) != process.told:
                bells[key] = process.told = bell
        return bells


_SYNC = RECORD.pack(bytes(16), 0, 0, 0, 0, 0, 0, int(Flags.SYNC), 0)
# Connections from inside commands, which may only pass on a standard input: they must not take all our
# descriptors. The first connection from each command's tree is always accepted, since the command itself
# costs us more.
_MAX_INSIDE = 256
_MAX_EACH_TREE = 32  # twice the number of descriptors that a tree may pass on at a time (`inputs`)
_MAX_UNSENT = 4096  # replies that wait for a client that does not read; then the client is dropped


class ControlClient:
    """One connection; `bells` holds the newest unsent state of each process by key."""

    __slots__ = (
        "bells",
        "caller",
        "is_inside",
        "is_lending",
        "is_server",
        "is_waiting",
        "replies",
        "socket",
        "tree",
    )

    def __init__(self, connection: socket.socket, caller: PeerProcess, *, tree: bytes | None) -> None:
        """Begin without doorbells; a hello with role "server" asks for them.

        `tree`: the key of the process in whose tree the client lives; empty where that is not known, None
            outside of all.
        """
        self.socket = connection
        self.caller = caller
        self.judge(tree)
        # Its next packet was only looked at; it is received when the server asks for the start that it is
        # for.
        self.is_lending = False
        self.is_server = False
        self.is_waiting = False
        self.bells: dict[bytes, bytes] = {}
        self.replies: list[bytes] = []

    def judge(self, tree: bytes | None) -> None:
        """Record in whose tree it lives: in one that we started (or this is not known), it may lend its
        stdin, and nothing else.
        """
        self.tree = tree
        self.is_inside = tree is not None


Lend = Callable[[ControlClient, str, Callable[[], list[int]]], bool]
Handle = Callable[[ControlClient, dict[str, object], bytes, list[int], Answer], None]


class ControlClients:
    """Accepts connections of our own user and hands requests to `handle(client, message, payload, fds,
    answer)`.
    """

    def __init__(
        self,
        loop: Loop,
        listener: socket.socket,
        bells: Doorbells,
        *,
        handle: Handle,
        lend: Lend,
        dropped: Callable[[ControlClient], None],
        tree_of: Callable[[PeerProcess], bytes | None],
    ) -> None:
        """Watch the listener; `dropped` is called for every connection that ends, `tree_of` judges a new one
        (`ControlClient`).

        `lend` decides whether descriptors that a client lends may wait. Its arguments are the client, the
        process id, and a function that receives the descriptors.
        """
        self._loop = loop
        self._listener = listener
        self._bells = bells
        self._uid = os.getuid()
        self._handle = handle
        self._lend = lend
        self._dropped = dropped
        self._tree_of = tree_of
        self._turns = AcceptTurns()
        self._clients: set[ControlClient] = set()
        loop.watch(listener.fileno(), self._meet)

    def __len__(self) -> int:
        """Return how many are connected."""
        return len(self._clients)

    def _meet(self, _events: int) -> None:
        while (connection := sockets.accept(self._listener)) is not None:
            caller = self._welcome(connection)
            if caller is None:
                connection.close()
                continue
            client = ControlClient(connection, caller, tree=self._tree_of(caller))
            if client.is_inside:  # this verdict is final, so the pidfd is not needed any more
                caller.close()
                if not _has_room(self._clients, client.tree):
                    connection.close()
                    continue
            self._clients.add(client)
            self._loop.watch(connection.fileno(), partial(self._ready, client))

    def _welcome(self, connection: socket.socket) -> PeerProcess | None:
        """Return the process that connected; None for another user, and when no descriptor is left to
        identify it by.
        """
        try:
            caller = PeerProcess.behind(connection, self._turns)
        except OSError:
            return None
        if caller.uid in {self._uid, 0}:  # root may do anything anyway
            return caller
        caller.close()
        return None

    def judge_again(self, servers: Collection[int] = ()) -> None:
        """Judge all clients once more, and drop those that turn out to live inside: more is known now.

        Also those that were taken for commands, and are `servers`, by pid: they connect again.
        """
        for client in [one for one in self._clients if one.is_inside and one.caller.pid in servers]:
            self.drop(client)
        for client in [one for one in self._clients if not one.is_inside]:
            client.judge(self._tree_of(client.caller))
            if client.is_inside:  # its requests that still wait are refused with it
                self.drop(client)

    def _ready(self, client: ControlClient, events: int) -> None:
        if events & select.EPOLLOUT and not self._send_waiting(client):
            return
        if not events & ~select.EPOLLOUT:
            return
        if client.is_lending:  # only the end of the connection is watched for
            self.drop(client)
            return
        if not client.is_server and self._leave_lent_stdin(client):
            return
        packet = sockets.receive(client.socket)
        if packet is None:
            return
        message, fds = packet
        try:
            request, payload = decode_message(message)
        except ValueError:
            # The end of the connection, or a packet that is no request. Its descriptors are closed: otherwise
            # a client could take all of our descriptors with packets that mean nothing.
            for fd in fds:
                os.close(fd)
            self.drop(client)
            return
        # The reply carries the request's number, by which the client finds the request that it belongs to.
        self._handle(client, request, payload, fds, partial(self._answer, client, request.get("req")))

    def _leave_lent_stdin(self, client: ControlClient) -> bool:
        """Return whether the next packet lends something that may wait.

        It stays unread until the server asks for that start.

        Until then the descriptor counts as the lender's, also in the kernel's limits (unix(7), RLIMIT_NOFILE
        of the sender). Later packets of this connection wait behind it.
        """
        try:
            request, _ = decode_message(sockets.peek(client.socket) or b"")
        except ValueError:
            return False  # `_ready` receives it, and refuses it
        if request.get("op") != "lend":
            return False

        def fetch() -> list[int]:
            packet = sockets.receive(client.socket)
            client.is_lending = False
            self._watch(client)
            fds = [] if packet is None else packet[1]
            for fd in fds[MAX_LENT_FDS:]:
                os.close(fd)
            return fds[:MAX_LENT_FDS]

        if not self._lend(client, str(request.get("id")), fetch):
            return False
        client.is_lending = True
        self._watch(client)
        self._answer(client, request.get("req"), {})
        return True

    def _watch(self, client: ControlClient) -> None:
        # While it lends, its unread packet would make EPOLLIN true all the time.
        events = select.EPOLLRDHUP if client.is_lending else select.EPOLLIN
        self._loop.change(client.socket.fileno(), events | (select.EPOLLOUT if client.is_waiting else 0))

    def drop(self, client: ControlClient) -> None:
        """Close a connection and forget it."""
        if client not in self._clients:
            return
        self._clients.discard(client)
        self._loop.unwatch(client.socket.fileno())
        client.socket.close()
        client.caller.close()
        self._dropped(client)

    def _answer(self, client: ControlClient, number: object, fields: dict[str, object]) -> None:
        if client not in self._clients:
            return
        packet = encode_message({"req": number, "ok": "error" not in fields, **fields})
        if client.replies or not self._try(client, packet):
            client.replies.append(packet)
            if len(client.replies) > _MAX_UNSENT:
                self.drop(client)

    def _try(self, client: ControlClient, packet: bytes) -> bool:
        """Send now; False when the client is gone, or must wait until its socket is writable again."""
        try:
            sent = sockets.send(client.socket, packet)
        except OSError:
            self.drop(client)
            return False
        if not sent and not client.is_waiting:
            client.is_waiting = True
            self._watch(client)
        return sent

    def _send_waiting(self, client: ControlClient) -> bool:
        while client.replies:
            if not self._try(client, client.replies[0]):
                return False
            client.replies.pop(0)
        if not self._send_bells(client):
            return False
        client.is_waiting = False
        self._watch(client)
        return True

    def _send_bells(self, client: ControlClient) -> bool:
        bells = client.bells
        while bells:
            keys = list(bells)[:DOORBELLS_PER_PACKET]
            if not self._try(client, b"D" + b"".join([bells[key] for key in keys])):
                return False
            for key in keys:
                del bells[key]
        return True

    def greet_server(
        self,
        client: ControlClient,
        process: Iterable[ManagedProcess],
        *,
        doubtful: Mapping[bytes, bytes] | None,
    ) -> None:
        """Begin doorbells with the state of everything live that is known.

        With `doubtful` (doorbells of processes that may live) these follow, and then a sync mark: a process
        that was not mentioned before it has finished. Without it (None) that cannot be said yet; then the
        server is greeted once more.
        """
        client.is_server = True
        client.bells.update({each.key: each.doorbell() for each in process})
        if doubtful is not None:
            client.bells.update(doubtful)
            client.bells[b"sync"] = _SYNC
        if not client.is_waiting:
            self._send_bells(client)

    def flush(self) -> None:
        """Send what changed in this turn: one packet for each client, however much changed."""
        if not self._bells.dirty or not (bells := self._bells.take()):
            return
        packet = b""
        for client in [client for client in self._clients if client.is_server]:
            # A server that keeps up shares one packet with the others; one that waits collects the newest
            # states.
            if not client.is_waiting and not client.bells and len(bells) <= DOORBELLS_PER_PACKET:
                packet = packet or b"D" + b"".join(bells.values())
                if not self._try(client, packet):
                    client.bells = dict(bells)
                continue
            client.bells.update(bells)
            if not client.is_waiting:
                self._send_bells(client)


def _has_room(clients: Collection[ControlClient], tree: bytes | None) -> bool:
    """Return whether one more connection of a command's tree is accepted: no command takes the places of
    another.
    """
    of_tree = sum(one.tree == tree for one in clients)
    inside = sum(one.is_inside for one in clients)
    return not of_tree or (of_tree < _MAX_EACH_TREE and inside < _MAX_INSIDE)
