"""One process of a node as this server knows it: `RemoteProcess`, what the node has told and what that makes of a doorbell.

Only the event loop's thread touches it; the files are `MirrorFolder`'s.

What was heard of a node's processes, on its way to their folders: `Writing`, a bounded batch at a time.

The next batch is heard when this one is on disk: a disk that is full or slow makes the node wait, and nothing piles up here.
"""

import asyncio
import contextlib
import errno
import json
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from outlive.backends.contract import Bell
from outlive.backends.remote.contract import NodeView
from outlive.backends.remote.folder import MirrorFolder, Punch, read_small, write_paused
from outlive.core.cursor import Cursor
from outlive.core.errors import ProtocolViolation
from outlive.core.identity import ProcessId, id_to_bytes
from outlive.core.lifecycle import ENDED, Cause, State
from outlive.core.spec import Spec
from outlive.protocols.frames import decode_exit, decode_pid
from outlive.protocols.keeper import Flags, Phase

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
        news: Set when something was heard of it.
        beginning: Held while its start is asked for.
        note: Who asked for its end.
        size: Rows and columns of its terminal, as they were set last.
    """

    def __init__(self, process_id: ProcessId, spec: Spec, folder: str, *, punch: Punch) -> None:
        """Begin with what the files tell."""
        self.process_id = process_id
        self.key = id_to_bytes(process_id)
        self.spec = spec
        self.folder = folder
        limit = spec.output_limit if spec.on_limit == "truncate" else None
        self.files = MirrorFolder(folder, limit=limit, punch=punch)
        self.secrets: Mapping[str, str] = {}
        self.script: bytes | None = None
        self._told_paused: bool | None = None
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
        self._pid = self._code = self._descendants = self._cause = 0
        self._kind = ""
        self._is_complete = self._is_stalled_there = False
        self._heard = [0, 0]  # how often the feed told that it runs, that it is paused
        self.started_ns = self._ended_ns = self._duration_ns = 0
        self.is_acknowledged = self._read()

    def _read(self) -> bool:
        """Take over what the files tell; return whether the start was answered."""
        record = decode_pid(read_small(f"{self.folder}/pid"))
        if record is not None:
            self._pid, self._phase = record.pid, Phase.RUNNING
            self._told_paused = False
            self.started_ns = record.started_ns
            if read_small(f"{self.folder}/paused"):
                self._phase = Phase.PAUSED
                self._told_paused = True
        with contextlib.suppress(ValueError, TypeError, KeyError):
            stop = json.loads(read_small(f"{self.folder}/stop") or b"null")
            if stop:
                self._cause, self.note = int(stop["cause"]), str(stop["note"])
        with contextlib.suppress(ValueError):
            ended = decode_exit(read_small(f"{self.folder}/exit"))
            self._phase, self._kind, self._code = Phase.EXITED, ended.kind, ended.number
            self._ended_ns = ended.ended_ns
            with contextlib.suppress(ValueError, TypeError, KeyError):
                done = json.loads(read_small(f"{self.folder}/done"))
                self.completion = Cursor(done["out"], done["err"])
                self._phase, self._descendants = Phase.DONE, int(done["descendants"])
                self._cause = int(done["cause"])
                self.files.output_lost = bool(done.get("holder_lost"))
                self.is_closed = bool(done["closed"] or read_small(f"{self.folder}/closed"))
        return record is not None or self.is_ended

    @property
    def is_ended(self) -> bool:
        """Whether its main process has ended."""
        return self._phase >= Phase.EXITED

    @property
    def is_known_complete(self) -> bool:
        """Whether the node has told that it is complete, and how it ended."""
        return self.is_ended and self._is_complete

    @property
    def is_finished(self) -> bool:
        """Whether nothing about it can change any more."""
        return self.completion is not None and self.is_closed and not self._descendants

    @property
    def pid(self) -> int:
        """The pid on the node; 0 as long as it is not known."""
        return self._pid

    @property
    def is_paused(self) -> bool:
        """Whether it is paused."""
        return self._phase == Phase.PAUSED

    @property
    def end(self) -> tuple[str, int, int]:
        """How it ended: kind, number, and when (Unix nanoseconds, by our clock)."""
        begun_ns = (
            self.started_ns or time.time_ns()
        )  # the news of an end may come before the answer to the start
        return self._kind, self._code, self._ended_ns or begun_ns + self._duration_ns

    @property
    def cause(self) -> int:
        """Why it was ended, as `CauseCode`."""
        return self._cause

    @property
    def descendants(self) -> int:
        """What is left of its tree."""
        return self._descendants

    def acknowledge(self, pid: int, started_ns: int) -> None:
        """Take note that the node has started it, and when by our clock."""
        self.started_ns = self.started_ns or started_ns
        self.is_acknowledged = True
        self.secrets, self.script = {}, None
        self._pid = self._pid or pid
        if self._phase == Phase.STARTING and pid:
            self._phase = Phase.RUNNING

    @property
    def is_put_down(self) -> bool:
        """Whether the files tell that it was started, and whether it is paused."""
        return self._told_paused == self.is_paused

    def put_down(self) -> None:
        """Write that it was started, and whether it is paused, where the files do not tell it. In a thread.

        Raises:
            OSError: The disk does not take it now.
        """
        if self._told_paused is None:
            self.files.write_pid(self._pid, self.started_ns)
        if self.is_paused != bool(self._told_paused):
            write_paused(self.folder, is_paused=self.is_paused)
        self._told_paused = self.is_paused

    def times_heard(self, *, is_paused: bool) -> int:
        """How often the feed told that it is paused, or that it runs."""
        return self._heard[is_paused]

    async def hear_of(self, *, is_paused: bool, since: int) -> None:
        """Wait until the feed has told of a pause or resume that was acknowledged, or of the end.

        An acknowledgement comes over another connection than the feed, and may be earlier. To take the state over from
        both would tell a pause once more that has ended long since: the feed alone says what it is like, in order.

        Args:
            is_paused: Which of the two.
            since: `times_heard` before it was asked for.
        """
        while not self.is_ended and self.is_paused != is_paused and self._heard[is_paused] == since:
            self.news.clear()
            await self.news.wait()

    def ask_end(self, cause: int, note: str) -> None:
        """Take note who wants its end; the first one counts."""
        if not self.is_ended:
            self._cause, self.note = self._cause or cause, self.note or note

    def learn(self, view: NodeView) -> None:
        """Take over what the node says; what has ended stays ended."""
        state = State(view.state)
        self._pid = view.pid or self._pid
        self._is_stalled_there = view.is_stalled
        self.files.output_lost |= view.output_lost
        if not self.is_ended:
            self._phase = Phase.EXITED if state in ENDED else _PHASES[state]
            self._heard[self.is_paused] += 1
        if state in ENDED:
            self._kind = _KINDS[state]
            self._code = view.exit_code or view.exit_signal or 0
            self._duration_ns = self._duration_ns or _duration_ns(view)
            if view.cause is not None:
                self._cause = self._cause or _CAUSES.index(Cause(view.cause))
            self.note = self.note or (view.error or "")
            self._is_complete = self._is_complete or view.is_complete
            self._descendants = view.descendants
            self.is_closed = self.is_closed or view.is_closed
        self.news.set()

    def end_without_node(self, kind: str, note: str) -> None:
        """Take note of an end that the node cannot tell: it "failed" to start, or is "lost"."""
        self._phase = max(self._phase, Phase.EXITED)
        self._kind, self._code, self.note = kind, 0, note
        self._ended_ns = time.time_ns()
        self.is_closed, self._descendants = True, 0

    def complete(self, end: Cursor) -> None:
        """Take note that all of its output is here."""
        self.completion, self._phase = end, Phase.DONE

    def bell(self) -> Bell:
        """Return what a keeper would tell of it now."""
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
            # The node's own flag does not travel: a reader that is gone is missed all the same.
            flags |= Flags.BLOCKED if self.files.kept_bytes >= limit else Flags(0)
        out, err = self.files.sizes
        phase, code = int(self._phase), self._code
        return (self.key, out, err, self._pid, code, phase, self._cause, int(flags), self._descendants)


def _duration_ns(view: NodeView) -> int:
    """Return how long it ran, by the node's clock."""
    if view.started_at is None or view.ended_at is None:
        return 0
    return max(0, round((view.ended_at - view.started_at).total_seconds() * 1_000_000) * 1000)


_logger = logging.getLogger(__name__)
_FULL_S = 0.25
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG})


@dataclass(frozen=True, slots=True)
class _Piece:
    """Bytes of a stream up to `end`; `data` None: a gap from `start` on."""

    mirror: RemoteProcess
    stream: int
    start: int
    end: int
    data: bytes | None

    def write(self) -> None:
        if self.data is None:
            self.mirror.files.skip(self.stream, self.start, self.end)
        else:
            self.mirror.files.append(self.stream, self.data, self.end)


class Writing:
    """Collects pieces on the event loop and writes them in a thread; `ring` tells of the mirrors that have grown."""

    def __init__(
        self, mirrors: Mapping[str, RemoteProcess], *, ring: Callable[[list[RemoteProcess]], None]
    ) -> None:
        """Nothing was heard yet."""
        self._mirrors = mirrors
        self._ring = ring
        self._pieces: list[_Piece] = []

    def add(self, process_id: str, stream: int, *, start: int, end: int, data: bytes | None) -> None:
        """Take a piece of a process that is followed; of others nothing is wanted."""
        mirror = self._mirrors.get(process_id)
        if mirror is not None:
            self._pieces.append(_Piece(mirror, stream, start, end, data))

    async def flush(self) -> None:
        """Return when all that was taken is in the files, however long the disk is full.

        Raises:
            ProtocolViolation: The node has left bytes out: follow again from the files' end.
        """
        pieces, self._pieces = self._pieces, []
        grown = list({piece.mirror.process_id: piece.mirror for piece in pieces}.values())
        while pieces:
            count, error = await asyncio.to_thread(_write, pieces)
            if isinstance(error, ValueError):
                raise ProtocolViolation("invalid_request", f"The node told output with holes: {error}.")
            stuck = pieces[count].mirror if count < len(pieces) else None
            pieces = pieces[count:]
            for mirror in grown:
                mirror.is_stalled = mirror is stuck and error is not None and error.errno in _FULL
            if stuck is not None and not stuck.is_stalled:  # its folder was removed
                _logger.warning("output of a process on a node cannot be kept: %s", stuck.process_id)
                pieces = [piece for piece in pieces if piece.mirror is not stuck]
            self._ring(grown)
            if pieces:
                await asyncio.sleep(_FULL_S)


def _write(pieces: list[_Piece]) -> tuple[int, OSError | ValueError | None]:
    """Write in order; return how many were written, and what kept the next one from it."""
    for count, piece in enumerate(pieces):
        try:
            piece.write()
        except (OSError, ValueError) as error:
            return count, error
    return len(pieces), None
