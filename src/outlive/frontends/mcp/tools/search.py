"""Searching output for a pattern, by turns of the event loop: one log (`read_matches`), and the output of all
processes of a project, newest first, as far as one answer has room (`search_all`). Nothing is consumed.

The latter is the engine's search (`engine.output_search`), in slices. Here is decided how long it goes on for
one answer, what of it the answer has room for, and where the next call goes on. `lean_answers` makes a text
of it.
"""

import asyncio
from collections import deque
from collections.abc import Iterator

import msgspec

from outlive.core.cursor import Cursor, SearchPlace
from outlive.core.identity import ProcessId
from outlive.core.values import dataclass, field
from outlive.engine import Engine, OutputLog
from outlive.frontends.mcp.tools.pages import LeanPage, Turn, between, earlier, in_thread, stripped, turns
from outlive.operations.search import SearchMatch, SearchRequest
from outlive.protocols.jsonrpc.output import STREAM_NAMES
from outlive.protocols.mcp.arguments import ReadArguments
from outlive.protocols.output.binary import with_visible_nuls
from outlive.protocols.output.body import FAILURE_BUDGET, Excerpt
from outlive.protocols.output.matches import Found, Matches, cut_around
from outlive.protocols.output.pattern import Pattern
from outlive.protocols.plain import Line, strip_ansi
from outlive.server.shown_output import search_once

# A search ends after so long or so much, and the answer says where: 1 GiB takes some seconds when little of
# it matches, and a caller that waits for longer has mostly given up.
SEARCH_S = 15.0
_SEARCH_BYTES = 1024 * 1024 * 1024
# Where one of these is, what is shown of a line is not what was written.
_STRIPPED = (b"\x1b", b"\b", b"\r", b"\0")


class Search:
    """One search over the turns of a log: what matches, and the lines around it.

    Attributes:
        position: Everything before it was searched.
    """

    def __init__(self, pattern: Pattern, matches: Matches, *, context: int, raw: bool) -> None:
        """Look for `pattern`, and give what matches, with `context` lines around it, to `matches`."""
        self.position = Cursor()
        self._pattern = pattern
        self._matches = matches
        self._context = context
        self._is_raw = raw
        self._before: deque[Line] = deque(maxlen=context)
        self._after = 0  # lines behind the last match that are still to be shown

    async def run(self, log: OutputLog, start: Cursor, end: Cursor) -> None:
        """Search what was written between two cursors, as far as time and size allow.

        Cancellation: safe; nothing is consumed.
        """
        self.position = start
        clock = asyncio.get_running_loop().time
        deadline = clock() + SEARCH_S
        async for turn in turns(log, start, end):
            await self._take(turn)
            # After the turn was taken: a search that stops here is gone on with behind it, without a line
            # lost or found twice.
            self.position = turn.end
            if clock() > deadline or between(start, self.position) >= _SEARCH_BYTES:
                break

    async def _take(self, turn: Turn) -> None:
        # In a thread, where RE2 holds no lock of Python's: the worst pattern takes a third of a second for a
        # turn. A search that is cancelled meanwhile is looked at by nothing any more.
        await in_thread(between(turn.start, turn.end), self._look_through, turn)

    def _look_through(self, turn: Turn) -> None:
        if not self._after and not self._may_match(turn):
            self._before.extend(stripped(turn.last_lines(self._context), raw=self._is_raw))
            return
        lines = stripped(turn.lines(), raw=self._is_raw)
        self._matches.add(self._found(lines, self._hits(lines)))

    def _may_match(self, turn: Turn) -> bool:
        """Tell whether a line of a turn may match, without making lines of it: most of a long log has no
        match.
        """
        for stream in (0, 1):
            data = turn.stream(stream).replace(b"\r\n", b"\n")
            # "er\x1b[1mror" is shown as "error": only the stripped lines can tell whether they match.
            if not self._is_raw and any(sign in data for sign in _STRIPPED):
                return True
            if self._pattern.is_in(data):
                return True
        return False

    def _hits(self, lines: list[Line]) -> dict[int, int]:
        """Return the places of matching lines, and the character of each where its match begins.

        One search through all of them: each call of RE2 costs 5 us, as much as everything else for a line.
        """
        texts = [line.text.encode() for line in lines]
        hits: dict[int, int] = {}
        begin = place = 0
        for start, _, hit, _ in self._pattern.lines(b"\n".join(texts)):
            while begin < start:
                begin += len(texts[place]) + 1
                place += 1
            hits[place] = len(texts[place][: hit - start].decode("utf-8", "ignore"))
        return hits

    def _found(self, lines: list[Line], hits: dict[int, int]) -> Iterator[Found]:
        """Yield what is shown of a turn's lines, and remember what the next turn's may need."""
        for place, line in enumerate(lines):
            if place in hits:
                yield from (Found(one, is_match=False) for one in self._before)
                self._before.clear()
                yield Found(cut_around(line, hits[place]), is_match=True)
                self._after = self._context
            elif self._after:
                yield Found(cut_around(line, 0), is_match=False)
                self._after -= 1
            else:
                self._before.append(cut_around(line, 0))


async def read_matches(
    log: OutputLog,
    cursor: Cursor,
    wanted: str,
    *,
    context: int,
    most: int,
    raw: bool = False,
    end: Cursor | None = None,
) -> LeanPage:
    """Return the lines between two cursors in which the regular expression `wanted` matches, with lines
    around them.

    All of it is searched, up to 1 GiB or 15 s; of what is found, the first and the last matches are shown in
    `most` characters, and how many there are. A line of more than 256 KiB is searched in pieces.

    Raises:
        InvalidRequest: The pattern is too long.

    Cancellation: safe; nothing is consumed.
    """
    pattern = Pattern(wanted)
    matches = Matches(most)
    search = Search(pattern, matches, context=context, raw=raw)
    end = earlier(end, log.end)
    await search.run(log, cursor, end)
    notes = []
    if pattern.is_literal:
        notes.append("[grep is no regular expression of RE2, which has no look-around: taken as plain text]")
    if between(search.position, end):
        notes.append(f"[searched up to cursor {search.position}; call again with it to go on to {end}]")
    return LeanPage(
        excerpt=Excerpt(lines=[], start=cursor, end=cursor),
        cursor=search.position,
        matches=matches,
        pattern=wanted,
        note="\n".join(notes),
    )


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
