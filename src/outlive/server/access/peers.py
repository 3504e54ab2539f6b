"""Which process is at the other end of a connection: `Peer`, one for each, and `Peers`, which finds out once
and remembers.

Facts from the kernel only: the user, whether a command encloses the process, of this server or another one of
its user, and whether it is bounded more than this server (decision 219). `authenticator` decides what follows
from them. A fact that cannot be found counts against the caller.

`Holders` searches /proc/PID/fd on the event loop, some in each turn: a thread would be slower, since each of
its hundreds of system calls would release the interpreter lock and wait for it again, several turns of a busy
loop (decision 91). Reading the names of descriptors never blocks. Reads that another process can make slow,
as of its memory, are made away from the event loop: `Looks`, a few threads with one queue.

Not asyncio's own thread pool: a read that blocks for ever would take one of its threads from the whole
server.
"""

import asyncio
import contextlib
import itertools
import os
import queue
import socket
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import closing
from enum import Enum
from functools import partial
from typing import TypeVar

from outlive.core.errors import LimitExceeded
from outlive.core.events import KeeperBounds
from outlive.core.identity import PROCESS_VARIABLE, short_name
from outlive.core.layout import VARIABLE, Layout
from outlive.core.values import dataclass, field
from outlive.engine.semaphores import Semaphores
from outlive.kernel.callers import AcceptTurns, Ancestry, Confinement, Descent, PeerProcess
from outlive.kernel.locks import holder_of
from outlive.kernel.processes import all_pids, environment_of, sockets_of, start_ticks, stat_fields, this_boot
from outlive.kernel.socket_tables import Address, SocketOwner, SocketTable
from outlive.kernel.state_files import read_pid

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
    for pid in sorted(all_pids(), reverse=True):
        if pid not in tried:
            yield pid, 0
            for inode in sockets_of(pid):
                yield pid, inode


# A read of another process's memory can block for ever and then keeps one thread; the queue goes on with the
# others.
_MOST_THREADS = 8

_T = TypeVar("_T")


@dataclass(eq=False, slots=True, kw_only=True)
class Looks:
    """Used on one event loop.

    The queue holds one entry per waiting caller; the caller sets the deadline, nothing here does.
    """

    _line: queue.SimpleQueue[Callable[[], None]] = field(default_factory=queue.SimpleQueue, init=False)
    _threads: int = field(default=0, init=False)
    _waiting: int = field(default=0, init=False)  # looks that have not ended yet

    async def look(self, work: Callable[[], _T]) -> _T | None:
        """Return what `work` returns, None when it fails.

        Cancellation: safe; a look that has not begun is left out.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[_T | None] = loop.create_future()

        def settle(result: _T | None) -> None:
            self._waiting -= 1
            if not done.done():
                done.set_result(result)

        def run() -> None:
            result: _T | None = None
            # OSError: a file of /proc has vanished with its process. ValueError: it was cut off in the
            # middle.
            with contextlib.suppress(OSError, ValueError):
                result = None if done.cancelled() else work()
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
                loop.call_soon_threadsafe(settle, result)

        self._waiting += 1
        self._line.put(run)
        if self._threads < min(self._waiting, _MOST_THREADS):
            self._threads += 1
            threading.Thread(target=self._serve, name="looks", daemon=True).start()
        return await done

    def _serve(self) -> None:
        while True:
            self._line.get()()


PEER = "outlive.peer"  # in scope["state"]; set by `http_server` for each connection

# The running commands: the pid of each (None while it starts) and its process id.
Living = Callable[[], Iterable[tuple[int | None, str]]]

# A process that has connected before is likely to connect again. The 4 latest ones are looked at before the
# search begins, the 64 latest ones first in it.
_MAX_LIKELY = 4
_MAX_HOLDERS = 64
_NO_ROOM = "The server has no descriptor left to know callers by."
_MAX_ENVIRONMENT = 256 * 1024


class PeerPlace(Enum):
    """Whether a command encloses a process, or something else bounds it more than this server."""

    OUTSIDE = "outside"
    INSIDE = "inside"  # in the tree of a command that a server of our user has started
    BOUNDED = "bounded"  # by another program: a sandbox, a container, a unit of systemd
    UNKNOWN = "unknown"  # gone, hidden, or of another machine


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerCredentials:
    """The kernel's facts about a peer.

    `inside` is the id of the started process in whose tree the peer lives; "" when it lives in one, and which
    is unknown; of another server's process the end of its id (`short_name`). `bounds` says what bounds it,
    where it is bounded.
    """

    uid: int | None = None
    pid: int | None = None
    ticks: int = 0  # when it started, in clock ticks since boot
    place: PeerPlace = PeerPlace.UNKNOWN
    inside: str | None = None
    bounds: str = ""


class Peer:
    """One connection's other end.

    `standing` is None until it was asked for; `hang_up` cuts the connection.
    """

    __slots__ = ("_caller", "hang_up", "is_unix", "local", "remote", "standing")

    def __init__(
        self,
        *,
        caller: PeerProcess | None = None,
        local: Address | None = None,
        remote: Address | None = None,
        is_unix: bool = False,
        hang_up: Callable[[], None] = lambda: None,
    ) -> None:
        self.local = local
        self.remote = remote
        self.is_unix = is_unix
        self.hang_up = hang_up
        self.standing: PeerCredentials | None = None
        self._caller = caller

    @classmethod
    def of_unix(
        cls, connection: socket.SocketType, hang_up: Callable[[], None], turns: AcceptTurns
    ) -> "Peer":
        """Return the peer of a Unix socket that was just accepted; `close` it with the connection."""
        try:
            caller = PeerProcess.behind(connection, turns)
        except OSError:
            caller = None
        return cls(caller=caller, is_unix=True, hang_up=hang_up)

    @property
    def caller(self) -> PeerProcess:
        """The process that connected to the Unix socket.

        Raises:
            LimitExceeded: The server has no descriptors left.
        """
        if self._caller is None:
            raise LimitExceeded("caller_undetermined", _NO_ROOM)
        return self._caller

    def close(self) -> None:
        """Close the pidfd of the process at the other end."""
        if self._caller is not None:
            self._caller.close()

    def __str__(self) -> str:
        """Return where it is, for people: "unix pid 4711" or "127.0.0.1:50124"."""
        if self.is_unix:
            return f"unix pid {self._caller and self._caller.pid}"
        return "unknown" if self.remote is None else f"{self.remote[0]}:{self.remote[1]}"


class Peers:
    """Finds the facts about the peers of one server. Used on its event loop."""

    def __init__(self, layout: Layout, *, own_uid: int, living: Living) -> None:
        self._locks = (layout.guardian_lock, layout.supervisor_lock)
        self._layout = layout
        self._own_uid = own_uid
        self._living = living
        self._sessions: set[int] = set()
        self._ancestry = Ancestry(self._of_ours, of=os.getpid())
        # Ends of the ids of processes that enclose this server, too, and so make no caller one of theirs.
        self._above = {*self._ancestry.commands, short_name(os.environ.get(PROCESS_VARIABLE, ""))}
        self._own_bounds = Confinement.of(os.getpid())
        self._keeper_bounds: Confinement | None = None
        self._latest: dict[int, None] = {}  # pids of processes that have connected, the latest last
        self._holders = Holders()
        self._looks = Looks()
        self._judged = Semaphores(1)
        self._table = SocketTable()

    def learn(self, sessions: Collection[int], bounds: KeeperBounds | None) -> None:
        """Take the POSIX sessions of the keeper and its shims, and what bounds it, as it reports them."""
        self._keeper_bounds = None if bounds is None else Confinement(*bounds)
        if not self._sessions.issuperset(sessions):
            self._ancestry.forget_all()
        self._sessions = set(sessions)

    async def standing(self, peer: Peer) -> PeerCredentials:
        """Return the kernel's facts about a peer; asked once for each connection.

        There is no deadline here: `authenticator` sets how long a caller waits.

        Raises:
            LimitExceeded: There is no room to find out now.

        Cancellation: safe.
        """
        if peer.standing is None:
            peer.standing = await (self._of_unix(peer) if peer.is_unix else self._of_tcp(peer))
            peer.close()
        return peer.standing

    async def identity(self, peer: Peer) -> str:
        """Return a name that only the process at the other end has on this machine; "" when it cannot be
        found.

        Cancellation: safe.
        """
        standing = await self.standing(peer)
        pid, ticks = standing.pid, standing.ticks
        if not peer.is_unix and not ticks and (owner := await self._owner(peer)) is not None:
            with closing(await self._holding(owner)) as caller:
                pid, ticks = caller.pid, _ticks_of(caller)
        return f"{this_boot()}.{pid}.{ticks}" if ticks else ""

    async def _of_unix(self, peer: Peer) -> PeerCredentials:
        if peer.caller.uid != self._own_uid:
            return PeerCredentials(uid=peer.caller.uid, pid=peer.caller.pid)
        return await self._of_process(peer.caller)

    async def _of_tcp(self, peer: Peer) -> PeerCredentials:
        owner = await self._owner(peer)
        if owner is None or owner.uid != self._own_uid:
            return PeerCredentials(uid=None if owner is None else owner.uid)
        with closing(await self._holding(owner)) as caller:
            return await self._of_process(caller)

    async def _of_process(self, caller: PeerProcess) -> PeerCredentials:
        if not caller.is_there():
            return PeerCredentials(uid=caller.uid)
        ticks = start_ticks(caller.pid)
        place, inside = await self._place(caller.pid)
        bounds = ""
        if place is PeerPlace.OUTSIDE:
            place, bounds = self._bounded(caller.pid)
        # A pid is reused: the facts read above belong to this process only if it still lives now. Else it
        # counts as gone.
        if not caller.is_there():
            return PeerCredentials(uid=caller.uid)
        return PeerCredentials(
            uid=caller.uid, pid=caller.pid, ticks=ticks, place=place, inside=inside, bounds=bounds
        )

    def _bounded(self, pid: int) -> tuple[PeerPlace, str]:
        """Compare what bounds a process with what bounds this server, or its keeper.

        Read for each connection: a process may go into a sandbox, and a server's unit bounds the server more
        than its keeper and its user (decision 45).
        """
        found = Confinement.of(pid)
        difference = found.beyond(self._own_bounds)
        if difference and self._keeper_bounds is None:
            raise LimitExceeded("caller_undetermined", "The keeper has not answered yet.")
        if difference and self._keeper_bounds is not None:
            difference = found.beyond(self._keeper_bounds)
        if difference is None:
            return PeerPlace.UNKNOWN, ""
        return (PeerPlace.BOUNDED, difference) if difference else (PeerPlace.OUTSIDE, "")

    async def _owner(self, peer: Peer) -> SocketOwner | None:
        """Return the owner of the other end of a TCP connection within this machine."""
        local, remote = peer.local, peer.remote
        if local is None or remote is None or not (_is_loopback(local[0]) and _is_loopback(remote[0])):
            return None
        # The other end's own end is our other one.
        find = partial(self._table.find, _plain(remote), _plain(local))
        return find() if self._table.is_quick else await self._looks.look(find)

    async def _holding(self, owner: SocketOwner) -> PeerProcess:
        """Return the process that holds a socket; close it."""
        latest = list(reversed(self._latest))
        pid = next((one for one in latest[:_MAX_LIKELY] if is_held_by(owner.inode, one)), None)
        if pid is None:
            pid = await self._holders.find(owner.inode, latest)
        if pid is not None:
            self._latest.pop(pid, None)
            self._latest[pid] = None
            if len(self._latest) > _MAX_HOLDERS:
                del self._latest[next(iter(self._latest))]
        return _caller(owner, pid)

    async def _place(self, pid: int) -> tuple[PeerPlace, str | None]:
        # The connections of one process are judged one after another, so that its environment, the slow part,
        # is read once for all.
        async with self._judged.of(str(pid)):
            return await self._judge(pid)

    async def _judge(self, pid: int) -> tuple[PeerPlace, str | None]:
        verdict = self._ancestry.judge(pid)
        if verdict.is_inside is None:
            return PeerPlace.UNKNOWN, None
        if verdict.is_inside:
            return PeerPlace.INSIDE, await self._name(verdict, pid) if verdict.is_ours else verdict.command
        if verdict.is_known:
            return PeerPlace.OUTSIDE, None
        if await self._is_led_from_outside(verdict, pid):
            return PeerPlace.OUTSIDE, None
        carried = await self._carried(pid)
        if carried == "":
            return PeerPlace.OUTSIDE, None
        self._ancestry.forget(pid)
        return (PeerPlace.UNKNOWN, None) if carried is None else (PeerPlace.INSIDE, carried)

    async def _is_led_from_outside(self, verdict: Descent, pid: int) -> bool:
        """Tell whether the leader of a process's POSIX session lives, and lives outside.

        Then the process lives outside, too: it was forked in that session (setsid(2) makes new sessions, no
        call joins another), and each command leads a session of its own. So the environment of a shell is
        read once, not that of each program it starts.
        """
        leader = verdict.chain[0].session if verdict.chain else 0
        if leader in {0, pid}:  # 0: one that a pid namespace hides
            return False
        place, _ = await self._place(leader)
        return place is PeerPlace.OUTSIDE and _is_alive(leader)

    def _of_ours(self, sessions: Collection[int]) -> Collection[int]:
        """Return those of the given POSIX sessions that belong to the keeper or to a started command."""
        self._sessions.update(pid for pid in map(holder_of, self._locks) if pid)
        found = self._sessions.intersection(sessions)
        return found or {pid for pid, _ in self._living() if pid and pid in sessions}

    async def _name(self, verdict: Descent, pid: int) -> str:
        """Return the id of the process in whose tree a peer lives, "" when it cannot be found.

        The nearest command in whose POSIX session the peer or an ancestor lives; else the command whose shim
        is an ancestor; else the command that the peer's environment names.
        """
        commands = {pid: process_id for pid, process_id in self._living() if process_id}
        for one in verdict.chain:
            if one.session in commands:
                return commands[one.session]
        folders = {process_id: self._layout.process(process_id) for process_id in commands.values()}
        above = {one.pid for one in verdict.chain}
        served = await self._looks.look(partial(_served_by, above, folders))
        carried = served or await self._carried(pid)
        return carried if carried in folders else ""

    async def _carried(self, pid: int) -> str | None:
        """Return the process id in a process's environment, of another server's process the end of it.

        "" without one, or with one that encloses this server, too; None when it cannot be read.
        """
        raw = await self._looks.look(partial(_environment_of, pid))
        if raw is None:
            return None
        variables = dict(entry.partition(b"=")[::2] for entry in raw.split(b"\0"))
        process_id = variables.get(os.fsencode(PROCESS_VARIABLE), b"").decode("ascii", "replace")
        if short_name(process_id) in self._above:
            return ""
        # Whichever folder it names: a command that calls another server names that one's.
        is_ours = variables.get(os.fsencode(VARIABLE)) == os.fsencode(self._layout.root)
        return process_id if is_ours else short_name(process_id)


def still_lives(identity: str) -> bool:
    """Tell whether the process that `Peers.identity` has named still runs."""
    boot_id, pid, ticks = identity.split(".")
    return boot_id == this_boot() and start_ticks(int(pid)) == int(ticks)


def _is_alive(pid: int) -> bool:
    """Tell whether a process and its first thread live: a zombie's environment reads as empty, whatever it
    was.
    """
    fields = stat_fields(pid)
    return bool(fields) and fields[0] not in {b"Z", b"X"}


def _caller(owner: SocketOwner, pid: int | None) -> PeerProcess:
    try:
        return PeerProcess.holding(owner.inode, pid or 0, owner.uid)
    except OSError as error:
        raise LimitExceeded("caller_undetermined", _NO_ROOM) from error


def _ticks_of(caller: PeerProcess) -> int:
    """Return when a process started, 0 when it is gone."""
    ticks = start_ticks(caller.pid)
    return ticks if caller.is_there() else 0


def _is_loopback(host: str) -> bool:
    """Tell whether an address, as the kernel writes it, is this machine's own (RFC 1122, 3.2.1.3; RFC 4291,
    2.5.3).
    """
    return host == "::1" or host.removeprefix("::ffff:").startswith("127.")


def _plain(end: Address) -> Address:
    """Return an address with an IPv4-mapped IPv6 host (::ffff:127.0.0.1) as plain IPv4: the kernel's tables
    list it so.
    """
    return (end[0].removeprefix("::ffff:") if "." in end[0] else end[0]), end[1]


def _served_by(pids: Collection[int], folders: Mapping[str, str]) -> str | None:
    """Return the process whose shim is one of these pids, by the records in the processes' folders."""
    for process_id, folder in folders.items():
        record = read_pid(folder)
        if record is not None and record.shim_pid in pids:
            return process_id
    return None


def _environment_of(pid: int) -> bytes | None:
    raw = environment_of(pid, _MAX_ENVIRONMENT)
    return raw if raw is not None and _is_alive(pid) else None
