"""A process's output as it comes, and its end: `OutputFeed`, a cursor on the log. Nothing is queued.

Its events are what /follow sends, as server-sent events or over a WebSocket.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Literal

from outlive.core.cursor import Cursor
from outlive.core.errors import InvalidRequest
from outlive.core.redactions import Redactions
from outlive.engine import Process
from outlive.frontends.rest.pages import Extent, end_of, read_pieces
from outlive.protocols.jsonrpc.output import STREAM_NAMES
from outlive.protocols.jsonrpc.views import Encoding, Piece, page_view
from outlive.protocols.rest.views import process_view
from outlive.store.output_log import OutputLog

_TURN_BYTES = 64 * 1024
_Word = Literal["completed", "closed"]


@dataclass(frozen=True, slots=True)
class FeedPlace:
    """How far a follower has got: a cursor, and the last of the two words about the end that it was told.

    As text "12.0", "12.0;completed" or "12.0;closed": the id of an event.
    """

    cursor: Cursor
    told: _Word | None = None

    def __str__(self) -> str:
        """Return the form used on the wire."""
        return f"{self.cursor};{self.told}" if self.told else str(self.cursor)

    @classmethod
    def parse(cls, text: str) -> "FeedPlace":
        """Read the wire form.

        Raises:
            InvalidRequest: The text is none.
        """
        cursor, semicolon, told = text.partition(";")
        match told:
            case "completed" | "closed":
                return cls(Cursor.parse(cursor), told)
            case "" if not semicolon:
                return cls(Cursor.parse(cursor))
            case _:
                raise InvalidRequest("invalid_cursor", f"Not the id of an event: {text[:60]!r}.")


@dataclass(frozen=True, slots=True)
class Event:
    """One thing to tell: `output`, `gap`, `completed` or `closed`; `raw` is output's bytes where those are asked for."""

    name: str
    place: FeedPlace
    body: dict[str, object]
    raw: bytes | None = None


class OutputFeed:
    """What a follower is told from a place on: output, the end, and when the streams are closed."""

    def __init__(
        self, process: Process, log: OutputLog, place: FeedPlace, *, encoding: Encoding | None = "utf-8"
    ) -> None:
        """Follow `process` as `log` shows its output; `encoding` None gives the bytes themselves."""
        self._process = process
        self._log = log
        self._place = place
        self._encoding: Encoding | None = encoding
        self._redactions = Redactions()

    async def events(self, *, quiet_s: float, stopping: asyncio.Event) -> AsyncIterator[list[Event]]:
        """Yield events as they come, an empty list after `quiet_s` of silence; end behind `closed`, or when stopping.

        A slow follower slows nobody: the log waits. Cancellation: safe.

        Raises:
            StoreCorrupt: The disk does not give the bytes.
        """
        woken = asyncio.Event()
        unsubscribe = self._process.subscribe(woken.set, reads=True)
        stop = asyncio.ensure_future(stopping.wait())
        stop.add_done_callback(lambda _: woken.set())
        try:
            while self._place.told != "closed" and not stopping.is_set():
                woken.clear()
                events = self._turn()
                if events:
                    yield events
                    await asyncio.sleep(0)  # one loud process must not starve the rest
                    continue
                try:
                    async with asyncio.timeout(quiet_s):
                        await woken.wait()
                except TimeoutError:
                    yield []
        finally:
            stop.cancel()
            unsubscribe()

    def _turn(self) -> list[Event]:
        process = self._process
        is_complete = process.is_complete  # asked before the read: then the read sees everything
        if self._place.told is None:
            until = self._until() if is_complete else end_of(self._log)
            events = self._output(until, is_last=is_complete)
            if events or not is_complete:
                return events
            return [self._say("completed", process_view(process.record))]
        if process.is_closed:
            return [self._say("closed", {"process_id": process.process_id})]
        return []

    def _until(self) -> Cursor:
        """Return where the output ends: later bytes belong to descendants."""
        out, err = self._process.complete_stdout_bytes, self._process.complete_stderr_bytes
        now = end_of(self._log)
        return Cursor(now.stdout if out is None else out, now.stderr if err is None else err)

    def _output(self, until: Cursor, *, is_last: bool) -> list[Event]:
        begin = self._place.cursor
        pieces = read_pieces(self._log, Extent(begin, until, None), _TURN_BYTES, self._redactions)
        if self._encoding is None:
            return [self._raw_event(piece) for piece in pieces]
        ends = [begin.stdout, begin.stderr]
        for piece in pieces:
            ends[piece.stream] = piece.end
        is_rest = is_last and ends[0] >= until.stdout and ends[1] >= until.stderr
        shown, _ = page_view(pieces, begin, encoding=self._encoding, is_last=is_rest)
        return [self._event(dict(chunk)) for chunk in shown]

    def _event(self, body: dict[str, object]) -> Event:
        end = body["end"]
        assert isinstance(end, int)
        self._move(1 if body["type"] == "stderr" else 0, end)
        name = "gap" if body.pop("gap", False) else "output"
        return Event(name, self._place, body)

    def _raw_event(self, piece: Piece) -> Event:
        self._move(piece.stream, piece.end)
        body: dict[str, object] = {"type": STREAM_NAMES[piece.stream], "end": piece.end}
        if piece.redacted:
            body["redacted"] = piece.redacted
        if piece.data is None:
            return Event("gap", self._place, body | {"from": piece.start, "to": piece.end})
        return Event("output", self._place, body, piece.data)

    def _move(self, stream: int, end: int) -> None:
        cursor = self._place.cursor
        self._place = FeedPlace(Cursor(cursor.stdout, end) if stream else Cursor(end, cursor.stderr))

    def _say(self, word: _Word, body: dict[str, object]) -> Event:
        self._place = FeedPlace(self._place.cursor, word)
        return Event(word, self._place, body)
