"""A search for a pattern through a log, by turns of the event loop: `search`. Nothing is consumed."""

import asyncio
from collections import deque
from collections.abc import Iterator

from outlive.core.cursor import Cursor
from outlive.engine import OutputLog
from outlive.frontends.mcp.tools.output.preparation import stripped
from outlive.frontends.mcp.tools.output.turns import Turn, between, in_thread, turns
from outlive.protocols.output.matches import Found, Matches, cut_around
from outlive.protocols.output.pattern import Pattern
from outlive.protocols.plain import Line

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
