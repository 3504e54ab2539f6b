"""/v1/search: lines in the output of all of the caller's processes, streamed as they are found, one JSON
object a line.
"""

from collections.abc import AsyncIterator

import msgspec
import orjson
from starlette.responses import Response, StreamingResponse

from outlive.engine import Process
from outlive.frontends.rest.routes import RestCall
from outlive.operations.search import SearchAnswer
from outlive.protocols.rest.requests import OfProcess, SearchParameters, tags_of
from outlive.server.search_answers import search_once

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
