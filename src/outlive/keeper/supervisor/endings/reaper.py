"""Reaping what the kernel hands to the supervisor: guardians that it started, and what dead ones leave behind.

A command among them whose exit code nobody has read yet is left alone: the zombie is the durable copy.
"""

import contextlib
import os
import time
from collections.abc import Callable

from outlive.core.layout import Layout
from outlive.keeper.common import tree
from outlive.keeper.common.files import write_whole
from outlive.keeper.common.kernel import exit_status_of_zombie, stat_fields
from outlive.keeper.supervisor.loop import Loop
from outlive.protocols.frames import encode_exit, exit_from_wait

_LOOK_S = 1.0


class Reaper:
    """Looks once a second: zombies cost nothing but their pid."""

    def __init__(
        self, loop: Loop, layout: Layout, *, guardians: set[int], claimed: Callable[[], set[int]]
    ) -> None:
        """`guardians` are no commands; `claimed` returns the pids of commands whose exit is still to be read."""
        self._loop = loop
        self._layout = layout
        self._guardians = guardians
        self._claimed = claimed
        loop.later(_LOOK_S, self._look)

    def _look(self) -> None:
        self._loop.later(_LOOK_S, self._look)
        try:
            if os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                return
        except ChildProcessError:
            return
        claimed = self._claimed()
        for pid in tree.children(os.getpid()):
            fields = stat_fields(pid)
            if not fields or fields[0] != b"Z" or pid in claimed:
                continue
            # A command leads its POSIX session. Its start may not be known yet: leave a note, as a guardian does.
            if int(fields[3]) == pid and pid not in self._guardians:
                self._note(pid, int(fields[19]))
            self._guardians.discard(pid)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)

    def _note(self, pid: int, ticks: int) -> None:
        status = exit_status_of_zombie(pid, ticks)
        if status is not None:
            with contextlib.suppress(OSError):
                write_whole(
                    f"{self._layout.notes}/{pid}.{ticks}", encode_exit(exit_from_wait(status, time.time_ns()))
                )
