"""One log and what of it is shown: `LogView`, `LogShower`.

Reads files and prints; the server is not asked for anything.

How `outlive logs` prints: as the process wrote it (`RawPrinter`), or a line of JSON for each piece
(`JsonPrinter`).
"""

import codecs
import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Protocol

from outlive.cli.moments import parse_since
from outlive.cli.output import deliver, say, show_json, tell_hidden
from outlive.core.cursor import BEGINNING, Cursor
from outlive.core.identity import ProcessId
from outlive.core.layout import Layout
from outlive.core.redactions import Redactions, redacted_member
from outlive.core.values import dataclass
from outlive.store.end_sentences import loss_sentence
from outlive.store.folder import UNFILTERED, read_folder
from outlive.store.log_mask import hiding_of_folder
from outlive.store.output_log import OutputChunk, OutputLog
from outlive.store.search.log_lines import LogLine
from outlive.store.search.log_search import LogSearch, tail_start

_NAMES = ("stdout", "stderr")


class Printer(Protocol):
    """Takes what is to be shown; it waits for a slow reader."""

    def data(self, stream: int, data: bytes, end: int, *, redacted: int = 0) -> None:
        """Show bytes of a stream (0 stdout, 1 stderr) that end at offset `end`.

        So many secrets are stars in them.
        """

    def gap(self, stream: int, start: int, end: int) -> None:
        """Say that these bytes are not kept any more."""

    def lost(self, lost_bytes: int | None) -> None:
        """Say that so many bytes that were written never came into the log, or were cut from its end (None:
        not known how many).
        """

    def lines(self, lines: Sequence[LogLine]) -> None:
        """Show lines that match."""


class RawPrinter:
    """Bytes as they are: stdout to stdout, stderr to stderr; gaps are reported on stderr."""

    def data(self, stream: int, data: bytes, end: int, *, redacted: int = 0) -> None:  # noqa: ARG002 -- the protocol's
        """Show bytes."""
        deliver(1 + stream, data)

    def gap(self, stream: int, start: int, end: int) -> None:  # noqa: ARG002 -- the protocol's
        """Say how many are missing."""
        say(f"outlive: {end - start} bytes of output are not kept any more")

    def lost(self, lost_bytes: int | None) -> None:
        """Say it in a sentence."""
        say(f"outlive: {loss_sentence(lost_bytes)}")

    def lines(self, lines: Sequence[LogLine]) -> None:
        """Show lines, those around them included; neighbours of one stream in one write."""
        for stream, data, end in joined(lines):
            self.data(stream, data, end)


class TimedPrinter:
    """Puts before each line when its first byte was written (RFC 3339, in UTC)."""

    def __init__(self) -> None:
        self._begins = [True, True]

    def show(self, stream: int, data: bytes, time_ns: int) -> None:
        """Show bytes that were written at a time; 0 is one that is not known."""
        moment = datetime.fromtimestamp(time_ns / 1e9, UTC)
        stamp = f"{moment:%Y-%m-%dT%H:%M:%S.%f}"[:-3].encode() + b"Z " if time_ns else b"- "
        lines = [line + b"\n" for line in data.split(b"\n")]
        lines[-1] = lines[-1][:-1]
        first = b"" if self._begins[stream] else lines.pop(0)
        self._begins[stream] = data.endswith(b"\n")
        deliver(1 + stream, first + b"".join(stamp + line for line in lines if line))


def joined(lines: Sequence[LogLine]) -> Iterator[tuple[int, bytes, int]]:
    """Yield neighbours of one stream in one piece, those around them included: the stream, the bytes, and
    their end.
    """
    pieces: list[bytes] = []
    for place, line in enumerate(lines):
        if line.before or line.after:
            pieces.append(b"--\n")
        pieces += [one + b"\n" for one in (*line.before, line.data, *line.after)]
        if place + 1 == len(lines) or lines[place + 1].stream != line.stream:
            yield line.stream, b"".join(pieces), line.end
            pieces.clear()


class JsonPrinter:
    """Objects with the members of /v1: {type, data, end}, {type, gap, from, to, end}, or a match.

    Text is UTF-8.
    """

    def __init__(self) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")
        self._decoders = (decoder("replace"), decoder("replace"))

    def data(self, stream: int, data: bytes, end: int, *, redacted: int = 0) -> None:
        """Show text; a character that is cut here comes with the next piece."""
        text = self._decoders[stream].decode(data)
        if text:
            show_json({"type": _NAMES[stream], "data": text, "end": end} | redacted_member(redacted))

    def gap(self, stream: int, start: int, end: int) -> None:
        """Say what is missing."""
        show_json({"type": _NAMES[stream], "gap": True, "from": start, "to": end, "end": end})

    def lost(self, lost_bytes: int | None) -> None:
        """Say it with the members that describe a process."""
        show_json({"output_lost": True, "lost_bytes": lost_bytes})

    def lines(self, lines: Sequence[LogLine]) -> None:
        """Show lines, each with where it lies."""
        for line in lines:
            show_json(
                {
                    "type": _NAMES[line.stream],
                    "offset": line.offset,
                    "end": line.end,
                    "line": _text(line.data),
                    "before": [*map(_text, line.before)],
                    "after": [*map(_text, line.after)],
                }
                | redacted_member(line.redacted)
            )


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace")


_STREAMS = {"stdout": frozenset({0}), "stderr": frozenset({1}), "both": frozenset({0, 1})}
_READ_BYTES = 256 * 1024
_MATCHES = 1000  # found in one turn before they are printed
CUT = 3  # exit code: not all of the output that was asked for is there


@dataclass(frozen=True, slots=True, kw_only=True)
class LogView:
    """What is wanted of a log.

    Attributes:
        follow: Go on until the process has ended.
        since: Begin at a cursor, or at a moment (`moments`); the beginning unless given.
        tail: Begin with the last so many lines.
        grep: Show only lines that contain this text.
        context: Lines shown around each of them.
        ignore_case: ASCII letters of the text stand for both cases.
        stream: "stdout", "stderr" or "both".
        as_json: A line of JSON for each piece or match.
        raw: Hide no secrets.
        timestamps: Each line with the time at which it was written.
        unfiltered: Instead of the output, what entered the final filter of its line.
    """

    follow: bool = False
    since: str | None = None
    tail: int | None = None
    grep: str | None = None
    context: int = 0
    ignore_case: bool = False
    stream: str = "both"
    as_json: bool = False
    raw: bool = False
    unfiltered: bool = False
    timestamps: bool = False


class LogShower:
    """One log and what is wanted of it.

    Attributes:
        view: What is wanted.
        printer: Where it goes.
        streams: 0 for stdout, 1 for stderr.
        cursor: Where it begins.
        redacted: How many secrets were stars in what was shown.
        is_cut: Whether a part of what was to be shown is not there (any more).
    """

    def __init__(
        self,
        layout: Layout,
        process_id: str,
        view: LogView,
        *,
        is_hidden: bool = False,
        printer: Printer | None = None,
    ) -> None:
        """Show the log of a process of this state folder; `is_hidden`: its secrets are hidden in it already.

        Without a printer it is shown as the process wrote it, or in JSON.
        """
        hiding = None if view.raw or is_hidden else hiding_of_folder(layout, process_id)
        self._folder = folder = layout.process(process_id)
        self._process_id = ProcessId(process_id)
        self._log = OutputLog(f"{folder}/{UNFILTERED}" if view.unfiltered else folder, hiding=hiding)
        self.view = view
        self.streams = _STREAMS[view.stream]
        self._timed = TimedPrinter() if view.timestamps else None
        self.printer: Printer = printer or (JsonPrinter() if view.as_json else RawPrinter())
        self.cursor = self._start()
        self.redacted = 0
        self._redactions = Redactions()
        self.is_cut = False

    @property
    def end(self) -> Cursor:
        """Where the log ends now."""
        return self._log.end

    def show(self, *, losses: Sequence[int | None] | None = None) -> int:
        """Print what is there; return the exit code. Without `losses` (see `outcome`) they are read from the
        folder.
        """
        losses = self._losses() if losses is None else losses
        if self.view.grep is not None:
            search = self.search(self.view.grep)
            found = self.show_matches(search)
            found = self.show_last(search) or found
            return self.outcome(is_found=found, losses=losses)
        self.show_from(self.cursor)
        return self.outcome(is_found=True, losses=losses)

    def show_from(self, cursor: Cursor) -> Cursor:
        """Print what is there behind a cursor; return the one behind that."""
        while chunks := self._log.read(cursor, _READ_BYTES):
            for chunk in chunks:
                if chunk.stream not in self.streams:
                    continue
                if chunk.is_gap:
                    self.printer.gap(chunk.stream, chunk.offset, chunk.end)
                    continue
                redacted = self._redactions.count(chunk.stream, chunk.offset, chunk.end, chunk.hidden)
                self.redacted += redacted
                if self._timed is None:
                    self.printer.data(chunk.stream, chunk.data, chunk.end, redacted=redacted)
                else:
                    self._timed.show(chunk.stream, chunk.data, chunk.time_ns)
            cursor = OutputChunk.after(cursor, chunks)
        return cursor

    def outcome(self, *, is_found: bool, losses: Sequence[int | None]) -> int:
        """Tell how many secrets are stars in what was shown, and what of it is missing; return the exit code.

        `losses` has how many bytes are lost if any are (None: not known how many). In JSON the secrets stand
        with each piece.
        """
        if not self.view.as_json:
            tell_hidden(self.redacted, by="--raw")
        for lost_bytes in losses:
            self.printer.lost(lost_bytes)
        begins = (self.cursor.stdout, self.cursor.stderr)
        gaps = [self._log.gap(stream) for stream in self.streams]
        released = [
            gap for gap, stream in zip(gaps, self.streams, strict=True) if gap and gap[1] > begins[stream]
        ]
        self.is_cut = bool(losses or released)
        if self.is_cut:
            return CUT
        return 0 if is_found else 1

    def _losses(self) -> list[int | None]:
        if self.view.unfiltered:  # no record says how much of that there was
            return []
        found = read_folder(self._folder, self._process_id, is_live=True)
        if found is None:  # its folder was removed by hand
            return [None]
        record = found[0].record
        return [record.lost_bytes] if record.output_lost else []

    def show_matches(self, search: LogSearch) -> bool:
        """Print the finished lines that match and were not printed yet; return whether there were any."""
        found = False
        while True:
            lines = search.turn(_MATCHES)
            self.printer.lines(lines)
            self.redacted += sum(line.redacted for line in lines)
            found = found or bool(lines)
            if search.is_over:
                return found

    def show_last(self, search: LogSearch) -> bool:
        """Print lines that match and have no end yet: nothing follows, or no reader waits for it."""
        lines = search.last()
        self.printer.lines(lines)
        self.redacted += sum(line.redacted for line in lines)
        return bool(lines)

    def search(self, text: str) -> LogSearch:
        """Return the search for a text from where it begins."""
        return LogSearch(
            self._log,
            os.fsencode(text),
            cursor=self.cursor,
            streams=self.streams,
            is_case_sensitive=not self.view.ignore_case,
            context=self.view.context,
        )

    def _start(self) -> Cursor:
        """Return where to begin: the later one of what --since and --tail say."""
        view, start = self.view, BEGINNING
        if view.since is not None:
            since = parse_since(view.since, datetime.now().astimezone())
            start = since if isinstance(since, Cursor) else self._log.cursor_at(_ns(since))
        if view.tail is not None:
            (only,) = self.streams if len(self.streams) == 1 else (None,)
            tail = tail_start(self._log, view.tail, stream=only)
            start = Cursor(max(start.stdout, tail.stdout), max(start.stderr, tail.stderr))
        return start


def _ns(moment: datetime) -> int:
    return int(moment.timestamp() * 1_000_000) * 1000
