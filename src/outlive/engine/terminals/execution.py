"""One command in a terminal: typed, followed by its marks until the next prompt, and what it gave (`Execution`)."""

import asyncio

from outlive.core.cursor import Cursor
from outlive.core.errors import InvalidRequest
from outlive.core.process import Waiting as Seen
from outlive.core.terminal import Executed, TerminalNote, Waiting
from outlive.engine.engine import Engine
from outlive.engine.processes.process import Process
from outlive.engine.terminals.output import end_of, next_marks, text_of
from outlive.protocols.plain import plain_text
from outlive.protocols.terminal.run import CommandRun, MarkReader

_TAKEN_S = 10.0  # a shell at its prompt takes what is typed this soon, or nobody knows what it does
_INTERRUPTED_S = 2.0  # and is at its prompt again this soon after Ctrl-C
_INTERRUPTS = 3  # one may come while the shell is between two states
_QUIET_S = 1.0  # without output before it is asked whether a command waits for input; doubled each time
_MOST_QUIET_S = 16.0
_INTERRUPT = b"\x03"
_WAITS: dict[Seen, Waiting] = {"no": "none", "input": "input", "password": "password"}


async def waiting_of(engine: Engine, process: Process) -> Waiting:
    """Return what a terminal's command waits for, as the kernel tells."""
    return _WAITS[(await engine.queries.observe(process)).waiting]


class Execution:
    """Follows one command. The log is read from where it was typed; nothing is queued."""

    def __init__(self, engine: Engine, process: Process, note: TerminalNote) -> None:
        """Begin at the end of the output."""
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
            # Whoever does not want to wait is answered when it runs: until then nobody could tell it from the one before.
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
        return self._run.is_over or self._process.is_complete

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
        """Read on until the run is over (or has begun), wants more or waits for input; at most until the deadline."""
        clock = asyncio.get_running_loop().time
        quiet_s = _QUIET_S
        suspected = False
        while True:
            woken.clear()
            is_complete = self._process.is_complete  # asked before the read: then the read sees everything
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
        """Look at the next 256 KiB; tell whether there was anything."""
        marks = None if self._run.is_over else next_marks(self._process, self._reader)
        self._run.take(marks or ())
        return marks is not None

    async def _executed(self, limit_bytes: int) -> Executed:
        process, run = self._process, self._run
        is_closed = process.is_complete and not run.is_over
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
