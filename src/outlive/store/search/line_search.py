"""Searching one process's output for lines that match a `LineQuery`, stdout first: `LineSearch`, and the
`MatchedLine`s that it gives.

Reads logs of any size with bounded memory; one turn reads at most 256 KiB of them. Blocking: run turns in a
thread. Never writes. Every byte that is compared comes from `output_log`, which has redacted it: whether a
turn finds something, and how long it takes, depends on nothing that redaction hides. `log_search` is the
search of one log in the order of writing.
"""

from outlive.core.redactions import HiddenSpans, joined_spans, spans_within
from outlive.core.values import dataclass
from outlive.protocols.output.line_query import LineQuery
from outlive.store.output_log import MAX_PREAD_BYTES, OutputLog
from outlive.store.search.log_index import LogIndex
from outlive.store.search.log_lines import SHOWN_BYTES, line_start, lines_after, lines_before, redacted_around
from outlive.store.search.log_search import position_of

# A longer line is searched in pieces. The memory of a search is about twice this.
_LONGEST_LINE = 1024 * 1024
# Two pieces of a long line have so much in common: no match that is shorter is missed at their seam.
_SEAM_BYTES = 4096
# Where the index says that nothing more is to be found, the line that was begun is read to its end in such
# pieces.
_REST_BYTES = 4096
_BEFORE_HIT = 1024  # shown before a match that lies far behind the beginning of its line


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchedLine:
    """A line that matches: bytes `offset` to `end` of a stream (0 stdout, 1 stderr), without its newline.

    `data` is at most 8 KiB of it, from `shown_from` on; the first match is bytes `hit` to `hit_end`. `before`
    and `after` are lines around it. `written_before`: how many bytes of both streams were written before the
    match. `redacted`: secrets that are stars in what is shown. Of a line beyond 1 MiB `end` is where the
    piece ends in which it was found.
    """

    stream: int
    offset: int
    end: int
    data: bytes
    shown_from: int
    hit: int
    hit_end: int
    written_before: int
    before: tuple[bytes, ...] = ()
    after: tuple[bytes, ...] = ()
    redacted: int = 0


class LineSearch:
    """Call `turn` until `is_over`.

    Attributes:
        stream: The stream that is searched now.
        is_over: Everything that was there has been searched.
        read_bytes: How much was read so far.
    """

    def __init__(
        self,
        log: OutputLog,
        query: LineQuery,
        *,
        stream: int = 0,
        offset: int = 0,
        context: int = 0,
        index: LogIndex | None = None,
    ) -> None:
        """Search `log` from `offset` of `stream` on, with `context` lines around each match.

        What `index`, asked for what `query` needs, excludes is not read.
        """
        self.stream = stream
        self.is_over = False
        self.read_bytes = 0
        self._log = log
        self._query = query
        self._context = context
        self._index = index
        self._at = self._line_start = offset
        self._rest = b""  # the unfinished line, or the end of the piece of it that was searched
        self._hidden: HiddenSpans = ()
        self._is_cut = False
        self._is_found = False

    @property
    def offset(self) -> int:
        """Where to go on in `stream`: before an unfinished line, but behind the part of one that has
        matched.
        """
        return self._at if self._is_found else self._line_start

    def turn(self, most: int) -> list[MatchedLine]:
        """Search the next piece; return at most `most` lines.

        Raises:
            StoreCorrupt: The disk does not give the bytes.
        """
        data, hidden = self._log.look(self.stream, self._pass_over(), self._at)
        if not data:
            return self._at_end(most)
        self.read_bytes += len(data)
        base = self._at - len(self._rest)
        self._at += len(data)
        buffer = self._rest + data
        self._hidden = joined_spans(spans_within(self._hidden, base, base + len(self._rest)), hidden)
        newline = buffer.rfind(b"\n", len(self._rest))
        if newline >= 0:
            return self._whole_lines(buffer, newline + 1, base, most)
        if len(buffer) < _LONGEST_LINE:
            self._rest = buffer
            return []
        found = self._in(buffer, base, most)
        self._rest, self._is_cut = buffer[-_SEAM_BYTES:], True
        return found

    def _pass_over(self) -> int:
        """Go on where a match may be, by the index; return how many bytes are to be read there."""
        if self._index is None:
            return MAX_PREAD_BYTES
        following, end = self._index.next_place(self.stream, self._at)
        if following > self._at:
            if self._rest:
                return _REST_BYTES
            # The line in which a match may be begins before the block.
            begin = line_start(self._log, self.stream, following, most=_LONGEST_LINE)
            if begin > self._at:
                self._begin_at(begin)
        return MAX_PREAD_BYTES if end is None else min(end - self._at, MAX_PREAD_BYTES)

    def _whole_lines(self, buffer: bytes, end: int, base: int, most: int) -> list[MatchedLine]:
        """Search the lines of `buffer` up to `end`, which lies behind a newline."""
        found = self._in(buffer[:end], base, most)
        if len(found) == most:
            # What is behind it is searched by the next turn.
            self._begin_at(found[-1].end + 1)
            return found
        self._rest, self._line_start, self._is_cut, self._is_found = buffer[end:], base + end, False, False
        return found

    def _in(self, buffer: bytes, base: int, most: int) -> list[MatchedLine]:
        found = []
        for begin, end, hit, hit_end in self._query.lines(buffer):
            is_first = begin == 0
            if is_first and self._is_found:
                continue  # an earlier piece of this line has matched
            if is_first:
                self._is_found = True
            start = self._line_start if is_first and self._is_cut else base + begin
            found.append(self._line(buffer, base, (start, base + end), (base + hit, base + hit_end)))
            if len(found) == most:
                break
        return found

    def _line(self, buffer: bytes, base: int, line: tuple[int, int], hit: tuple[int, int]) -> MatchedLine:
        start, end = line
        # What is shown begins where the line does, or shortly before a match that lies far behind that.
        first = max(start, base)
        if hit[1] - first > SHOWN_BYTES:
            first = hit[0] - _BEFORE_HIT
        last = min(end, first + SHOWN_BYTES)
        before = lines_before(self._log, self.stream, start, self._context) if self._context else ()
        after = lines_after(self._log, self.stream, end, self._context) if self._context else ()
        hidden: HiddenSpans = spans_within(self._hidden, first, last)
        return MatchedLine(
            stream=self.stream,
            offset=start,
            end=end,
            data=buffer[first - base : last - base],
            shown_from=first,
            hit=hit[0],
            hit_end=hit[1],
            written_before=position_of(self._log, self.stream, hit[0]),
            before=before,
            after=after,
            redacted=redacted_around(self._log, self.stream, (first, last, end), hidden, before, after)
            if hidden or self._context
            else 0,
        )

    def _at_end(self, most: int) -> list[MatchedLine]:
        """Search a line without an end, and go on behind a gap, in the other stream, or not at all."""
        found = self._in(self._rest, self._at - len(self._rest), most) if self._rest else []
        gap = self._log.gap(self.stream)
        if gap is not None and gap[0] <= self._at < gap[1]:
            self._begin_at(gap[1])
        elif self.stream == 0:
            self.stream = 1
            self._begin_at(0)
        else:
            self._begin_at(self._at)
            self.is_over = True
        return found

    def _begin_at(self, offset: int) -> None:
        self._at = self._line_start = offset
        self._rest = b""
        self._hidden = ()
        self._is_cut = self._is_found = False
