"""The keeper as a whole, as its clients see it (`Lifecycle`), and stopping everything that lives
(`MassStop`).

`Lifecycle` reports the status, greets servers, retires for a successor, and ends: on request, on SIGTERM, or
when idle.

`MassStop` begins a slice of stops in each turn of the loop. Between two slices the guardian's pings are
answered and the commands' last output is read, so that thousands of trees do not make the supervisor look
hung. A stop that was begun is carried on by `endings.terminator`, also by the next supervisor's.
"""

import contextlib
import functools
import math
import os
import time
from collections.abc import Callable, Collection

from outlive.core.values import dataclass, field
from outlive.keeper.common.standard_files import log
from outlive.keeper.supervisor.clients import ControlClient, ControlClients, Doorbells, Handle, Lend
from outlive.keeper.supervisor.endings.terminator import Terminator
from outlive.keeper.supervisor.home import Home
from outlive.keeper.supervisor.loop import Loop
from outlive.keeper.supervisor.managed_process import Answer
from outlive.keeper.supervisor.process_table import ManagedProcesses
from outlive.keeper.supervisor.starts.shim_pool import GuardianLink, ShimPool
from outlive.kernel import sockets
from outlive.kernel.callers import Ancestry, Confinement, PeerProcess
from outlive.kernel.disk import Reserve
from outlive.kernel.processes import start_ticks
from outlive.protocols.keeper import CauseCode, Flags

_SLICE_S = 0.02  # spent on beginning stops in one turn: about a hundred stops on an idle machine
_MASS_STOP_LOOK_S = 0.01  # between two looks at what still lives
_MOST_IDS = 1000  # in an answer: 30 KB, well below what a packet holds
_NOTE = "The keeper was stopped."


@dataclass(eq=False, slots=True)
class MassStop:
    """Continues as long as a request waits, and then until the stop of each living process is recorded.

    `emptied` is called once nothing lives, with the answer to all that wait.
    """

    loop: Loop
    table: ManagedProcesses
    stops: Terminator
    emptied: Callable[[Answer], None]
    _waiting: list[tuple[float, Answer]] = field(default_factory=list, init=False)
    _is_at_work: bool = field(default=False, init=False)

    def begin(self, answer: Answer, *, within_s: float) -> None:
        """Answer once nothing lives, or `process_running` with what still lives after so many seconds.

        A process that is started while a request waits is stopped, too.
        """
        self._waiting.append((time.monotonic() + within_s, answer))
        if not self._is_at_work:
            self._is_at_work = True
            self._go_on()

    def _go_on(self) -> None:
        is_begun = self._stop_some()
        if not self.table.living_ids():
            self._is_at_work = False
            if self._waiting:
                self.emptied(self._answer_all)
            return
        now = time.monotonic()
        late = [answer for until, answer in self._waiting if until <= now]
        self._waiting = [(until, answer) for until, answer in self._waiting if until > now]
        for answer in late:
            answer(still_running(self.table))
        # A process whose shim has not answered yet cannot be stopped now: it is as soon as it is taken over.
        self._is_at_work = bool(self._waiting) or not is_begun or len(self.table.unrecovered) > 0
        if self._is_at_work:
            self.loop.later(_MASS_STOP_LOOK_S if is_begun else 0.0, self._go_on)

    def _answer_all(self, reply: dict[str, object]) -> None:
        waiting, self._waiting = self._waiting, []
        for _, answer in waiting:
            answer(dict(reply))

    def _stop_some(self) -> bool:
        """Begin as many stops as a turn has time for; return whether all are begun."""
        until = time.monotonic() + _SLICE_S
        for process in self.table.living():
            # Its stop is recorded and due: the terminator carries it on.
            if process.stop_at and process.deadline <= until:
                continue
            if time.monotonic() > until:
                return False
            self.stops.stop(process, CauseCode.SHUTDOWN, grace_s=0.0, note=_NOTE)
        return True


def still_running(table: ManagedProcesses) -> dict[str, object]:
    """Return the refusal `process_running`, with details {processes: how many live, ids: at most a thousand
    of them}.
    """
    living = table.living_ids()
    return {
        "error": "process_running",
        "message": f"{len(living)} processes live on in this keeper.",
        "details": {"processes": len(living), "ids": living[:_MOST_IDS]},
    }


# Without processes and without clients for so long, the keeper ends.
_IDLE_S = float(os.environ.get("OUTLIVE_KEEPER_IDLE_S", "10"))
_REFILL_S = 0.01  # between two slices of a reserve that is being refilled
# How long commands may live on after a SIGTERM. Less than the 90 s after which systemd kills
# (systemd-system.conf(5), DefaultTimeoutStopSec=).
_SHUTDOWN_S = float(os.environ.get("OUTLIVE_KEEPER_SHUTDOWN_S", "60"))
_LEAVE_LOOK_S = 0.1  # between two looks at what still lives then


class Lifecycle:
    """Answers requests about the keeper as a whole."""

    def __init__(
        self,
        loop: Loop,
        table: ManagedProcesses,
        guardian: GuardianLink,
        pool: ShimPool,
        stops: Terminator,
        reserve: Reserve,
        *,
        home: Home,
        shut_down: Callable[[], None],
    ) -> None:
        """Serve at once; servers learn what has finished when recovery knows what is live.

        `home` knows where the state folder is; `shut_down` is called once, after a SIGTERM.
        """
        self._loop = loop
        self._table = table
        self._guardian = guardian
        self._pool = pool
        self._mass_stop = MassStop(loop, table, stops, emptied=functools.partial(self.retire, is_end=True))
        self._reserve = reserve
        self._home = home
        self._shut_down = shut_down
        self._leaves_at = 0.0
        self._clients: ControlClients | None = None
        # Servers that have not got the sync mark; None once everything live is known.
        self._unsynced: list[ControlClient] | None = []
        self._idle_since: float | None = None
        self._ancestry = Ancestry(self._of_ours, of=os.getpid(), outside=guardian.servers)
        self._confinement = Confinement.of(os.getpid())
        self._known_servers: set[tuple[int, int]] = set()
        loop.regularly(self._look)

    def listen(
        self,
        path: str,
        bells: Doorbells,
        *,
        handle: Handle,
        lend: Lend,
        dropped: Callable[[ControlClient], None],
    ) -> None:
        """Let clients connect, which get the doorbells that `bells` collect.

        See `ControlClients` for the rest.
        """
        listener = self._reserve.fit(lambda: sockets.listen_unix(path, backlog=128))
        self._clients = ControlClients(
            self._loop, listener, bells, handle=handle, lend=lend, dropped=dropped, tree_of=self.tree_of
        )
        self._loop.after_turns(self._clients.flush)

    def recovered(self) -> None:
        """Send servers the sync mark: everything live was mentioned, as far as it is known."""
        # Sessions of recovered processes are known only now: earlier verdicts may be wrong.
        self._ancestry.forget_all()
        if self._clients is not None:
            self._clients.judge_again()
        unsynced, self._unsynced = self._unsynced or [], None
        for client in unsynced:
            self.greet(client)

    def greet(self, client: ControlClient) -> None:
        """Begin doorbells for a server; what recovery has not taken over yet follows as doubtful."""
        if self._unsynced is not None:
            self._unsynced.append(client)
        doubtful = None if self._unsynced is not None else self._table.unrecovered.doorbells()
        if self._clients is not None:
            self._clients.greet_server(client, self._table.by_key.values(), doubtful=doubtful)

    def status(self) -> dict[str, object]:
        """Return the keeper's processes and what it keeps; `redundant`: every open stream is held by two
        processes.
        """
        alive = self._table.by_key.values()
        redundant = (
            self._guardian.is_connected
            and not self._pool.is_filling  # a shim's death might not be seen yet
            and not self._table.unrecovered
            and all(process.shim is not None or process.is_closed for process in alive)
        )
        return {
            "guardian": {"pid": self._guardian.pid or None},
            "supervisor": {"pid": os.getpid()},
            "processes": len(self._table.living_ids()),
            "redundant": redundant,
            "sessions": sorted(self.sessions()),
            "bounds": [self._confinement.filters, self._confinement.locks, self._confinement.namespaces],
            "idle_shims": len(self._pool),
            "lost_holders": sum(bool(process.flags & Flags.HOLDER_LOST) for process in alive),
        }

    def sessions(self) -> set[int]:
        """Return the POSIX sessions of the keeper: ours, the guardians', and those of shims that live on."""
        found = {os.getpid(), *self._guardian.met, *self._table.unrecovered.shim_sessions()}
        for process in self._table.by_key.values():
            if process.shim is not None and process.shim.pid:
                with contextlib.suppress(ProcessLookupError):
                    found.add(os.getsid(process.shim.pid))
        return found

    def tree_of(self, caller: PeerProcess) -> bytes | None:
        """Return the key of the process in whose tree a caller lives: empty when that is not known, None
        outside of all.
        """
        verdict = self._ancestry.judge(caller.pid)
        is_outside = verdict.is_inside is False and self._is_unbounded(caller)
        # It still lives: so what was read by its pid was about this process.
        if is_outside and caller.is_there():
            return None
        # Descendants of a command stay below its shim, a subreaper. If the shim is dead, the command's POSIX
        # session shows it.
        roots = {process.pid: key for key, process in self._table.by_key.items()}
        roots |= {
            process.shim.pid: key for key, process in self._table.by_key.items() if process.shim is not None
        }
        roots.pop(0, None)  # processes that have not started have no pid yet
        places = (number for one in verdict.chain for number in (one.pid, one.session))
        return next((roots[number] for number in places if number in roots), b"")

    def _is_unbounded(self, caller: PeerProcess) -> bool:
        """Return whether nothing bounds a caller that does not bound us.

        The server, which holds its lock, may be bounded more: its unit is (decision 45). It has closed its
        /proc, too.
        """
        found = Confinement.of(caller.pid).beyond(self._confinement)
        if found is None and caller.uid == 0 != os.getuid():
            return True  # root's /proc is closed to others, and root may do anything anyway
        return found == "" or self._home.is_server(caller.pid)

    def is_ours(self, pid: int) -> bool:
        """Return whether a process lives in a tree that a keeper of our user started, or is gone.

        False if its ancestors are hidden.
        """
        is_inside = self._ancestry.judge(pid).is_inside
        return is_inside if is_inside is not None else not start_ticks(pid)

    def _of_ours(self, sessions: Collection[int]) -> Collection[int]:
        # Three sources, the cheapest first: shims and keeper, commands taken over, commands not taken over
        # yet.
        return (
            self.sessions().intersection(sessions)
            or {process.pid for process in self._table.by_key.values() if process.pid in sessions}
            or self._table.unrecovered.command_sessions(sessions)
        )

    def begin_shutdown(self) -> None:
        """Serve until nothing lives any more, a minute at most.

        Called at a SIGTERM, repeating it changes nothing.

        In a shutdown every process gets SIGTERM at the same time: commands end, and their last output must be
        kept. If only the supervisor got it, the guardian replaces us, and no command notices (decision 62).
        """
        if self._leaves_at:
            return
        log("told to end: waiting for what lives here")
        self._leaves_at = time.monotonic() + _SHUTDOWN_S
        self._guardian.is_leaving = True
        self._shut_down()
        self._loop.later(_LEAVE_LOOK_S, self._look_to_leave)

    def _look_to_leave(self) -> None:
        if not self._table or time.monotonic() > self._leaves_at:
            self._loop.stop()
        self._loop.later(_LEAVE_LOOK_S, self._look_to_leave)

    def end(self, answer: Answer, *, kill: bool, within_s: float = math.inf) -> None:
        """End for good.

        Refused while processes live unless they are to be killed, or if they do not end in time.
        """
        if self._table.living_ids() and not kill:
            answer(still_running(self._table))
            return
        self._mass_stop.begin(answer, within_s=within_s)

    def retire(self, answer: Answer, *, is_end: bool = False) -> None:
        """Leave: the guardian ends, too; shims and commands go on. `is_end`: no next keeper is expected."""
        if is_end:  # forget what is done as well: its shim would wait for a supervisor that never comes
            for process in list(self._table.by_key.values()):
                self._table.forget(process)
        self._guardian.retire(is_end=is_end)
        if self._clients is not None:
            self._clients.flush()
        answer({})
        self._loop.stop()  # after this turn; later requests are for the successor

    def _refill(self) -> None:
        """Refill the disk reserve, a part in each turn, once there is space."""
        if self._home.is_here() and self._reserve.refill():
            self._loop.later(_REFILL_S, self._refill)

    def _look(self) -> bool:
        """End when there is nothing to keep and no client is connected, and no server is to come back.

        Return whether that may be soon.
        """
        if self._clients is not None and (new := self._guardian.servers - self._known_servers):
            self._known_servers |= new
            # One that connected before its guardian did was taken for a command; it connects again.
            self._clients.judge_again({pid for pid, _ in new})
        if not self._home.is_here():
            if self._home.has_moved():
                log("the state folder was moved: going on there")
                self.retire(lambda _reply: None)
            # The folder is gone, so no client finds us any more. What lives may end by itself first (decision
            # 61).
            elif not self._table.living_ids():
                log("the state folder is gone, and nothing lives here: ending")
                self.retire(lambda _reply: None, is_end=True)
            return False
        self._refill()
        has_clients = self._clients is not None and len(self._clients) > 0
        # If services are wanted and rest, their server has to find a guardian that starts it again.
        if self._table or has_clients or self._home.is_server_wanted():
            self._idle_since = None
            return False
        now = time.monotonic()
        self._idle_since = self._idle_since or now
        if now - self._idle_since > _IDLE_S:
            self.retire(lambda _reply: None, is_end=True)
        return True
