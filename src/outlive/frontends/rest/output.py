"""/v1/processes/{process_id}/output: by cursor, by range, the tail, a search; as JSON or as the bytes themselves."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from starlette.responses import Response, StreamingResponse

from outlive.core.cursor import Cursor
from outlive.core.errors import CursorExpired, InvalidRequest
from outlive.core.redactions import Redactions, redacted_member
from outlive.engine import Process
from outlive.frontends.rest.context import ProcessIdPath, RestContext, json_answer, problems
from outlive.frontends.rest.pages import (
    Extent,
    Matches,
    end_of,
    gaps_within,
    raw_pieces,
    read_pieces,
    redacted_in,
    search,
    start_of,
    stream_number,
    tail_of,
)
from outlive.protocols.jsonrpc.output import STREAM_NAMES
from outlive.protocols.jsonrpc.views import Encoding, page_view
from outlive.protocols.rest.answers import MatchPage, OutputPage
from outlive.server.shown_output import check_within
from outlive.store.output_log import OutputLog

_RAW = "application/octet-stream"
_MAX_OFFSET = 2**62  # pread and SQLite accept less than 2**63
_PAGE_BYTES = 65536
_200: dict[str, Any] = {
    "description": "A page of output, the lines that match `grep`, or the bytes themselves.",
    "content": {
        "application/json": {
            "schema": {
                "anyOf": [
                    {"$ref": "#/components/schemas/OutputPage"},
                    {"$ref": "#/components/schemas/MatchPage"},
                ]
            }
        },
        _RAW: {"schema": {"type": "string", "format": "binary"}},
    },
    "headers": {
        "Outlive-Cursor": {
            "description": "With bytes: the cursor behind them.",
            "schema": {"type": "string"},
        },
        "Outlive-Redacted": {
            "description": "With bytes: how many secrets are stars in them, where there are any; 3+: in the first 64 MiB.",
            "schema": {"type": "string"},
        },
        "Outlive-Gaps": {
            "description": "With bytes and skip_gaps: what was left out, as stream=from-to.",
            "schema": {"type": "string"},
        },
    },
}

_Stream = Annotated[
    Literal["both", "stdout", "stderr"],
    Query(description="Both come in the order in which they were written."),
]
_CursorText = Annotated[
    str | None,
    Query(
        description="Where to begin: the `cursor` of an earlier answer.", max_length=40, examples=["1024.0"]
    ),
]
_Offset = Annotated[int | None, Query(ge=0, le=_MAX_OFFSET, description="For one stream: a byte's number.")]
_Tail = Annotated[int | None, Query(ge=1, le=100_000, description="Only the last lines.")]
_Grep = Annotated[
    str | None,
    Query(min_length=1, max_length=1000, description="Only lines that contain this text (no pattern)."),
]
_IgnoreCase = Annotated[bool, Query(description="With grep: ASCII letters in either case.")]
_Around = Annotated[int, Query(ge=0, le=100, description="With grep: lines around each match.")]
_Most = Annotated[int, Query(ge=1, le=1000, description="With grep: at most this many lines.")]
_Limit = Annotated[
    int | None,
    Query(
        ge=1,
        le=_MAX_OFFSET,
        description="Bytes. A page has at most 256 KiB (64 KiB unless given), an answer in bytes as many as you like.",
    ),
]
_Format = Annotated[
    Literal["json", "raw"] | None,
    Query(description=f"raw: the bytes themselves, as `Accept: {_RAW}` asks for, too."),
]
_SkipGaps = Annotated[
    bool, Query(description="With bytes: leave out what is no longer kept, rather than refuse.")
]

_Raw = Annotated[bool, Query(description="Hide no secrets; needs the scope admin, and is not for grep.")]


class OutputRoutes:
    """The route of what a process has written."""

    def __init__(self, context: RestContext) -> None:
        """Answer from `context`."""
        self._context = context

    def add_to(self, router: APIRouter) -> None:
        """Register the route."""
        router.add_api_route(
            "/processes/{process_id}/output",
            self.read,
            response_model=OutputPage | MatchPage,
            responses={200: _200, **problems(404, 410)},
        )

    async def read(
        self,
        request: Request,
        process_id: ProcessIdPath,
        *,
        stream: _Stream = "both",
        cursor: _CursorText = None,
        start: _Offset = None,
        end: _Offset = None,
        tail: _Tail = None,
        grep: _Grep = None,
        ignore_case: _IgnoreCase = False,
        context: _Around = 0,
        matches: _Most = 100,
        limit: _Limit = None,
        encoding: Annotated[Encoding, Query(description="Of the data in a page.")] = "utf-8",
        format: _Format = None,  # noqa: A002 -- the parameter's name in the address
        skip_gaps: _SkipGaps = False,
        raw: _Raw = False,
    ) -> Response:
        """Read output that was written: from a cursor, a range of one stream, the last lines, or lines with a text."""
        process = await self._context.find(process_id)
        log = process.raw_log if raw else process.log  # nothing of it leaves before `read_raw`
        number = stream_number(stream)
        has_range = start is not None or end is not None
        if (cursor is not None) + (tail is not None) + has_range > 1:
            raise InvalidRequest("invalid_params", "Pass one of cursor, tail and a range (start, end).")
        if grep is not None:
            if tail is not None or has_range or raw:
                raise InvalidRequest("invalid_params", "grep goes with a cursor only.")
            found = await search(
                process,
                grep,
                cursor=start_of(cursor),
                stream=number,
                is_case_sensitive=not ignore_case,
                context=context,
                most=matches,
                stopping=self._context.stopping,
            )
            return json_answer(_matched(process, found))
        if has_range:
            extent = _range(log, number, start or 0, end)
        else:
            begin = start_of(cursor) if tail is None else await tail_of(process, tail, number)
            extent = _rest(process, log, number, begin)
        if format == "raw" or (format is None and _wants_bytes(request)):
            extent = _limited(extent, limit)
            if raw:
                await self._tell_raw(process_id, extent.begin, extent.end)
            redacted = "0" if raw else await redacted_in(process, extent)
            return _raw_answer(log, extent, skips_gaps=skip_gaps, redacted=redacted)
        page, following = _page(
            process, log, extent, limit or _PAGE_BYTES, encoding=encoding, has_end=end is not None
        )
        if raw:
            await self._tell_raw(process_id, extent.begin, following)
        return json_answer(page)

    async def _tell_raw(self, process_id: str, begin: Cursor, end: Cursor) -> None:
        await self._context.engine.as_(self._context.owner()).read_raw(process_id, begin, end)


def _matched(process: Process, found: Matches) -> dict[str, object]:
    return {
        "process_id": process.process_id,
        "matches": found.lines,
        "cursor": str(found.cursor),
        "more": found.has_more,
        "completed": process.is_complete,
        **redacted_member(found.redacted),
    }


def _wants_bytes(request: Request) -> bool:
    accepted = request.headers.get("accept", "")
    return any(one.split(";")[0].strip().lower() == _RAW for one in accepted.split(","))


def _range(log: OutputLog, stream: int | None, start: int, end: int | None) -> Extent:
    """Return a range of one stream, as far as it is there."""
    if stream is None:
        raise InvalidRequest("invalid_params", "A range is of one stream: pass stream=stdout or stderr.")
    now = end_of(log)
    size = (now.stdout, now.stderr)[stream]
    last = size if end is None else min(end, size)
    if start > size or (end is not None and end < start):
        raise InvalidRequest("invalid_params", f"The stream has {size} bytes.", details={"size": size})
    return Extent(_placed(now, stream, start), _placed(now, stream, last), stream)


def _rest(process: Process, log: OutputLog, stream: int | None, begin: Cursor) -> Extent:
    """Return what lies behind a cursor now."""
    check_within(process, begin)
    now = end_of(log)
    if stream is not None:  # the other half of the cursor stands still
        now = _placed(begin, stream, (now.stdout, now.stderr)[stream])
    return Extent(begin, now, stream)


def _placed(cursor: Cursor, stream: int, offset: int) -> Cursor:
    return Cursor(cursor.stdout, offset) if stream else Cursor(offset, cursor.stderr)


def _page(
    process: Process, log: OutputLog, extent: Extent, limit: int, *, encoding: Encoding, has_end: bool
) -> tuple[dict[str, object], Cursor]:
    """Return a page of output, and the cursor behind it."""
    is_closed = process.is_closed
    redactions = Redactions()
    pieces = read_pieces(log, extent, limit, redactions)
    ends = [extent.begin.stdout, extent.begin.stderr]
    for piece in pieces:
        ends[piece.stream] = piece.end
    is_last = Cursor(*ends) == extent.end and (has_end or is_closed)
    shown, following = page_view(pieces, extent.begin, encoding=encoding, is_last=is_last)
    page = {
        "process_id": process.process_id,
        "chunks": shown,
        "cursor": str(following),
        "more": following != extent.end,
        "completed": process.is_complete,
        **redacted_member(redactions.total),
    }
    return page, following


def _limited(extent: Extent, limit: int | None) -> Extent:
    if limit is None:
        return extent
    if extent.stream is None:
        raise InvalidRequest("invalid_params", "With bytes a limit is of one stream: pass stream.")
    begin = (extent.begin.stdout, extent.begin.stderr)[extent.stream]
    last = min(begin + limit, (extent.end.stdout, extent.end.stderr)[extent.stream])
    return Extent(extent.begin, _placed(extent.end, extent.stream, last), extent.stream)


def _raw_answer(log: OutputLog, extent: Extent, *, skips_gaps: bool, redacted: str) -> Response:
    gaps = gaps_within(log, extent)
    shown = [{"type": STREAM_NAMES[stream], "from": first, "to": last} for stream, first, last in gaps]
    if gaps and not skips_gaps:
        raise CursorExpired(
            "cursor_expired",
            "Some of this output is no longer kept.",
            hint="Pass skip_gaps=true to have the rest.",
            details={"gaps": shown},
        )
    size = sum(extent.sizes) - sum(last - first for _, first, last in gaps)
    headers = {
        "Cache-Control": "no-store",
        "Content-Length": str(size),
        "Outlive-Cursor": str(extent.end),
        "X-Content-Type-Options": "nosniff",
    }
    if redacted != "0":
        headers["Outlive-Redacted"] = redacted
    if gaps:
        headers["Outlive-Gaps"] = ", ".join(f"{one['type']}={one['from']}-{one['to']}" for one in shown)
    body = raw_pieces(log, extent, skips_gaps=skips_gaps)
    return StreamingResponse(body, media_type=_RAW, headers=headers)
