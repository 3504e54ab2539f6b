"""What busy shims say, and what follows from it."""

import contextlib
import os
import time
from collections.abc import Callable

from outlive.keeper import sockets
from outlive.keeper.endings import Endings
from outlive.keeper.files import write_once
from outlive.keeper.kept import Kept, ShimLink
from outlive.keeper.kernel import boottime_ns
from outlive.keeper.loop import Loop
from outlive.keeper.orphans import Orphans
from outlive.keeper.starts import failed_start
from outlive.protocols.frames import ExitRecord, encode_exit
from outlive.protocols.keeper import Phase

__all__ = ["Hearing"]


class Hearing:
    """Reads one packet of a busy shim at a time (the words are listed in `keeper.shim`)."""

    def __init__(
        self,
        loop: Loop,
        endings: Endings,
        orphans: Orphans,
        *,
        touch: Callable[[Kept], None],
        log: Callable[[str], None],
    ) -> None:
        """Take who acts on the words."""
        self._loop = loop
        self._endings = endings
        self._orphans = orphans
        self._touch = touch
        self._log = log

    def hear(self, shim: ShimLink) -> None:
        """Read what a shim says; the end of its socket is its death."""
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
                self.failed(kept, int(number), place)
            case ["exited", kind, number, empty, ended_ns]:
                self._endings.exited(
                    kept, kind=kind, number=int(number), is_empty=empty == "1", ended_ns=int(ended_ns)
                )
            case ["empty"]:
                self._endings.emptied(kept)
            case _:
                self._log(f"shim {shim.pid} says {words!r}")

    def _spawned(self, kept: Kept, pid: int, ticks: int, started_ns: int) -> None:
        kept.pid, kept.ticks, kept.started_ns = pid, ticks, started_ns
        kept.secrets = None
        if kept.pidfd < 0:
            with contextlib.suppress(OSError):
                kept.pidfd = os.pidfd_open(pid)
        if kept.phase == Phase.STARTING:
            kept.phase = Phase.STOPPING if kept.stop_at else Phase.RUNNING
        kept.answer_all({"pid": pid, "started_ns": started_ns})
        if kept.stop_at:  # it was cancelled before it ran
            self._endings.stops.pursue(kept, kept.deadline)
        elapsed_ns = max(0, time.time_ns() - started_ns)
        self._endings.stops.arm_timeout(kept, started_boottime_ns=boottime_ns() - elapsed_ns)
        self._touch(kept)

    def failed(self, kept: Kept, number: int, place: str) -> None:
        """Take note that a command was not started; without a shim that could say so, write the record, too."""
        if kept.shim is None:
            record = ExitRecord(kind="failed", number=number, ended_ns=time.time_ns(), note=place)
            with contextlib.suppress(OSError):
                write_once(f"{kept.folder}/exit", encode_exit(record))
        kept.answer_all(failed_start(number, place))
        self._endings.exited(kept, kind="failed", number=number, is_empty=True, ended_ns=time.time_ns())
