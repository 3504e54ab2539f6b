"""The server's live object of one process: `Process`, what it is and how to read and watch it.

It holds no output and no queue: readers take bytes from `log` at their own cursor and are woken by
`subscribers`. Only the event loop's thread touches it. Some 2 KB each: the server may hold thousands.

`follow` yields output as it comes, for frontends that take it piece by piece: a cursor on the log, woken by
the subscription, no queue. JSON-RPC has its own, faster way. `until` waits for something to become true of a
process.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from typing import Self

from outlive.core.command import ApprovalState, BootTime
from outlive.core.cursor import Cursor
from outlive.core.identity import ProcessId, id_to_bytes
from outlive.core.location import Location
from outlive.core.process import SERVICES_DOOR, ProcessRecord
from outlive.core.values import replace
from outlive.engine.processes.output_redaction import Redaction
from outlive.engine.processes.process_state import ProcessState, Subscribers
from outlive.kernel.processes import boottime_ns, this_boot
from outlive.policy.redaction import Redactor
from outlive.store.folder import ChangedLabels
from outlive.store.log_mask import REST_S, Hiding
from outlive.store.output_log import MAX_PREAD_BYTES, OutputChunk, OutputLog
from outlive.store.retention import ClockReading
from outlive.store.rows import StoredProcess

_PATTERNS = Redactor()


class Process:
    """One process: running, or ended and loaded again.

    Attributes (written by the engine only):
        process_id: Its permanent id.
        key: The 16-byte form of the id, as doorbells carry it.
        principal: Whose it is.
        connection_id: The session that started it (the name is older than sessions); None when it was none.
        output_limit: Bytes of output that are kept; None when there is no limit.
        has_terminal, has_stdin: Whether it runs in a pty; whether its input can be written to.
        may_ask: Whether a wait for its input can be a question; that of a service is open for nobody.
        folder: The process's folder, absolute.
        base: What was recorded when it began, and changed by its callers since; what it does itself is in
            `status`, and both are in `record`.
        status: Its numbers that change, as the keeper has reported them.
        subscribers: What is woken by its changes.
    """

    __slots__ = (
        "__weakref__",
        "_ended_boot",
        "_log",
        "_note",
        "_raw_log",
        "_redaction",
        "_snapshot",
        "_waking",
        "base",
        "connection_id",
        "folder",
        "has_stdin",
        "has_terminal",
        "key",
        "may_ask",
        "output_limit",
        "principal",
        "process_id",
        "status",
        "subscribers",
    )

    def __init__(
        self,
        base: ProcessRecord,
        folder: str,
        *,
        output_limit: int | None,
        redaction: Redaction | None = None,
    ) -> None:
        """Begin with a record whose unchanging fields stay as they are.

        Without `redaction`, `_hide_patterns` hides.
        """
        self.status = ProcessState(base)
        self.subscribers = Subscribers()
        self.process_id: ProcessId = base.process_id
        self.key = id_to_bytes(base.process_id)
        self.principal = base.owner.principal
        self.connection_id = base.owner.connection_id
        self.folder = folder
        self.output_limit = output_limit
        self._note = ""
        self.base = base
        self.has_terminal = base.stdio == "pty"
        self.has_stdin = self.has_terminal or base.stdin == "pipe"
        self.may_ask = self.has_terminal or (self.has_stdin and base.owner.door != SERVICES_DOOR)
        self._redaction = redaction
        self._log: OutputLog | None = None
        self._raw_log: OutputLog | None = None
        self._waking: asyncio.TimerHandle | None = None
        self._snapshot: ProcessRecord | None = None
        self._ended_boot: BootTime | None = None

    @classmethod
    def from_stored(cls, stored: StoredProcess, folder: str, *, redaction: Redaction | None = None) -> Self:
        """Load a process from the registry (or its folder)."""
        process = cls(stored.record, folder, output_limit=stored.output_limit, redaction=redaction)
        if stored.complete is not None:
            process.status.complete_stdout_bytes = stored.complete.stdout
            process.status.complete_stderr_bytes = stored.complete.stderr
        process._ended_boot = stored.ended_boot
        return process

    @property
    def pid(self) -> int | None:
        """The main process's pid, once it was started."""
        return self.status.pid or None

    @property
    def note(self) -> str:
        """Which caller asked for the end, for people; set by the engine only."""
        return self._note

    @note.setter
    def note(self, note: str) -> None:
        self._note = note
        self.status.has_news = True

    @property
    def record(self) -> ProcessRecord:
        """A snapshot; one is made for each state."""
        snapshot = self._snapshot
        if snapshot is None or self.status.has_news:
            snapshot = self._snapshot = self.status.record_of(
                self.base, note=self._note, output_limit=self.output_limit
            )
            self.status.has_news = False
        return snapshot

    @property
    def identity_record(self) -> ProcessRecord:
        """A snapshot for what does not change while it runs: owner, words, pid.

        The rest may be older than `record`'s.
        """
        newest = self._snapshot
        return newest if newest is not None and newest.pid == (self.status.pid or None) else self.record

    @property
    def stored(self) -> StoredProcess:
        """What the registry keeps of it now."""
        complete = None
        now = self.status
        if now.complete_stdout_bytes is not None and now.complete_stderr_bytes is not None:
            complete = Cursor(now.complete_stdout_bytes, now.complete_stderr_bytes)
        if self._ended_boot is None and self.status.is_ended and not self.base.is_ended:
            self._ended_boot = boot_time()
        return StoredProcess(
            record=self.record,
            complete=complete,
            output_limit=self.output_limit,
            ended_boot=self._ended_boot,
        )

    @property
    def log(self) -> OutputLog:
        """Its output on disk without its secrets.

        Closed by the engine when it lets go of it, opens again by itself.
        """
        if self._log is None:
            self._log = self.open_log()
        return self._log

    @property
    def raw_log(self) -> OutputLog:
        """Its output byte by byte, secrets included: only for callers with the scope admin."""
        if self._raw_log is None:
            self._raw_log = OutputLog(self.folder)
        return self._raw_log

    def open_log(self, part: str = "", *, raw: bool = False) -> OutputLog:
        """Return another reader of what `log` reads, for a thread, or of the log in a folder `part` of the
        process's folder.

        The caller closes it. `raw` hides nothing: only for callers with the scope admin.
        """
        hide = _hide_patterns if self._redaction is None else self._redaction.hiding
        hiding = None if raw else hide(self.base, is_over=lambda: self.status.is_complete, held=self._held)
        return OutputLog(os.path.join(self.folder, part) if part else self.folder, hiding=hiding)

    def close_logs(self) -> None:
        """Close the files; they open again with the next read.

        The logs are let go of, too: what they hide asks this process, and together they would wait for the
        collector.
        """
        for log in (self._log, self._raw_log):
            if log is not None:
                log.close()
        self._log = self._raw_log = None

    def _held(self) -> None:
        """See to it that readers look again at what may be the beginning of a secret."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # in a thread, which reads what there is and goes
            return
        if self._waking is None:
            self._waking = loop.call_later(REST_S, self._wake)

    def _wake(self) -> None:
        self._waking = None
        self.subscribers.wake()

    def end_as(self, stored: StoredProcess) -> int:
        """Take over an end that is in the files and was in no doorbell; return the `Change` bits.

        Engine only.
        """
        # A registry's row does not know all of the owner; the files do.
        self.base = replace(self.base, error=stored.record.error, owner=stored.record.owner)
        self._ended_boot = self._ended_boot or stored.ended_boot
        self._snapshot = None
        return self.status.end_as(Process.from_stored(stored, self.folder).status)

    def approve(self, approval: ApprovalState) -> None:
        """Take over that it is approved. Engine only."""
        self.base = replace(self.base, approval=approval)
        self._snapshot = None

    def leave_session(self) -> None:
        """Take over that the session which has started it is over. Engine only."""
        self.base = replace(self.base, is_session_over=True)
        self._snapshot = None

    def place(self, location: Location, cwd: str, gpus: tuple[str, ...] = ()) -> None:
        """Take over where it runs, or that it is open again where, its folder there, and its GPUs.

        Engine only.
        """
        needs = self.base.needs and replace(self.base.needs, gpus=gpus)
        self.base = replace(self.base, location=location, cwd=cwd, needs=needs)
        self._snapshot = None

    def relabel(self, labels: ChangedLabels) -> None:
        """Take over other tags, another group and another name. Engine only."""
        self.base = replace(self.base, tags=dict(labels.tags), group=labels.group, name=labels.name)
        self._snapshot = None


def boot_time() -> BootTime:
    """Return this moment by the clock since boot."""
    return BootTime(this_boot(), boottime_ns())


def read_clocks() -> ClockReading:
    """Return this moment by both clocks."""
    return ClockReading(boot=boot_time(), wall_ns=time.time_ns())


def _hide_patterns(record: ProcessRecord, *, is_over: Callable[[], bool], held: Callable[[], None]) -> Hiding:
    return Hiding(redactor=_PATTERNS, needs_masks=bool(record.secret_names), is_over=is_over, held=held)


async def follow(
    process: Process, cursor: Cursor, *, limit_bytes: int = 65536
) -> AsyncIterator[list[OutputChunk]]:
    """Yield output from `cursor` on as it comes; end when the process is complete and all of it was yielded.

    What descendants write after the completion is not followed. A slow reader slows no other: the log waits.
    Cancellation: safe; the next call goes on at `OutputChunk.after(cursor, chunks)`.
    """
    woken = asyncio.Event()
    unsubscribe = process.subscribers.add(woken.set, reads=True)
    try:
        while True:
            woken.clear()
            is_complete = process.status.is_complete  # asked before the read: then the read sees everything
            chunks = process.log.read(cursor, min(limit_bytes, MAX_PREAD_BYTES))
            if is_complete:
                chunks = _until_completion(process, chunks)
            if chunks:
                cursor = OutputChunk.after(cursor, chunks)
                yield chunks
                await asyncio.sleep(0)  # one loud process must not starve the rest
            elif is_complete:
                return
            else:
                await woken.wait()
    finally:
        unsubscribe()


def _until_completion(process: Process, chunks: list[OutputChunk]) -> list[OutputChunk]:
    """Cut off what was written after the completion."""
    ends = (process.status.complete_stdout_bytes or 0, process.status.complete_stderr_bytes or 0)
    kept = []
    for chunk in chunks:
        end = min(chunk.end, ends[chunk.stream])
        if end > chunk.offset:
            kept.append(replace(chunk, end=end, data=chunk.data[: end - chunk.offset]))
    return kept


async def until(process: Process, claim: Callable[[Process], bool]) -> None:
    """Return when `claim` holds for a process; it is asked whenever something about the process has changed.

    Waits without a deadline of its own: put it under `asyncio.timeout`. Cancellation: safe.
    """
    woken = asyncio.Event()
    unsubscribe = process.subscribers.add(woken.set)
    try:
        while not claim(process):
            woken.clear()
            await woken.wait()
    finally:
        unsubscribe()
