"""The server's live object of one process: `Process`, a few numbers that doorbells keep up to date.

Holds no output and no queue: readers take bytes from `log` at their own cursor and are woken by `subscribe`.
Only the event loop's thread touches it. Some 2 KB each: the server may hold thousands.
"""

import logging
from collections.abc import Callable
from dataclasses import replace
from enum import IntFlag

from outlive.core.cursor import Cursor
from outlive.core.identity import ProcessId, id_to_bytes
from outlive.core.lifecycle import ENDED, Cause, State
from outlive.core.process import ProcessRecord
from outlive.protocols.keeper import Flags, Phase
from outlive.store.output_log import OutputLog
from outlive.store.rows import StoredProcess, at_time, to_ns
from outlive.store.wording import ended_sentence

__all__ = ["CAUSES", "Change", "Process"]

_logger = logging.getLogger(__name__)

CAUSES = tuple(Cause)  # indexed by protocols.keeper.CauseCode
_STATES = {
    Phase.STARTING: State.STARTING,
    Phase.RUNNING: State.RUNNING,
    Phase.PAUSED: State.PAUSED,
    Phase.STOPPING: State.STOPPING,
}
_PHASES = {state: phase for phase, state in _STATES.items()}
_END_FLAGS = {
    State.EXITED: Flags(0),
    State.SIGNALED: Flags.SIGNALED,
    State.FAILED_TO_START: Flags.FAILED,
    State.LOST: Flags.LOST,
}
# Plain ints: an IntFlag operation costs 0.5 us, and these are tested for every doorbell.
_SIGNALED, _FAILED, _LOST = int(Flags.SIGNALED), int(Flags.FAILED), int(Flags.LOST)
_OPEN, _GAPS, _STALLED = int(Flags.OUT_OPEN | Flags.ERR_OPEN), int(Flags.GAPS), int(Flags.STALLED)
_EXITED, _DONE = int(Phase.EXITED), int(Phase.DONE)


class Change(IntFlag):
    """What a doorbell changed beside the sizes; several at once are usual for a short command."""

    NOTHING = 0
    STATE = 1
    COMPLETED = 2
    CLOSED = 4
    FINISHED = 8  # completed, closed and its tree is empty: nothing can change any more
    DETAILS = 16  # flags or the number of descendants only


class Process:
    """One process: running, or ended and loaded again.

    Attributes (written by the engine only):
        process_id: Its permanent id.
        stdout_bytes, stderr_bytes: Bytes in the logs, as far as the keeper has told.
        complete_stdout_bytes, complete_stderr_bytes: The ends of the output at completion; bytes beyond belong to
            descendants. None until it is complete.
        output_limit: Bytes of output that are kept; None when there is no limit.
        folder: The process's folder, absolute.
        note: Who asked for the end, for people.
    """

    __slots__ = (
        "__weakref__",
        "_base",
        "_cause",
        "_code",
        "_descendants",
        "_ended_ns",
        "_flags",
        "_kicks",
        "_log",
        "_phase",
        "_pid",
        "_started_ns",
        "complete_stderr_bytes",
        "complete_stdout_bytes",
        "folder",
        "note",
        "output_limit",
        "process_id",
        "stderr_bytes",
        "stdout_bytes",
    )

    def __init__(self, base: ProcessRecord, folder: str, *, output_limit: int | None) -> None:
        """Begin with a record whose unchanging fields stay as they are."""
        self.process_id: ProcessId = base.process_id
        self.folder = folder
        self.output_limit = output_limit
        self.note = ""
        self.stdout_bytes = base.stdout_bytes
        self.stderr_bytes = base.stderr_bytes
        self.complete_stdout_bytes: int | None = None
        self.complete_stderr_bytes: int | None = None
        self._base = base
        self._pid = base.pid or 0
        self._started_ns = 0 if base.started_at is None else to_ns(base.started_at)
        self._ended_ns = 0 if base.ended_at is None else to_ns(base.ended_at)
        self._phase: int = _PHASES.get(base.state, Phase.DONE if base.is_complete else Phase.EXITED)
        self._flags: int = _END_FLAGS.get(base.state, Flags(0)) | (0 if base.is_closed else _OPEN)
        if base.has_gaps:
            self._flags |= _GAPS
        self._code = base.exit_code or base.exit_signal or 0
        self._cause = CAUSES.index(base.cause)
        self._descendants = base.descendants
        self._kicks: tuple[Callable[[], None], ...] = ()
        self._log: OutputLog | None = None

    @classmethod
    def from_stored(cls, stored: StoredProcess, folder: str) -> "Process":
        """Load a process from the registry (or its folder)."""
        process = cls(stored.record, folder, output_limit=stored.output_limit)
        if stored.complete is not None:
            process.complete_stdout_bytes = stored.complete.stdout
            process.complete_stderr_bytes = stored.complete.stderr
        return process

    @property
    def key(self) -> bytes:
        """The 16-byte form of the id, as doorbells carry it."""
        return id_to_bytes(self.process_id)

    @property
    def state(self) -> State:
        """Where it is in its life."""
        if self._phase < _EXITED:
            return _STATES[Phase(self._phase)]
        flags = self._flags
        if flags & _FAILED:
            return State.FAILED_TO_START
        if flags & _LOST:
            return State.LOST
        return State.SIGNALED if flags & _SIGNALED else State.EXITED

    @property
    def is_ended(self) -> bool:
        """Whether the main process has ended (its output may still be drained)."""
        return self._phase >= _EXITED

    @property
    def is_complete(self) -> bool:
        """Whether it has ended and its output is whole."""
        return self._phase == _DONE

    @property
    def is_closed(self) -> bool:
        """Whether it is complete and nothing can write to its streams any more."""
        return self._phase == _DONE and not self._flags & _OPEN

    @property
    def has_gaps(self) -> bool:
        """Whether output was released from the log (`log.gap` tells which)."""
        return bool(self._flags & _GAPS)

    @property
    def owner_connection_id(self) -> str | None:
        """The connection that started it (cheaper than `record.owner`)."""
        return self._base.owner.connection_id

    @property
    def record(self) -> ProcessRecord:
        """A snapshot, newly made at every call (some microseconds)."""
        base, state = self._base, self.state
        ended = state in ENDED
        error = base.error
        if ended and error is None:
            error = ended_sentence(
                state,
                CAUSES[self._cause],
                note=self.note,
                timeout_s=base.timeout_s,
                output_limit=self.output_limit,
                errno=self._code,
            )
        return replace(
            base,
            state=state,
            pid=self._pid or None,
            cause=CAUSES[self._cause],
            exit_code=self._code if state is State.EXITED else None,
            exit_signal=self._code if state is State.SIGNALED else None,
            error=error,
            started_at=at_time(self._started_ns) if self._started_ns else None,
            ended_at=at_time(self._ended_ns) if ended and self._ended_ns else None,
            stdout_bytes=self.stdout_bytes,
            stderr_bytes=self.stderr_bytes,
            is_complete=self.is_complete,
            is_closed=self.is_closed,
            is_stalled=bool(self._flags & _STALLED),
            has_gaps=self.has_gaps,
            descendants=self._descendants,
        )

    @property
    def stored(self) -> StoredProcess:
        """What the registry keeps of it now."""
        complete = None
        if self.complete_stdout_bytes is not None and self.complete_stderr_bytes is not None:
            complete = Cursor(self.complete_stdout_bytes, self.complete_stderr_bytes)
        return StoredProcess(record=self.record, complete=complete, output_limit=self.output_limit)

    @property
    def log(self) -> OutputLog:
        """Its output on disk; closed by the engine when it lets go of the process, opens again by itself."""
        if self._log is None:
            self._log = OutputLog(self.folder)
        return self._log

    def subscribe(self, kick: Callable[[], None]) -> Callable[[], None]:
        """Call `kick` on the loop whenever anything changed; return what ends that.

        A kick must be quick and must not raise (it is logged if it does); several changes may come as one.
        The returned function may be called more than once.
        """
        self._kicks = (*self._kicks, kick)

        def unsubscribe() -> None:
            self._kicks = tuple(other for other in self._kicks if other is not kick)

        return unsubscribe

    def absorb(
        self,
        out: int,
        err: int,
        pid: int,
        code: int,
        phase: int,
        cause: int,
        flags: int,
        descendants: int,
        *,
        now_ns: int = 0,
    ) -> int:
        """Take over a doorbell's fields; return the `Change` bits. Engine only; does not kick.

        An ended process stays ended: a keeper that has just recovered may tell less than it had told before.
        """
        if out > self.stdout_bytes:
            self.stdout_bytes = out
        if err > self.stderr_bytes:
            self.stderr_bytes = err
        if phase == self._phase and flags == self._flags and descendants == self._descendants:
            return 0  # the hot path: only the sizes grew
        before, was_closed = self._phase, self.is_closed
        if phase < before and before >= _EXITED:
            return 0
        self._pid = pid or self._pid
        self._phase, self._cause, self._descendants = phase, cause or self._cause, descendants
        self._flags = flags | (self._flags & _GAPS)  # what was released never comes back
        changes = int(Change.DETAILS if phase == before else Change.STATE)
        if phase >= _EXITED:
            self._code = code
            if not self._ended_ns:
                self._ended_ns = now_ns
        if phase == _DONE:
            if self.complete_stdout_bytes is None:
                self.complete_stdout_bytes, self.complete_stderr_bytes = out, err
                changes |= Change.COMPLETED
            if not flags & _OPEN:
                changes |= 0 if was_closed else Change.CLOSED
                changes |= 0 if descendants else Change.FINISHED
        return changes

    def kick(self) -> None:
        """Wake every subscriber. Engine only."""
        for kick in self._kicks:
            try:
                kick()
            except Exception:
                # One subscriber's fault must not stop the stream of the others (findings: silent stops).
                _logger.exception("a subscriber of a process failed")

    def confirm_start(self, pid: int, started_ns: int) -> None:
        """Take over what the keeper answered to the start. Engine only."""
        self._pid = self._pid or pid
        self._started_ns = self._started_ns or started_ns
        if self._phase == Phase.STARTING:
            self._phase = Phase.RUNNING
