"""What a search through output finds, as every door answers it: `search_once`, one slice of a search.

The search itself is the engine's; here are the texts in which its matches leave, without their secrets.
"""

from collections.abc import Mapping

from outlive.core.cursor import SearchPlace
from outlive.core.process import ProcessRecord
from outlive.engine import Engine, Process, ProcessFilter
from outlive.engine.output_search import SearchHit, Wanted
from outlive.operations.search import SearchAnswer, SearchMatch, SearchRequest
from outlive.protocols.jsonrpc.output import STREAM_NAMES
from outlive.protocols.output.line_query import LineQuery

# A slice ends after so long also where nothing was found: the caller sees that it goes on, and may stop it.
SLICE_S = 1.0
_COMMAND_CHARACTERS = 200


async def search_once(
    engine: Engine,
    asked: SearchRequest,
    *,
    principal: str,
    only: Process | None = None,
    tags: Mapping[str, str] | None = None,
) -> SearchAnswer:
    """Return what a search finds within a second, and where it goes on; `only` is the process that
    `process_id` means.

    Raises:
        InvalidRequest: The text is no regular expression, or the cursor is none.

    Cancellation: safe.
    """
    wanted = Wanted(
        query=LineQuery(asked.text, is_regex=asked.regex, ignores_case=asked.ignore_case),
        processes=ProcessFilter(
            principal=principal, detached=True, project=asked.project, group=asked.group, tags=tags
        ),
        only=None if only is None else only.record,
        context=asked.context,
        most_each=asked.each,
    )
    begin = None if asked.cursor is None else SearchPlace.parse(asked.cursor)
    found = await engine.search.find(wanted, begin=begin, limit=asked.limit, within_s=SLICE_S)
    return SearchAnswer(
        matches=[_match(one) for one in found.hits],
        next=None if found.next is None else str(found.next),
        processes=found.processes,
        read_bytes=found.read_bytes,
        searched_bytes=found.searched_bytes,
        left_bytes=found.left_bytes,
        unreadable=found.unreadable,
    )


def _match(hit: SearchHit) -> SearchMatch:
    record, line = hit.record, hit.line
    return SearchMatch(
        process_id=record.process_id,
        name=record.name,
        short_id=_short_id(record),
        project=record.project,
        command=record.command[:_COMMAND_CHARACTERS],
        type=STREAM_NAMES[line.stream],
        offset=line.offset,
        end=line.end,
        hit=line.hit,
        hit_end=line.hit_end,
        at=line.written_before,
        line=_text(line.data),
        line_from=line.shown_from,
        truncated=len(line.data) < line.end - line.offset,
        before=[_text(one) for one in line.before],
        after=[_text(one) for one in line.after],
        redacted=line.redacted,
    )


def _short_id(record: ProcessRecord) -> str | None:
    return None if record.number is None else record.short_id


def _text(line: bytes) -> str:
    return line.decode("utf-8", "replace")
