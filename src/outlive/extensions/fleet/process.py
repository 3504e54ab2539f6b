"""One process of a node as this server knows it: what the node has reported, and what follows from that here.

Only the event loop's thread touches it; its files are `ProcessFolder`'s, and are written by the `DiskWorker`:
one thread, in which what is asked for while it works is done together. Waking a thread and being woken by it
costs more processor time than the few small files of a start or of an end.

The table of all is `processes`, output and news come by `follower`, requests go by `starts`.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from outlive.backends.contract import Bell
from outlive.client.results import ProcessInfo
from outlive.core.cursor import Cursor
from outlive.core.errors import ProtocolViolation
from outlive.core.identity import ProcessId, id_to_bytes
from outlive.core.lifecycle import ENDED, Cause, State
from outlive.core.spec import Spec
from outlive.kernel.files import read_small
from outlive.protocols.frames import ExitRecord, decode_end, decode_exit, decode_pid, decoded
from outlive.protocols.keeper import CauseCode, Flags, Phase, decode_done, decode_stop
from outlive.store.process_folder import (
    ProcessFolder,
    Punch,
    write_paused,
)

_T = TypeVar("_T")
_NOTE_S = 0.05  # what need not be done at once goes along with what has to be, and waits no longer than this
_Asked = tuple[Callable[[], Any], asyncio.Future[Any] | None]


class DiskWorker:
    """Runs blocking work, one piece after the other in the order of the calls. Used from one event loop."""

    def __init__(self) -> None:
        self._asked: list[_Asked] = []
        self._is_busy = False
        self._timer: asyncio.Handle | None = None

    async def run(self, work: Callable[[], _T]) -> _T:
        """Return what `work` returns, or raise what it raises.

        Cancellation: the work is done all the same.
        """
        answer: asyncio.Future[_T] = asyncio.get_running_loop().create_future()
        self._asked.append((work, answer))
        self._begin_soon(0)
        return await answer

    def note(self, work: Callable[[], object]) -> None:
        """Have `work` done soon without waiting for it; that it fails has no consequence."""
        self._asked.append((work, None))
        if self._timer is None:
            self._begin_soon(_NOTE_S)

    def _begin_soon(self, pause_s: float) -> None:
        if self._is_busy:
            return
        if self._timer is not None:
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        # At once is in the next turn: what else this turn asks for goes along.
        self._timer = loop.call_later(pause_s, self._begin, loop)

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        self._is_busy, self._timer = True, None
        asked, self._asked = self._asked, []
        try:
            done = loop.run_in_executor(None, _carry_out, [work for work, _ in asked])
        except (
            RuntimeError
        ):  # the server ends and has no threads any more: only notes are left, which the next one does again
            return

        def settle(future: asyncio.Future[list[tuple[Any, Exception | None]]]) -> None:
            if future.cancelled() or future.exception() is not None:  # the loop is being closed
                return
            for (_, answer), (result, error) in zip(asked, future.result(), strict=True):
                if answer is None or answer.done():  # its caller does not wait, or not any more
                    continue
                if error is None:
                    answer.set_result(result)
                else:
                    answer.set_exception(error)
            self._is_busy = False
            if self._asked:
                self._begin_soon(0)

        done.add_done_callback(settle)


def _carry_out(works: list[Callable[[], Any]]) -> list[tuple[Any, Exception | None]]:
    """Do everything; return the result or the error of each."""
    outcomes: list[tuple[Any, Exception | None]] = []
    for work in works:
        try:
            outcomes.append((work(), None))
        except Exception as error:  # noqa: BLE001 - raised to the one that has asked
            outcomes.append((None, error))
    return outcomes


_MAX_PID, _MAX_CODE = 2**31 - 1, 255
_MAX_NS = 10 * 365 * 86400 * 10**9  # ten years
_CAUSES = tuple(Cause)  # indexed by protocols.keeper.CauseCode
_PHASES = {
    State.QUEUED: Phase.STARTING,
    State.STARTING: Phase.STARTING,
    State.RUNNING: Phase.RUNNING,
    State.PAUSED: Phase.PAUSED,
    State.STOPPING: Phase.STOPPING,
}
_KINDS = {
    State.EXITED: "exited",
    State.SIGNALED: "signaled",
    State.FAILED_TO_START: "failed",
    State.LOST: "lost",
}
_FLAGS = {"signaled": Flags.SIGNALED, "failed": Flags.FAILED, "lost": Flags.LOST}
_OPEN = Flags.OUT_OPEN | Flags.ERR_OPEN


class RemoteProcess:
    """One followed process.

    Attributes:
        process_id: Its name here and on the node.
        spec: What was asked for.
        files: Its folder.
        secrets: Values for a start that was not answered yet.
        script: The content of its script file; None: it is only there.
        is_acknowledged: The node is known to have started it.
        is_unknown: The node is away.
        is_stalled: Our own disk is full.
        completion: Where its output ends; None as long as it is not complete here.
        news: Set when the node has reported something of it.
        beginning: Held while its start is asked for.
        note: Says in one sentence which caller asked for its end.
        pid: The pid on the node; 0 as long as it is not known.
        cause: Why it was ended, or why its end is wanted here, as `CauseCode`.
        descendants: How many processes are left of its tree.
        size: Rows and columns of its terminal, as they were set last.
    """

    def __init__(
        self,
        process_id: ProcessId,
        spec: Spec,
        folder: str,
        *,
        punch: Punch,
        disk: DiskWorker,
        is_new: bool = False,
    ) -> None:
        """Begin with what the files hold; nothing is in those of one that `is_new`."""
        self._disk = disk
        self.process_id = process_id
        self.key = id_to_bytes(process_id)
        self.spec = spec
        self.folder = folder
        limit = spec.output_limit if spec.on_limit == "truncate" else None
        self.files = ProcessFolder(folder, limit=limit, punch=punch, is_new=is_new)
        self.secrets: Mapping[str, str] = {}
        self.script: bytes | None = None
        self._recorded_pause: bool | None = None
        self.is_unknown = True
        self.is_stalled = False
        self.completion: Cursor | None = None
        self.news = asyncio.Event()
        self.beginning = asyncio.Lock()
        self.note = ""
        self.size = (spec.rows, spec.cols)
        self.is_closed = False
        self.is_followed_late = False
        self._phase = Phase.STARTING
        self.pid = self._code = self.descendants = self.cause = 0
        self._kind = ""
        self._is_complete = self._is_stalled_there = False
        self._heard = [0, 0]  # how often the feed reported that it runs, that it is paused
        self.started_ns = self._ended_ns = self._duration_ns = 0
        self.is_acknowledged = not is_new and self._read()

    def _read(self) -> bool:
        """Take over what the files hold; return whether the start was answered."""
        raw = read_small(f"{self.folder}/pid")
        record = decode_pid(raw)
        if record is not None:
            self.pid, self._phase = record.pid, Phase.RUNNING
            self._recorded_pause = False
            self.started_ns = record.started_ns
            if read_small(f"{self.folder}/paused"):
                self._phase = Phase.PAUSED
                self._recorded_pause = True
        if (stop := decoded(read_small(f"{self.folder}/stop"), decode_stop)) is not None:
            self.cause, self.note = stop.cause, stop.note
        if ended := decode_end(raw) or decoded(read_small(f"{self.folder}/exit"), decode_exit):
            self._phase, self._kind, self._code = Phase.EXITED, ended.kind, ended.number
            self._ended_ns = ended.ended_ns
            if (done := decoded(read_small(f"{self.folder}/done"), decode_done)) is not None:
                self.completion = Cursor(done.out, done.err)
                self._phase, self.descendants, self.cause = Phase.DONE, done.descendants, done.cause
                self.files.output_lost = done.holder_lost
                self.is_closed = done.closed or bool(read_small(f"{self.folder}/closed"))
        return record is not None or self.is_ended

    @property
    def is_ended(self) -> bool:
        """Whether its main process has ended."""
        return self._phase >= Phase.EXITED

    @property
    def is_known_complete(self) -> bool:
        """Whether the node has reported that it is complete, and how it ended."""
        return self.is_ended and self._is_complete

    @property
    def is_finished(self) -> bool:
        """Whether nothing about it can change any more."""
        return self.completion is not None and self.is_closed and not self.descendants

    @property
    def is_paused(self) -> bool:
        """Whether it is paused."""
        return self._phase == Phase.PAUSED

    def acknowledge(self, pid: int, started_ns: int) -> None:
        """Record that the node has started it, and when by our clock.

        Raises:
            ProtocolViolation: That is no pid.
        """
        self.started_ns = self.started_ns or started_ns
        self.is_acknowledged = True
        self.secrets, self.script = {}, None
        self.run(pid)

    def run(self, pid: int) -> bool:
        """Record the pid of a process that runs (0: not yet); return whether that is new.

        Raises:
            ProtocolViolation: That is no pid.
        """
        self.pid = self.pid or _number(pid, _MAX_PID)
        if self._phase != Phase.STARTING or not pid:
            return False
        self._phase = Phase.RUNNING
        self.news.set()
        return True

    async def record_state(self) -> None:
        """Write that it was started, and whether it is paused.

        What a full disk does not take is written by the next call.
        """
        if self._recorded_pause != self.is_paused:
            with contextlib.suppress(OSError):
                await self._disk.run(self._write_state)

    def _write_state(self) -> None:
        if not self.pid:
            return  # it waits on the node
        if self._recorded_pause is None:
            self.files.write_pid(self.pid, self.started_ns)
        if self.is_paused != bool(self._recorded_pause):
            write_paused(self.folder, is_paused=self.is_paused)
        self._recorded_pause = self.is_paused

    def times_heard(self) -> tuple[int, int]:
        """How often the feed reported that it runs, and that it is paused."""
        return self._heard[0], self._heard[1]

    async def hear_of(self, *, is_paused: bool, since: int) -> None:
        """Wait until the feed has reported a pause or resume that was acknowledged, or the end.

        An acknowledgement comes over another connection than the feed, and may be earlier. A state taken from
        both would report a pause once more that ended long ago. The feed alone reports the states in their
        order.

        Args:
            is_paused: Which of the two.
            since: `times_heard` before it was asked for.
        """
        while not self.is_ended and self.is_paused != is_paused and self._heard[is_paused] == since:
            self.news.clear()
            await self.news.wait()

    def ask_end(self, cause: int, note: str) -> None:
        """Record why its end is wanted; the first call counts."""
        if not self.is_ended:
            self.cause, self.note = self.cause or cause, self.note or note

    def learn(self, view: ProcessInfo) -> None:
        """Take over what the node reports; what has ended stays ended.

        Raises:
            ProtocolViolation: A number is none, or is too large for what it counts: no node's word may spoil
            a file or a row here.
        """
        state = State(view.state)
        self.pid = _number(view.pid, _MAX_PID) or self.pid
        self._is_stalled_there = view.is_stalled
        self.files.output_lost |= view.output_lost
        if not self.is_ended:
            self._phase = Phase.EXITED if state in ENDED else _PHASES[state]
            self._heard[self.is_paused] += 1
        if state in ENDED:
            self._kind = _KINDS[state]
            self._code = _number(view.exit_code, _MAX_CODE) or _number(view.exit_signal, _MAX_CODE)
            self._duration_ns = self._duration_ns or _duration_ns(view)
            said = 0 if view.cause is None else _CAUSES.index(Cause(view.cause))
            # The node knows why; which caller asked for it is known here, and every stop is a cancel there.
            # One that was asked for may have been lost with the link, or have come too late.
            if said != CauseCode.CANCEL or not self.cause:
                self.cause, self.note = said, view.error or ""
            self._is_complete = self._is_complete or view.is_complete
            self.descendants = _number(view.descendants, _MAX_PID)
            self.is_closed = self.is_closed or view.is_closed
        self.news.set()

    async def record_end(self, end: Cursor) -> None:
        """Write how it has ended, and that its output is whole up to `end`; from then on it is complete here.

        Raises:
            OSError: The disk does not take it now.
        """
        # The news of an end may come before the answer to the start.
        ended_ns = self._ended_ns or (self.started_ns or time.time_ns()) + self._duration_ns

        def write() -> None:
            record = ExitRecord(kind=self._kind, number=self._code, ended_ns=ended_ns)
            if self.pid:
                # The same beginning for good, as the file is written in place.
                self.started_ns = self.started_ns or time.time_ns()
                self.files.write_pid(self.pid, self.started_ns, record)
                self._recorded_pause = False
            else:
                self.files.write_end(record)
            self.files.write_done(
                end,
                cause=self.cause,
                note=self.note,
                descendants=self.descendants,
                is_closed=self.is_closed,
            )

        await self._disk.run(write)
        self.completion, self._phase = end, Phase.DONE

    async def end_here(self, kind: str, note: str) -> None:
        """End a process of which the node knows nothing: it "failed" to start there, or is "lost".

        Raises:
            OSError: The disk does not take it now.
        """
        self._phase = max(self._phase, Phase.EXITED)
        self._kind, self._code, self.note = kind, 0, note
        self._ended_ns = time.time_ns()
        self.is_closed, self.descendants = True, 0
        await self.record_end(self.files.cursor)

    def bell(self) -> Bell:
        """Return the doorbell that a keeper would send of it now."""
        flags = _FLAGS.get(self._kind, Flags(0)) if self.is_ended else Flags(0)
        if not (self.completion is not None and self.is_closed):
            flags |= _OPEN
        if self.is_unknown:
            flags |= Flags.UNKNOWN
        if self.is_stalled or self._is_stalled_there:
            flags |= Flags.STALLED
        if self.files.released != [(0, 0), (0, 0)]:
            flags |= Flags.GAPS
        if self.files.output_lost:
            flags |= Flags.HOLDER_LOST
        spec = self.spec
        limit = spec.output_limit
        if spec.on_limit == "block" and limit is not None and not self.is_ended:
            # A node's description has no such flag, so it is computed here: without it, no reader that is
            # gone would be missed.
            flags |= Flags.BLOCKED if self.files.kept_bytes >= limit else Flags(0)
        out, err = self.files.sizes
        phase, code = int(self._phase), self._code
        # A stop that is only asked for is no reason yet: it may be lost on its way.
        cause = self.cause if phase >= Phase.STOPPING else 0
        return (self.key, out, err, self.pid, code, phase, cause, int(flags), self.descendants)


def _duration_ns(view: ProcessInfo) -> int:
    """Return how long it ran, by the node's clock."""
    if view.started_at is None or view.ended_at is None:
        return 0
    return min(_MAX_NS, max(0, round((view.ended_at - view.started_at).total_seconds() * 1_000_000) * 1000))


def _number(value: int | None, most: int) -> int:
    """Return a number that a node has said, 0 for none.

    Raises:
        ProtocolViolation: It is no whole number from 0 to `most`.
    """
    if value is None:
        return 0
    if type(value) is not int or not 0 <= value <= most:
        raise ProtocolViolation(
            "invalid_request", f"A node says a number that makes no sense: {str(value)[:40]}."
        )
    return value
