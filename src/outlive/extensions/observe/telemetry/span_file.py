"""`SpanFile`: spans that no collector has taken yet, on disk, and which were taken lately.

The next server goes on from there.

A line for each span, and one for each batch that was taken or given up. What is known of a process here is
sent at most once more. Blocking: for threads, which take turns. A disk that refuses costs what a kill would
lose, and nothing else.
"""

import contextlib
import json
import logging
import os
import threading
from collections import deque
from collections.abc import Iterable

from outlive.core.documents import decode_json
from outlive.core.values import dataclass
from outlive.extensions.observe.telemetry.command_span import CommandSpan, decode_span, encode_span
from outlive.kernel.files import open_place, read_any

_logger = logging.getLogger(__name__)

_MOST_BYTES = 1024 * 1024  # some 2,000 lines: beyond it the file is written anew, with what is left
_REMEMBERED = 4096  # ids that were settled: more than end in the seconds for which they are asked


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftSpans:
    """What earlier servers have left: spans, oldest first, and when the file was written last (Unix seconds;
    None: never).
    """

    spans: tuple[CommandSpan, ...] = ()
    written_at_s: float | None = None


class SpanFile:
    """The file of one server; `open` it first."""

    def __init__(self, path: str, *, most: int) -> None:
        """Keep the newest `most` spans at `path`."""
        self._path = path
        self._most = most
        self._left: dict[str, bytes] = {}  # lines by process id, oldest first
        self._settled: deque[str] = deque(maxlen=_REMEMBERED)
        self._known: set[str] = set()  # of both
        self._turn = threading.Lock()
        self._fd = -1
        self._size = 0

    def open(self) -> LeftSpans:
        """Return what earlier servers have left."""
        with self._turn:
            left = self._read()
            self._write_anew()
            if self._fd < 0:
                _logger.warning("spans cannot be kept on disk: those of a server that is killed are lost")
        return left

    def close(self) -> None:
        """Close the file; what is left stays."""
        with self._turn:
            if self._fd >= 0:
                os.close(self._fd)
            self._fd = -1

    def knows(self, process_id: str) -> bool:
        """Tell whether the span of a process waits here, or was settled lately."""
        with self._turn:
            return process_id in self._known

    def add(self, spans: Iterable[CommandSpan]) -> None:
        """Keep spans until they are settled."""
        lines = {span.process_id: encode_span(span) for span in spans}
        with self._turn:
            self._left |= lines
            self._known |= lines.keys()
            self._append(b"".join(lines.values()))

    def settle(self, process_ids: Iterable[str]) -> None:
        """Forget spans: they were taken, or are given up."""
        gone = [*process_ids]
        with self._turn:
            self._forget(gone)
            self._append(_settled_line(gone))
            if self._size > _MOST_BYTES:
                self._write_anew()

    def _forget(self, gone: Iterable[str]) -> None:
        """Keep of these spans that they are settled, of the newest few thousand."""
        for process_id in gone:
            self._left.pop(process_id, None)
            if len(self._settled) == _REMEMBERED:
                self._known.discard(self._settled[0])
            self._settled.append(process_id)
            self._known.add(process_id)

    def _read(self) -> LeftSpans:
        """Read the file of the last server, line by line; what a crash has torn is left out."""
        try:
            written_at_s = os.stat(self._path).st_mtime
            lines = read_any(self._path).splitlines(keepends=True)
        except OSError:
            return LeftSpans()
        found: dict[str, CommandSpan] = {}
        for line in lines:
            if (span := decode_span(line)) is not None:
                found[span.process_id] = span
                continue
            with contextlib.suppress(ValueError, TypeError, LookupError, RecursionError):
                gone = [str(one) for one in decode_json(line)["settled"]]
                self._forget(gone)
                for process_id in gone:
                    found.pop(process_id, None)
        spans = [*found.values()][-self._most :]
        self._left = {span.process_id: encode_span(span) for span in spans}
        self._known |= self._left.keys()
        return LeftSpans(spans=tuple(spans), written_at_s=written_at_s)

    def _append(self, lines: bytes) -> None:
        if self._fd >= 0:
            with contextlib.suppress(OSError):  # a full disk: what waits in memory is sent all the same
                self._size += os.write(self._fd, lines)

    def _write_anew(self) -> None:
        """Have just what is left and remembered in the file. A crash leaves the old one or the new one."""
        # What was settled goes first: a span that is left counts as left, whatever an earlier line has said
        # of it.
        content = _settled_line([*self._settled]) + b"".join(self._left.values())
        new = f"{self._path}.new"
        with contextlib.suppress(OSError):
            fd = open_place(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
            try:
                os.write(fd, content)
                os.rename(new, self._path)
            except OSError:
                os.close(fd)
                raise
            if self._fd >= 0:
                os.close(self._fd)
            self._fd, self._size = fd, len(content)


def _settled_line(process_ids: list[str]) -> bytes:
    return json.dumps({"settled": process_ids}).encode() + b"\n"
