"""A search through the output of all processes of a project, newest first, as a model reads it: `find_everywhere`. Nothing is consumed.

The search is the engine's (`engine.output_search`), in slices. Here is decided how long it goes on for one answer, what of it the
answer has room for, and where the next call goes on.
"""

import asyncio
import contextlib
from dataclasses import dataclass, field
from itertools import groupby

import msgspec

from outlive.core.cursor import Cursor, SearchPlace
from outlive.core.errors import OutliveError
from outlive.core.identity import ProcessId, short_name
from outlive.core.redactions import hidden_words
from outlive.frontends.mcp.tools.calls import Outcome
from outlive.frontends.mcp.tools.lean_answers import listed
from outlive.frontends.mcp.tools.output.search import SEARCH_S
from outlive.frontends.mcp.tools.runner import ToolCall
from outlive.operations.search import SearchMatch, SearchRequest
from outlive.protocols.jsonrpc.output import STREAM_NAMES
from outlive.protocols.mcp.lean import ReadArguments
from outlive.protocols.output.binary import with_visible_nuls
from outlive.protocols.output.body import FAILURE_BUDGET
from outlive.protocols.output.matches import cut_around, quoted
from outlive.protocols.output.pattern import Pattern
from outlive.protocols.plain import Line, strip_ansi
from outlive.server.search_answers import search_once

# Of one process: a log in which every line matches must not be the whole answer. The mark names the call that shows the rest.
_EACH = 10
_AT_ONCE = 50  # matches of one slice: about as many as an answer has room for
_HEADER_CHARACTERS = 160  # that a process's own line takes, about


@dataclass(slots=True)
class _Found:
    """What the answer shows so far.

    Attributes:
        shown: Matches, in the order of the search, each with its lines.
        room: Characters that are left.
        redacted: Secrets that are stars in what is shown.
        more: Processes of which more lines match.
        last: The place behind what was taken: where to go on if there is no room for the next one.
    """

    room: int
    last: SearchPlace | None
    shown: list[tuple[ProcessId, list[str]]] = field(default_factory=list)
    redacted: int = 0
    more: set[ProcessId] = field(default_factory=set)

    def take(self, match: SearchMatch, lines: list[str]) -> bool:
        """Take the next match, if there is room; the first one is taken in any case."""
        process_id = ProcessId(match.process_id)
        # Of a process that an earlier answer has begun with, that one's lines count, too.
        of_it = self.last.found if self.last is not None and self.last.process_id == process_id else 0
        if of_it >= _EACH:
            self.more.add(process_id)
        else:
            size = sum(len(one) + 1 for one in lines)
            if not self.shown or self.shown[-1][0] != process_id:
                size += _HEADER_CHARACTERS
            if self.shown and size > self.room:
                return False
            self.room -= size
            self.redacted += match.redacted
            self.shown.append((process_id, lines))
        self.last = SearchPlace(
            process_id=process_id,
            stream=STREAM_NAMES.index(match.type),
            offset=match.end + 1,
            found=of_it + 1,
        )
        return True


async def find_everywhere(call: ToolCall, asked: ReadArguments) -> Outcome:
    """Find lines in the output of all processes of the caller's project, of its principal with `all_projects`.

    Raises:
        InvalidRequest: The cursor is none of a search.

    Cancellation: safe; the search ends within a moment.
    """
    assert asked.grep is not None, "the arguments say so"
    pattern = Pattern(asked.grep)
    begin = None if asked.cursor in (None, "0") else SearchPlace.parse(asked.cursor)
    found = _Found(room=FAILURE_BUDGET if asked.budget is None else asked.budget, last=begin)
    following, unreadable = await _search(call, asked, pattern, found)
    marks = []
    if pattern.is_literal:
        marks.append("[grep is no regular expression of RE2, which has no look-around: taken as plain text]")
    if not found.shown:
        marks.append("[no line matches so far]" if following else "[no line matches]")
    blocks = [
        await _block(call, process_id, [line for _, lines in part for line in lines], asked, found)
        for process_id, part in groupby(found.shown, key=lambda one: one[0])
    ]
    if found.redacted:
        blocks.append(f"[{hidden_words(found.redacted)}]")
    if unreadable:
        blocks.append(f"[the output of {unreadable} processes cannot be read]")
    if following is not None:
        everywhere = ", all_projects=true" if asked.all_projects else ""
        call_on = f'read(grep={quoted(asked.grep)}, cursor="{following}"{everywhere})'
        blocks.append(f"[older output was not searched yet: {call_on}]")
    return Outcome(text="\n".join([*marks, *blocks]))


async def _search(
    call: ToolCall, asked: ReadArguments, pattern: Pattern, found: _Found
) -> tuple[str | None, int]:
    """Search until the answer is full, or the time is up; return where to go on, and how many outputs cannot be read."""
    caller = call.caller
    wanted = SearchRequest(
        text=pattern.text,
        regex=not pattern.is_literal,
        ignore_case=not pattern.is_case_sensitive,
        context=asked.context,
        project=None if asked.all_projects else caller.project_root,
        each=_EACH + 1,  # one more than is shown tells that there are more
        limit=_AT_ONCE,
        cursor=None if found.last is None else str(found.last),
    )
    clock = asyncio.get_running_loop().time
    deadline = clock() + SEARCH_S
    unreadable = 0
    while True:
        slice_ = await search_once(call.runner.engine, wanted, principal=caller.principal)
        unreadable += slice_.unreadable
        for match in slice_.matches:
            if not found.take(match, _lines(match, pattern, raw=asked.raw)):
                return str(found.last), unreadable
        if slice_.next is None or clock() > deadline or found.room <= 0:
            return slice_.next, unreadable
        wanted = msgspec.structs.replace(wanted, cursor=slice_.next)


def _lines(match: SearchMatch, pattern: Pattern, *, raw: bool) -> list[str]:
    """Return a match, and the lines around it, as they are shown."""

    def shown(text: str, *, is_match: bool) -> str:
        text = text if raw else strip_ansi(with_visible_nuls(text))
        hit = 0
        if is_match:
            data = text.encode()
            hit = next((len(data[:at].decode()) for _, _, at, _ in pattern.lines(data)), 0)
        return cut_around(Line(text=text, start=Cursor(), end=Cursor()), hit).text

    before = [shown(one, is_match=False) for one in match.before]
    after = [shown(one, is_match=False) for one in match.after]
    return [*before, shown(match.line, is_match=True), *after]


async def _block(
    call: ToolCall, process_id: ProcessId, lines: list[str], asked: ReadArguments, found: _Found
) -> str:
    """Return what was found in one process, below a line that says which that is."""
    # A process that was removed meanwhile is known by nothing but its id.
    name, first = short_name(process_id), f"[{short_name(process_id)} is removed]"
    with contextlib.suppress(OutliveError):
        record = (await call.runner.engine.queries.find(process_id)).record
        is_near = (record.project or "") == call.caller.project_root
        name = record.short_id if is_near else process_id  # a short id counts in its own project
        first = await listed(call.runner, record, name=name)
    if process_id in found.more:
        lines = [*lines, f'[more lines match: read(id="{name}", grep={quoted(asked.grep or "")})]']
    return "\n".join([first, *lines])
