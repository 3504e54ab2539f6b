"""A search through the output of all processes of a project, newest first, as far as one answer has room:
`search_all`. Nothing is consumed.

The search is the engine's (`engine.output_search`), in slices. Here is decided how long it goes on for one
answer, what of it the answer has room for, and where the next call goes on. `lean_answers` makes a text of
it.
"""

import asyncio

import msgspec

from outlive.core.cursor import Cursor, SearchPlace
from outlive.core.identity import ProcessId
from outlive.core.values import dataclass, field
from outlive.engine import Engine
from outlive.frontends.mcp.tools.output.search import SEARCH_S
from outlive.operations.search import SearchMatch, SearchRequest
from outlive.protocols.jsonrpc.output import STREAM_NAMES
from outlive.protocols.mcp.arguments import ReadArguments
from outlive.protocols.output.binary import with_visible_nuls
from outlive.protocols.output.body import FAILURE_BUDGET
from outlive.protocols.output.matches import cut_around
from outlive.protocols.output.pattern import Pattern
from outlive.protocols.plain import Line, strip_ansi
from outlive.server.shown_output import search_once

# Of one process: a log in which every line matches must not be the whole answer. The mark names the call that
# shows the rest.
_EACH = 10
_AT_ONCE = 50  # matches of one slice: about as many as an answer has room for
_HEADER_CHARACTERS = 160  # that a process's own line takes, about


@dataclass(slots=True)
class AllFound:
    """What an answer shows of all processes.

    Attributes:
        shown: Matches, in the order of the search, each with its lines.
        room: Characters that are left.
        redacted: Secrets that are stars in what is shown.
        more: Processes of which more lines match.
        unreadable: How many outputs cannot be read.
        following: The cursor of the next call; None once everything was searched.
        left_bytes: How much is left to be searched, about.
        last: The place behind what was taken: where to go on if there is no room for the next one.
    """

    room: int
    last: SearchPlace | None
    shown: list[tuple[ProcessId, list[str]]] = field(default_factory=list)
    redacted: int = 0
    more: set[ProcessId] = field(default_factory=set)
    unreadable: int = 0
    following: str | None = None
    left_bytes: int = 0

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


async def search_all(
    engine: Engine, asked: ReadArguments, pattern: Pattern, *, principal: str, project: str
) -> AllFound:
    """Find lines in the output of all processes of a project, or of the principal with `all_projects`, until
    the answer is full or the time is up.

    Raises:
        InvalidRequest: The cursor is none of a search.

    Cancellation: safe; the search ends within a moment.
    """
    begin = None if asked.cursor in (None, "0") else SearchPlace.parse(asked.cursor)
    found = AllFound(room=FAILURE_BUDGET if asked.budget is None else asked.budget, last=begin)
    wanted = SearchRequest(
        text=pattern.text,
        regex=not pattern.is_literal,
        ignore_case=not pattern.is_case_sensitive,
        context=asked.context,
        project=None if asked.all_projects else project,
        each=_EACH + 1,  # one more than is shown tells that there are more
        limit=_AT_ONCE,
        cursor=None if begin is None else str(begin),
    )
    clock = asyncio.get_running_loop().time
    deadline = clock() + SEARCH_S
    while True:
        slice_ = await search_once(engine, wanted, principal=principal)
        found.unreadable += slice_.unreadable
        found.following, found.left_bytes = slice_.next, slice_.left_bytes
        for match in slice_.matches:
            if not found.take(match, _lines(match, pattern, raw=asked.raw)):
                found.following = str(found.last)
                return found
        if slice_.next is None or clock() > deadline or found.room <= 0:
            return found
        wanted = msgspec.structs.replace(wanted, cursor=slice_.next)


async def count_elsewhere(engine: Engine, pattern: Pattern, *, principal: str) -> tuple[int, bool]:
    """Return in how many processes of all projects of a principal a line matches, and whether that is all,
    as far as one slice of a search goes.

    Cancellation: safe.
    """
    wanted = SearchRequest(
        text=pattern.text,
        regex=not pattern.is_literal,
        ignore_case=not pattern.is_case_sensitive,
        each=1,
        limit=_AT_ONCE,
    )
    slice_ = await search_once(engine, wanted, principal=principal)
    return len({match.process_id for match in slice_.matches}), slice_.next is None


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
