"""A process's output as server-sent events for raw callers: `OutputEvents`, a cursor on the log (promise S4.3).

Nothing is queued: a turn reads at most 64 KiB from the log and returns the events of the lines in it. Kept in
memory is only what follows the last newline of each stream, at most 320 KiB.
"""

import codecs
from dataclasses import dataclass, replace

import orjson

from outlive.core.cursor import BEGINNING
from outlive.core.redactions import HiddenSpans, Redactions, joined_spans, spans_within
from outlive.engine import OutputChunk, Process
from outlive.protocols.sse import encode_event, encode_line_event, encode_line_events, encode_part_event

_NAMES = ("stdout", "stderr")
_TURN_BYTES = 64 * 1024  # 32 768 lines of one character: 3 ms, before it is anybody else's turn
_MAX_LINE_BYTES = 256 * 1024  # a longer line comes in several events, marked as parts


@dataclass(frozen=True, slots=True)
class _EventPiece:
    """Bytes of a stream from offset `start` on, and where stars for secrets are among them."""

    start: int
    data: bytes
    hidden: HiddenSpans

    def behind(self, size: int) -> "_EventPiece":
        """Return it without its first bytes."""
        start = self.start + size
        end = self.start + len(self.data)
        return _EventPiece(start, self.data[size:], spans_within(self.hidden, start, end))


_NOTHING = _EventPiece(0, b"", ())


class OutputEvents:
    """Events `stdout` and `stderr`, one for each line, in the order of writing, up to the completion.

    A line that shows stars for secrets says how many: `redacted`.

    Attributes:
        is_over: All output before the completion was returned.
    """

    __slots__ = ("_cursor", "_held", "_process", "_redactions", "is_over")

    def __init__(self, process: Process) -> None:
        """Begin at the first byte of `process`."""
        self.is_over = False
        self._process = process
        self._cursor = BEGINNING
        self._held = [_NOTHING, _NOTHING]
        self._redactions = Redactions()

    def turn(self) -> bytes:
        """Return the next events; empty when there is nothing new yet, or nothing more (`is_over`).

        Blocks for one read of the log, as `OutputLog.pread` may.

        Raises:
            StoreCorrupt: The disk does not give the bytes.
        """
        is_complete = self._process.is_complete  # asked before the read: then the read sees everything
        events = b""
        while not events:  # a piece of a long line makes no event yet
            chunks = self._process.log.read(self._cursor, _TURN_BYTES)
            if is_complete:
                chunks = self._until_completion(chunks)
            if not chunks:
                break
            self._cursor = OutputChunk.after(self._cursor, chunks)
            events = b"".join(map(self._events, chunks))
        if not events and is_complete:
            self.is_over = True
            events = b"".join(self._last(stream) for stream in (0, 1))
        return events

    def _until_completion(self, chunks: list[OutputChunk]) -> list[OutputChunk]:
        """Leave out what descendants wrote after the completion."""
        process = self._process
        ends = (process.status.complete_stdout_bytes, process.status.complete_stderr_bytes)
        kept = []
        for chunk in chunks:
            end = ends[chunk.stream]
            if end is None or chunk.end <= end:
                kept.append(chunk)
            elif chunk.offset < end:
                data = chunk.data[: end - chunk.offset]
                kept.append(replace(chunk, end=end, data=data))
        return kept

    def _events(self, chunk: OutputChunk) -> bytes:
        stream, name = chunk.stream, _NAMES[chunk.stream]
        if chunk.is_gap:
            gap = orjson.dumps({"type": name, "from": chunk.offset, "to": chunk.end})
            return self._last(stream) + encode_event("gap", gap)
        held = self._held[stream]
        piece = _EventPiece(chunk.offset, chunk.data, chunk.hidden)
        if held.data:
            piece = _EventPiece(held.start, held.data + chunk.data, joined_spans(held.hidden, chunk.hidden))
        cut = piece.data.rfind(b"\n") + 1
        events = b""
        if cut:
            events = self._lines(stream, piece, cut)
            piece = piece.behind(cut)
        if len(piece.data) > _MAX_LINE_BYTES:
            text, used = codecs.utf_8_decode(piece.data, "replace")  # an unfinished character waits
            redacted = self._redactions.count(stream, piece.start, piece.start + used, piece.hidden)
            events += encode_part_event(name, text, redacted=redacted)
            piece = piece.behind(used)
        self._held[stream] = piece
        return events

    def _lines(self, stream: int, piece: _EventPiece, size: int) -> bytes:
        """Return the events of the whole lines that are the first `size` bytes of a piece."""
        name, start = _NAMES[stream], piece.start
        if not spans_within(piece.hidden, start, start + size):  # nearly always: all lines at once
            return encode_line_events(name, piece.data[:size].decode("utf-8", "replace"))
        events = []
        for line in piece.data[: size - 1].split(b"\n"):
            end = start + len(line) + 1
            redacted = self._redactions.count(stream, start, end, piece.hidden)
            events.append(encode_line_event(name, line.decode("utf-8", "replace"), redacted=redacted))
            start = end
        return b"".join(events)

    def _last(self, stream: int) -> bytes:
        """Return the event of a line that has no newline."""
        piece, self._held[stream] = self._held[stream], _NOTHING
        if not piece.data:
            return b""
        return self._lines(
            stream, _EventPiece(piece.start, piece.data + b"\n", piece.hidden), len(piece.data) + 1
        )
