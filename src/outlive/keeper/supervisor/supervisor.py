"""The supervisor: the only process that writes output logs. This module builds its parts and connects them.

Its death at any instant loses nothing: shims hold duplicates of every descriptor, files hold everything else.
What the parts do is theirs: `starts`, `output`, `endings`, and the files beside this one.
"""

import contextlib
import gc
import os
import resource
import signal
import time
from collections.abc import Callable
from typing import TypeVar

from outlive.core.layout import Layout
from outlive.keeper.common.spawn import take_handed_lock, take_handed_program
from outlive.keeper.common.standard_files import log, use_standard_files
from outlive.keeper.supervisor.capability_probe import CapabilityProbe
from outlive.keeper.supervisor.clients import ControlClient, Doorbells
from outlive.keeper.supervisor.endings.exit_handler import ExitHandler
from outlive.keeper.supervisor.endings.orphans import Orphans, Reaper
from outlive.keeper.supervisor.endings.takeover import Takeover, surviving
from outlive.keeper.supervisor.endings.tree_control import TreeControl
from outlive.keeper.supervisor.home import Home
from outlive.keeper.supervisor.inputs import Inputs, PassedStdin
from outlive.keeper.supervisor.lifecycle import Lifecycle
from outlive.keeper.supervisor.lock_challenge import LockChallenge
from outlive.keeper.supervisor.loop import Loop, places_of, reason_of
from outlive.keeper.supervisor.managed_process import ManagedProcess
from outlive.keeper.supervisor.output.flow import FlowLibrary
from outlive.keeper.supervisor.output.limits import OutputLimits
from outlive.keeper.supervisor.output.pump import Pump
from outlive.keeper.supervisor.process_table import ManagedProcesses, Unrecovered
from outlive.keeper.supervisor.requests import Requests
from outlive.keeper.supervisor.shim_events import ShimEvents
from outlive.keeper.supervisor.starts.container_links import ContainerLinks
from outlive.keeper.supervisor.starts.launcher import Launcher, most_processes
from outlive.keeper.supervisor.starts.prepared_folders import PreparedFolders
from outlive.keeper.supervisor.starts.shim_pool import GuardianLink, ShimPool
from outlive.kernel.calls import become_subreaper, set_dumpable
from outlive.kernel.disk import Reserve
from outlive.kernel.lock_proof import open_pid_lock, take_pid_lock
from outlive.kernel.locks import is_retired, note_failure, take_lock
from outlive.kernel.processes import this_boot
from outlive.kernel.state_files import Journal, boot_of
from outlive.protocols.keeper import CauseCode

_LOCK_PATIENCE_S = 2.0  # a predecessor that was killed keeps its lock until the kernel has closed its files
_T = TypeVar("_T")


def main(state_dir: str) -> None:
    """Run a supervisor until it is retired; return soon when another one serves this state folder.

    Also when the previous one left for good while this one was being started.
    """
    set_dumpable(is_dumpable=False)
    layout = Layout(state_dir)
    pid_lock, program = take_handed_lock(), take_handed_program()
    use_standard_files(layout)
    for name in (signal.SIGINT, signal.SIGHUP):
        signal.signal(name, signal.SIG_IGN)
    wake, alarm = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(alarm, warn_on_full_buffer=False)
    signal.signal(signal.SIGTERM, _ignore_signal)
    if pid_lock < 0:
        pid_lock = _surely(lambda: open_pid_lock(layout.supervisor_pid))
    until = time.monotonic() + _LOCK_PATIENCE_S
    while (lock := _try_locks(layout, pid_lock)) is None:
        if time.monotonic() > until or is_retired(layout.supervisor_lock):
            return
        time.sleep(0.005)
    try:
        home = Home(layout, lock, pid_lock=pid_lock, program=program)
        supervisor = _built(layout, home, lock)
    except Exception as error:  # noqa: BLE001 - outermost: whatever it is, what waits for us is told of it
        # The guardian tries again, less and less often.
        with contextlib.suppress(OSError):
            note_failure(lock, reason_of(error))
        log(f"the supervisor cannot start: {reason_of(error)} at {places_of(error)}")
        raise SystemExit(1) from None
    signal.signal(signal.SIGTERM, supervisor.shut_down)
    guardian = supervisor.run(wake)
    home.leave()
    home.go_on(guardian)


def _built(layout: Layout, home: Home, lock: int) -> "Supervisor":
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    become_subreaper()
    for folder in (layout.processes, layout.notes):
        os.makedirs(folder, mode=0o700, exist_ok=True)
    gc.disable()  # its pauses would delay output; what is released leaves no cycles (`ManagedProcess.end`)
    return Supervisor(layout, home, lock)


def _try_locks(layout: Layout, pid_lock: int) -> int | None:
    """Take both locks or none: the first says who serves and whether it has left for good, the kernel names
    the second's holder.
    """
    lock = _surely(lambda: take_lock(layout.supervisor_lock, unless_retired=True))
    if lock is not None and not _surely(lambda: take_pid_lock(pid_lock)):
        os.close(lock)
        return None
    return lock


def _surely(act: Callable[[], _T]) -> _T:
    try:
        return act()
    except OSError as error:
        # A read-only file system, or a full one on which the lock's file is missing: the guardian tries
        # again.
        log(f"the supervisor's lock cannot be taken: {error.strerror}")
        raise SystemExit(1) from error


def _ignore_signal(_number: int, _frame: object) -> None:
    """Handle a signal by doing nothing: the wakeup descriptor wakes the loop."""


class Supervisor:
    """The parts, in the order in which they can be built.

    A part that is built later is reached through a method here.
    """

    def __init__(self, layout: Layout, home: Home, lock: int) -> None:
        """Begin to take over what lives.

        The caller holds `lock`, and `home` knows whether the folder is still in place.
        """
        live, is_same_boot = surviving(layout), boot_of(layout.live) == this_boot()
        journal = Journal(layout.live, live, boot=this_boot())
        self._loop = loop = Loop(log)
        bells, inputs, reserve = Doorbells(loop), Inputs(loop), Reserve(layout.root)
        self._passed_stdin = passed_stdin = PassedStdin()
        trees = TreeControl(reserve, touch=bells.touch)
        self._table = table = ManagedProcesses(
            loop, journal, inputs, Unrecovered(loop, layout, live), touch=bells.touch
        )
        self._endings = endings = ExitHandler(loop, trees, reserve, touch=bells.touch, forget=self._forget)
        limits = OutputLimits(touch=bells.touch, stop=self._stop_over_limit)
        pump = Pump(
            loop,
            bells,
            reserve,
            FlowLibrary(home.program),
            ended=endings.stream_ended,
            over_limit=limits.check,
        )
        endings.pump = limits.pump = table.pump = pump
        self._guardian = GuardianLink(loop, layout, log=log, connected=self._fill, home=home)
        self._pool = ShimPool(loop, self._guardian, available=self._dispatch)
        table.pool = self._pool
        challenge = LockChallenge(loop, lock, is_ours=self._is_ours, log=log)
        containers = ContainerLinks(
            loop, layout, self._pool, pump, challenge=challenge, failed=self._start_failed
        )
        self._prepared = prepared = PreparedFolders(loop, layout)
        self._starts = Launcher(
            root=layout.root,
            processes=layout.processes,
            pool=self._pool,
            pump=pump,
            table=table,
            home=home,
            failed=self._start_failed,
            journal=journal,
            passed_stdin=passed_stdin,
            containers=containers,
            prepared=prepared,
            max_processes=most_processes(resource.getrlimit(resource.RLIMIT_NOFILE)[0], prepared.descriptors),
        )
        orphans = Orphans(loop, layout, self._pool, endings, reserve, start_again=self._starts.again, log=log)
        self._pool.listener = self._shim_events = ShimEvents(loop, endings, orphans, bells, log=log)
        self._lifecycle = lifecycle = Lifecycle(
            loop,
            table,
            self._guardian,
            self._pool,
            endings.stops,
            reserve,
            home=home,
            shut_down=endings.shut_down,
        )
        requests = Requests(
            lifecycle=lifecycle,
            table=table,
            starts=self._starts,
            trees=trees,
            stops=endings.stops,
            inputs=inputs,
            limits=limits,
            passed_stdin=passed_stdin,
            probe=CapabilityProbe(loop, layout.root, home.program),
            pump=pump,
        )
        Reaper(loop, layout, guardians=self._guardian.spawned, claimed=table.unread_pids)
        lifecycle.listen(
            layout.keeper_socket,
            bells,
            handle=requests.handle,
            lend=requests.lend,
            dropped=self._dropped,
        )
        # What lives is taken over a slice in each turn of the loop.
        recovery = Takeover(
            loop,
            layout,
            self._pool,
            pump,
            endings,
            orphans,
            table=table,
            challenge=challenge,
            born=self._shim_events.born,
            journal=journal,
            is_same_boot=is_same_boot,
            log=log,
        )
        recovery.begin(live, lifecycle.recovered)

    def run(self, wake: int) -> int:
        """Serve until retired or ended; `wake` becomes readable at a SIGTERM, the only signal that is not
        ignored.

        Returns the pid of the guardian that connected last, 0 without one.
        """
        self._loop.watch(wake, lambda _events: self._begin_shutdown(wake))
        self._guardian.begin()
        self._loop.run()
        return self._guardian.pid

    def shut_down(self, _number: int, _frame: object) -> None:
        """Record a SIGTERM before anything that follows it is read; `wake` makes the loop act on it."""
        self._endings.shut_down()

    def _begin_shutdown(self, wake: int) -> None:
        os.read(wake, 512)
        self._lifecycle.begin_shutdown()

    def _fill(self) -> None:
        if self._guardian.trouble:
            self._starts.give_up_waiting()
        else:
            self._pool.fill()

    def _dispatch(self) -> None:
        self._starts.dispatch()

    def _is_ours(self, pid: int) -> bool:
        return self._lifecycle.is_ours(pid)

    def _start_failed(self, process: ManagedProcess, number: int, place: str) -> None:
        self._shim_events.failed(process, number, place)

    def _forget(self, process: ManagedProcess) -> None:
        self._table.forget(process)
        self._prepared.replace_one()
        self._loop.look_soon()  # it may have been the last

    def _dropped(self, client: ControlClient) -> None:
        self._passed_stdin.forget(client)
        self._loop.look_soon()
        if client.is_server:
            self._guardian.say(b"unserved")  # where services are wanted it starts the next one

    def _stop_over_limit(self, process: ManagedProcess, cause: CauseCode, note: str) -> None:
        self._endings.stops.stop(process, cause, grace_s=process.spec.grace_s, note=note)
