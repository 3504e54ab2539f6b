"""Positions in an output log that are found by reading it or its index: the beginning of a line, a byte among both streams.

A *position* counts the bytes of both streams in the order of writing; a cursor counts each stream's own. Nothing is kept between
calls, and nothing is written. All of it reads files: not for the event loop.
"""

from outlive.core.cursor import BEGINNING, Cursor
from outlive.store.output_log import MAX_PREAD_BYTES, OutputChunk, OutputLog, totals

_NEWLINE = b"\n"


class LineFinder:
    """Goes through a log from its beginning until a line begins, in turns of 256 KiB.

    Of two streams a line's number counts the newlines that were written before it, to either of them. Lines that the log no
    longer holds are not counted.

    Attributes:
        cursor: Everything before it was counted.
        is_over: It stands where the line begins, or at the end of the log.
        left: How many newlines lie between `cursor` and the line; at the end of the log: how many lines are missing.
    """

    __slots__ = ("_buffer", "_log", "cursor", "is_over", "left")

    def __init__(self, log: OutputLog, line: int) -> None:
        """Look for the line with this number; 1 is the first."""
        self._log = log
        self._buffer = bytearray(MAX_PREAD_BYTES)
        self.cursor = BEGINNING
        self.left = line - 1
        self.is_over = not self.left

    def turn(self) -> None:
        """Go on by at most 256 KiB.

        Raises:
            StoreCorrupt: The disk does not give the bytes.
        """
        # Of one stream the bytes are counted where they lie: 8 times as fast as with an object for each piece.
        if self._log.end.stderr == 0 and (count := self._log.read_plain(0, self._buffer, self.cursor.stdout)):
            found = self._buffer.count(_NEWLINE, 0, count)
            if found >= self.left:
                self._stop(0, bytes(self._buffer[:count]))
            else:
                self.left -= found
                self.cursor = Cursor(self.cursor.stdout + count, 0)
            return
        chunks = self._log.read(self.cursor, MAX_PREAD_BYTES)
        self.is_over = not chunks
        for chunk in chunks:
            found = chunk.data.count(_NEWLINE)
            if found >= self.left:
                self._stop(chunk.stream, chunk.data)
                return
            self.left -= found
            self.cursor = OutputChunk.after(self.cursor, (chunk,))

    def _stop(self, stream: int, data: bytes) -> None:
        """Stand behind the last newline that was looked for; `data` begins at the cursor."""
        place = 0
        for _ in range(self.left):
            place = data.index(_NEWLINE, place) + 1
        self.left = 0
        self.is_over = True
        stdout, stderr = self.cursor.stdout, self.cursor.stderr
        self.cursor = Cursor(stdout, stderr + place) if stream else Cursor(stdout + place, stderr)


def position_of(log: OutputLog, stream: int, offset: int) -> int:
    """Return how many bytes of both streams were written before byte `offset` of a stream (0 stdout, 1 stderr)."""
    index = log.index()
    if index is None:
        return offset
    # Totals only grow, so that the last run that does not begin behind the byte has it.
    place = index.last_where(lambda record: totals(record)[stream] <= offset)
    record = next(index.records(place), None)
    return offset if record is None else record.start + max(0, offset - totals(record)[stream])
