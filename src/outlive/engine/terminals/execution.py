"""One command in a terminal: typed, followed by its marks until the next prompt, and what it gave
(`Execution`).

What a terminal's log says: its newest marks, and text of it in bounded turns. Reads only, consumes nothing.
"""

import asyncio
from collections.abc import Sequence

from outlive.core.cursor import Cursor
from outlive.core.errors import InvalidRequest
from outlive.core.process import Waiting as Seen
from outlive.core.redactions import Redactions
from outlive.core.terminal import Executed, TerminalNote, Waiting
from outlive.engine.engine import Engine
from outlive.engine.processes.process import Process
from outlive.protocols.plain import Clip, join_pieces, plain_text, shown_ranges
from outlive.protocols.terminal.run import CommandRun, Mark, MarkReader, ShellState, newest_state

_TURN_BYTES = 256 * 1024  # what the event loop may read in one turn
# The newest output that is looked at for marks: more than a prompt and what may be typed behind it.
_NEWEST_BYTES = 64 * 1024
_PATIENCE_S = 0.1  # between two looks at what is held back because a secret could begin there
_LOOKS = 5


def end_of(process: Process) -> int:
    """Return where the output ends, that is held back because a secret could begin there included."""
    return process.raw_log.size(0)


def next_marks(process: Process, reader: MarkReader) -> list[Mark] | None:
    """Return the marks of the next 256 KiB behind what `reader` has seen; None when there is no more now."""
    log = process.raw_log
    data = log.pread(0, _TURN_BYTES, reader.position)
    if data:
        return reader.feed(data)
    gap = log.gap(0)
    if gap is None or not gap[0] <= reader.position < gap[1]:
        return None
    reader.skip(gap[1])
    return []


def _newest_marks(process: Process, note: TerminalNote) -> list[Mark]:
    """Return the marks in the newest output, oldest first."""
    log = process.raw_log
    size = log.size(0)
    begin = max(0, size - _NEWEST_BYTES)
    gap = log.gap(0) if begin else None
    if gap is not None and begin < gap[1]:
        begin = min(gap[1], size)
    return MarkReader(note.key, begin).feed(log.pread(0, _NEWEST_BYTES, begin))


def shell_state(process: Process, note: TerminalNote) -> ShellState:
    """Return what the shell does, as its newest output says; nothing is remembered from earlier."""
    return newest_state(_newest_marks(process, note))


async def text_of(
    process: Process, ranges: Sequence[tuple[int, int]], *, limit_bytes: int
) -> tuple[str, int]:
    """Return what lies in these ranges, head and tail of it where it is more than the limit.

    And how many secrets are stars in it.

    Cancellation: safe.
    """
    total = sum(end - begin for begin, end in ranges)
    pieces: list[Clip] = []
    redactions = Redactions()
    for start, end in shown_ranges(total, limit_bytes):
        position = 0  # of a range in all of them together
        for begin, stop in ranges:
            low, high = max(start, position), min(end, position + stop - begin)
            if low < high:
                shift = begin - position
                pieces += [
                    Clip(piece.offset - shift, piece.data)
                    for piece in await _pieces(process, low + shift, high + shift, redactions)
                ]
            position += stop - begin
    return join_pieces(_joined(pieces), total), redactions.total


async def _pieces(process: Process, at: int, end: int, redactions: Redactions) -> list[Clip]:
    found: list[Clip] = []
    looks = 0
    while at < end:
        data, hidden = process.log.look(0, min(_TURN_BYTES, end - at), at)
        if data:
            redactions.count(0, at, at + len(data), hidden)
            found.append(Clip(at, data))
            at += len(data)
            await asyncio.sleep(0)  # bounded work per turn
            continue
        gap = process.log.gap(0)
        if gap is not None and gap[0] <= at < gap[1]:
            at = gap[1]
            continue
        looks += 1
        if looks > _LOOKS:
            break
        await asyncio.sleep(_PATIENCE_S)
    return found


def _joined(pieces: Sequence[Clip]) -> list[Clip]:
    """Return pieces with those that adjoin as one."""
    joined: list[Clip] = []
    for piece in pieces:
        if joined and joined[-1].end == piece.offset:
            joined[-1] = Clip(joined[-1].offset, joined[-1].data + piece.data)
        else:
            joined.append(piece)
    return joined


_TAKEN_S = 10.0  # a shell at its prompt takes what is typed this soon, or it is not known what it does
_INTERRUPTED_S = 2.0  # and is at its prompt again this soon after Ctrl-C
_INTERRUPTS = 3  # one may come while the shell is between two states
_QUIET_S = 1.0  # without output before it is asked whether a command waits for input; doubled each time
_MOST_QUIET_S = 16.0
_INTERRUPT = b"\x03"
_WAITS: dict[Seen, Waiting] = {"no": "none", "input": "input", "password": "password"}


async def waiting_of(engine: Engine, process: Process) -> Waiting:
    """Return what a terminal's command waits for, as the kernel reports it."""
    return _WAITS[(await engine.queries.observe(process)).waiting]


class Execution:
    """Follows one command. The log is read from where it was typed; nothing is queued."""

    def __init__(self, engine: Engine, process: Process, note: TerminalNote) -> None:
        self._engine = engine
        self._process = process
        self._run = CommandRun()
        self._reader = MarkReader(note.key, end_of(process))
        self._shell = note.shell
        self._waiting: Waiting = "none"

    async def run(self, typed: bytes, *, wait_s: float, limit_bytes: int) -> Executed:
        """Type it; return when it has ended, waits for input, or `wait_s` seconds are over.

        Raises:
            InvalidRequest: `command_incomplete`.

        Cancellation: safe; it goes on.
        """
        clock = asyncio.get_running_loop().time
        deadline = clock() + wait_s
        woken = asyncio.Event()
        unsubscribe = self._process.subscribers.add(woken.set, reads=True)
        try:
            await self._engine.controls.write(self._process, typed)
            # A caller that does not want to wait is answered when it runs: before that it looks like the one
            # before.
            await self._follow(woken, clock() + _TAKEN_S, until_begun=True)
            if not self._run.wants_more:
                await self._follow(woken, deadline)
            if self._run.wants_more:
                await self._take_back(woken)
        finally:
            unsubscribe()
        return await self._executed(limit_bytes)

    @property
    def _is_over(self) -> bool:
        return self._run.is_over or self._process.status.is_complete

    async def _take_back(self, woken: asyncio.Event) -> None:
        """Interrupt a command that is not finished; fish has forgotten it already.

        Raises:
            InvalidRequest: `command_incomplete`; always.
        """
        clock = asyncio.get_running_loop().time
        for _ in range(_INTERRUPTS):
            if self._shell != "fish" and not self._is_over:
                await self._engine.controls.write(self._process, _INTERRUPT)
            deadline = clock() + _INTERRUPTED_S
            while clock() < deadline and not self._is_over:
                self._run.wants_more = False  # a line editor may draw that prompt more than once
                await self._follow(woken, deadline)
        raise InvalidRequest(
            "command_incomplete", "The command is not complete: the shell waits for the rest of it."
        )

    async def _follow(self, woken: asyncio.Event, deadline: float, *, until_begun: bool = False) -> None:
        """Read on until the run is over (or has begun), wants more or waits for input.

        At most until the deadline.
        """
        clock = asyncio.get_running_loop().time
        quiet_s = _QUIET_S
        suspected = False
        while True:
            woken.clear()
            is_complete = (
                self._process.status.is_complete
            )  # asked before the read: then the read sees everything
            if self._read():
                quiet_s, suspected = _QUIET_S, False
                await asyncio.sleep(0)  # one loud command must not starve the rest
                continue
            run = self._run
            if is_complete or run.is_over or run.wants_more or (until_begun and run.has_begun):
                return
            now = clock()
            if now >= deadline:
                if run.has_begun:
                    self._waiting = await waiting_of(self._engine, self._process)
                return
            if await _woken(woken, min(deadline, now + (quiet_s if run.has_begun else _MOST_QUIET_S))):
                continue
            if run.has_begun and clock() < deadline:
                self._waiting = await waiting_of(self._engine, self._process)
                if self._waiting != "none" and suspected:
                    return
                suspected = self._waiting != "none"
                quiet_s = _QUIET_S if suspected else min(quiet_s * 2, _MOST_QUIET_S)

    def _read(self) -> bool:
        """Look at the next 256 KiB; return whether there was anything."""
        marks = None if self._run.is_over else next_marks(self._process, self._reader)
        self._run.take(marks or ())
        return marks is not None

    async def _executed(self, limit_bytes: int) -> Executed:
        process, run = self._process, self._run
        is_closed = process.status.is_complete and not run.is_over
        end = run.end if run.is_over else self._reader.position
        typed, redacted = await text_of(process, run.ranges(end), limit_bytes=limit_bytes)
        text = plain_text(typed)
        if not run.is_parsed:
            text = text.lstrip("\n")
        code = process.record.wire_exit_code if is_closed else run.exit_code
        return Executed(
            terminal_id=process.process_id,
            output=text,
            exit_code=code if run.is_over or is_closed else None,
            cursor=str(Cursor(end, 0)),
            is_complete=run.is_over or is_closed,
            waiting="none" if run.is_over or is_closed else self._waiting,
            is_closed=is_closed,
            redacted=redacted,
        )


async def _woken(woken: asyncio.Event, at: float) -> bool:
    try:
        async with asyncio.timeout_at(at):
            await woken.wait()
    except TimeoutError:
        return False
    return True
