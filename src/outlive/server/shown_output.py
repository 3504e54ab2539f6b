"""What an answer shows of processes: output up to a limit, the number of redacted secrets in it, and times;
what a search finds, without secrets (`search_once`).

Also checks the cursors that callers send (`check_within`), and starts a process's command again, as its
folder says that it was started (`start_again`). How an answer is laid out is each frontend's to decide.
"""

import asyncio
import os
import time
from collections.abc import Mapping
from datetime import datetime

import outlive
from outlive.core.cursor import Cursor, SearchPlace
from outlive.core.errors import CommandRefused, InvalidRequest
from outlive.core.location import HERE
from outlive.core.process import Owner, ProcessRecord
from outlive.core.redactions import Redactions
from outlive.core.values import dataclass
from outlive.engine import Engine, Process, ProcessFilter
from outlive.engine.output_search import SearchHit, Wanted
from outlive.operations.repetition import RepeatedProcess, Repetition, Rerun, repetition_of
from outlive.operations.search import SearchAnswer, SearchMatch, SearchRequest
from outlive.protocols.jsonrpc.output import STREAM_NAMES
from outlive.protocols.output.line_query import LineQuery
from outlive.protocols.plain import Clip, join_pieces, shown_ranges
from outlive.store.folder import read_start

_TURN_BYTES = 256 * 1024  # what the event loop may read in one turn


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownOutput:
    """Both streams as text; `redacted`: how many secrets were replaced by stars in them."""

    stdout: str
    stderr: str
    redacted: int


async def shown_output(process: Process, *, limit_bytes: int, more: str = "") -> ShownOutput:
    """Return stdout and stderr up to now, each at most `limit_bytes` and a mark, which says what shows
    `more`.

    Cancellation: safe; nothing is consumed.
    """
    texts = []
    redactions = Redactions()
    for stream in (0, 1):
        size = process.log.size(stream)
        pieces: list[Clip] = []
        for start, end in shown_ranges(size, limit_bytes):
            pieces.append(await _read(process, stream, start, end, redactions))
        named = more if size > limit_bytes else ""  # what the log no longer holds, nothing shows
        texts.append(join_pieces([piece for piece in pieces if piece.data], size, more=named))
    return ShownOutput(stdout=texts[0], stderr=texts[1], redacted=redactions.total)


async def _read(process: Process, stream: int, start: int, end: int, redactions: Redactions) -> Clip:
    """Read [start, end) up to the first byte that the log no longer holds."""
    data = bytearray()
    at = start
    while at < end:
        more, hidden = process.log.look(stream, min(_TURN_BYTES, end - at), at)
        if not more:
            break
        redactions.count(stream, at, at + len(more), hidden)
        data += more
        at += len(more)
        await asyncio.sleep(0)  # bounded work per turn
    return Clip(start, bytes(data))


def local_time(moment: datetime) -> str:
    """Return local time as the documents show it: ISO, naive, microseconds."""
    return moment.astimezone().replace(tzinfo=None).isoformat(timespec="microseconds")


def duration_s(record: ProcessRecord) -> float:
    """Return how long a process ran, or has been running."""
    begin = (record.started_at or record.created_at).timestamp()
    end = time.time() if record.ended_at is None else record.ended_at.timestamp()
    return max(0.0, end - begin)


def check_within(process: Process, cursor: Cursor) -> None:
    """Refuse a cursor behind the end of the output.

    Raises:
        InvalidRequest: `invalid_cursor`; the details name the end.
    """
    ends = (
        max(process.status.stdout_bytes, process.log.size(0)),
        max(process.status.stderr_bytes, process.log.size(1)),
    )
    if cursor.stdout > ends[0] or cursor.stderr > ends[1]:
        text = f"The cursor {cursor} lies behind the end of the output."
        raise InvalidRequest("invalid_cursor", text, details={"end": f"{ends[0]}.{ends[1]}"})


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


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedAgain:
    """The new process; `lacks_environment`: that of the program which asked for the first one was stored
    nowhere.
    """

    process: Process
    lacks_environment: bool


async def start_again(engine: Engine, process: Process, asked: Rerun, *, owner: Owner) -> StartedAgain:
    """Start the command of a process again on behalf of a caller; policy judges it as any other start.

    Raises:
        InvalidRequest: It is the shell of a terminal, or values of its secrets are missing.
        InvalidState: `name_taken`: it lives and has a name.
        CommandRefused: `profile_too_weak`: the caller lives in a process of ours with a stronger profile.
        OutliveError: As `Starts.start`.
    """
    try:
        await engine.as_(owner).check(process)
    except CommandRefused as error:
        engine.events.publish_refusal(owner, error.code, command=process.record.command)
        raise
    found = await asyncio.to_thread(_repetition_of, process)
    started = await engine.starts.start(found.to_command(asked), owner=owner)
    return StartedAgain(process=started, lacks_environment=found.lacks_environment)


def _repetition_of(process: Process) -> Repetition:
    record = process.record
    spec, script, path = read_start(process.folder)
    known = RepeatedProcess(
        process_id=record.process_id,
        command=record.command,
        shell=record.shell,
        redacted=record.redacted,
        timeout_s=record.timeout_s,
        grace_s=record.grace_s,
        profile=record.sandbox.profile.value,
        tags=record.tags,
        group=record.group,
        project=record.project,
        name=record.name,
        location=None if record.location == HERE else record.location.view(),
    )
    package = os.path.dirname(outlive.__file__)
    return repetition_of(spec, known, script=script, script_path=path, package=package)
