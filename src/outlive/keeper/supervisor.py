"""The supervisor: the one writer of output. Composes pump, starts, endings, recovery and door; owns the table.

Its death at any instant loses nothing: shims hold duplicates of every descriptor, files hold everything else.
"""

import contextlib
import gc
import os
import resource
import signal
import time

from outlive.core.layout import Layout
from outlive.keeper import sockets
from outlive.keeper.clients import Client, Clients
from outlive.keeper.endings import Endings
from outlive.keeper.guardian import log, use_standard_files
from outlive.keeper.inputs import Inputs
from outlive.keeper.kept import Answer, Kept, ShimLink
from outlive.keeper.kernel import become_subreaper
from outlive.keeper.limits import Limits
from outlive.keeper.locks import take_lock
from outlive.keeper.loop import Loop
from outlive.keeper.orphans import Orphans
from outlive.keeper.pool import GuardianLink, ShimPool
from outlive.keeper.pump import Pump
from outlive.keeper.recovery import Recovery, read_journal
from outlive.keeper.requests import Requests
from outlive.keeper.starts import Starts, failed_start
from outlive.protocols.keeper import VERSION, CauseCode, Flags, Phase

__all__ = ["Supervisor", "main"]

_LOCK_PATIENCE_S = 2.0
_IDLE_S = float(os.environ.get("OUTLIVE_KEEPER_IDLE_S", "10"))


def main(state_dir: str) -> None:
    """Run a supervisor until it is retired; returns at once when another one serves this state folder."""
    layout = Layout(state_dir)
    use_standard_files(layout)
    for name in (signal.SIGINT, signal.SIGHUP):
        signal.signal(name, signal.SIG_IGN)
    until = time.monotonic() + _LOCK_PATIENCE_S
    while (lock := take_lock(layout.supervisor_lock)) is None:
        if time.monotonic() > until:
            return
        time.sleep(0.005)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    become_subreaper()
    for folder in (layout.processes, layout.notes):
        os.makedirs(folder, mode=0o700, exist_ok=True)
    gc.disable()  # the structures here are trees without cycles worth collecting; pauses would delay output
    supervisor = Supervisor(layout)
    supervisor.run()
    os.close(lock)


class Supervisor:
    """Builds the parts and connects them; `kept` is the table of everything alive or not yet let go, by key."""

    def __init__(self, layout: Layout) -> None:
        """Take over what lives; the caller holds the lock."""
        self._layout = layout
        self.kept: dict[bytes, Kept] = {}
        live = read_journal(layout.live)
        self._journal_fd = self._compact_journal(live)
        self._loop = Loop(log)
        self._ending = False
        self._greet_later: list[Client] | None = []
        self._idle_since = time.monotonic()
        self._inputs = Inputs(self._loop)
        self._limits = Limits(touch=self._touch, stop=self._stop_over_limit)
        self._endings = Endings(
            self._loop, touch=self._touch, forget=self._forget, guardian=lambda: self._guardian.pid
        )
        self._pump = Pump(
            self._loop, touch=self._touch, ended=self._endings.stream_ended, over_limit=self._limits.check
        )
        self._endings.pump = self._limits.pump = self._pump
        self._guardian = GuardianLink(self._loop, layout, log=log, connected=self._fill)
        self._pool = ShimPool(self._loop, self._guardian, available=self._dispatch, heard=self._hear)
        self._starts = Starts(
            self._loop, layout, self._pool, self._pump, keep=self._keep, journal=self._write_journal
        )
        self._orphans = Orphans(
            self._loop, layout, self._pool, self._endings, start_again=self._starts.again, log=log
        )
        requests = Requests(
            self, starts=self._starts, endings=self._endings, inputs=self._inputs, limits=self._limits
        )
        self._clients = Clients(
            self._loop,
            sockets.listen_unix(layout.keeper_socket, backlog=128),
            uid=os.getuid(),
            handle=requests.handle,
            lost=self._note_idle,
        )
        recovery = Recovery(
            self._loop,
            layout,
            self._pool,
            self._pump,
            self._endings,
            self._orphans,
            keep=self._keep,
            journal=self._write_journal,
            log=log,
        )
        recovery.begin(live, self._recovered)
        self._loop.later(1.0, self._look_idle)

    def run(self) -> None:
        """Serve until retired or ended."""
        self._guardian.begin()
        self._loop.run()

    def _fill(self) -> None:
        self._pool.fill()

    def _dispatch(self) -> None:
        self._starts.dispatch()

    # -- the table

    def _keep(self, kept: Kept) -> None:
        self.kept[kept.key] = kept

    def _touch(self, kept: Kept) -> None:
        self._clients.touch(kept)

    def _forget(self, kept: Kept) -> None:
        """Let go of a process that has ended in every sense."""
        if self.kept.pop(kept.key, None) is None:
            return
        self._inputs.abandon(kept)
        self._touch(kept)
        for fd in kept.fds.values():
            self._loop.unwatch(fd)
            os.close(fd)
        if kept.pidfd >= 0:
            self._loop.unwatch(kept.pidfd)
            os.close(kept.pidfd)
        for stream in kept.streams:
            os.close(stream.log)
        os.close(kept.idx)
        if kept.listener is not None:
            kept.listener.close()
        if kept.shim is not None:
            self._pool.release(kept.shim)
        with contextlib.suppress(OSError):
            os.unlink(f"{kept.folder}/sock")
        with contextlib.suppress(OSError):  # a full disk: the next supervisor finds the folder's `done`
            self._write_journal("-" + kept.process_id)
        self._note_idle()

    def _write_journal(self, entry: str) -> None:
        os.write(self._journal_fd, entry.encode() + b"\n")

    def _compact_journal(self, live: list[str]) -> int:
        content = "".join(f"+{process_id}\n" for process_id in live).encode()
        path = self._layout.live
        fd = os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o600)
        os.write(fd, content)
        os.rename(path + ".new", path)
        return fd

    def _stop_over_limit(self, kept: Kept, cause: CauseCode, note: str) -> None:
        self._endings.stop(kept, cause, grace_s=kept.spec.grace_s, note=note)

    # -- what shims say

    def _hear(self, shim: ShimLink) -> None:
        kept = shim.kept
        assert kept is not None
        packet = sockets.receive(shim.socket, size=8192)
        if packet is None:
            return
        words = packet[0].decode().split()
        match words:
            case []:
                self._loop.unwatch(shim.socket.fileno())
                shim.socket.close()
                self._orphans.shim_lost(kept)
            case ["spawned", pid, ticks, started_ns]:
                self._spawned(kept, int(pid), int(ticks), int(started_ns))
            case ["failed", number, place]:
                self._failed(kept, int(number), place)
            case ["exited", kind, number, empty, ended_ns]:
                self._endings.exited(
                    kept, kind=kind, number=int(number), is_empty=empty == "1", ended_ns=int(ended_ns)
                )
            case ["empty"]:
                self._endings.emptied(kept)
            case _:
                log(f"shim {shim.pid} says {words!r}")

    def _spawned(self, kept: Kept, pid: int, ticks: int, started_ns: int) -> None:
        kept.pid, kept.ticks, kept.started_ns = pid, ticks, started_ns
        if kept.pidfd < 0:
            with contextlib.suppress(OSError):
                kept.pidfd = os.pidfd_open(pid)
        if kept.phase == Phase.STARTING:
            kept.phase = Phase.STOPPING if kept.stop_at else Phase.RUNNING
        for answer in kept.answers:
            answer({"pid": pid, "started_ns": started_ns})
        kept.answers.clear()
        if kept.stop_at:  # it was cancelled before it ran
            self._endings.pursue(kept, kept.deadline)
        elapsed_ns = max(0, time.time_ns() - started_ns)
        self._endings.arm_timeout(
            kept, started_boottime_ns=time.clock_gettime_ns(time.CLOCK_BOOTTIME) - elapsed_ns
        )
        self._touch(kept)

    def _failed(self, kept: Kept, number: int, place: str) -> None:
        for answer in kept.answers:
            answer(failed_start(number, place))
        kept.answers.clear()
        self._endings.exited(kept, kind="failed", number=number, is_empty=True, ended_ns=time.time_ns())

    # -- what clients ask

    def _recovered(self) -> None:
        waiting, self._greet_later = self._greet_later or [], None
        for client in waiting:
            self._clients.greet_server(client, self.kept.values())

    def greet(self, client: Client) -> None:
        """Begin doorbells for a server, once recovery knows what is live."""
        if self._greet_later is not None:
            self._greet_later.append(client)
        else:
            self._clients.greet_server(client, self.kept.values())

    def status(self) -> dict[str, object]:
        """Return who is there and what is kept; `redundant`: every open stream is held twice."""
        alive = self.kept.values()
        redundant = self._guardian.is_connected and all(
            kept.shim is not None or kept.is_closed for kept in alive
        )
        return {
            "guardian": {"pid": self._guardian.pid or None},
            "supervisor": {"pid": os.getpid()},
            "guardian_pid": self._guardian.pid,
            "pid": os.getpid(),
            "processes": sum(kept.phase < Phase.DONE or not kept.is_empty for kept in alive),
            "redundant": redundant,
            "version": VERSION,
            "idle_shims": len(self._pool),
            "lost_holders": sum(bool(kept.flags & Flags.HOLDER_LOST) for kept in alive),
        }

    def end(self, answer: Answer, *, kill: bool) -> None:
        """End for good; refused while processes live unless they are to be killed."""
        live = [kept for kept in self.kept.values() if kept.phase < Phase.DONE or not kept.is_empty]
        if live and not kill:
            message = f"{len(live)} processes live on in this keeper."
            answer({"error": "process_running", "message": message, "details": {"processes": len(live)}})
            return
        self._ending = True
        for kept in live:
            self._endings.stop(kept, CauseCode.SHUTDOWN, grace_s=0.0, note="The keeper was stopped.")
        self._end_when_empty(answer)

    def _end_when_empty(self, answer: Answer) -> None:
        if any(kept.phase < Phase.DONE or not kept.is_empty for kept in self.kept.values()):
            self._loop.later(0.01, lambda: self._end_when_empty(answer))
            return
        self._clients.flush()
        self.retire(answer)

    def retire(self, answer: Answer) -> None:
        """Leave: the guardian ends, too; shims and commands go on."""
        self._guardian.retire()
        answer({})
        self._loop.later(0.0, self._loop.stop)

    # -- idleness

    def _note_idle(self) -> None:
        self._idle_since = time.monotonic()

    def _look_idle(self) -> None:
        """End by itself when there is nothing to keep and no server."""
        self._loop.later(1.0, self._look_idle)
        if self.kept or len(self._clients):
            self._note_idle()
        elif time.monotonic() - self._idle_since > _IDLE_S:
            self.retire(lambda _reply: None)
