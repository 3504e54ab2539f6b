"""Stops: TERM to the whole tree, KILL after the grace period, repeated until no process is left.

Timeouts, too.

A stop is recorded before it is carried out, so that the next supervisor continues it. Which processes belong
to a tree is known to `tree_control`; what an end means is decided in `exit_handler`.
"""

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable

from outlive.core.values import dataclass
from outlive.keeper.common.standard_files import log
from outlive.keeper.supervisor.endings.tree_control import TreeControl
from outlive.keeper.supervisor.loop import Loop
from outlive.keeper.supervisor.managed_process import ManagedProcess
from outlive.kernel.disk import Reserve
from outlive.kernel.failpoints import hit
from outlive.kernel.files import write_whole
from outlive.kernel.processes import boottime_ns
from outlive.protocols.keeper import CauseCode, Phase

_KILL_ROUND_S = 0.005  # until the second round, for what the first has missed
# Rounds become rarer up to this: what survives KILL is in the kernel, and takes its time.
_MAX_KILL_ROUND_S = 0.2
_HELD_S = 5.0  # a shim that is stopped again whenever it is continued is killed after so long


@dataclass(eq=False, slots=True)
class Terminator:
    """Ends trees. `pursued` is called after each step that may have brought a process closer to its end."""

    loop: Loop
    trees: TreeControl
    reserve: Reserve
    touch: Callable[[ManagedProcess], None]
    pursued: Callable[[ManagedProcess], None]

    def stop(self, process: ManagedProcess, cause: CauseCode, *, grace_s: float, note: str) -> None:
        """End the whole tree: TERM now, KILL after the grace period; a repeated call may only shorten it."""
        deadline = time.monotonic() + grace_s
        if process.stop_at and process.deadline <= deadline:
            return
        if not process.stop_at:
            record = {"cause": int(cause), "grace_s": grace_s, "boottime_ns": boottime_ns(), "note": note}
            content = json.dumps(record).encode()
            # On a disk that accepts nothing the stop goes on: only a next supervisor would not know of it.
            with contextlib.suppress(OSError):
                self.reserve.fit(lambda: write_whole(f"{process.folder}/stop", content))
            process.cause = int(cause)
            process.note = note
        hit("stop.recorded")
        self.pursue(process, deadline)

    def pursue(self, process: ManagedProcess, deadline: float) -> None:
        """Carry out a recorded stop whose KILL is due at `deadline` (monotonic)."""
        process.stop_at = time.monotonic()
        process.deadline = deadline
        if process.kill_timer is not None:
            process.kill_timer.cancel()
        # An interactive shell ignores TERM; a closing terminal sends HUP.
        wanted = [signal.SIGTERM] if process.spec.stdio != "pty" else [signal.SIGTERM, signal.SIGHUP]
        # A paused process handles TERM only once it continues.
        self.trees.send(process, [*wanted, signal.SIGCONT])
        with contextlib.suppress(OSError):  # missing, or the file system is read-only
            os.unlink(f"{process.folder}/paused")
        if process.phase < Phase.EXITED:
            process.phase = Phase.STOPPING
        self.touch(process)
        hit("stop.termed")
        delay = max(0.0, deadline - time.monotonic())
        process.kill_timer = self.loop.later(delay, lambda: self.kill(process))
        self.pursued(process)

    def kill(self, process: ManagedProcess, *, next_round_s: float = _KILL_ROUND_S) -> None:
        """Kill what is left, round by round, until the tree is empty.

        From the second round it is stopped first.

        A chain of forks is as fast as the walk that kills it; stopped processes do not fork.
        """
        process.kill_timer = None
        if process.is_empty and process.phase >= Phase.EXITED:
            return
        if next_round_s > _KILL_ROUND_S:  # not in the first round, which is enough for most trees
            self.trees.send(process, [signal.SIGSTOP])
        later = min(next_round_s * 2, _MAX_KILL_ROUND_S)
        # What has ended is heard of within milliseconds: by the last of the short rounds it is none of these.
        is_late = next_round_s < later == _MAX_KILL_ROUND_S
        if not self.trees.send(process, [signal.SIGKILL]) and is_late:
            log(f"{process.process_id} is to end, and nothing of its tree is found")
        self.trees.end_held_shim(process, after_s=_HELD_S)
        process.kill_timer = self.loop.later(next_round_s, lambda: self.kill(process, next_round_s=later))

    def arm_timeout(self, process: ManagedProcess, *, started_boottime_ns: int) -> None:
        """Let the timeout fire at its time; at once if that has passed while no supervisor ran."""
        timeout_s = process.spec.timeout_s
        if timeout_s is None or process.phase >= Phase.EXITED or process.stop_at:
            return
        elapsed = (boottime_ns() - started_boottime_ns) / 1e9
        process.timeout_timer = self.loop.later(
            max(0.0, timeout_s - elapsed), lambda: self._time_out(process)
        )

    def _time_out(self, process: ManagedProcess) -> None:
        if process.phase < Phase.EXITED:
            self.stop(process, CauseCode.TIMEOUT, grace_s=process.spec.grace_s, note="")
