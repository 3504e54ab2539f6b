"""The output that a waiting call has not reported yet: `News`, a cursor on the log."""

import codecs

from outlive.core.cursor import BEGINNING, Cursor
from outlive.engine import OutputChunk, Process

# A progress message is for watching; the result and the log have everything. What is more is skipped, and said.
_MOST_BYTES = 16 * 1024


class News:
    """Takes new output of both streams, in the order of writing, as text."""

    def __init__(self, process: Process, cursor: Cursor = BEGINNING) -> None:
        """Begin at `cursor`."""
        self._process = process
        self._cursor = cursor
        self._decoders = [codecs.getincrementaldecoder("utf-8")("replace") for _ in range(2)]

    @property
    def is_waiting(self) -> bool:
        """Whether there is output that was not taken, as far as the keeper has told."""
        process = self._process
        return self._cursor.stdout < process.stdout_bytes or self._cursor.stderr < process.stderr_bytes

    def take(self, *, is_last: bool) -> str:
        """Return what is new, its last 16 KiB if it is more; `is_last` also the beginning of a character."""
        log = self._process.log
        text = ""
        behind = log.size(0) + log.size(1) - self._cursor.stdout - self._cursor.stderr
        if behind > _MOST_BYTES:
            tail = log.tail_cursor(_MOST_BYTES)
            ahead = Cursor(max(tail.stdout, self._cursor.stdout), max(tail.stderr, self._cursor.stderr))
            skipped = ahead.stdout + ahead.stderr - self._cursor.stdout - self._cursor.stderr
            self._cursor = ahead
            for decoder in self._decoders:
                decoder.reset()
            text = f"[... {skipped} bytes not shown here ...]\n"
        # Once more than once: a read charges for each run, and many short ones must not be left for later.
        while chunks := log.read(self._cursor, 2 * _MOST_BYTES):
            self._cursor = OutputChunk.after(self._cursor, chunks)
            text += "".join(self._decoders[chunk.stream].decode(chunk.data) for chunk in chunks)
            if len(text) > 2 * _MOST_BYTES:
                break
        if is_last:
            text += "".join(decoder.decode(b"", final=True) for decoder in self._decoders)
        return text
