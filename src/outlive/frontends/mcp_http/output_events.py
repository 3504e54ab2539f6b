"""A process's output as server-sent events for raw callers: `OutputEvents`, a cursor on the log (promise S4.3).

Nothing is queued: a turn reads at most 64 KiB from the log and returns the events of the lines in it. Kept in
memory is only what follows the last newline of each stream, at most 320 KiB.
"""

import codecs

import orjson

from outlive.core.cursor import BEGINNING
from outlive.engine import OutputChunk, Process
from outlive.protocols.sse import encode_event, encode_line_events, encode_part_event

__all__ = ["OutputEvents"]

_NAMES = ("stdout", "stderr")
_TURN_BYTES = 64 * 1024  # 32 768 lines of one character: 3 ms, before it is anybody else's turn
_MAX_LINE_BYTES = 256 * 1024  # a longer line comes in several events, marked as parts


class OutputEvents:
    """Events `stdout` and `stderr`, one for each line, in the order of writing, up to the completion.

    Attributes:
        is_over: All output before the completion was returned.
    """

    __slots__ = ("_cursor", "_held", "_process", "is_over")

    def __init__(self, process: Process) -> None:
        """Begin at the first byte of `process`."""
        self.is_over = False
        self._process = process
        self._cursor = BEGINNING
        self._held = [b"", b""]

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
        ends = (process.complete_stdout_bytes, process.complete_stderr_bytes)
        kept = []
        for chunk in chunks:
            end = ends[chunk.stream]
            if end is None or chunk.end <= end:
                kept.append(chunk)
            elif chunk.offset < end:
                data = chunk.data[: end - chunk.offset]
                kept.append(OutputChunk(stream=chunk.stream, offset=chunk.offset, end=end, data=data))
        return kept

    def _events(self, chunk: OutputChunk) -> bytes:
        stream, name = chunk.stream, _NAMES[chunk.stream]
        if chunk.is_gap:
            gap = orjson.dumps({"type": name, "from": chunk.offset, "to": chunk.end})
            return self._last(stream) + encode_event("gap", gap)
        data = self._held[stream] + chunk.data if self._held[stream] else chunk.data
        cut = data.rfind(b"\n") + 1
        events = b""
        if cut:
            events = encode_line_events(name, data[:cut].decode("utf-8", "replace"))
            data = data[cut:]
        if len(data) > _MAX_LINE_BYTES:
            text, used = codecs.utf_8_decode(data, "replace")  # an unfinished character waits
            events += encode_part_event(name, text)
            data = data[used:]
        self._held[stream] = data
        return events

    def _last(self, stream: int) -> bytes:
        """Return the event of a line that has no newline."""
        line, self._held[stream] = self._held[stream], b""
        return encode_line_events(_NAMES[stream], line.decode("utf-8", "replace") + "\n") if line else b""
