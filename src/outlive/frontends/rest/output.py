"""/v1/processes/{process_id}/output: by cursor, by range, the tail, a search, as JSON or as the bytes
themselves; and /v1/search, through the output of all of the caller's processes, streamed as lines of JSON.

The event loop reads at most 256 KiB a turn; what takes longer is done in a thread, on a log of its own: so is
the place found where an answer begins (`begin_of`). Nothing is consumed.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator

import msgspec
import orjson
from starlette.requests import HTTPConnection
from starlette.responses import Response, StreamingResponse

from outlive.core.cursor import BEGINNING, Cursor
from outlive.core.errors import CursorExpired, InvalidRequest
from outlive.core.redactions import Redactions, redacted_member
from outlive.core.values import dataclass, replace
from outlive.engine import Process
from outlive.frontends.rest.routes import Members, RestCall
from outlive.operations.requests import moment_ns
from outlive.operations.search import SearchAnswer
from outlive.protocols.jsonrpc.output import STREAM_NAMES
from outlive.protocols.jsonrpc.views import Piece, page_view
from outlive.protocols.plain import CleanText
from outlive.protocols.rest.answers import match_view
from outlive.protocols.rest.requests import OfProcess, OutputParameters, SearchParameters, tags_of
from outlive.protocols.terminal.asciicast import Asciicast
from outlive.server.shown_output import check_within, search_once
from outlive.store.folder import read_sizes
from outlive.store.output_log import MAX_PREAD_BYTES, OutputLog
from outlive.store.search.log_lines import LogLine
from outlive.store.search.log_search import LineFinder, LogSearch, position_of, tail_start

# of 256 KiB each, in one visit to a thread: some 10 ms; then it is asked whether the caller is still there
_LINE_TURNS = 256


async def begin_of(
    process: Process,
    asked: OutputParameters,
    *,
    stream: int | None,
    has_range: bool,
    connection: HTTPConnection,
) -> Cursor:
    """Return the cursor at which what is asked for begins; the beginning if nothing says otherwise.

    Raises:
        InvalidRequest: More than one place is asked for, or one makes no sense.
    """
    places = (asked.cursor, asked.at, asked.since, asked.line, asked.tail)
    if sum(one is not None for one in places) + has_range > 1:
        raise InvalidRequest(
            "invalid_params", "Pass one of cursor, at, since, line, tail and a range (start, end)."
        )
    if asked.tail is not None:
        count = asked.tail
        return await _found(process, lambda log: tail_start(log, count, stream=stream))
    if asked.at is not None:
        position = asked.at
        return await _found(process, lambda log: _behind(log, position))
    if asked.since is not None:
        time_ns = moment_ns("since", asked.since)
        return await _found(process, lambda log: log.cursor_at(time_ns))
    if asked.line is not None:
        return await _line(process, asked.line, connection)
    return start_of(asked.cursor)


def start_of(text: str | None) -> Cursor:
    """Read a cursor; None is the beginning."""
    return BEGINNING if text is None else Cursor.parse(text)


async def _found(process: Process, find: Callable[[OutputLog], Cursor]) -> Cursor:
    def look() -> Cursor:
        log = process.open_log()
        try:
            return find(log)
        finally:
            log.close()

    return await asyncio.to_thread(look)


def _behind(log: OutputLog, count: int) -> Cursor:
    """Return the cursor behind the first `count` bytes of both streams, in the order of writing.

    The end if there are fewer.
    """
    now = log.end
    return log.tail_cursor(max(0, now.stdout + now.stderr - count))


async def _line(process: Process, number: int, connection: HTTPConnection) -> Cursor:
    """Return the cursor before a line, or the end of a log that has fewer.

    About a gigabyte is counted in a second.
    """
    log = process.open_log()
    finding = LineFinder(log, number)

    def visit() -> None:
        for _ in range(_LINE_TURNS):
            if finding.is_over:
                return
            finding.turn()

    # The descriptors are closed with the last reference: a cancelled request may leave a visit behind.
    while not finding.is_over and not await _is_gone(connection):
        await asyncio.to_thread(visit)
    return finding.cursor


async def _is_gone(connection: HTTPConnection) -> bool:
    is_disconnected = getattr(connection, "is_disconnected", None)
    return bool(await is_disconnected()) if is_disconnected else False


BYTES_TYPE = "application/octet-stream"
ASCIICAST_TYPE = "application/x-asciicast"
_PAGE_BYTES = 65536
_TURNS = 32  # of 256 KiB each, in one visit to a thread: some ms, and it can be stopped between two
# One request searches at most this much; then the cursor says where to go on.
_MOST_SEARCHED_BYTES = 1024**3
_OTHER_PLACES = ("at", "since", "line", "tail")  # where to begin, beside a cursor
_COUNTED_BYTES = 64 * 1024**2  # some 50 ms in a thread


@dataclass(frozen=True, slots=True)
class Extent:
    """From where to where; `stream` None means both in the order of writing, else the other half stands
    still.
    """

    begin: Cursor
    end: Cursor
    stream: int | None

    @property
    def sizes(self) -> tuple[int, int]:
        """How many bytes of stdout and of stderr lie between."""
        out = max(0, self.end.stdout - self.begin.stdout)
        err = max(0, self.end.stderr - self.begin.stderr)
        return (0 if self.stream == 1 else out, 0 if self.stream == 0 else err)


def read_pieces(
    log: OutputLog, extent: Extent, limit_bytes: int, redactions: Redactions, *, has_times: bool = False
) -> list[Piece]:
    """Return the next pieces, at most 256 KiB; none means that there is nothing up to the end of `extent`.

    `redactions` counts what one reader is shown. `has_times`: they say when they were written.
    """
    limit = min(limit_bytes, MAX_PREAD_BYTES)
    if extent.stream is not None:
        return _read_one(log, extent, extent.stream, limit, redactions)
    ends = (extent.end.stdout, extent.end.stderr)
    pieces = []
    for chunk in log.read(extent.begin, limit):
        end = min(chunk.end, ends[chunk.stream])
        if end > chunk.offset:
            data = None if chunk.is_gap else chunk.data[: end - chunk.offset]
            redacted = redactions.count(chunk.stream, chunk.offset, end, chunk.hidden)
            pieces.append(
                Piece(chunk.stream, chunk.offset, end, data, redacted, chunk.time_ns if has_times else 0)
            )
    return pieces


def _read_one(log: OutputLog, extent: Extent, stream: int, limit: int, redactions: Redactions) -> list[Piece]:
    places = (extent.begin.stderr, extent.end.stderr) if stream else (extent.begin.stdout, extent.end.stdout)
    begin, end = places
    if begin >= end:
        return []
    data, hidden = log.look(stream, min(limit, end - begin), begin)
    if data:
        last = begin + len(data)
        return [Piece(stream, begin, last, data, redactions.count(stream, begin, last, hidden))]
    gap = log.gap(stream)
    if gap is not None and gap[0] <= begin < gap[1]:
        return [Piece(stream, begin, min(gap[1], end), None)]
    return []


def gaps_within(log: OutputLog, extent: Extent) -> list[tuple[int, int, int]]:
    """Return (stream, from, to) of what the log no longer holds of `extent`."""
    found = []
    places = ((extent.begin.stdout, extent.end.stdout), (extent.begin.stderr, extent.end.stderr))
    for stream, (begin, end) in enumerate(places):
        gap = log.gap(stream) if extent.sizes[stream] else None
        if gap is not None and max(begin, gap[0]) < min(end, gap[1]):
            found.append((stream, max(begin, gap[0]), min(end, gap[1])))
    return found


def behind(pieces: Iterable[Piece], begin: Cursor) -> Cursor:
    """Return the cursor behind pieces that begin at `begin`."""
    ends = [begin.stdout, begin.stderr]
    for piece in pieces:
        ends[piece.stream] = piece.end
    return Cursor(*ends)


def _all_pieces(log: OutputLog, extent: Extent, redactions: Redactions) -> Iterator[list[Piece]]:
    """Yield the pieces of an extent, as many at a time as the event loop may read."""
    begin = extent.begin
    while pieces := read_pieces(
        log, replace(extent, begin=begin), MAX_PREAD_BYTES, redactions, has_times=True
    ):
        yield pieces
        begin = behind(pieces, begin)


async def read(call: RestCall, asked: OutputParameters) -> Response | Members:
    """Read output that was written: from a cursor, a range of one stream, the last lines, or lines with a
    text.
    """
    process = await call.find(asked)
    log = process.raw_log if asked.raw else process.log  # nothing of it leaves before `read_raw`
    stream = None if asked.stream == "both" else STREAM_NAMES.index(asked.stream)
    has_range = asked.start is not None or asked.end is not None
    if asked.times and (stream is not None or has_range):
        raise InvalidRequest("invalid_params", "times are those of both streams: leave out stream and range.")
    if asked.grep is not None:
        if has_range or asked.raw or any(getattr(asked, name) is not None for name in _OTHER_PLACES):
            raise InvalidRequest("invalid_params", "grep goes with a cursor only.")
        return await _search(process, asked.grep, stream, asked, call.context.stopping)
    begin = await begin_of(process, asked, stream=stream, has_range=has_range, connection=call.connection)
    extent = (
        _range(log, stream, asked.start or 0, asked.end) if has_range else _rest(process, log, stream, begin)
    )
    if asked.format in {"raw", "clean", "asciicast"} or (
        asked.format is None and _wants_bytes(call.connection)
    ):
        extent = _limited(extent, asked.limit)
        if asked.raw:
            await call.acting.read_raw(process.process_id, extent.begin, extent.end)
        redacted = "0" if asked.raw else await _redacted_in(process, extent)
        if asked.format != "asciicast":
            return _bytes_answer(log, extent, asked, redacted=redacted)
        sizes = await asyncio.to_thread(read_sizes, process.folder)
        recording = Asciicast([(one.offset, one.rows, one.cols) for one in sizes])
        return StreamingResponse(
            _played(log, extent, recording), media_type=ASCIICAST_TYPE, headers={"Cache-Control": "no-store"}
        )
    page, following = _page(process, log, extent, asked)
    if asked.times:
        page |= await _of_times(process, extent.begin)
    if asked.raw:
        await call.acting.read_raw(process.process_id, extent.begin, following)
    return page


def _wants_bytes(connection: HTTPConnection) -> bool:
    accepted = connection.headers.get("accept", "")
    return any(one.split(";")[0].strip().lower() == BYTES_TYPE for one in accepted.split(","))


def _range(log: OutputLog, stream: int | None, start: int, end: int | None) -> Extent:
    """Return a range of one stream, as far as it is there."""
    if stream is None:
        raise InvalidRequest("invalid_params", "A range is of one stream: pass stream=stdout or stderr.")
    now = log.end
    size = (now.stdout, now.stderr)[stream]
    last = size if end is None else min(end, size)
    if start > size or (end is not None and end < start):
        raise InvalidRequest("invalid_params", f"The stream has {size} bytes.", details={"size": size})
    return Extent(_placed(now, stream, start), _placed(now, stream, last), stream)


def _rest(process: Process, log: OutputLog, stream: int | None, begin: Cursor) -> Extent:
    """Return what lies behind a cursor now."""
    check_within(process, begin)
    now = log.end
    if stream is not None:  # the other half of the cursor stands still
        now = _placed(begin, stream, (now.stdout, now.stderr)[stream])
    return Extent(begin, now, stream)


def _placed(cursor: Cursor, stream: int, offset: int) -> Cursor:
    return Cursor(cursor.stdout, offset) if stream else Cursor(offset, cursor.stderr)


def _page(
    process: Process, log: OutputLog, extent: Extent, asked: OutputParameters
) -> tuple[dict[str, object], Cursor]:
    """Return a page of output, and the cursor behind it."""
    # Asked before the read: a stream that is closed then gets nothing behind what is read.
    is_over = asked.end is not None or process.status.is_closed
    redactions = Redactions()
    pieces = read_pieces(log, extent, asked.limit or _PAGE_BYTES, redactions, has_times=asked.times)
    is_last = is_over and behind(pieces, extent.begin) == extent.end
    shown, following = page_view(pieces, extent.begin, encoding=asked.encoding, is_last=is_last)
    page = {
        "process_id": process.process_id,
        "chunks": shown,
        "cursor": str(following),
        "more": following != extent.end,
        "completed": process.status.is_complete,
        **redacted_member(redactions.total),
    }
    return page, following


async def _played(log: OutputLog, extent: Extent, recording: Asciicast) -> AsyncIterator[bytes]:
    """Yield the lines of a recording; what the log no longer holds is left out."""
    for pieces in _all_pieces(log, extent, Redactions()):
        for piece in pieces:
            if piece.data is not None and (lines := recording.feed(piece.start, piece.data, piece.time_ns)):
                yield lines
        await asyncio.sleep(0)  # one long recording must not starve the rest


def _cleaned(text: CleanText, pieces: Iterable[tuple[int, bytes]]) -> bytes:
    return b"".join(text.feed(stream, data) for stream, data in pieces)


async def _of_times(process: Process, begin: Cursor) -> dict[str, object]:
    """Return where a page begins among both streams, and of a terminal the sizes that were noted."""
    sizes = await asyncio.to_thread(read_sizes, process.folder) if process.record.stdio == "pty" else []
    shown = [{"at": one.offset, "rows": one.rows, "cols": one.cols} for one in sizes]
    return {"at": begin.stdout + begin.stderr, **({"sizes": shown} if shown else {})}


def _limited(extent: Extent, limit: int | None) -> Extent:
    if limit is None:
        return extent
    if extent.stream is None:
        raise InvalidRequest("invalid_params", "With bytes a limit is of one stream: pass stream.")
    begin = (extent.begin.stdout, extent.begin.stderr)[extent.stream]
    last = min(begin + limit, (extent.end.stdout, extent.end.stderr)[extent.stream])
    return Extent(extent.begin, _placed(extent.end, extent.stream, last), extent.stream)


def _bytes_answer(log: OutputLog, extent: Extent, asked: OutputParameters, *, redacted: str) -> Response:
    gaps = gaps_within(log, extent)
    shown = [{"type": STREAM_NAMES[stream], "from": first, "to": last} for stream, first, last in gaps]
    if gaps and not asked.skip_gaps:
        raise CursorExpired(
            "cursor_expired",
            "Some of this output is no longer kept.",
            hint="Pass skip_gaps=true to have the rest.",
            details={"gaps": shown},
        )
    size = sum(extent.sizes) - sum(last - first for _, first, last in gaps)
    headers = {
        "Cache-Control": "no-store",
        "Outlive-Cursor": str(extent.end),
        "X-Content-Type-Options": "nosniff",
    }
    if redacted != "0":
        headers["Outlive-Redacted"] = redacted
    if gaps:
        headers["Outlive-Gaps"] = ", ".join(f"{one['type']}={one['from']}-{one['to']}" for one in shown)
    body = _bytes_of(log, extent, skips_gaps=asked.skip_gaps)
    if asked.format == "clean":
        return StreamingResponse(_clean(log, extent), media_type="text/plain", headers=headers)
    headers["Content-Length"] = str(size)
    return StreamingResponse(body, media_type=BYTES_TYPE, headers=headers)


async def _clean(log: OutputLog, extent: Extent) -> AsyncIterator[bytes]:
    """Yield the text of `extent`; how long it is becomes known at its end."""
    text = CleanText()
    for pieces in _all_pieces(log, extent, Redactions()):
        kept = [(piece.stream, piece.data) for piece in pieces if piece.data is not None]
        # Some ms for 256 KiB: in a thread.
        if lines := await asyncio.to_thread(_cleaned, text, kept):
            yield lines
    if rest := text.rest():
        yield rest


async def _bytes_of(log: OutputLog, extent: Extent, *, skips_gaps: bool) -> AsyncIterator[bytes]:
    """Yield the bytes of `extent`.

    Raises:
        CursorExpired: Some of it was released meanwhile; what was yielded before is right.
    """
    # How many secrets are stars was said in the head of the answer, before.
    for pieces in _all_pieces(log, extent, Redactions()):
        if not skips_gaps and any(piece.data is None for piece in pieces):
            raise CursorExpired("cursor_expired", "Output was released while it was read.")
        yield b"".join(piece.data for piece in pieces if piece.data is not None)
        await asyncio.sleep(0)  # one large answer must not starve the rest


async def _redacted_in(process: Process, extent: Extent) -> str:
    """Return how many secrets `extent` shows as stars, as the head of an answer has it: "0", "3", or "3+" of
    more than 64 MiB.

    What lies behind that much is not looked through: an answer would wait for it.
    """
    redactions = Redactions()

    def look() -> bool:
        log = process.open_log()
        at, left = extent.begin, _COUNTED_BYTES
        try:
            for pieces in _all_pieces(log, extent, redactions):
                at = behind(pieces, at)
                left -= sum(piece.end - piece.start for piece in pieces)
                if left <= 0:
                    return at == extent.end
        finally:
            log.close()
        return True

    is_all = await asyncio.to_thread(look)
    return f"{redactions.total}{'' if is_all else '+'}"


async def _search(
    process: Process, text: str, stream: int | None, asked: OutputParameters, stopping: asyncio.Event
) -> Members:
    """Return the first lines from the cursor on that contain `text`.

    Raises:
        InvalidRequest: No line can contain it.
    """
    begin = start_of(asked.cursor)
    is_complete = process.status.is_complete  # asked before the search: then it sees everything
    log = process.open_log()
    searching = LogSearch(
        log,
        text.encode(),
        cursor=begin,
        streams=frozenset({0, 1} if stream is None else {stream}),
        is_case_sensitive=not asked.ignore_case,
        context=asked.context,
    )
    most = asked.matches
    found: list[LogLine] = []
    visited = 0

    def visit() -> None:
        for _ in range(_TURNS):
            if searching.is_over or len(found) >= most:
                return
            found.extend(searching.turn(most - len(found)))

    # The descriptors are closed with the last reference: a cancelled request may leave a visit behind.
    while not (searching.is_over or len(found) >= most or stopping.is_set()):
        if visited * _TURNS * MAX_PREAD_BYTES >= _MOST_SEARCHED_BYTES:
            break
        await asyncio.to_thread(visit)
        visited += 1
    if searching.is_over and is_complete and len(found) < most:
        found += await asyncio.to_thread(searching.last)
    places = await asyncio.to_thread(lambda: [position_of(log, one.stream, one.offset) for one in found])
    return {
        "process_id": process.process_id,
        "matches": [
            match_view(one.stream, one.offset, one.end, one.data, one.before, one.after, at=at)
            for one, at in zip(found, places, strict=True)
        ],
        "cursor": str(searching.cursor),
        "more": not searching.is_over,
        "completed": process.status.is_complete,
        **redacted_member(sum(one.redacted for one in found)),
    }


LINES = "application/x-ndjson"
# the same lines for callers that ask for it: generated clients know no other type for what is no document
TEXT = "text/plain"
_HEADERS = {  # proxies must not hold lines back
    "Cache-Control": "no-store, no-transform",
    "X-Accel-Buffering": "no",
    "X-Content-Type-Options": "nosniff",
}


async def search(call: RestCall, asked: SearchParameters) -> Response:
    """Find lines in the output of your processes, the newest first. Hang up to stop it."""
    only = None
    if asked.process_id is not None:
        only = await call.find(OfProcess(process_id=asked.process_id, project=asked.project))
    # The first slice before the head of the answer: what is wrong with the request is a problem, not a line.
    first = await _slice(call, asked, only)
    accepted = call.connection.headers.get("accept", "")
    kind = TEXT if TEXT in accepted and LINES not in accepted else LINES
    return StreamingResponse(_lines(call, asked, only, first), media_type=kind, headers=_HEADERS)


async def _slice(call: RestCall, asked: SearchParameters, only: Process | None) -> SearchAnswer:
    return await search_once(
        call.engine, asked, principal=call.access.principal, only=only, tags=tags_of(asked.tag)
    )


async def _lines(
    call: RestCall, asked: SearchParameters, only: Process | None, found: SearchAnswer
) -> AsyncIterator[bytes]:
    """Yield the lines of the answer; when its caller leaves this is cancelled, and the search with it."""
    left = asked.limit
    while True:
        left -= len(found.matches)
        is_over = found.next is None or left <= 0 or call.context.stopping.is_set()
        searched = {
            "processes": found.processes,
            "read_bytes": found.read_bytes,
            "searched_bytes": found.searched_bytes,
            "left_bytes": found.left_bytes,
            "unreadable": found.unreadable,
        }
        lines: list[object] = [{"match": msgspec.to_builtins(one)} for one in found.matches]
        lines.append({"searched": searched})
        if is_over:
            why = "all" if found.next is None else "limit" if left <= 0 else "stopping"
            lines.append({"next": found.next, "why": why})
        yield b"".join(orjson.dumps(one) + b"\n" for one in lines)
        if is_over:
            return
        asked = msgspec.structs.replace(asked, cursor=found.next, limit=left)
        found = await _slice(call, asked, only)
