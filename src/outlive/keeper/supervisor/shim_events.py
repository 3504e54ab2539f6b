"""What busy shims report, and what follows from each report: `ShimEvents`.

Idle shims are the pool's (`starts.shim_pool`). What an end means is decided in `endings.exit_handler`.
"""

import contextlib
import os
import time
from collections.abc import Callable

from outlive.core.values import dataclass
from outlive.keeper.supervisor.clients import Doorbells
from outlive.keeper.supervisor.endings.exit_handler import ExitHandler
from outlive.keeper.supervisor.endings.orphans import Orphans
from outlive.keeper.supervisor.loop import Loop
from outlive.keeper.supervisor.managed_process import ManagedProcess, ShimLink
from outlive.keeper.supervisor.starts.container_links import take_birth
from outlive.keeper.supervisor.starts.launcher import failed_start
from outlive.kernel import sockets
from outlive.kernel.files import write_once
from outlive.kernel.processes import boottime_ns
from outlive.kernel.state_files import read_pid
from outlive.protocols.frames import ExitRecord, encode_exit
from outlive.protocols.keeper import Phase


@dataclass(eq=False, slots=True)
class ShimEvents:
    """Reads one packet of a busy shim at a time (`native/shim/shim_loop.h` lists them)."""

    loop: Loop
    endings: ExitHandler
    orphans: Orphans
    bells: Doorbells
    log: Callable[[str], None]

    def hear(self, shim: ShimLink, message: bytes, fds: list[int]) -> None:
        """Act on one packet; the end of a shim's socket means that it has died."""
        process = shim.process
        assert process is not None
        try:
            match message.decode().split():
                case [] if not message:
                    self._lose(process, shim)
                case ["spawned", pid, ticks, started_ns]:
                    self._spawned(process, int(pid), int(ticks), int(started_ns))
                case ["failed", number, place]:
                    self.failed(process, int(number), place)
                case ["exited", kind, number, empty, ended_ns]:
                    self.endings.exited(
                        process, kind=kind, number=int(number), is_empty=empty == "1", ended_ns=int(ended_ns)
                    )
                case ["empty"]:
                    self.endings.emptied(process)
                case ["kept", "rw"] if not shim.is_inside:  # no relay is offered to one in a container
                    assert self.endings.pump is not None
                    self.endings.pump.use_relay(process)
                case ["born", letters] if shim.is_inside and not process.pid:
                    held = dict(zip(letters, fds, strict=True))
                    fds = []  # they are kept, the others are closed
                    self.born(process, shim, held)
                case ["hello", _] if shim.is_inside:
                    pass
                case words:
                    self.log(f"shim {shim.pid} says {words!r}")
        except ValueError as error:
            # Our own shims send no such packet; a program inside a container may have taken the shim's place.
            self.log(f"shim {shim.pid} is not understood: {error!r}")
            self._lose(process, shim)
        finally:
            for fd in fds:
                os.close(fd)

    def _lose(self, process: ManagedProcess, shim: ShimLink) -> None:
        self.loop.unwatch(shim.socket.fileno())
        shim.socket.close()
        self.orphans.shim_lost(process)

    def born(self, process: ManagedProcess, shim: ShimLink, held: dict[str, int] | None = None) -> None:
        """Let a command in a container execute; `held` are descriptors that came with the report, and are
        kept.
        """
        if not take_birth(process, shim, held or {}):
            self.log(f"{process.process_id}: the command was gone before it executed")
            with contextlib.suppress(OSError):
                sockets.send(shim.socket, b"quit")
            return  # the end of the link is read next, and handled as a death
        if process.spec.stdio == "pty":
            stream = process.streams[0]
            stream.source = process.fds["m"]
            assert self.endings.pump is not None
            self.endings.pump.add(stream)

    def _spawned(self, process: ManagedProcess, pid: int, ticks: int, started_ns: int) -> None:
        process.pid, process.ticks, process.started_ns = pid, ticks, started_ns
        process.secrets = None
        if process.pidfd < 0:
            with contextlib.suppress(OSError):
                process.pidfd = os.pidfd_open(pid)
        if process.phase == Phase.STARTING:
            process.phase = Phase.STOPPING if process.stop_at else Phase.RUNNING
        # A process that is waited for changes again at once; one that is being stopped must be reported
        # without delay.
        touch = self.bells.touch_later if process.answers and not process.stop_at else self.bells.touch
        process.answer_all({"pid": pid, "started_ns": started_ns})
        if process.stop_at:  # a stop was requested before the command ran
            self.endings.stops.pursue(process, process.deadline)
        if process.spec.timeout_s is not None:
            # `started_ns` is by a clock that may be set. On a full disk there is no record: from now on.
            record = read_pid(process.folder)
            began_ns = boottime_ns() if record is None else record.boottime_ns
            self.endings.stops.arm_timeout(process, started_boottime_ns=began_ns)
        touch(process)

    def failed(self, process: ManagedProcess, number: int, place: str) -> None:
        """Handle a start that failed; write its record if there is no shim that has done so."""
        process.failed_at = place  # its record may have to wait for the disk
        if process.shim is None:
            record = ExitRecord(kind="failed", number=number, ended_ns=time.time_ns(), note=place)
            with contextlib.suppress(OSError):
                write_once(f"{process.folder}/exit", encode_exit(record))
        for stream in process.streams:
            # Below 0: a terminal that was never opened.
            stream.is_open = stream.is_open and stream.source >= 0
        process.answer_all(failed_start(number, place, folder=process.folder))
        self.endings.exited(process, kind="failed", number=number, is_empty=True, ended_ns=time.time_ns())
