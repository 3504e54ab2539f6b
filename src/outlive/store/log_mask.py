"""Redaction of what is read from one process's log: `LogMask`, which `OutputLog` applies to every byte that
leaves it.

What is redacted depends only on the bytes around it (`policy.redaction`). So a piece is examined together
with the bytes before it, and with the bytes behind it where its end could be the beginning of a secret. At
the end of a log that still grows such a beginning is held back until more bytes come, the process has ended,
or nothing was written for `REST_S` seconds. The log itself and its offsets stay as they are.

When the values of a process's secrets are not known any more, the file `masks` in its folder says where they
are in the output; without that file everything is redacted.

Secrets of processes when no server is asked: their values while a process runs, and what of its log is
redacted.

For the command line, which reads files. Which bytes are a secret is decided in `policy.redaction`.
"""

import contextlib
import json
import os
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from outlive.core.documents import decode_json
from outlive.core.identity import ProcessId
from outlive.core.layout import STREAM_FILES, Layout
from outlive.core.redactions import HiddenSpans, spans_within
from outlive.core.values import dataclass
from outlive.kernel.files import read_all, write_whole
from outlive.kernel.processes import environment_of
from outlive.policy.redaction import LEAST_VALUE_BYTES, Redactor, blank, merged
from outlive.policy.secret_patterns import REACH_BYTES, ExtraPattern, parse_pattern
from outlive.protocols.frames import decoded
from outlive.store.folder import read_folder

REST_S = 0.3  # longer than the time between two writes of one line, shorter than a person waits for a prompt
_MOST_SPANS = 100_000  # in one file; everything behind the last of them is redacted
_PIECE_BYTES = 256 * 1024  # read at a time when masks are written
_SMALL_BYTES = 4096  # a piece of this size is examined in one step, together with the bytes before it
_MASKS = "masks"

_Span = tuple[int, int]


class RawLog(Protocol):
    """The part of a log that a mask needs: its bytes as they are."""

    def pread_raw(self, stream: int, size: int, offset: int) -> bytes:
        """Return bytes as they are in the log; fewer before a gap, none in it."""

    def gap(self, stream: int) -> tuple[int, int] | None:
        """Return the released range."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hiding:
    """What is redacted for one process, and what its reader knows of it.

    Attributes:
        redactor: Patterns and values to redact.
        needs_masks: The process has secrets whose values `redactor` does not know.
        is_over: Returns whether no more bytes will come; then nothing is held back.
        held: Is called when bytes were held back: the reader should look again after `REST_S`.
    """

    redactor: Redactor
    needs_masks: bool = False
    is_over: Callable[[], bool] = lambda: False
    held: Callable[[], None] = lambda: None


class LogMask:
    """The mask of one log.

    Remembers up to where it found nothing, so that reading on examines every byte once.
    """

    __slots__ = ("_clean", "_folder", "_hiding", "_ranges", "_shown")

    def __init__(self, folder: str, hiding: Hiding) -> None:
        """Redact by `hiding` what is read of the log in `folder`.

        The log itself comes with each call: if the two objects referred to each other, only the garbage
        collector would free them.
        """
        self._folder = folder
        self._hiding = hiding
        self._ranges = read_masks(folder) if hiding.needs_masks else None
        # By stream: the end of the part without a suspicion, its beginning, and the last bytes of it.
        self._clean: list[tuple[int, int, bytes]] = [(0, 0, b""), (0, 0, b"")]
        self._shown = [0, 0]  # by stream: bytes that were shown once are not held back later

    def apply(self, log: RawLog, stream: int, data: bytes, offset: int) -> tuple[bytes, HiddenSpans]:
        """Return `data`, read at `offset`, redacted, and the redacted spans.

        Shorter if its end is held back.
        """
        hiding = self._hiding
        ranges: HiddenSpans = ()
        if hiding.needs_masks:
            data, ranges = self._apply_ranges(stream, data, offset)
        redactor = hiding.redactor
        before = self._before(log, stream, offset, redactor.seam_bytes)
        # Most output holds nothing suspicious: then one look is enough, and the bytes are returned unchanged.
        tail = None if before is None else _clean_tail(redactor, before, data)
        if tail is None:
            self._clean[stream] = (0, 0, b"")
            return self._examined(log, stream, data, offset, ranges)
        end = offset + len(data)
        self._clean[stream] = (end, self._clean[stream][1], tail)
        self._shown[stream] = max(self._shown[stream], end)
        return data, ranges

    def visible_end(self, log: RawLog, stream: int, size: int) -> int:
        """Return where a stream of that size ends for readers: before the bytes that are held back."""
        if self._hiding.is_over():
            return size
        begin = max(0, size - REACH_BYTES, self._shown[stream])
        if begin >= size:
            return size
        data = log.pread_raw(stream, size - begin, begin)
        # Released meanwhile: there is nothing to hold back.
        if len(data) < size - begin:
            return size
        clean = self._clean[stream]
        end = begin + len(self.apply(log, stream, data, begin)[0])
        self._clean[stream] = clean  # this look must not move the position of a reader that reads on
        return end

    def _before(self, log: RawLog, stream: int, offset: int, seam: int) -> bytes | None:
        """Return the last bytes before an offset if nothing near it is suspicious; None if something is."""
        end, begin, tail = self._clean[stream]
        if offset == end and (not begin or begin <= offset - REACH_BYTES):
            return tail
        context = self._context(log, stream, offset)
        if self._hiding.redactor.is_suspect(context):
            return None
        self._clean[stream] = (offset, max(0, offset - REACH_BYTES), b"")
        return context[-seam:] if seam else b""

    def _context(self, log: RawLog, stream: int, offset: int) -> bytes:
        """Return the bytes before an offset, as far as a secret reaches and the log still holds them."""
        begin = max(0, offset - REACH_BYTES)
        data = log.pread_raw(stream, offset - begin, begin) if offset else b""
        if len(data) < offset - begin:
            # A released range ends in between: only the bytes behind it are still there.
            gap = log.gap(stream)
            if gap is None or not begin < gap[1] <= offset:
                return b""
            data = log.pread_raw(stream, offset - gap[1], gap[1])
        return data

    def _examined(
        self, log: RawLog, stream: int, data: bytes, offset: int, ranges: HiddenSpans
    ) -> tuple[bytes, HiddenSpans]:
        """Examine a piece together with its neighbourhood."""
        redactor, hiding = self._hiding.redactor, self._hiding
        context = self._context(log, stream, offset)
        start = len(context)
        window = context + data
        spans, undecided, cut = redactor.examine(window)
        end = len(window)
        # The piece may end within a secret: the bytes behind it decide.
        if min(undecided, cut) < end:
            behind = log.pread_raw(stream, REACH_BYTES, offset + len(data))
            if behind:
                spans, undecided, cut = redactor.examine(window + behind)
            if min(undecided, cut) < end:
                if not (hiding.is_over() or self._rested_s(stream) >= REST_S):
                    hiding.held()
                    end = max(min(undecided, cut, end), self._shown[stream] - offset + start)
                    end = max(start, min(end, len(window)))
                elif cut + LEAST_VALUE_BYTES <= len(window):
                    # So long a part of a value is not shown, whatever follows.
                    spans = [*spans, (cut, len(window))]
        self._shown[stream] = max(self._shown[stream], offset + end - start)
        base = offset - start
        found = merged([*((base + one, base + other) for one, other in spans), *ranges])
        return blank(window, spans)[start:end], spans_within(found, offset, base + end)

    def _rested_s(self, stream: int) -> float:
        """Return how many seconds ago a stream was written to."""
        try:
            return time.time() - os.stat(f"{self._folder}/{STREAM_FILES[stream]}").st_mtime
        except OSError:  # the folder was removed meanwhile
            return REST_S

    def _apply_ranges(self, stream: int, data: bytes, offset: int) -> tuple[bytes, HiddenSpans]:
        """Redact the spans that `masks` lists, everything behind the part that it covers, and all where it is
        missing.
        """
        end = offset + len(data)
        if self._ranges is None:
            return blank(data, [(0, len(data))]), [(offset, end)]
        size, spans = self._ranges[stream]
        # A span may begin before this piece and reach into it, but never farther than `REACH_BYTES`.
        first = bisect_left(spans, (offset - REACH_BYTES, 0))
        last = bisect_left(spans, (offset + len(data), 0))
        near = [*spans[first:last], *([(max(offset, size), end)] if size < end else [])]
        masked = blank(data, [(one - offset, other - offset) for one, other in near])
        return masked, spans_within(merged(near), offset, end)


def _clean_tail(redactor: Redactor, before: bytes, data: bytes) -> bytes | None:
    """Return the last bytes of `before` and `data` together; None if a secret could begin in `data`, or at
    either seam.
    """
    seam = redactor.seam_bytes
    if len(data) <= max(seam, _SMALL_BYTES):
        end = before + data
        if redactor.is_suspect(end):
            return None
    else:
        if redactor.is_suspect(data) or redactor.is_suspect(before + data[:seam]):
            return None
        end = data[-seam:]
    if redactor.values and redactor.may_begin_at_end(end):
        return None
    return end[-seam:] if seam else b""


def read_masks(folder: str) -> Sequence[tuple[int, Sequence[_Span]]] | None:
    """Return for each stream how much of it was examined and where its secrets are; None when that is not
    recorded.
    """
    return decoded(read_all(f"{folder}/{_MASKS}"), _decode_masks)


def _decode_masks(raw: bytes) -> Sequence[tuple[int, Sequence[_Span]]]:
    document = decode_json(raw, max_members=4 * _MOST_SPANS * len(STREAM_FILES))
    return [_stream_masks(document[name]) for name in ("out", "err")]


def _stream_masks(document: object) -> tuple[int, Sequence[_Span]]:
    if not isinstance(document, dict):
        raise TypeError("not the masks of a stream")
    return int(document["size"]), [(int(begin), int(end)) for begin, end in document["spans"]]


def write_masks(log: RawLog, folder: str, redactor: Redactor, sizes: Sequence[int]) -> None:
    """Record in a process's folder where its secrets are in its output: places, never values.

    Blocking, 1 s a gigabyte.

    Raises:
        OSError: The disk refuses the file.
    """
    document = {
        name: dict(zip(("size", "spans"), _found(log, stream, redactor, sizes[stream]), strict=True))
        for stream, name in enumerate(("out", "err"))
    }
    write_whole(f"{folder}/{_MASKS}", json.dumps(document).encode())


def _found(log: RawLog, stream: int, redactor: Redactor, size: int) -> tuple[int, list[_Span]]:
    spans: list[_Span] = []
    position, seam = 0, redactor.seam_bytes
    while position < size:
        data = log.pread_raw(stream, min(_PIECE_BYTES, size - position), position)
        if not data:
            gap = log.gap(stream)
            if gap is None or not gap[0] <= position < gap[1]:
                return position, spans
            position = gap[1]
            continue
        if redactor.is_suspect(data):
            found = redactor.examine(data)[0]
            spans += [(position + begin, position + end) for begin, end in found]
            if len(spans) > _MOST_SPANS:
                return position, spans
        if position + len(data) >= size or len(data) <= seam:
            return position + len(data), spans
        # With an overlap: a value that this piece cuts is complete in the next one.
        position += len(data) - seam
    return position, spans


def read_values(pid: int, names: Iterable[str]) -> dict[str, str]:
    """Return variables of a running process (proc_pid_environ(5)); none if it has ended. Blocking."""
    found = dict(word.partition(b"=")[::2] for word in (environment_of(pid) or b"").split(b"\0"))
    return {name: os.fsdecode(found[os.fsencode(name)]) for name in names if os.fsencode(name) in found}


def hiding_of_folder(layout: Layout, process_id: str) -> Hiding:
    """Return what of a process's log is redacted for a program that reads its files. Blocking."""
    folder = layout.process(process_id)
    extra = noted_patterns(layout)

    def is_over() -> bool:
        return os.path.exists(f"{folder}/done")

    read = read_folder(folder, ProcessId(process_id), is_live=True)
    # A folder without a spec: it is not known whether there are secrets, so everything is redacted.
    if read is None:
        return Hiding(redactor=Redactor(extra=extra), needs_masks=True, is_over=is_over)
    record = read[0].record
    values: dict[str, str] = {}
    if record.secret_names and record.pid is not None and not record.location.is_elsewhere and not is_over():
        values = read_values(record.pid, record.secret_names)
    # With a single value missing, redacting the others would give a false sense of safety.
    is_known = all(name in values for name in record.secret_names)
    redactor = Redactor(values=map(os.fsencode, values.values()) if is_known else (), extra=extra)
    return Hiding(redactor=redactor, needs_masks=not is_known, is_over=is_over)


def noted_patterns(layout: Layout) -> list[ExtraPattern]:
    """Return the patterns of the server that ran last, without those that cannot be read."""
    texts = decoded(read_all(layout.extra_patterns), bytes.decode) or ""
    found = []
    for text in texts.splitlines():
        with contextlib.suppress(ValueError):
            found.append(parse_pattern(text))
    return found
