"""Bytes of one stream to frames: `LineReader` (one line, one message), `PieceReader` (one read, one message),
or none.

A reader holds two offsets and no output. What is not delivered yet is read again from the log when its line
is whole, so that a line of 100 MB costs no memory and any number of readers costs nothing.
"""

import codecs
from typing import Protocol

from outlive.core.redactions import HiddenSpans, Redactions, joined_spans
from outlive.protocols.jsonrpc.output import (
    MAX_LINES,
    FrameHeads,
    LineFramer,
    binary_output_frame,
    decode_whole,
    line_frame,
    shortened_line_frame,
    text_output_frame,
)
from outlive.store.output_log import MAX_PREAD_BYTES, OutputLog

_UNFINISHED_MAX = 3  # the longest unfinished UTF-8 sequence
_NEWLINE = 0x0A  # a number is looked for more quickly than a string of one byte
_BEYOND = 1 << 62  # behind every offset that a log can have


class StreamReader(Protocol):
    """A position in one stream of one process's log.

    `delivered` is the offset behind the last byte that a message stands for, `scanned` behind the last byte
    looked at; bytes between them wait for the rest of their line or character. `appetite`: the
    bytes of which a turn can make something.
    """

    stream: int
    appetite: int
    delivered: int
    scanned: int

    def take(self, data: bytes, hidden: HiddenSpans = ()) -> bytes:
        """Return the frames that new bytes at `scanned` complete; may take only a first part of `data`.

        `hidden` are the bytes that are stars for a secret.
        """

    def finish(self, limit: int) -> bytes:
        """Return the frame of what waits before offset `limit`, because its rest will never come."""

    def show_partial(self) -> bytes:
        """Return the frame of an unfinished line, marked as partial; empty when there is none to show."""

    def jump(self, offset: int) -> None:
        """Go on at `offset`; what waited was finished before."""


class LineReader:
    """One message for each line; a line over `max_line_bytes` is shown by its first part (promise S0.7)."""

    __slots__ = (
        "_framer",
        "_heads",
        "_log",
        "_max_line_bytes",
        "_process_id",
        "_redactions",
        "appetite",
        "delivered",
        "scanned",
        "stream",
    )

    def __init__(
        self,
        log: OutputLog,
        heads: FrameHeads,
        process_id: str,
        *,
        stream: int,
        start: int,
        max_line_bytes: int,
    ) -> None:
        """Begin at offset `start` of `stream` (0 stdout, 1 stderr)."""
        self.stream = stream
        self.appetite = MAX_PREAD_BYTES
        self.delivered = self.scanned = start
        self._log = log
        self._process_id = process_id
        self._heads = heads
        self._framer: LineFramer | None = None  # made for the first chunk of several lines
        self._max_line_bytes = max_line_bytes
        self._redactions = Redactions()

    def take(self, data: bytes, hidden: HiddenSpans = ()) -> bytes:
        """Return the frames of the lines that `data` completes."""
        cut = data.rfind(_NEWLINE) + 1
        if not cut:
            self.scanned += len(data)
            return b""
        begin, held = self.scanned, self.scanned - self.delivered
        frames, lines = b"", data[:cut]
        if held:
            first = data.index(b"\n")
            if held + first > self._max_line_bytes:
                frames = self._shortened(held + first, end=begin + first + 1)
                lines = data[first + 1 : cut]
                self.delivered = begin + first + 1
            else:
                again, before = self._reread(held)
                lines, hidden = again + lines, joined_spans(before, hidden)
                if len(lines) != held + cut:  # released meanwhile: look again, and meet the gap
                    self.scanned = self.delivered
                    return b""
        if lines:
            frames += self._frames(lines, hidden)
        if self.delivered == begin + cut:
            self.scanned = begin + len(data)
            if self.appetite < MAX_PREAD_BYTES:
                self.appetite = min(self.appetite + self.appetite // 8, MAX_PREAD_BYTES)
        else:
            self.scanned = self.delivered
            # The next turn reads as much as this one could use: what is beyond would be read and thrown away.
            self.appetite = max(self.delivered - begin, MAX_LINES)
        return frames

    def finish(self, limit: int) -> bytes:
        """Return the last line, which has no newline."""
        self.scanned = min(self.scanned, limit)
        length = self.scanned - self.delivered
        if not length:
            return b""
        if length > self._max_line_bytes:
            frame = self._shortened(length, end=self.scanned)
        else:
            line, hidden = self._reread(length)
            redacted = self._redactions.count(self.stream, self.delivered, self.scanned, hidden)
            frame = (
                line_frame(self._process_id, self.stream, line, end=self.scanned, redacted=redacted)
                if line
                else b""
            )
        self.delivered = self.scanned
        return frame

    def show_partial(self) -> bytes:
        """Return what there is of an unfinished line, a prompt for instance; a cut character waits on."""
        length = self.scanned - self.delivered
        if length > self._max_line_bytes:
            tail = self._log.pread(self.stream, _UNFINISHED_MAX, self.scanned - _UNFINISHED_MAX)
            end = self.scanned - len(tail) + decode_whole(tail)[1]
            frame = self._shortened(end - self.delivered, end=end, is_partial=True)
        else:
            line, hidden = self._reread(length)
            line = line[: decode_whole(line)[1]]
            if not line:
                return b""
            end = self.delivered + len(line)
            redacted = self._redactions.count(self.stream, self.delivered, end, hidden)
            frame = line_frame(
                self._process_id, self.stream, line, end=end, is_partial=True, redacted=redacted
            )
        self.delivered = end
        return frame

    def jump(self, offset: int) -> None:
        """Go on at `offset`."""
        self.delivered = self.scanned = offset

    def _reread(self, size: int) -> tuple[bytes, HiddenSpans]:
        """Return up to `size` bytes from `delivered`, and which are hidden; fewer when they were released."""
        pieces: list[bytes] = []
        hidden: HiddenSpans = ()
        offset, end = self.delivered, self.delivered + size
        while offset < end:
            piece, more = self._log.look(self.stream, min(end - offset, MAX_PREAD_BYTES), offset)
            if not piece:
                break
            pieces.append(piece)
            hidden = joined_spans(hidden, more)
            offset += len(piece)
        return b"".join(pieces), hidden

    def _shortened(self, length: int, *, end: int, is_partial: bool = False) -> bytes:
        first, hidden = self._reread(min(length, self._max_line_bytes))
        begin = self.delivered
        return shortened_line_frame(
            self._process_id,
            self.stream,
            first,
            max_line_bytes=self._max_line_bytes,
            length=length,
            end=end,
            is_partial=is_partial,
            redacted=self._redactions.count(self.stream, begin, begin + len(first), hidden),
        )

    def _frames(self, lines: bytes, hidden: HiddenSpans) -> bytes:
        """Return the frames of whole lines at `delivered`, of the first `MAX_LINES`, and deliver them."""
        if hidden:
            return self._single_frames(lines, hidden)
        if lines.find(_NEWLINE) == len(lines) - 1 <= self._max_line_bytes:  # a single line
            self.delivered += len(lines)
            return line_frame(self._process_id, self.stream, lines, end=self.delivered)
        if self._framer is None:
            self._framer = LineFramer(self._heads, self._process_id, self.stream)
        framed = self._framer.frames(lines, self.delivered, max_line_bytes=self._max_line_bytes)
        if framed is not None:
            frames, self.delivered = framed
            return frames
        return self._single_frames(lines, hidden)

    def _single_frames(self, lines: bytes, hidden: HiddenSpans) -> bytes:
        """Return the same one by one: where a line is too long, or the number of its secrets has to be
        sent.
        """
        pieces: list[bytes] = []
        end = self.delivered
        for content in lines[:-1].split(b"\n", MAX_LINES)[:MAX_LINES]:
            begin, end = end, end + len(content) + 1
            shown = begin + min(len(content) + 1, self._max_line_bytes + 1)
            redacted = self._redactions.count(self.stream, begin, shown, hidden)
            if len(content) <= self._max_line_bytes:
                line = content + b"\n"
                pieces.append(line_frame(self._process_id, self.stream, line, end=end, redacted=redacted))
            else:
                pieces.append(
                    shortened_line_frame(
                        self._process_id,
                        self.stream,
                        content,
                        max_line_bytes=self._max_line_bytes,
                        length=len(content),
                        end=end,
                        redacted=redacted,
                    )
                )
        self.delivered = end
        return b"".join(pieces)


class PieceReader:
    """One message for each read: text (a cut character waits for its rest) or raw bytes in a binary frame."""

    __slots__ = (
        "_is_binary",
        "_log",
        "_process_id",
        "_redactions",
        "appetite",
        "delivered",
        "scanned",
        "stream",
    )

    def __init__(self, log: OutputLog, process_id: str, *, stream: int, start: int, is_binary: bool) -> None:
        """Begin at offset `start` of `stream` (0 stdout, 1 stderr)."""
        self.stream = stream
        self.appetite = MAX_PREAD_BYTES
        self.delivered = self.scanned = start
        self._log = log
        self._process_id = process_id
        self._is_binary = is_binary
        self._redactions = Redactions()

    def take(self, data: bytes, hidden: HiddenSpans = ()) -> bytes:
        """Return the frame of `data` without an unfinished last character; `scanned` stays before that."""
        text, size = ("", len(data)) if self._is_binary else codecs.utf_8_decode(data, "replace")
        begin = self.scanned
        self.jump(begin + size)
        redacted = self._redactions.count(self.stream, begin, self.delivered, hidden)
        if self._is_binary:
            return binary_output_frame(
                self._process_id, self.stream, data, end=self.delivered, redacted=redacted
            )
        if not size:
            return b""
        return text_output_frame(self._process_id, self.stream, text, end=self.delivered, redacted=redacted)

    def finish(self, limit: int) -> bytes:
        """Return the frame of an unfinished character that ends the stream."""
        size = limit - self.delivered
        data = self._log.pread(self.stream, size, self.delivered) if 0 < size <= _UNFINISHED_MAX else b""
        if not data:
            return b""
        self.jump(self.delivered + len(data))
        text = data.decode("utf-8", "replace")
        return text_output_frame(self._process_id, self.stream, text, end=self.delivered)

    def show_partial(self) -> bytes:
        """Nothing waits here for a line's end."""
        return b""

    def jump(self, offset: int) -> None:
        """Go on at `offset`."""
        self.delivered = self.scanned = offset


class SilentReader:
    """No message at all: for a client that wants the end and no output (`output` "none")."""

    __slots__ = ("appetite", "delivered", "scanned", "stream")

    def __init__(self, *, stream: int, start: int) -> None:
        """Begin at offset `start` of `stream` (0 stdout, 1 stderr)."""
        self.stream = stream
        self.appetite = 0
        self.delivered = start
        self.scanned = _BEYOND  # there is never anything to read

    def take(self, data: bytes, hidden: HiddenSpans = ()) -> bytes:  # noqa: ARG002 -- as others have it
        """Nothing is ever read."""
        raise AssertionError(f"a silent reader was given {len(data)} bytes")

    def finish(self, limit: int) -> bytes:
        """Stand behind what was not sent."""
        self.delivered = limit
        return b""

    def show_partial(self) -> bytes:
        """Nothing waits here for a line's end."""
        return b""

    def jump(self, offset: int) -> None:
        """Stand at `offset`."""
        self.delivered = offset
