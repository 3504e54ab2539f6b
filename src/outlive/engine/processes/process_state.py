"""What the keeper has reported of one process: `ProcessState`, the numbers of its doorbells and what they
mean.

The hot path of the server: some ten thousand doorbells a second end in `ProcessState.absorb`. Only the event
loop's thread touches it.

`Subscribers`: what is woken when a process changes. Subscribers are called, and nothing is queued for them.
"""

import logging
from collections.abc import Callable
from enum import IntFlag

from outlive.core.lifecycle import Cause, State
from outlive.core.process import ProcessRecord, Waiting
from outlive.core.values import dataclass, replace
from outlive.protocols.keeper import Flags, Phase
from outlive.store.end_sentences import ended_sentence, loss_sentence
from outlive.store.rows import at_time, to_ns

CAUSES = tuple(Cause)  # indexed by protocols.keeper.CauseCode
_STATES = (State.STARTING, State.RUNNING, State.PAUSED, State.STOPPING)  # indexed by the phases before EXITED
_QUEUED = -1  # before the keeper knows of it: its group is full
_PHASES = {State.QUEUED: _QUEUED, **{state: phase for phase, state in enumerate(_STATES)}}
_END_FLAGS = {
    State.EXITED: Flags(0),
    State.SIGNALED: Flags.SIGNALED,
    State.FAILED_TO_START: Flags.FAILED,
    State.LOST: Flags.LOST,
}
# Plain ints: an IntFlag operation costs 0.5 us, and these are tested for every doorbell.
_SIGNALED, _FAILED, _LOST = int(Flags.SIGNALED), int(Flags.FAILED), int(Flags.LOST)
_END = _SIGNALED | _FAILED | _LOST
_ENDS = tuple(  # indexed by those flags
    State.FAILED_TO_START
    if flags & _FAILED
    else State.LOST
    if flags & _LOST
    else State.SIGNALED
    if flags & _SIGNALED
    else State.EXITED
    for flags in range(_END + 1)
)
_OPEN, _GAPS = int(Flags.OUT_OPEN | Flags.ERR_OPEN), int(Flags.GAPS)
_HOLDER_LOST = int(Flags.HOLDER_LOST)
_FOR_GOOD = _GAPS | _HOLDER_LOST  # what was released or lost never comes back
_UNKNOWN = int(Flags.UNKNOWN)
_STALLED, _BLOCKED = int(Flags.STALLED), int(Flags.BLOCKED)
_STARTING, _RUNNING, _PAUSED = int(Phase.STARTING), int(Phase.RUNNING), int(Phase.PAUSED)
_EXITED, _DONE = int(Phase.EXITED), int(Phase.DONE)


class Change(IntFlag):
    """What a doorbell changed beside the sizes; several at once are usual for a short command."""

    NOTHING = 0
    STATE = 1
    COMPLETED = 2
    CLOSED = 4
    FINISHED = 8  # completed, closed and its tree is empty: nothing can change any more
    DETAILS = 16  # flags or the number of descendants only


_STATE, _DETAILS = int(Change.STATE), int(Change.DETAILS)
_COMPLETED, _CLOSED, _FINISHED = int(Change.COMPLETED), int(Change.CLOSED), int(Change.FINISHED)


class ProcessState:
    """The numbers of a process that change while it lives.

    Attributes (written here, and at first by `Process.from_stored`):
        stdout_bytes, stderr_bytes: Bytes in the logs, as far as the keeper has reported.
        complete_stdout_bytes, complete_stderr_bytes: The ends of the output at completion; bytes beyond
            belong to descendants. None until it is complete.
        pid: Of the main process; 0 until it is known.
        started_ns, ended_ns: Start and end in Unix nanoseconds; 0 where not known.
        code: The exit code, or the signal's number; the errno of a start that failed.
        cause: Why it was ended, an index into `CAUSES`.
        descendants: What is left of its tree besides itself.
        waiting, prompt_thread, is_person_asked: What it was found to wait for, which thread waits for its
            next command at its own prompt (None: none), and whether a person was notified of what it asks;
            written by the watch for questions alone.
        has_news: Set by every change here, and reset once a record was made of it (`Process.record`).
    """

    __slots__ = (
        "_flags",
        "_phase",
        "cause",
        "code",
        "complete_stderr_bytes",
        "complete_stdout_bytes",
        "descendants",
        "ended_ns",
        "has_news",
        "is_person_asked",
        "pid",
        "prompt_thread",
        "started_ns",
        "stderr_bytes",
        "stdout_bytes",
        "waiting",
        "window",
    )

    def __init__(self, record: ProcessRecord) -> None:
        self.window: tuple[int, int] | None = (
            None  # rows, columns: the size that a terminal was given last by this server
        )
        self.stdout_bytes = record.stdout_bytes
        self.stderr_bytes = record.stderr_bytes
        self.complete_stdout_bytes: int | None = None
        self.complete_stderr_bytes: int | None = None
        self.pid = record.pid or 0
        self.started_ns = 0 if record.started_at is None else to_ns(record.started_at)
        self.ended_ns = 0 if record.ended_at is None else to_ns(record.ended_at)
        ended = _DONE if record.is_complete else _EXITED
        self._phase = int(_PHASES.get(record.state, ended))
        self._flags = int(_END_FLAGS.get(record.state, 0)) | (0 if record.is_closed else _OPEN)
        if record.has_gaps:
            self._flags |= _GAPS
        if record.output_lost:
            self._flags |= _HOLDER_LOST
        self.code = record.exit_code or record.exit_signal or 0
        self.cause = CAUSES.index(record.cause)
        self.descendants = record.descendants
        self.waiting: Waiting = "no"
        self.prompt_thread: int | None = None
        self.is_person_asked = False
        self.has_news = True

    @property
    def is_at_prompt(self) -> bool:
        """Whether what it waits for is its next command."""
        return self.prompt_thread is not None

    @property
    def is_asking(self) -> bool:
        """Whether it waits for something other than the next command at its own prompt, as shells do."""
        return self.waiting != "no" and not self.is_at_prompt

    @property
    def state(self) -> State:
        """Where it is in its life."""
        phase = self._phase
        if phase >= _EXITED:
            return _ENDS[self._flags & _END]
        return State.QUEUED if phase == _QUEUED else _STATES[phase]

    @property
    def is_acknowledged(self) -> bool:
        """Whether the keeper is known to have started it."""
        return self._phase > _STARTING

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
    def is_finished(self) -> bool:
        """Whether nothing about it can change any more: closed, and nothing is left of its tree."""
        return self._phase == _DONE and not (self._flags & _OPEN or self.descendants)

    @property
    def is_blocked(self) -> bool:
        """Whether it waits until output is released (`on_limit` "block")."""
        return bool(self._flags & _BLOCKED)

    @property
    def is_unknown(self) -> bool:
        """Whether what is known of it was true once: it runs on a node that is away, or the keeper has not
        reported it yet.
        """
        return bool(self._flags & _UNKNOWN)

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
        now_ns: int = 0,
    ) -> int:
        """Take over a doorbell's fields, and the time it was heard; return the `Change` bits.

        Engine only; wakes no subscriber.

        An ended process stays ended: a keeper that has just recovered may report less than before.
        """
        if out > self.stdout_bytes:
            self.stdout_bytes = out
            self.has_news = True
        if err > self.stderr_bytes:
            self.stderr_bytes = err
            self.has_news = True
        before = self._phase
        if phase == before and flags == self._flags and descendants == self.descendants:
            return 0  # the hot path: only the sizes grew
        if phase < before and before >= _EXITED:
            return 0
        state_before, was_closed = self.state, before == _DONE and not self._flags & _OPEN
        self.has_news = True
        self.pid = pid or self.pid
        # An end says why it came: the stop that was asked for before may have been lost on its way to a node.
        self.cause = cause if before < _EXITED <= phase else cause or self.cause
        self._phase, self.descendants = phase, descendants
        self._flags = flags | (self._flags & _FOR_GOOD)
        if phase >= _EXITED:
            self.code = code
            self.ended_ns = self.ended_ns or now_ns
        changes = _DETAILS if self.state is state_before else _STATE
        if phase == _DONE:
            if self.complete_stdout_bytes is None:
                self.complete_stdout_bytes, self.complete_stderr_bytes = out, err
            if before != _DONE:
                changes |= _COMPLETED
            if not flags & _OPEN:
                changes |= (0 if was_closed else _CLOSED) | (0 if descendants else _FINISHED)
        return changes

    def end_as(self, ended: "ProcessState") -> int:
        """Take over an end that is in the files and was in no doorbell; return the `Change` bits.

        Engine only.

        Where a doorbell has told the end meanwhile its moment stays: what was published and filed says that,
        and the shim's own differs by the way of the doorbell.
        """
        if self.complete_stdout_bytes is None:
            self.complete_stdout_bytes = ended.complete_stdout_bytes
            self.complete_stderr_bytes = ended.complete_stderr_bytes
        self.started_ns = self.started_ns or ended.started_ns
        self.ended_ns = self.ended_ns or ended.ended_ns
        self.has_news = True
        return self.absorb(*ended.doorbell)

    def record_of(self, base: ProcessRecord, *, note: str, output_limit: int | None) -> ProcessRecord:
        """Return a record: what does not change from `base`, the rest from the numbers as they are now.

        It is made for every change that has a subscriber, so the flags are read here and not through the
        properties.
        """
        state, cause, flags = self.state, CAUSES[self.cause], self._flags
        is_ended, is_complete = self._phase >= _EXITED, self._phase == _DONE
        output_lost = bool(flags & _HOLDER_LOST)
        error = base.error
        if error is None and is_ended:
            error = ended_sentence(
                state,
                cause,
                note=note,
                timeout_s=base.timeout_s,
                output_limit=output_limit,
                errno=self.code,
                loss=loss_sentence(base.lost_bytes) if output_lost else None,
            )
        return replace(
            base,
            state=state,
            cause=cause,
            pid=self.pid or None,
            exit_code=self.code if state is State.EXITED else None,
            exit_signal=self.code if state is State.SIGNALED else None,
            error=error,
            started_at=at_time(self.started_ns) if self.started_ns else None,
            ended_at=at_time(self.ended_ns) if self.ended_ns and is_ended else None,
            stdout_bytes=self.stdout_bytes,
            stderr_bytes=self.stderr_bytes,
            is_complete=is_complete,
            is_closed=is_complete and not flags & _OPEN,
            is_stalled=bool(flags & _STALLED),
            is_unknown=bool(flags & _UNKNOWN),
            has_gaps=bool(flags & _GAPS),
            output_lost=output_lost,
            descendants=self.descendants,
            waiting=self.waiting,
            is_at_prompt=self.prompt_thread is not None,
            is_person_asked=self.is_person_asked,
        )

    @property
    def doorbell(self) -> tuple[int, int, int, int, int, int, int, int]:
        """What a doorbell would report now, in the order of `absorb`."""
        return (
            self.stdout_bytes,
            self.stderr_bytes,
            self.pid,
            self.code,
            self._phase,
            self.cause,
            self._flags,
            self.descendants,
        )

    def mark_unknown(self) -> None:
        """Mark what is known from files alone; the first doorbell ends that. Engine only."""
        self._flags |= _UNKNOWN
        self.has_news = True

    def admit(self) -> None:
        """Begin to start, after waiting for the group's turn. Engine only."""
        if self._phase == _QUEUED:
            self._phase = _STARTING
            self.has_news = True

    def queue_again(self) -> None:
        """Wait again: the machine that it was to run on did not take it. Engine only."""
        if self._phase == _STARTING:
            self._phase = _QUEUED
            self.has_news = True

    def confirm_start(self, pid: int, started_ns: int) -> None:
        """Take over what the keeper answered to the start. Engine only."""
        self.has_news = True
        self.pid = self.pid or pid
        self.started_ns = self.started_ns or started_ns
        if self._phase == _STARTING:
            self._phase = _RUNNING

    def confirm_pause(self, *, is_paused: bool) -> bool:
        """Take over the acknowledgement of a pause or resume; return whether it is news.

        The doorbell follows. Engine only.
        """
        before = self._phase
        if before in {_RUNNING, _PAUSED}:
            self._phase = _PAUSED if is_paused else _RUNNING
            self.has_news = True
        return self._phase != before


_logger = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class Subscribers:
    """The callbacks of one process. On the event loop only."""

    _entries: tuple[tuple[Callable[[], None], bool], ...] = ()

    def __len__(self) -> int:
        """Return how many are woken."""
        return len(self._entries)

    @property
    def has_reader(self) -> bool:
        """Whether one of them takes the output."""
        return any(reads for _, reads in self._entries)

    def add(self, wake: Callable[[], None], *, reads: bool = False) -> Callable[[], None]:
        """Call `wake` on the loop whenever anything has changed; return what ends that.

        `reads`: on behalf of a reader of the output; with `on_limit` "block" the process waits for it.

        A callback must be quick and must not raise (it is logged if it does); several changes may come as
        one. The returned function may be called more than once.
        """
        entry = (wake, reads)  # an identity of its own: the same callable may subscribe twice
        self._entries = (*self._entries, entry)

        def remove() -> None:
            self._entries = tuple(other for other in self._entries if other is not entry)

        return remove

    def wake(self) -> None:
        """Call every one. Engine only."""
        for wake, _ in self._entries:
            try:
                wake()
            except Exception:
                # One subscriber's fault must not stop the stream of the others: it would stop silently.
                _logger.exception("a subscriber of a process failed")
