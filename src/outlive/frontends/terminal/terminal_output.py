"""The next frames for one viewer: `TerminalOutput`, a cursor on a process's log.

`server.sender` decides when they are sent.

Nothing is queued: a turn reads at most 64 KiB from the log at the cursor and returns frames. Control messages
beside the output are kept once of each kind, so that a viewer that asks much and reads nothing costs no
memory. How much may be sent, and when a viewer skips to near the end, is decided by `Flow`; what is skipped
stays in the log, so that a skip costs a move of the cursor.

`newest_history` is the start of a viewer that names no cursor: the newest 256 KiB, from a place where no
escape sequence is cut.

`Flow` goes by what a viewer says that it has drawn and how far it may lag. Without it everything that a
socket takes is sent: megabytes lie in the buffers of two kernels and of a browser, and what is typed into a
flood has an effect that is seen only behind all of them.
"""

from collections.abc import Callable

from outlive.core.cursor import Cursor
from outlive.core.process import ProcessRecord
from outlive.core.redactions import Redactions
from outlive.engine import Process
from outlive.protocols.terminal.carried_modes import LONGEST_BYTES, CarriedModes
from outlive.protocols.terminal_messages import (
    CONTEXT_BYTES,
    LOOK_BYTES,
    AckMessage,
    Closed,
    CursorReport,
    Exited,
    GapMessage,
    HolderMessage,
    LagBound,
    Notice,
    Redacted,
    Resized,
    ServerMessage,
    Skipped,
    Where,
    encode_message,
    sane_start,
)
from outlive.protocols.websocket_frames import binary_frame, text_frame
from outlive.store.output_log import MAX_PREAD_BYTES, OutputChunk, OutputLog

# of the lag that is allowed, this part is drawn after a skip: a skip gives room for three times as much
_KEPT_SHARE = 4


class Flow:
    """The bounds of one viewer, which may change, and how much of what it was sent it has not
    acknowledged.
    """

    __slots__ = ("_ahead_bytes", "_lag_bytes", "_unacknowledged")

    def __init__(self, *, ahead_bytes: int | None = None, lag_bytes: int | None = None) -> None:
        """Begin with nothing sent.

        Args:
            ahead_bytes: At most so much is sent before it is acknowledged; None: as much as the socket takes.
            lag_bytes: A viewer that is further behind the output's end skips; None: it never does.
        """
        self._ahead_bytes = ahead_bytes
        self._lag_bytes = lag_bytes
        self._unacknowledged = 0

    def room(self, most: int) -> int:
        """Return how many bytes may be sent now, at most `most`."""
        if self._ahead_bytes is None:
            return most
        return min(most, max(0, self._ahead_bytes - self._unacknowledged))

    def sent(self, count: int) -> None:
        """Count bytes of output that were sent."""
        self._unacknowledged += count

    def acknowledged(self, count: int) -> None:
        """Count bytes that the viewer has drawn; more than were sent give no credit."""
        self._unacknowledged = max(0, self._unacknowledged - count)

    def allow_lag(self, lag_bytes: int | None) -> None:
        """Change how far the viewer may be behind from now on."""
        self._lag_bytes = lag_bytes

    def kept_after_skip(self, cursor: Cursor, end: Cursor) -> int | None:
        """Return how many of the newest bytes a viewer at `cursor` should go on with; None if it need not
        skip.
        """
        behind = max(0, end.stdout - cursor.stdout) + max(0, end.stderr - cursor.stderr)
        if self._lag_bytes is None or behind <= self._lag_bytes:
            return None
        return self._lag_bytes // _KEPT_SHARE


_TURN_BYTES = 64 * 1024  # at most so much stays in the server's send buffer for a viewer that stops reading
_REPORTED_BYTES = 256 * 1024  # of output between two cursor messages
_MOST_NOTICES = 16  # notices that wait for a viewer that does not read
# Of what is skipped so much is looked through for modes: its beginning, where a program that was just started
# takes the screen over, and its end. 68 turns of 0.2 ms, of 1 ms where each word has a colour.
_BEGINNING_BYTES = 1024 * 1024
_END_BYTES = 16 * 1024 * 1024


class _Skip:
    """One skip on its way: a part of what is left out is looked through in each turn.

    A terminal has one stream.
    """

    __slots__ = ("_at", "_left_out", "_log", "modes", "target")

    def __init__(self, log: OutputLog, cursor: Cursor, target: Cursor) -> None:
        """Skip from `cursor` to `target`; the sequence that `cursor` stands in is looked at, too."""
        self._log = log
        self._at = max(0, cursor.stdout - LONGEST_BYTES)
        self._left_out = range(self._at + _BEGINNING_BYTES, target.stdout - _END_BYTES)  # mostly empty
        self.modes = CarriedModes()
        self.target = target

    def turn(self) -> bool:
        """Look through one piece; return whether there is more. Costs one pread(2)."""
        if self._at in self._left_out:
            self._at = self._left_out.stop
            self.modes.leave_out()
        size = min(MAX_PREAD_BYTES, self.target.stdout - self._at)
        data = self._log.pread(0, size, self._at) if size > 0 else b""
        self.modes.take(data)
        self._at += len(data)
        gap = None if data else self._log.gap(0)
        if gap is not None and gap[0] <= self._at < gap[1]:
            self._at = gap[1]
            return True
        return bool(data)


class TerminalOutput:
    """Output from a cursor on, then how the process ended, then that its terminal is closed. A `Sendable`.

    Without control messages the process's end is the last one: the connection's close reports it.

    Attributes:
        process: The process that is shown.
        cursor: Everything before it was returned as frames.
        is_completed: The end of the process was reached.
        is_over: The last message was returned.
    """

    __slots__ = (
        "_counts",
        "_flow",
        "_holder",
        "_is_controlled",
        "_log",
        "_notices",
        "_over",
        "_redactions",
        "_reported_at",
        "_skip",
        "_until",
        "_wants_cursor",
        "_window",
        "cursor",
        "is_completed",
        "is_over",
        "process",
    )

    def __init__(
        self,
        process: Process,
        log: OutputLog,
        cursor: Cursor,
        *,
        is_controlled: bool,
        flow: Flow,
        over: Callable[[], None],
    ) -> None:
        """Show a process's output.

        Args:
            process: The process that is shown.
            log: Its output, with or without its secrets.
            cursor: The position to begin at.
            is_controlled: Whether control messages are sent.
            flow: How much is sent; without control messages it has no bounds.
            over: Called in the turn that returns the last message.
        """
        self.process = process
        self.cursor = cursor
        self.is_completed = self.is_over = False
        self._log = log
        self._is_controlled = is_controlled
        self._flow = flow
        self._skip: _Skip | None = None
        self._over = over
        self._redactions = Redactions()
        self._notices: dict[tuple[str, str], Notice] = {}
        self._wants_cursor = False
        self._holder: HolderMessage | None = None
        self._window: tuple[int, int] | None = None
        self._reported_at = cursor
        # A client that gets one stream can count its bytes. Of two streams the frames do not say which is
        # which, so that cursor messages follow every turn.
        record = process.record
        self._counts = process.has_terminal or record.stdio == "merge"
        # If the process is complete already, its descendants' output up to now counts as its own.
        self._until = self._total() if process.status.is_complete else None

    @property
    def has_partial(self) -> bool:
        """Never: bytes are sent as they come."""
        return False

    def show_partial(self) -> bytes:
        """Never called: there are no partial lines."""
        return b""

    def obey(self, message: Where | AckMessage | LagBound) -> None:
        """Do, in the next turn, what a viewer asks about the output that it gets."""
        match message:
            case Where():
                self._wants_cursor = True
            case AckMessage(bytes=count):
                self._flow.acknowledged(count)
            case LagBound(bytes=most):
                self._flow.allow_lag(most)

    def report_holder(self, message: HolderMessage) -> None:
        """Have it reported in the next turn which viewer holds the terminal; the newest message counts.

        From then on sizes are, too.
        """
        self._holder = message
        if self._window is None:
            self._window = self.process.status.window or (0, 0)

    def notice(self, notice: Notice) -> None:
        """Have a notice reported in the next turn, where control messages are.

        The same one twice counts once.
        """
        if self._is_controlled and len(self._notices) < _MOST_NOTICES:
            self._notices[notice.about, notice.reason] = notice

    def turn(self) -> tuple[bytes, bool]:
        """Return the frames of one bounded turn, and whether there is more at once."""
        # Before the read: it sees everything.
        is_complete, is_closed = (
            self.process.status.is_complete,
            self.process.status.is_closed,
        )
        if self._is_skipping():
            return b"", True
        frames: list[bytes] = []
        self._say_skipped(frames)
        before = self.cursor
        # Held: what was sent has to be acknowledged first, and that wakes the sender. Then nothing is read,
        # and no end is reported.
        room = self._flow.room(_TURN_BYTES)
        is_held = not room and not _has_reached(self.cursor, self._total())
        if room:
            self._read(frames, room)
        has_moved = self.cursor != before
        is_behind = has_moved and not _has_reached(self.cursor, self._total())
        if is_complete and not (self.is_completed or is_held):
            self._complete(frames, has_moved=has_moved)
        self._say_rest(frames)
        is_last = is_closed and not (is_behind or is_held)
        if self.is_completed and (not self._is_controlled or is_last):
            self._say(frames, Closed(cursor=str(self.cursor)))
            self.is_over = True
            self._over()
        return b"".join(frames), is_behind and not self.is_over

    def _is_skipping(self) -> bool:
        """Whether a skip is on its way, or begins now, because the viewer is too far behind.

        Then nothing is sent in this turn.
        """
        if self._skip is None:
            kept = self._flow.kept_after_skip(self.cursor, self._total())
            # Without room nothing could follow: a viewer that draws would be sent one `skipped` after the
            # other.
            if kept is None or not self._flow.room(1):
                return False
            newest = newest_history(self._log, kept)
            target = Cursor(max(newest.stdout, self.cursor.stdout), max(newest.stderr, self.cursor.stderr))
            if target == self.cursor:
                return False  # the rest is held back as the beginning of a secret, or no longer on the disk
            self._skip = _Skip(self._log, self.cursor, target)
        return self._skip.turn()

    def _say_skipped(self, frames: list[bytes]) -> None:
        """Move to where a skip leads, once what it leaves out was looked through."""
        if self._skip is None:
            return
        before, self.cursor = self.cursor, self._skip.target
        count = self.cursor.stdout + self.cursor.stderr - before.stdout - before.stderr
        modes = self._skip.modes.sequences().decode("ascii")
        self._skip = None
        self._reported_at = self.cursor
        self._say(frames, Skipped(bytes=count, modes=modes, cursor=str(self.cursor)))

    def _total(self) -> Cursor:
        return Cursor(self.process.status.stdout_bytes, self.process.status.stderr_bytes)

    def _read(self, frames: list[bytes], most: int) -> None:
        pieces: list[bytes] = []
        redacted = 0
        for chunk in self._log.read(self.cursor, most):
            self.cursor = OutputChunk.after(self.cursor, (chunk,))
            redacted += self._redactions.count(chunk.stream, chunk.offset, chunk.end, chunk.hidden)
            if not chunk.is_gap:
                pieces.append(chunk.data)
                self._flow.sent(len(chunk.data))
                continue
            _flush(frames, pieces)
            self._say_gap(frames, chunk.stream, chunk.offset, chunk.end)
        _flush(frames, pieces)
        if redacted:
            self._say(frames, Redacted(count=redacted, cursor=str(self.cursor)))

    def _complete(self, frames: list[bytes], *, has_moved: bool) -> None:
        """Return the end once all output before it was returned.

        Bytes that the log no longer holds become a gap.
        """
        until = self._until or self._completion()
        if not _has_reached(self.cursor, until):
            if has_moved:
                return
            ends = (until.stdout, until.stderr)
            for stream, begin in enumerate((self.cursor.stdout, self.cursor.stderr)):
                if begin < ends[stream]:
                    gone = OutputChunk(stream=stream, offset=begin, end=ends[stream], data=b"")
                    self.cursor = OutputChunk.after(self.cursor, (gone,))
                    self._say_gap(frames, stream, begin, ends[stream])
        self.is_completed = True
        self._say(frames, _exited(self.process.record, self.cursor))

    def _completion(self) -> Cursor:
        """Return the end of the process's own output.

        A record that was rebuilt without it has only the totals.
        """
        process, total = self.process, self._total()
        out, err = process.status.complete_stdout_bytes, process.status.complete_stderr_bytes
        self._until = Cursor(total.stdout if out is None else out, total.stderr if err is None else err)
        return self._until

    def _say(self, frames: list[bytes], message: ServerMessage) -> None:
        """Add a control message, if this viewer understands them."""
        if self._is_controlled:
            frames.append(text_frame(encode_message(message)))

    def _say_gap(self, frames: list[bytes], stream: int, first: int, last: int) -> None:
        cursor = str(self.cursor)
        self._say(
            frames, GapMessage(stream="stderr" if stream else "stdout", first=first, last=last, cursor=cursor)
        )

    def _say_rest(self, frames: list[bytes]) -> None:
        """Add the waiting notices, which viewer holds the terminal, and the cursor when it was asked for or
        is due.
        """
        if self._holder is not None:
            self._say(frames, self._holder)
            self._holder = None
        window = self.process.status.window
        if self._window is not None and window is not None and window != self._window:
            self._window = window
            self._say(frames, Resized(rows=window[0], cols=window[1]))
        for notice in self._notices.values():
            self._say(frames, notice)
        self._notices.clear()
        gone = self.cursor.stdout + self.cursor.stderr - self._reported_at.stdout - self._reported_at.stderr
        if self._wants_cursor or gone >= (_REPORTED_BYTES if self._counts else 1):
            self._wants_cursor = False
            self._reported_at = self.cursor
            self._say(frames, CursorReport(cursor=str(self.cursor)))


def _flush(frames: list[bytes], pieces: list[bytes]) -> None:
    if pieces:
        frames.append(binary_frame(pieces[0] if len(pieces) == 1 else b"".join(pieces)))
        pieces.clear()


def _has_reached(cursor: Cursor, end: Cursor) -> bool:
    return cursor.stdout >= end.stdout and cursor.stderr >= end.stderr


def _exited(record: ProcessRecord, cursor: Cursor) -> Exited:
    return Exited(
        exit_code=record.exit_code,
        signal=record.exit_signal,
        state=record.state.value,
        error=record.error,
        cursor=str(cursor),
    )


HISTORY_BYTES = 256 * 1024  # some thousand lines: about as much as a terminal emulator scrolls back


def newest_history(log: OutputLog, most: int = HISTORY_BYTES) -> Cursor:
    """Return a cursor at most `most` bytes before the end.

    Costs two reads of 48 KiB, and at most 3 ms to scan them.

    Raises:
        StoreCorrupt: The disk does not return the bytes.
    """
    wanted = log.tail_cursor(most)
    return Cursor(_sane(log, 0, wanted.stdout), _sane(log, 1, wanted.stderr))


def _sane(log: OutputLog, stream: int, wanted: int) -> int:
    """Return the offset at or after `wanted` where a terminal may begin: outside of an escape sequence and of
    a gap.
    """
    if not wanted:
        return 0
    begin = max(0, wanted - CONTEXT_BYTES)
    gap = log.gap(stream)
    if gap is not None and gap[0] < wanted and begin < gap[1]:
        begin = gap[1]
        wanted = max(wanted, begin)
    data = log.pread(stream, wanted - begin + LOOK_BYTES, begin)
    return begin + sane_start(data, wanted - begin) if len(data) >= wanted - begin else wanted
