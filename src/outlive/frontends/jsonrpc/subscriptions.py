"""What comes next on the wire about one process: `Subscription`, a cursor on its log. `sender` says when.

Nothing is queued here: a turn reads from the log at the cursor, at most `turn_bytes`, and returns frames.

`Subscriptions`: the subscriptions of one connection, at most one for each process.
"""

from collections.abc import Callable

import msgspec

from outlive.core.cursor import BEGINNING, Cursor
from outlive.core.lifecycle import State
from outlive.core.values import dataclass, field
from outlive.engine import Process
from outlive.frontends.jsonrpc.readers import LineReader, PieceReader, SilentReader, StreamReader
from outlive.protocols.jsonrpc.answers import encode_gap, encode_notification, encode_process_notification
from outlive.protocols.jsonrpc.output import FrameHeads
from outlive.protocols.jsonrpc.params import OutputMode
from outlive.protocols.websocket_frames import text_frame
from outlive.server.http.websocket_io import Outbox
from outlive.server.sender import Sender, Spawn
from outlive.store.output_log import OutputLog


class Subscription:
    """Output from a cursor on, then `process.completed` once, then `process.closed` if the streams were still
    open.

    Output behind the completion is not sent: it belongs to descendants (promise S0.4). Attributes:
        process: What is followed.
        is_completed: `process.completed` was returned.
        is_over: The last message was returned.
    """

    __slots__ = (
        "_log",
        "_readers",
        "_reports_start",
        "_turn_bytes",
        "_until",
        "is_completed",
        "is_over",
        "process",
    )

    def __init__(
        self,
        process: Process,
        readers: tuple[StreamReader, StreamReader],
        *,
        turn_bytes: int,
        log: OutputLog | None = None,
    ) -> None:
        """Follow `process` (or what `log` shows of it) with one reader for stdout and one for stderr, each at
        the offset to begin from.
        """
        self._reports_start = process.status.state is State.QUEUED  # it waits for its group's turn
        self.process = process
        self.is_completed = self.is_over = False
        self._log = process.log if log is None else log
        self._readers = readers
        self._turn_bytes = turn_bytes
        # Of a process that is complete already, what its descendants have written until now is part of the
        # answer.
        self._until = (
            (process.status.stdout_bytes, process.status.stderr_bytes) if process.status.is_complete else None
        )

    @property
    def cursor(self) -> Cursor:
        """Everything before it was returned as frames."""
        return Cursor(self._readers[0].delivered, self._readers[1].delivered)

    @property
    def lag_bytes(self) -> int:
        """How much output there is that was not returned yet."""
        if self.is_completed:
            return 0
        process, delivered = self.process, self.cursor
        return max(0, process.status.stdout_bytes - delivered.stdout) + max(
            0, process.status.stderr_bytes - delivered.stderr
        )

    @property
    def has_partial(self) -> bool:
        """Whether an unfinished line waits for its rest."""
        return any(reader.delivered < reader.scanned for reader in self._readers)

    def show_partial(self) -> bytes:
        """Return the frames of the unfinished lines, marked as partial."""
        return b"".join(reader.show_partial() for reader in self._readers)

    def turn(self) -> tuple[bytes, bool]:
        """Return the frames of one bounded turn, and whether there is more at once."""
        if self.is_completed:
            return self._closing_frame(), False
        process = self.process
        is_final = process.status.is_complete
        begin = b""
        if self._reports_start:
            begin = self._start_frame()
            if not begin and not is_final:
                return b"", False  # it may have written already, before the keeper has heard of its pid
        limits = (
            self._final_limits() if is_final else (process.status.stdout_bytes, process.status.stderr_bytes)
        )
        out, err = self._readers
        out_start, err_start = out.scanned, err.scanned
        frames = self._read(limits)
        if begin:
            frames = begin + frames
        is_behind = out.scanned < limits[0] or err.scanned < limits[1]
        has_more = is_behind and (out.scanned != out_start or err.scanned != err_start)
        if is_final and not has_more:
            frames += self._final_frames(limits)
        return frames, has_more

    def _start_frame(self) -> bytes:
        """Return process.started once the process, which had to wait for its turn, has a pid."""
        record = self.process.record
        if record.pid is None:
            return b""
        self._reports_start = False
        return text_frame(encode_process_notification("started", record, cursor=str(BEGINNING)))

    def _scanned(self) -> tuple[int, int]:
        return self._readers[0].scanned, self._readers[1].scanned

    def _final_limits(self) -> tuple[int, int]:
        """Return how far each stream may be read when the process is complete."""
        process = self.process
        if self._until is None:
            out, err = process.status.complete_stdout_bytes, process.status.complete_stderr_bytes
            # Both are known with the completion; a rebuilt record without them has only its totals.
            self._until = (
                process.status.stdout_bytes if out is None else out,
                process.status.stderr_bytes if err is None else err,
            )
        return self._until

    def _read(self, limits: tuple[int, int]) -> bytes:
        out, err = self._readers
        if err.scanned >= limits[1]:
            return self._read_one(out, limits[0]) if out.scanned < limits[0] else b""
        if out.scanned >= limits[0]:
            return self._read_one(err, limits[1])
        before = self._scanned()
        frames = self._read_both(limits)
        if before == self._scanned():
            # The index of the order may lag behind the streams: go on without it rather than not at all.
            frames = self._read_one(out, limits[0]) + self._read_one(err, limits[1])
        return frames

    def _read_one(self, reader: StreamReader, limit: int) -> bytes:
        """Read one stream on: the usual case, without a look at the order of the streams."""
        start = reader.scanned
        size = min(self._turn_bytes, reader.appetite, limit - start)
        data, hidden = self._log.look(reader.stream, size, start)
        frames = reader.take(data, hidden) if data else b""
        if reader.scanned == start:
            gap = self._log.gap(reader.stream)
            if gap is not None and gap[0] <= start + len(data) < gap[1]:
                frames += self._skip(reader, max(start, gap[0]), min(gap[1], limit))
        return frames

    def _read_both(self, limits: tuple[int, int]) -> bytes:
        """Read both streams on in the order in which they were written."""
        frames = b""
        size = min(self._turn_bytes, *(reader.appetite for reader in self._readers))
        for chunk in self._log.read(Cursor(*self._scanned()), size):
            reader, limit = self._readers[chunk.stream], limits[chunk.stream]
            if chunk.offset != reader.scanned or chunk.offset >= limit:
                continue  # its stream waits for the rest of a character, or ends here
            if chunk.is_gap:
                frames += self._skip(reader, chunk.offset, min(chunk.end, limit))
                continue
            data = chunk.data[: limit - chunk.offset]
            frames += reader.take(data, chunk.hidden)
            if chunk.offset < reader.scanned < chunk.offset + len(data):
                break  # the turn is full
        return frames

    def _skip(self, reader: StreamReader, first: int, last: int) -> bytes:
        """Return the frames that report bytes `first` to `last` as gone, and go on behind them."""
        frames = reader.finish(first)
        reader.jump(last)
        message = encode_gap(self.process.process_id, reader.stream, first, last, cursor=str(self.cursor))
        return frames + text_frame(message)

    def _final_frames(self, limits: tuple[int, int]) -> bytes:
        """Return the last lines and `process.completed`.

        What cannot be read any more is reported as a gap.
        """
        frames = b""
        for reader, limit in zip(self._readers, limits, strict=True):
            if reader.delivered < limit:
                frames += reader.finish(limit)
            if reader.delivered < limit:
                frames += self._skip(reader, reader.delivered, limit)
        message = encode_process_notification("completed", self.process.record, cursor=str(self.cursor))
        self.is_completed = True
        self.is_over = self.process.status.is_closed
        return frames + text_frame(message)

    def _closing_frame(self) -> bytes:
        """Return `process.closed` once the streams that were still open have ended."""
        if self.is_over or not self.process.status.is_closed:
            return b""
        self.is_over = True
        params = {"process_id": self.process.process_id, "cursor": str(self.cursor)}
        return text_frame(encode_notification("process.closed", params))


# Output read in one turn. Lines: measured CPU per line of 80 bytes is 1.4 : 1.2 : 1.1 : 1 at 16, 32, 64 and
# 128 KiB; a turn takes 0.4 ms then, and never more than `protocols.jsonrpc.output.MAX_LINES` lines. Pieces:
# what one `pread` may return.
_LINES_TURN_BYTES = 128 * 1024
_PIECES_TURN_BYTES = 256 * 1024


class OutputFormat(msgspec.Struct, frozen=True):
    """How a process's output is sent; `is_raw` hides no secrets."""

    mode: OutputMode
    max_line_bytes: int
    is_raw: bool = False


@dataclass(eq=False, slots=True)
class Subscriptions:
    """Starts, holds and ends one connection's `Sender`s, one for each process.

    A sender that has sent its last message is dropped at the next start. `heads` are shared by the whole
    server.
    """

    outbox: Outbox
    heads: FrameHeads
    spawn: Spawn
    fail: Callable[[], None]
    _senders: dict[str, Sender[Subscription]] = field(default_factory=dict, init=False)
    _formats: dict[str, OutputFormat] = field(default_factory=dict, init=False)

    def follow(self, process: Process, cursor: Cursor, form: OutputFormat) -> None:
        """Send the process from `cursor` on; a subscription that it had here ends silently."""
        for process_id, ended in list(self._senders.items()):
            if process_id == process.process_id or ended.subscription.is_over:
                self.drop(process_id)
        is_lines = form.mode == "lines"
        log = process.raw_log if form.is_raw else process.log
        sender = Sender(
            Subscription(
                process,
                (
                    self._reader(process.process_id, log, 0, cursor.stdout, form),
                    self._reader(process.process_id, log, 1, cursor.stderr, form),
                ),
                turn_bytes=_LINES_TURN_BYTES if is_lines else _PIECES_TURN_BYTES,
                log=log,
            ),
            self.outbox,
            spawn=self.spawn,
            fail=self.fail,
            shows_partial=is_lines and process.has_stdin,
            reads=form.mode != "none",
        )
        self._senders[process.process_id] = sender
        self._formats[process.process_id] = form
        sender.begin()

    def _reader(
        self, process_id: str, log: OutputLog, stream: int, start: int, form: OutputFormat
    ) -> StreamReader:
        if form.mode == "lines":
            return LineReader(
                log,
                self.heads,
                process_id,
                stream=stream,
                start=start,
                max_line_bytes=form.max_line_bytes,
            )
        if form.mode == "none":
            return SilentReader(stream=stream, start=start)
        return PieceReader(log, process_id, stream=stream, start=start, is_binary=form.mode == "binary")

    def drop(self, process_id: str) -> None:
        """End a process's subscription silently, if there is one."""
        sender = self._senders.pop(process_id, None)
        self._formats.pop(process_id, None)
        if sender is not None:
            sender.close()

    def hold(self, process_id: str) -> Callable[[], None]:
        """Send nothing of a process until the returned function is called (once)."""
        sender = self._senders.get(process_id)
        if sender is None:
            return _nothing
        sender.hold()
        return sender.release

    def cursor(self, process_id: str) -> Cursor:
        """Return what of a process was delivered here."""
        sender = self._senders.get(process_id)
        return BEGINNING if sender is None else sender.subscription.cursor

    def announce(self, process_id: str, encode: Callable[[Cursor], bytes]) -> None:
        """Send a notification about a process to this client if it follows it and reads.

        It is news, not history.
        """
        sender = self._senders.get(process_id)
        if sender is not None and not sender.subscription.is_completed and self.outbox.is_ready:
            self.outbox.write(text_frame(encode(sender.subscription.cursor)))

    def undelivered(self) -> dict[str, OutputFormat]:
        """Return the processes whose `process.completed` was not handed to the transport, and their
        formats.
        """
        return {
            process_id: form
            for process_id, form in self._formats.items()
            if not self._senders[process_id].subscription.is_completed
        }

    def lag_bytes(self) -> int:
        """Return the output that was not handed to the transport yet, of the process that is behind most."""
        return max((sender.subscription.lag_bytes for sender in self._senders.values()), default=0)

    def close(self) -> None:
        """End all subscriptions silently."""
        for sender in self._senders.values():
            sender.close()


def _nothing() -> None:
    """Release what was not held."""
