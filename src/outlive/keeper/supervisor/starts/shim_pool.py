"""Idle shims, made ahead of time by the guardian and reused (`ShimPool`), and the link to the guardian
(`GuardianLink`).

What a busy shim reports is handled in `shim_events`.
"""

import contextlib
import os
import select
import signal
import socket
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from outlive.core.layout import Layout
from outlive.core.values import dataclass, field
from outlive.keeper.common.spawn import spawn_keeper
from outlive.keeper.supervisor.home import Home
from outlive.keeper.supervisor.loop import Loop
from outlive.keeper.supervisor.managed_process import ManagedProcess, ShimLink
from outlive.kernel import sockets
from outlive.kernel.locks import holder_of, retire_lock
from outlive.kernel.processes import wake

_RECONNECT_S = 0.01  # between two attempts to reach the guardian
_RESPAWN_EVERY = 25  # attempts: a guardian takes 30 ms to take its lock, more on a busy machine
_MAX_ATTEMPTS = 1000  # ten seconds: a guardian that holds its lock and does not listen hangs
_REFILL_S = 0.25  # after a shim that never came: the guardian has no room for processes, or is gone
_PING_S = 12.0  # a guardian that has nothing to say pings every ten seconds
_SPAWN_S = 1.0  # it makes shims within milliseconds
# Looks at a silent guardian until it counts as hung; more than the guardian's own patience with us.
_HUNG_LOOKS = int(os.environ.get("OUTLIVE_KEEPER_HUNG_TICKS", "3")) + 3
_MIN_IDLE = 16  # idle shims that are kept ready
_MAX_IDLE = 64  # idle shims that are kept after a burst; the others quit
# Asked for in batches: the guardian is woken once for each.
_MIN_BATCH = 8
_MAX_BATCH = 16
# So many starts within the life of one command are a crowd: then throughput matters, not how soon each one
# begins.
_CROWD = 4
# Looked at in a round: whether a shim was stopped. A tenth of them, and no fewer than these.
_LOOKED_AT = 64


@dataclass(eq=False, slots=True)
class GuardianLink:
    """Connects to the guardian, answers its pings, and starts it again when it is gone or hung.

    Attributes:
        log: Takes one line.
        connected: Called when a guardian is ready for requests, and when it has `trouble`.
        home: Knows whether the state folder is still ours, and our record lock: a guardian asks about this
            very file.
        trouble: Why the guardian could not make the shims that it was asked for last.
        is_leaving: After a SIGTERM: a guardian that ends now got one, too, and is not started again.
        spawned: Guardians that are children of this process.
        servers: Servers that a guardian has started, by pid and start ticks: they live in no command's tree.
        met: Pids of all guardians that have made shims for us.
    """

    loop: Loop
    layout: Layout
    log: Callable[[str], None]
    connected: Callable[[], None]
    home: Home
    _link: socket.socket | None = field(default=None, init=False)
    # Whether the guardian has accepted this connection; the kernel's backlog accepts it first.
    _is_met: bool = field(default=False, init=False)
    trouble: str = field(default="", init=False)
    _spawning: int = field(default=0, init=False)  # requests whose links are still open in the guardian
    pid: int = field(default=0, init=False)
    _attempts: int = field(default=0, init=False)
    _heard_at: float = field(default=0.0, init=False)
    _silent_looks: int = field(default=0, init=False)
    _retired: bool = field(default=False, init=False)
    is_leaving: bool = field(default=False, init=False)
    spawned: set[int] = field(default_factory=set, init=False)
    servers: set[tuple[int, int]] = field(default_factory=set, init=False)
    met: set[int] = field(default_factory=set, init=False)

    def begin(self) -> None:
        """Connect, and connect again whenever the connection is lost."""
        self._connect()
        self.loop.regularly(self._look)

    @property
    def is_connected(self) -> bool:
        """Whether the guardian can be asked for shims now."""
        return self._link is not None

    @property
    def is_spawning(self) -> bool:
        """Whether the guardian still has links of shims open, so that a shim's death would not close them."""
        return self._spawning > 0

    def _connect(self) -> None:
        if self._retired or not self.home.is_here():
            return
        try:
            link = sockets.connect_unix(self.layout.guardian_socket)
        except OSError:
            if self._attempts % _RESPAWN_EVERY == 1:
                self._respawn()
            self._attempts += 1
            self.loop.later(_RECONNECT_S, self._connect)
            return
        self._attempts = self._silent_looks = 0
        self._heard_at = time.monotonic()
        self._link = link
        self._is_met = False
        self.pid = sockets.peer_of(link)[0]
        self.met.add(self.pid)
        self.loop.watch(link.fileno(), self._hear)

    def _respawn(self) -> None:
        """Start a guardian unless another is starting.

        End one that has not come to listen for a long time.
        """
        if self.is_leaving:
            return
        holder = holder_of(self.layout.guardian_lock)
        if holder is None:
            try:
                home = self.home
                guardian = spawn_keeper(
                    "guardian", self.layout.root, program=home.program, lock=home.pid_lock
                )
            except OSError as error:  # no room for a process, which may pass
                self.log(f"no guardian can be started now: {error.strerror}")
                return
            self.spawned.add(guardian)
        elif holder and self._attempts <= _MAX_ATTEMPTS:
            wake(holder)
        elif holder:
            self.log(f"guardian {holder} does not listen: ending it")
            with contextlib.suppress(ProcessLookupError):
                os.kill(holder, signal.SIGKILL)

    def _hear(self, _events: int) -> None:
        assert self._link is not None
        packet = sockets.receive(self._link, size=4096)
        if packet is None:
            return
        message, _ = packet
        self._heard_at = time.monotonic()
        self._silent_looks = 0
        if not message:
            self.loop.unwatch(self._link.fileno())
            self._link.close()
            self._link = None
            self._spawning = 0
            self.pid = 0
            self.log("the guardian is gone: starting another")
            self._attempts = 1
            # Not at once: a dying guardian may still hold its lock.
            self.loop.later(_RECONNECT_S, self._connect)
        elif message.startswith(b"hello "):
            self._is_met = True
            self.connected()
        elif message.startswith(b"useless "):
            self.trouble = message[8:].decode()
            self.connected()
        elif message.startswith(b"server "):
            pid, ticks = map(int, message.split()[1:])
            self.servers.add((pid, ticks))
            self.spawned.add(pid)  # it becomes a child of ours when its guardian dies
            self.loop.look_soon()  # it may have connected before, and was taken for a command
        elif message == b"spawned":
            self._spawning -= 1
        elif message == b"ping":
            self.say(b"pong")

    def _look(self) -> bool:
        if self._link is None:
            return False
        if time.monotonic() - self._heard_at < (_SPAWN_S if self._spawning else _PING_S):
            return self._spawning > 0
        wake(self.pid)
        self._silent_looks += 1
        if self._silent_looks > _HUNG_LOOKS:
            self.log(f"guardian {self.pid} does not ping: ending it")
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            self._silent_looks = 0
        return True

    def say(self, words: bytes, fds: Sequence[int] = ()) -> bool:
        """Send the guardian a packet; False if it cannot be sent now."""
        try:
            return self._link is not None and sockets.send(self._link, words, fds)
        except OSError:
            return False

    def spawn(self, their_ends: list[int]) -> bool:
        """Ask for a shim on the other end of each link; False when the guardian cannot be asked now."""
        if not self._is_met or not self.say(b"spawn", their_ends):
            return False
        self.trouble = ""
        self._spawning += 1
        self.loop.look_soon()  # a guardian that hangs answers nothing
        return True

    def retire(self, *, is_end: bool) -> None:
        """End the guardian for good; with `is_end` no next keeper is expected.

        A guardian that has met us is asked. Any other has nothing to lose and is killed: it would not read
        our packet after our end, but start a supervisor again. Processes that cannot be seen from here find
        the mark in our lock: a guardian of an earlier supervisor that has no lock yet, a supervisor that
        waits for our end.
        """
        self._retired = True
        is_at_home = self.home.is_here()
        if is_at_home:
            # A read-only file system: there no successor can take the lock.
            with contextlib.suppress(OSError):
                retire_lock(self.layout.supervisor_lock, is_end=is_end)
        unmet = {*self.spawned, self.pid}
        if self._is_met and self.say(b"retire"):
            unmet.discard(self.pid)
            wake(self.pid)
        elif is_at_home:
            unmet.add(holder_of(self.layout.guardian_lock) or 0)
        for pid in unmet - {0}:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


class ShimListener(Protocol):
    """Acts on what busy shims report."""

    def hear(self, shim: ShimLink, message: bytes, fds: list[int]) -> None:
        """Take a packet of a shim that serves a process, and its descriptors.

        An empty one is the end of its socket.
        """


class ShimPool:
    """Idle shims, and the starts that wait for one. `available` is called when a shim became idle.

    `listener` is set once it exists: it gets the packets of busy shims.
    """

    def __init__(self, loop: Loop, guardian: GuardianLink, *, available: Callable[[], None]) -> None:
        """Begin empty; `fill` is called once the guardian is connected."""
        self._loop = loop
        self._guardian = guardian
        self._available = available
        self.listener: ShimListener | None = None
        self._idle: deque[ShimLink] = deque()
        self._coming = 0  # shims that are being made
        self.waiting: deque[ManagedProcess] = deque()  # starts that wait for a shim
        self._is_refill_due = False
        self._taken = 0  # counts the shims that were taken
        self._all: deque[ShimLink] = deque()  # those whose link has ended, too, until they are looked at
        loop.regularly(self._look)

    def __len__(self) -> int:
        """Return how many are idle."""
        return len(self._idle)

    @property
    def is_filling(self) -> bool:
        """Whether shims are being made: until that is done, shims and guardian may hold the links of other
        shims.
        """
        return self._coming > 0 or self._guardian.is_spawning

    def fill(self) -> None:
        """Ask for as many shims as are missing."""
        missing = _MIN_IDLE + len(self.waiting) - len(self._idle) - self._coming
        # A few missing ones are not worth a batch of their own, unless they are half of what should be ready.
        if missing < _MIN_BATCH and (self._coming or len(self._idle) > _MIN_IDLE // 2):
            return
        pairs = [
            socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(min(missing, _MAX_BATCH))
        ]
        asked = bool(pairs) and self._guardian.spawn([theirs.fileno() for _, theirs in pairs])
        for ours, theirs in pairs:
            theirs.close()
            if not asked:
                ours.close()
                continue
            ours.settimeout(0.0)
            self._coming += 1
            self.adopt(ShimLink(ours))

    def _hear(self, shim: ShimLink, _events: int) -> None:
        """Receive a packet; `listener` acts on those of busy shims."""
        packet = sockets.receive(shim.socket, size=8192)
        if packet is None:
            return
        message, fds = packet
        if shim.process is not None:
            assert self.listener is not None
            self.listener.hear(shim, message, fds)
        elif not message:
            self._lose(shim)
        elif message.startswith(b"hello ") and not shim.is_inside:
            self._coming -= 1
            shim.pid = int(message[6:])
            self._offer(shim)

    def _lose(self, shim: ShimLink) -> None:
        self._loop.unwatch(shim.socket.fileno())
        shim.socket.close()
        if shim.is_inside:
            return
        if not shim.pid:
            self._coming -= 1
            if not self._is_refill_due:  # asking at once, again and again, would keep both processes busy
                self._is_refill_due = True
                self._loop.later(_REFILL_S, self._refill)
            return
        with contextlib.suppress(ValueError):
            self._idle.remove(shim)
        self.fill()

    def _refill(self) -> None:
        self._is_refill_due = False
        self.fill()

    def _offer(self, shim: ShimLink) -> None:
        if len(self._idle) >= _MAX_IDLE:
            with contextlib.suppress(OSError):
                sockets.send(shim.socket, b"quit")
            return
        self._idle.append(shim)
        self._available()

    def take(self) -> ShimLink | None:
        """Return an idle shim, the one used last, or None (then `available` is called later)."""
        shim = self._idle.pop() if self._idle else None
        if shim is not None:
            self._taken += 1
            shim.taken = self._taken
        if len(self._idle) < _MIN_IDLE:
            self.fill()
        return shim

    def give_back(self, shim: ShimLink) -> None:
        """Return a shim to the pool that was not needed."""
        self._idle.append(shim)

    def release(self, shim: ShimLink) -> None:
        """Have a busy shim let go of its process; packets stay in order, so it may be used again at once.

        If others were started while its command ran, it is asked to interrupt no process when it wakes, least
        of all this one (decision 131).
        """
        shim.process = None
        is_in_crowd = self._taken - shim.taken >= _CROWD
        try:
            sockets.send(shim.socket, b"release patient" if is_in_crowd else b"release")
        except OSError:
            return  # it has died; the end of its socket is read next
        if shim.is_inside:  # it ends: its socket's end is read next
            return
        self._offer(shim)

    def _look(self) -> bool:
        """Continue shims that a command has stopped, of those that were not looked at for the longest time.

        Those of this guardian are its children, and it is told of them (SIGCHLD): here the others count.

        A stopped shim reports no end. It is continued by what is sent to it (`wake_by`,
        `native/common/kernel.h`), and by what is asked about its process (`endings.tree_control`).
        """
        for _ in range(min(max(_LOOKED_AT, len(self._all) // 10), len(self._all))):
            shim = self._all.popleft()
            if shim.socket.fileno() >= 0:
                self._all.append(shim)
                wake(shim.pid)
        return False

    def adopt(self, shim: ShimLink) -> None:
        """Watch a shim's socket."""
        self._all.append(shim)
        self._loop.watch(shim.socket.fileno(), partial(self._hear, shim), select.EPOLLIN)
