"""A process's output as server-sent events for raw callers: `OutputEvents`, a cursor on the log (promise
S4.3).

Nothing is queued: a turn reads at most 64 KiB from the log and returns the events of the lines in it. Kept in
memory is only what follows the last newline of each stream, at most 320 KiB.

The answer to a raw caller's background call: events as they happen, at last the result (promises S4.3, S4.6).
"""

import asyncio
import codecs
import contextlib
import json
import logging
import secrets

import orjson

from outlive.core.cursor import BEGINNING
from outlive.core.errors import OutliveError
from outlive.core.lifecycle import Cause
from outlive.core.redactions import HiddenSpans, Redactions, joined_spans, spans_within
from outlive.core.values import dataclass, replace
from outlive.engine import OutputChunk, Process
from outlive.engine.processes.process import until
from outlive.frontends.mcp.http.calls import terminated
from outlive.frontends.mcp.http.exchange import EventStream, HttpExchange, encode_result
from outlive.frontends.mcp.http.methods import McpRequest, result_of
from outlive.frontends.mcp.tools.calls import Caller, Outcome
from outlive.frontends.mcp.tools.documents import shell_result
from outlive.frontends.mcp.tools.toolbox import Toolbox
from outlive.protocols.mcp.messages import Message
from outlive.protocols.mcp.texts import error_text
from outlive.protocols.sse import (
    COMMENT,
    encode_event,
    encode_line_event,
    encode_line_events,
    encode_part_event,
)

_NAMES = ("stdout", "stderr")
_TURN_BYTES = 64 * 1024  # 32 768 lines of one character: 3 ms, before it is another task's turn
_MAX_LINE_BYTES = 256 * 1024  # a longer line comes in several events, marked as parts


@dataclass(frozen=True, slots=True)
class _EventPiece:
    """Bytes of a stream from offset `start` on, and where stars for secrets are among them."""

    start: int
    data: bytes
    hidden: HiddenSpans

    def behind(self, size: int) -> "_EventPiece":
        """Return it without its first bytes."""
        start = self.start + size
        end = self.start + len(self.data)
        return _EventPiece(start, self.data[size:], spans_within(self.hidden, start, end))


_NOTHING = _EventPiece(0, b"", ())


class OutputEvents:
    """Events `stdout` and `stderr`, one for each line, in the order of writing, up to the completion.

    A line that shows stars for secrets says how many: `redacted`.

    Attributes:
        is_over: All output before the completion was returned.
    """

    __slots__ = ("_cursor", "_held", "_process", "_redactions", "is_over")

    def __init__(self, process: Process) -> None:
        """Begin at the first byte of `process`."""
        self.is_over = False
        self._process = process
        self._cursor = BEGINNING
        self._held = [_NOTHING, _NOTHING]
        self._redactions = Redactions()

    def turn(self) -> bytes:
        """Return the next events; empty when there is nothing new yet, or nothing more (`is_over`).

        Blocks for one read of the log, as `OutputLog.pread` may.

        Raises:
            StoreCorrupt: The disk does not give the bytes.
        """
        is_complete = self._process.status.is_complete  # asked before the read: then the read sees everything
        events = b""
        while not events:  # a piece of a long line makes no event yet
            chunks = self._process.log.read(self._cursor, _TURN_BYTES)
            if is_complete:
                chunks = self._until_completion(chunks)
            if not chunks:
                break
            self._cursor = OutputChunk.after(self._cursor, chunks)
            events = b"".join(map(self._events, chunks))
        if not events and is_complete:
            self.is_over = True
            events = b"".join(self._last(stream) for stream in (0, 1))
        return events

    def _until_completion(self, chunks: list[OutputChunk]) -> list[OutputChunk]:
        """Leave out what descendants wrote after the completion."""
        process = self._process
        ends = (process.status.complete_stdout_bytes, process.status.complete_stderr_bytes)
        kept = []
        for chunk in chunks:
            end = ends[chunk.stream]
            if end is None or chunk.end <= end:
                kept.append(chunk)
            elif chunk.offset < end:
                data = chunk.data[: end - chunk.offset]
                kept.append(replace(chunk, end=end, data=data))
        return kept

    def _events(self, chunk: OutputChunk) -> bytes:
        stream, name = chunk.stream, _NAMES[chunk.stream]
        if chunk.is_gap:
            gap = orjson.dumps({"type": name, "from": chunk.offset, "to": chunk.end})
            return self._last(stream) + encode_event("gap", gap)
        held = self._held[stream]
        piece = _EventPiece(chunk.offset, chunk.data, chunk.hidden)
        if held.data:
            piece = _EventPiece(held.start, held.data + chunk.data, joined_spans(held.hidden, chunk.hidden))
        cut = piece.data.rfind(b"\n") + 1
        events = b""
        if cut:
            events = self._lines(stream, piece, cut)
            piece = piece.behind(cut)
        if len(piece.data) > _MAX_LINE_BYTES:
            text, used = codecs.utf_8_decode(piece.data, "replace")  # an unfinished character waits
            redacted = self._redactions.count(stream, piece.start, piece.start + used, piece.hidden)
            events += encode_part_event(name, text, redacted=redacted)
            piece = piece.behind(used)
        self._held[stream] = piece
        return events

    def _lines(self, stream: int, piece: _EventPiece, size: int) -> bytes:
        """Return the events of the whole lines that are the first `size` bytes of a piece."""
        name, start = _NAMES[stream], piece.start
        if not spans_within(piece.hidden, start, start + size):  # nearly always: all lines at once
            return encode_line_events(name, piece.data[:size].decode("utf-8", "replace"))
        events = []
        for line in piece.data[: size - 1].split(b"\n"):
            end = start + len(line) + 1
            redacted = self._redactions.count(stream, start, end, piece.hidden)
            events.append(encode_line_event(name, line.decode("utf-8", "replace"), redacted=redacted))
            start = end
        return b"".join(events)

    def _last(self, stream: int) -> bytes:
        """Return the event of a line that has no newline."""
        piece, self._held[stream] = self._held[stream], _NOTHING
        if not piece.data:
            return b""
        return self._lines(
            stream, _EventPiece(piece.start, piece.data + b"\n", piece.hidden), len(piece.data) + 1
        )


_logger = logging.getLogger(__name__)


async def stream_background(
    toolbox: Toolbox, request: McpRequest, stream: EventStream, exchange: HttpExchange
) -> None:
    """Start the command that `request` names and stream it until its end, or until the caller has gone.

    The command goes on when the caller is gone. Cancellation: the same. What cancels `request` before the
    command runs ends it as soon as it does.
    """
    message, caller, status = request.message, request.caller, request.in_flight.status
    arguments = message.params.get("arguments")
    try:
        process = await toolbox.start_background(arguments if isinstance(arguments, dict) else {}, caller)
        if status.note is not None:
            await toolbox.runner.cancel(process, caller, note=status.note)
    except OutliveError as error:
        await toolbox.engine.events.recorded()
        outcome = Outcome(text=error_text(error), is_error=True)
        await stream.write(_result_event(message, outcome), is_last=True)
        return
    following = asyncio.create_task(_follow(process, caller, stream), name=f"raw stream {process.process_id}")
    try:
        await exchange.until_left(following, stream=stream)
        if following.done():
            await stream.write(await _last_event(toolbox, message, process, following), is_last=True)
    finally:
        following.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await following


async def _follow(process: Process, caller: Caller, stream: EventStream) -> None:
    if not process.status.is_acknowledged:  # its group is full: the client learns at once that it waits
        await stream.write(COMMENT)
        await until(process, lambda one: one.status.is_acknowledged)  # or it was cancelled there
    # The document prints it with blanks (promise S4.3), which orjson leaves out.
    started = {"pid": process.record.pid, "status": "started", "request_id": caller.request_id}
    await stream.write(encode_event("process_started", json.dumps(started).encode()))
    events = OutputEvents(process)
    woken = asyncio.Event()
    unsubscribe = process.subscribers.add(woken.set, reads=True)
    try:
        while True:
            woken.clear()
            piece = events.turn()
            if piece:
                await stream.write(piece)
                await asyncio.sleep(0)  # one loud process must not starve the rest
            if events.is_over:
                return
            if not piece:
                await woken.wait()
    finally:
        unsubscribe()


async def _last_event(
    toolbox: Toolbox, message: Message, process: Process, following: asyncio.Task[None]
) -> bytes:
    try:
        following.result()
        outcome = await shell_result(toolbox.runner, process)
    except Exception as error:  # the stream has begun: the caller gets every error here
        reference = secrets.token_hex(4)
        _logger.exception("following a process failed", extra={"reference": reference})
        text = error.message if isinstance(error, OutliveError) else "Something went wrong"
        return _result_event(message, Outcome(text=f"{text} (reference {reference})", is_error=True))
    if process.record.cause is Cause.CANCEL:
        outcome = terminated(outcome)
    return _result_event(message, outcome)


def _result_event(message: Message, outcome: Outcome) -> bytes:
    return encode_event("message", encode_result(message.request_id, result_of(outcome)))
