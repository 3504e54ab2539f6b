"""`EngineTerminals`, terminals that are processes of the engine: a shell each, on a pseudo-terminal (decision
100).

Nothing is remembered here that a terminal depends on: which processes are terminals is in their records, and
what a shell does its newest output. So terminals outlive the server.

Whether a terminal takes a command: `States`, read from its newest marks, and what was typed a moment ago.
"""

import asyncio
import contextlib
import os
import secrets
import signal
from collections.abc import Sequence

from outlive.core.command import Command
from outlive.core.controls import ResizeWindow, SignalProcess
from outlive.core.errors import (
    AccessDenied,
    CommandRefused,
    InvalidState,
    OutliveError,
    ProcessNotFound,
    StartFailed,
)
from outlive.core.events import AuditEvent
from outlive.core.lifecycle import State
from outlive.core.location import LOCAL
from outlive.core.process import Owner
from outlive.core.terminal import (
    ENGINE,
    Executed,
    Form,
    Target,
    TerminalInfo,
    TerminalNote,
    TerminalState,
    TerminalText,
    default_name,
)
from outlive.core.values import dataclass, field
from outlive.engine.engine import Engine
from outlive.engine.processes.process import Process, until
from outlive.engine.terminals.directory import NewTerminal, Terminals
from outlive.engine.terminals.execution import (
    Execution,
    Shell,
    distant_terminal_shell,
    end_of,
    find_terminal_shell,
    marking,
    shell_state,
    waiting_of,
)
from outlive.engine.terminals.text_reader import read_text
from outlive.operations.terminal_requests import typed_command
from outlive.store.folder import WindowSize, note_size

_TAKEN_S = 15.0  # what was typed is taken this soon, or it was something that leaves no trace


class States:
    """The states of one host's terminals.

    Only what was typed and not taken yet is kept here, for some seconds.
    """

    def __init__(self) -> None:
        # Process id -> where the output ended, and until when that counts.
        self._typed: dict[str, tuple[int, float]] = {}

    def of(self, process: Process, note: TerminalNote) -> TerminalState:
        """Return the state of a terminal."""
        if process.status.is_ended:
            self._typed.pop(process.process_id, None)
            return "closed"
        if process.status.state is State.QUEUED:
            return "unknown"
        found = shell_state(process, note)
        typed = self._typed.get(process.process_id)
        if typed is not None and (
            found.taken_at >= typed[0] or asyncio.get_running_loop().time() >= typed[1]
        ):
            del self._typed[process.process_id]
            typed = None
        if typed is not None:
            return "busy"
        # The kernel says that the shell itself edits a line, and its marks do not: they are gone, as after
        # `exec bash`, with other prompts, or behind much output of a job.
        has_no_marks = process.status.prompt_thread == process.pid and not found.wants_more
        return "ready" if found.is_ready else "unknown" if has_no_marks else "busy"

    def check_ready(self, process: Process, note: TerminalNote) -> None:
        """Let a command pass.

        Raises:
            InvalidState: `terminal_busy`.
        """
        if (state := self.of(process, note)) != "ready":
            what = "something runs there"
            if state == "unknown":
                what = f"another shell than {note.shell} has taken its place, or its prompt cannot be marked"
            elif shell_state(process, note).wants_more:
                what = "an unfinished command waits there for its rest"
            raise InvalidState("terminal_busy", f"The terminal is busy: {what}.")

    def typed(self, process: Process) -> None:
        """Remember that a command is being typed: until the shell has taken it, another one is refused."""
        self._typed[process.process_id] = (end_of(process), asyncio.get_running_loop().time() + _TAKEN_S)

    def settled(self, process: Process) -> None:
        """Forget it: what was typed is known to be over."""
        self._typed.pop(process.process_id, None)


_MARKED_S = 5.0  # a shell that waits at its prompt has read our start file this soon
_READY_S = 15.0  # what the user's own start files may take before a terminal is handed over all the same
_HUNG_UP_S = 1.0  # what heeds SIGHUP is gone this soon
_GRACE_S = 2.0  # and TERM; then KILL
_CLOSED = "The terminal was closed."
_MAX_OUTPUT_BYTES = 1024 * 1024


@dataclass(eq=False, slots=True)
class EngineTerminals:
    """The host `engine`; used on the engine's event loop."""

    engine: Engine
    max_output_bytes: int = _MAX_OUTPUT_BYTES
    _states: States = field(default_factory=States, init=False)

    @property
    def target(self) -> Target:
        """The engine."""
        return ENGINE

    async def terminals(self, by: Owner) -> Sequence[TerminalInfo]:
        """Return all that are open, oldest first."""
        return [await self._info(process, note) for process, note in await self._open(by)]

    async def find(self, terminal_id: str, by: Owner) -> TerminalInfo | None:
        """Return a terminal by its process id, open or closed; None where there is none of `by`."""
        try:
            process, note = await self._find(terminal_id, by, is_open=False)
        except ProcessNotFound:
            return None
        return await self._info(process, note)

    async def create(self, wanted: NewTerminal, by: Owner) -> TerminalInfo:
        """Start a shell and return when it shows its prompt.

        A user's start files that ask something, or take more than 15 s: then it is handed over as it is,
        "busy".

        Raises:
            OutliveError: As `Starts.start`.
            StartFailed: `start_failed`: the shell has ended at once.

        Cancellation: the terminal may be there all the same.
        """
        engine = self.engine
        key = secrets.token_hex(8)
        shell = await self._shell(wanted, key)
        name = wanted.name or default_name({note.name for _, note in await self._open(by)})
        command = Command(
            argv=shell.argv,
            title=f"{shell.name} [{name}]",
            stdio="pty",
            stdin="pipe",
            rows=wanted.rows,
            cols=wanted.cols,
            cwd=wanted.cwd,
            env={**wanted.env, **shell.env},
            profile=wanted.profile,
            tags=wanted.tags,
            detached=True,
            start_file=shell.start_file,
            script=shell.script,
            backend=wanted.backend,
            image=wanted.image,
            terminal=TerminalNote(name=name, key=key, shell=shell.kind),
        )
        process = await engine.starts.start(command, owner=by)
        note = _note_of(process)
        with contextlib.suppress(OSError):
            await asyncio.to_thread(note_size, process.folder, WindowSize(0, wanted.rows, wanted.cols))
        if process.status.state is not State.QUEUED:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_READY_S):
                    await until(
                        process, lambda one: one.status.is_complete or shell_state(one, note).is_ready
                    )
        if process.status.is_ended:
            text = f"The shell {shell.name} has ended at once."
            raise StartFailed("start_failed", text, hint=f"Read the output of {process.process_id}.")
        return await self._info(process, note)

    async def _shell(self, wanted: NewTerminal, key: str) -> Shell:
        engine = self.engine
        if (wanted.backend or engine.settings.options.backend) != LOCAL:
            return await asyncio.to_thread(
                distant_terminal_shell, wanted.shell, key, is_bare=engine.settings.is_strict
            )
        environment = {**engine.environment, **{name: text for name, text in wanted.env.items() if text}}
        return await asyncio.to_thread(
            find_terminal_shell,
            wanted.shell,
            environment,
            key,
            fallback=engine.starts.preparation.shell,
            is_bare=engine.settings.is_strict,
        )

    async def execute(self, terminal_id: str, command: str, by: Owner, *, wait_s: float) -> Executed:
        """Run a command at the prompt.

        Two at once are not queued: the second is refused as busy. A shell whose marks are gone is given them
        anew.

        Raises:
            CommandRefused: The lists do not allow it.
            InvalidState: `terminal_busy`, `process_ended`.
            InvalidRequest: `command_incomplete`, and `invalid_params` for what cannot be typed.

        Cancellation: safe; what was typed runs.
        """
        process, note = await self._find(terminal_id, by)
        typed = typed_command(command, note.shell, note.key)
        try:
            await self.engine.as_(by).check(process)
            cwd = await asyncio.to_thread(_folder_of, process)
            await self.engine.typed_lines.check(command, cwd=cwd or process.record.cwd)
            if self._states.of(process, note) == "unknown":
                await self._mark(process, note)
            self._states.check_ready(process, note)
        except OutliveError as error:
            self._tell("execute", by, process, command, error=error)
            raise
        self._states.typed(process)  # from the check on nothing was awaited: no other caller has typed
        self._tell("execute", by, process, command)
        execution = Execution(self.engine, process, note)
        return await execution.run(typed, wait_s=wait_s, limit_bytes=self.max_output_bytes)

    async def _mark(self, process: Process, note: TerminalNote) -> None:
        """Have a shell whose marks are gone read our start file, if it is of the terminal's kind."""
        self._states.typed(process)  # until it is marked, no other caller types
        try:
            if (typed := await asyncio.to_thread(marking, process.pid, note)) is not None:
                await self.engine.controls.write(process, typed)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_MARKED_S):
                        await until(
                            process, lambda one: one.status.is_complete or shell_state(one, note).is_ready
                        )
        finally:
            self._states.settled(process)

    async def read(
        self, terminal_id: str, by: Owner, *, form: Form = "clean", cursor: str | None = None, budget: int
    ) -> TerminalText:
        """Return what a terminal shows, open or closed; see `TerminalHost.read`."""
        process, note = await self._find(terminal_id, by, is_open=False)
        state = self._states.of(process, note)  # before the text: that is at least as new
        exit_code = _exit_code(process, note)
        window = await self.engine.queries.window_size(process) if form == "screen" else None
        page = await read_text(process, form=form, cursor=cursor, budget=budget, window=window)
        return TerminalText(
            terminal_id=process.process_id,
            text=page.text,
            form=form,
            cursor=page.cursor,
            state=state,
            waiting=await waiting_of(self.engine, process) if state == "busy" else "none",
            exit_code=exit_code,
            has_more=page.has_more,
            has_gap=page.has_gap,
            redacted=page.redacted,
        )

    async def write(self, terminal_id: str, data: bytes, by: Owner) -> None:
        """Type into it.

        Raises:
            CommandRefused: `profile_too_weak`.
        """
        process, _ = await self._find(terminal_id, by)
        await self.engine.as_(by).write(process, data)

    async def resize(self, terminal_id: str, rows: int, cols: int, by: Owner) -> None:
        """Set its size in character cells."""
        process, _ = await self._find(terminal_id, by)
        await self.engine.as_(by).control(process, ResizeWindow(rows=rows, cols=cols))

    async def close(self, terminal_id: str, by: Owner) -> None:
        """Hang up, as a terminal that is closed does; what does not heed that is ended.

        Returns when all is gone.
        """
        process, _ = await self._find(terminal_id, by)
        acting = self.engine.as_(by)
        try:
            await acting.check(process)
        except OutliveError as error:
            self._tell("cancel", by, process, error=error)
            raise
        if process.status.state is not State.QUEUED:
            with contextlib.suppress(InvalidState, TimeoutError):
                await self.engine.controls.control(
                    process, SignalProcess(signal=signal.SIGHUP, whole_tree=True)
                )
                with contextlib.suppress(InvalidState):  # nothing is left: its end is waited for all the same
                    # What Ctrl-Z has stopped.
                    await self.engine.controls.control(
                        process, SignalProcess(signal=signal.SIGCONT, whole_tree=True)
                    )
                async with asyncio.timeout(_HUNG_UP_S):
                    await until(process, lambda one: one.status.is_complete and not one.record.descendants)
        if process.status.is_complete and not process.record.descendants:
            self._tell("cancel", by, process)
            return
        with contextlib.suppress(InvalidState):  # it ended meanwhile
            await acting.end(process, grace_s=_GRACE_S, note=_CLOSED)

    async def _open(self, by: Owner) -> list[tuple[Process, TerminalNote]]:
        await self.engine.queries.known()
        found = [
            (process, process.base.terminal)
            for process in self.engine.queries.live(principal=by.principal)
            if process.base.terminal is not None and not process.status.is_ended
        ]
        return sorted(found, key=lambda one: one[0].process_id)

    async def _find(
        self, terminal_id: str, by: Owner, *, is_open: bool = True
    ) -> tuple[Process, TerminalNote]:
        """Return a terminal by its process id."""
        with contextlib.suppress(ProcessNotFound):
            process = await self.engine.queries.find(terminal_id)
            if process.base.terminal is not None and process.principal == by.principal:
                if is_open and process.status.is_ended:
                    raise InvalidState("process_ended", "The terminal is closed; it can still be read.")
                return process, process.base.terminal
        raise ProcessNotFound("terminal_not_found", f"There is no terminal {terminal_id[:60]!r}.")

    async def _info(self, process: Process, note: TerminalNote) -> TerminalInfo:
        return TerminalInfo(
            terminal_id=process.process_id,
            terminal_name=note.name,
            target=ENGINE,
            state=self._states.of(process, note),
            process_id=process.process_id,
            cwd=(None if process.status.is_ended else await asyncio.to_thread(_folder_of, process))
            or process.record.cwd,
        )

    def _tell(
        self,
        what: str,
        by: Owner,
        process: Process,
        command: str = "",
        *,
        error: OutliveError | None = None,
    ) -> None:
        is_denied = isinstance(error, CommandRefused | AccessDenied)
        self.engine.events.publish(
            AuditEvent(
                what=what,
                by=by,
                decision="allowed" if error is None else "denied" if is_denied else "failed",
                reason="" if error is None else error.code,
                process_id=process.process_id,
                command=self.engine.redaction.redactor.mask_text(command),
            )
        )


def terminals_of(engine: Engine, *, max_output_bytes: int = _MAX_OUTPUT_BYTES) -> Terminals:
    """Return the terminals of an engine, which other hosts can join."""
    terminals = Terminals()
    terminals.add(EngineTerminals(engine, max_output_bytes=max_output_bytes))
    return terminals


def _note_of(process: Process) -> TerminalNote:
    if process.base.terminal is None:
        raise AssertionError("a terminal's process says that it is one")
    return process.base.terminal


def _exit_code(process: Process, note: TerminalNote) -> int | None:
    if process.status.is_ended:
        return process.record.wire_exit_code
    return shell_state(process, note).exit_code


def _folder_of(process: Process) -> str | None:
    """Return the folder its shell is in now; None where the kernel does not say it. Blocking."""
    try:
        return (
            None
            if process.pid is None or process.status.is_ended
            else os.readlink(f"/proc/{process.pid}/cwd")
        )
    except OSError:
        return None
