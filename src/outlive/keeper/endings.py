"""How processes end: exits, timeouts, stops with grace, drained output, empty trees, and letting go.

A process is EXITED when its main process has, and DONE when its pipes are drained to "would block" (after a stop
also only when its tree is empty). It is let go of when it is DONE, its streams are closed and its tree is empty.
"""

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable

from outlive.keeper import tree
from outlive.keeper.failpoints import hit
from outlive.keeper.files import write_whole
from outlive.keeper.kept import Kept
from outlive.keeper.kernel import boottime_ns
from outlive.keeper.loop import Loop
from outlive.keeper.pump import Pump
from outlive.protocols.keeper import CauseCode, Flags, Phase

__all__ = ["EXIT_FLAGS", "Endings"]

_KILL_ROUND_S = 0.005
_MAX_KILL_ROUND_S = 0.2
_ORPHAN_LOOK_S = 0.05
_RETRY_S = 0.25

# What a record's kind means in a doorbell.
EXIT_FLAGS = {"signaled": Flags.SIGNALED, "failed": Flags.FAILED, "lost": Flags.LOST}


class Endings:
    """Owns the transitions towards the end. `forget` is called for each process that needs no keeping any more."""

    def __init__(
        self,
        loop: Loop,
        *,
        touch: Callable[[Kept], None],
        forget: Callable[[Kept], None],
        guardian: Callable[[], int],
    ) -> None:
        """`guardian` returns the guardian's pid: orphaned commands are its children."""
        self._loop = loop
        self._touch = touch
        self._forget = forget
        self._guardian = guardian
        self.pump: Pump | None = None

    # -- the tree

    def roots(self, kept: Kept) -> tuple[list[int], list[int]]:
        """Return (roots, members): the tree is everything below the roots, plus the members and what is below."""
        if kept.shim is not None and not kept.is_orphan:
            return [kept.shim.pid], []
        members = tree.carriers_of(b"OUTLIVE_PROCESS_ID=" + kept.process_id.encode())
        if kept.pid and kept.pid not in members and kept.phase < Phase.EXITED:
            members.append(kept.pid)
        return [], members

    def pause(self, kept: Kept) -> bool:
        """Stop the whole tree; False when it did not settle (it is tried again by the caller's repeat)."""
        roots, members = self.roots(kept)
        settled = tree.freeze(roots, extra=members)
        write_whole(f"{kept.folder}/paused", b"sigstop\n")
        kept.phase = Phase.PAUSED
        self._touch(kept)
        return settled

    def resume(self, kept: Kept) -> None:
        """Continue the whole tree."""
        roots, members = self.roots(kept)
        tree.send_all(roots, [signal.SIGCONT], extra=members)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{kept.folder}/paused")
        kept.phase = Phase.RUNNING
        self._touch(kept)

    def signal_tree(self, kept: Kept, number: int, *, whole_tree: bool) -> None:
        """Send one signal to the main process or to its whole tree."""
        roots, members = self.roots(kept)
        if whole_tree:
            tree.send_all(roots, [number], extra=members)
        elif kept.pidfd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(kept.pidfd, number)

    # -- stops

    def stop(self, kept: Kept, cause: CauseCode, *, grace_s: float, note: str) -> None:
        """End the whole tree: TERM now, KILL after the grace; a repeat may only shorten the grace."""
        deadline = time.monotonic() + grace_s
        if kept.stop_at and kept.deadline <= deadline:
            return
        if not kept.stop_at:
            record = {"cause": int(cause), "grace_s": grace_s, "at_ns": time.time_ns(), "note": note}
            with contextlib.suppress(OSError):  # a full disk must not save a process from its end
                write_whole(f"{kept.folder}/stop", json.dumps(record).encode())
            kept.cause = int(cause)
            kept.note = note
        hit("stop.recorded")
        self.pursue(kept, deadline)

    def pursue(self, kept: Kept, deadline: float) -> None:
        """Carry out a recorded stop whose KILL is due at `deadline` (monotonic)."""
        kept.stop_at = time.monotonic()
        kept.deadline = deadline
        if kept.kill_timer is not None:
            kept.kill_timer.cancel()
        roots, members = self.roots(kept)
        # An interactive shell ignores TERM; what a closing terminal sends is HUP.
        wanted = [signal.SIGTERM] if kept.spec.stdio != "pty" else [signal.SIGTERM, signal.SIGHUP]
        tree.send_all(roots, [*wanted, signal.SIGCONT], extra=members)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{kept.folder}/paused")
        if kept.phase < Phase.EXITED:
            kept.phase = Phase.STOPPING
        self._touch(kept)
        hit("stop.termed")
        delay = max(0.0, deadline - time.monotonic())
        kept.kill_timer = self._loop.later(delay, lambda: self._kill(kept, _KILL_ROUND_S))
        if kept.is_orphan:
            self._look_for_tree(kept)
        self._advance(kept)

    def _kill(self, kept: Kept, next_round_s: float) -> None:
        """Kill what is left, round by round, until the tree is empty; stopping it first outruns fork chains."""
        kept.kill_timer = None
        if kept.is_empty and kept.phase >= Phase.EXITED:
            return
        roots, members = self.roots(kept)
        if next_round_s > _KILL_ROUND_S:  # the first round kills at once; survivors are stopped, then killed
            tree.send_all(roots, [signal.SIGSTOP], extra=members)
        tree.send_all(roots, [signal.SIGKILL], extra=members)
        later = min(next_round_s * 2, _MAX_KILL_ROUND_S)
        kept.kill_timer = self._loop.later(next_round_s, lambda: self._kill(kept, later))

    def arm_timeout(self, kept: Kept, *, started_boottime_ns: int) -> None:
        """Let the timeout fire at its time, also when that has passed while nobody was there."""
        timeout_s = kept.spec.timeout_s
        if timeout_s is None or kept.phase >= Phase.EXITED or kept.stop_at:
            return
        elapsed = (boottime_ns() - started_boottime_ns) / 1e9
        kept.timeout_timer = self._loop.later(max(0.0, timeout_s - elapsed), lambda: self._time_out(kept))

    def _time_out(self, kept: Kept) -> None:
        if kept.phase < Phase.EXITED:
            self.stop(kept, CauseCode.TIMEOUT, grace_s=kept.spec.grace_s, note="")

    # -- exits

    def exited(self, kept: Kept, *, kind: str, number: int, is_empty: bool, ended_ns: int) -> None:
        """Take note of the main process's end; idempotent."""
        if kept.phase >= Phase.EXITED:
            return
        kept.phase = Phase.EXITED
        kept.code = number
        kept.flags |= EXIT_FLAGS.get(kind, 0)
        kept.ended_ns = ended_ns
        kept.is_empty = is_empty
        if kept.timeout_timer is not None:
            kept.timeout_timer.cancel()
        hit("exit.noticed")
        if not is_empty and kept.spec.after_exit == "kill" and not kept.stop_at:
            self._kill(kept, _KILL_ROUND_S)
        if kept.is_orphan and not is_empty:
            self._look_for_tree(kept)
        self._touch(kept)
        self._advance(kept)

    def was_done(self, kept: Kept, *, is_empty: bool, record: dict[str, object]) -> None:
        """Restore a process whose `done` an earlier supervisor wrote: only its open streams and its tree are left."""
        kept.phase = Phase.DONE
        kept.is_empty = is_empty
        kept.cause = int(str(record["cause"]))
        kept.note = str(record["note"])
        kept.descendants = int(str(record["descendants"]))
        self._touch(kept)
        self._advance(kept)

    def emptied(self, kept: Kept) -> None:
        """Take note that no descendant is left."""
        kept.is_empty = True
        self._advance(kept)

    def stream_ended(self, kept: Kept) -> None:
        """Take note that a stream was closed."""
        if kept.phase >= Phase.EXITED:
            self._advance(kept)

    def _look_for_tree(self, kept: Kept) -> None:
        """Watch an orphaned command's tree: no shim tells when it is empty."""
        if kept.is_empty or kept.phase < Phase.EXITED:
            return
        if not self.roots(kept)[1]:
            self.emptied(kept)
        else:
            self._loop.later(_ORPHAN_LOOK_S, lambda: self._look_for_tree(kept))

    def _advance(self, kept: Kept) -> None:
        """Go as far towards the end as possible now."""
        if kept.phase < Phase.EXITED:
            return
        if kept.phase == Phase.EXITED:
            must_be_empty = bool(kept.stop_at) or kept.spec.after_exit in {"kill", "wait"}
            if must_be_empty and not kept.is_empty:
                return
            assert self.pump is not None
            if not self.pump.drain(kept) or kept.phase != Phase.EXITED:
                return  # the disk is full (the pump comes back), or draining closed the last stream and went on
            if not self._write_done(kept):
                self._loop.later(_RETRY_S, lambda: self._advance(kept))
                return
        if kept.phase == Phase.DONE and kept.is_empty and kept.is_closed:
            self._let_go(kept)

    def _write_done(self, kept: Kept) -> bool:
        hit("exit.drained")
        ends = {stream.index: stream.offset for stream in kept.streams}
        kept.descendants = 0 if kept.is_empty else len(tree.descendants(self.roots(kept)[0]))
        record = {
            "out": ends.get(0, 0),
            "err": ends.get(1, 0),
            "cause": kept.cause,
            "note": kept.note,
            "at_ns": time.time_ns(),
            "descendants": kept.descendants,
            "gaps": bool(kept.flags & Flags.GAPS),
            "holder_lost": bool(kept.flags & Flags.HOLDER_LOST),
            "closed": kept.is_closed,
        }
        try:
            fd = os.open(f"{kept.folder}/done", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            try:
                os.write(fd, json.dumps(record).encode())
            finally:
                os.close(fd)
        except OSError:
            return False
        hit("exit.done")
        kept.phase = Phase.DONE
        self._touch(kept)
        return True

    def _let_go(self, kept: Kept) -> None:
        if not os.path.exists(f"{kept.folder}/closed") and kept.descendants:
            ends = {stream.index: stream.offset for stream in kept.streams}
            record = {"out": ends.get(0, 0), "err": ends.get(1, 0), "at_ns": time.time_ns()}
            with contextlib.suppress(OSError):
                write_whole(f"{kept.folder}/closed", json.dumps(record).encode())
        kept.descendants = 0
        if kept.kill_timer is not None:
            kept.kill_timer.cancel()
        hit("exit.let_go")
        self._forget(kept)
