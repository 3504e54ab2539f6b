"""The lean tools for agents (promise S4.13): run, read, wait, send, control, list.

Answers are text: one header line, then output within a budget. Nothing is remembered about a client: cursors travel
in the answers.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import replace

from outlive.core.command import Command
from outlive.core.cursor import BEGINNING, Cursor
from outlive.core.errors import OutliveError
from outlive.core.identity import is_process_id
from outlive.core.lifecycle import signal_number
from outlive.engine import Process, ProcessFilter
from outlive.frontends.mcp.tools.calls import Caller, Outcome, Progress, ToolPolicy, Unfinished
from outlive.frontends.mcp.tools.pages import LeanPage, read_matches, read_page, read_tail
from outlive.frontends.mcp.tools.runner import Runner, is_visible, wait_ready
from outlive.frontends.mcp.tools.workspaces import Workspaces
from outlive.protocols.mcp.answers import Circumstances, header
from outlive.protocols.mcp.arguments import read_arguments
from outlive.protocols.mcp.lean import (
    ControlArguments,
    ListArguments,
    ReadArguments,
    RunArguments,
    SendArguments,
    WaitArguments,
    WaitFor,
)
from outlive.protocols.mcp.tasks import TaskCall
from outlive.protocols.mcp.texts import error_text
from outlive.protocols.terminal.typed import typed_keys
from outlive.server.shown_output import duration_s

_Arguments = Mapping[str, object]
# The tag that makes a key findable again, after a restart too.
_KEY_TAG = "key"
_SETTLED_S = 0.2  # this long without output after an input, and the answer is there
_CANCELLED = "Cancelled by the client."


class LeanTools:
    """Answers the six tools; each public method is one."""

    def __init__(self, runner: Runner, admission: ToolPolicy, workspaces: Workspaces) -> None:
        """Take what runs commands, what decides whether they may, and where they may go on."""
        self._runner = runner
        self._workspaces = workspaces
        self._engine = runner.engine
        self._settings = runner.settings
        self._admission = admission
        self._keys = asyncio.Lock()

    async def run(self, arguments: _Arguments, caller: Caller, progress: Progress | None) -> Outcome:
        """Start a command, wait, and show what it wrote.

        Cancellation: ends what this call started, unless wait_s is 0 or a key found it running.
        """
        try:
            asked = read_arguments(arguments, RunArguments)
            wait_s = self._settings.wait_s if asked.wait_s is None else asked.wait_s
            process, is_new = await self._start(asked, caller, in_background=wait_s <= 0)
        except OutliveError as error:
            return _failed(error)
        try:
            if asked.wait_for is not None:
                await wait_ready(process, asked.wait_for, wait_s=wait_s)
            else:
                await self._runner.wait(process, wait_s=wait_s, progress=progress)
        except asyncio.CancelledError:
            if is_new and wait_s > 0:
                await self._runner.abandon(process.process_id)
            raise
        is_complete = process.is_complete
        call = TaskCall(tool="run", budget=asked.budget, raw=asked.raw)
        outcome = await self.result(process, call)
        if is_complete or asked.wait_s is not None or asked.wait_for is not None:
            return outcome
        return replace(outcome, unfinished=Unfinished(process, call))

    async def result(self, process: Process, call: TaskCall) -> Outcome:
        """Show what a process has written that a call of `run` has started."""
        page = await read_page(process, BEGINNING, raw=call.raw)
        workspace = await self._workspaces.shown(process)
        return await self._show(process, page, call.budget, workspace=workspace)

    async def read(self, arguments: _Arguments, caller: Caller, _progress: Progress | None) -> Outcome:
        """Show output that was written, from a cursor, from the end, or by a text."""
        try:
            asked = read_arguments(arguments, ReadArguments)
            process = await self._find(asked.id, caller)
            cursor = Cursor.parse(asked.cursor or "0")
            end = None if asked.end is None else Cursor.parse(asked.end)
        except OutliveError as error:
            return _failed(error)
        if asked.grep is not None:
            page = await read_matches(
                process, cursor, asked.grep, context=asked.context, most=asked.budget, raw=asked.raw
            )
            return await self._show(process, page, asked.budget, nothing="[no line matches]")
        if asked.tail is not None:
            page = await read_tail(process, asked.tail, raw=asked.raw)
        else:
            page = await read_page(process, cursor, end, raw=asked.raw)
        return await self._show(process, page, asked.budget, nothing="[nothing new]")

    async def wait(self, arguments: _Arguments, caller: Caller, progress: Progress | None) -> Outcome:
        """Wait until any or all of some processes are complete; show their headers. Ends nothing."""
        try:
            asked = read_arguments(arguments, WaitArguments)
            found = [await self._find(one, caller) for one in asked.ids]
        except OutliveError as error:
            return _failed(error)
        wait_s = self._settings.wait_s if asked.wait_s is None else asked.wait_s
        waiting = {
            asyncio.create_task(self._runner.wait(process, wait_s=wait_s, progress=progress))
            for process in found
        }
        try:
            when = asyncio.FIRST_COMPLETED if asked.mode == "any" else asyncio.ALL_COMPLETED
            await asyncio.wait(waiting, return_when=when)
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
        headers = [await self._header(process) for process in found]
        return Outcome(text="\n".join(headers))

    async def send(self, arguments: _Arguments, caller: Caller, _progress: Progress | None) -> Outcome:
        """Write to a process and show what it then writes."""
        try:
            asked = read_arguments(arguments, SendArguments)
            process = await self._find(asked.id, caller)
            acting = self._engine.as_(caller.owner)
            before = Cursor(process.log.size(0), process.log.size(1))
            start = before if asked.cursor is None else Cursor.parse(asked.cursor)
            if typed := typed_keys(asked.text, asked.keys):
                await acting.write(process, typed)
            if asked.eof:
                await acting.close_stdin(process)
        except OutliveError as error:
            return _failed(error)
        await self._settle(process, before, wait_s=asked.wait_s)
        page = await read_page(process, start)
        return await self._show(process, page, asked.budget, nothing="[no output yet]")

    async def control(self, arguments: _Arguments, caller: Caller, _progress: Progress | None) -> Outcome:
        """Pause, resume, cancel or signal; a cancel answers when the tree is gone."""
        try:
            asked = read_arguments(arguments, ControlArguments)
            process = await self._find(asked.id, caller)
            acting = self._engine.as_(caller.owner)
            match asked.action:
                case "pause":
                    await acting.pause(process)
                case "resume":
                    await acting.resume(process)
                case "cancel":
                    await self._runner.end(process, caller, note=_CANCELLED, grace_s=asked.grace)
                case "signal":
                    await acting.signal(process, signal_number(asked.signal or ""))
        except OutliveError as error:
            return _failed(error)
        return Outcome(text=await self._header(process))

    async def list(self, arguments: _Arguments, caller: Caller, _progress: Progress | None) -> Outcome:
        """List the caller's processes, one line each, newest first."""
        try:
            asked = read_arguments(arguments, ListArguments)
            wanted = ProcessFilter(
                principal=caller.principal, active=None if asked.all else True, tags=asked.tags, detached=True
            )
        except OutliveError as error:
            return _failed(error)
        records = await self._engine.queries.list(wanted, limit=asked.limit)
        notice = [f"[{told}]"] if (told := self._engine.disk.sentence()) else []
        rows = [
            f"{header(one, told).splitlines()[0]} {one.command[:120]!r}"
            for one in records
            for told in (Circumstances(duration_s=duration_s(one), redacted=one.redacted),)
        ]
        return Outcome(text="\n".join([*notice, *(rows or ["[no processes]"])]))

    async def _start(
        self, asked: RunArguments, caller: Caller, *, in_background: bool
    ) -> tuple[Process, bool]:
        """Start what was asked for, or find what the same key started; tell which."""
        command = self._command(asked)
        if asked.workspace is not None:
            command = await self._workspaces.enter(asked.workspace, command, caller)
        if asked.key is None:
            return await self._runner.start(command, caller, in_background=in_background), True
        async with self._keys:  # two calls with one key at once must not both start
            wanted = ProcessFilter(principal=caller.principal, tags={_KEY_TAG: asked.key})
            records = await self._engine.queries.list(wanted, limit=1)
            if records:
                return await self._engine.queries.find(records[0].process_id), False
            return await self._runner.start(command, caller, in_background=in_background), True

    def _command(self, asked: RunArguments) -> Command:
        command = asked.make_command(
            line=asked.command,
            argv=_admitted_words(asked, self._admission),
            script=asked.script,
            stdin=asked.stdin,
            stdio="pty" if asked.pty else "pipes",
            default_grace_s=self._settings.termination_timeout_s,
            detached=True,
        )
        return command if asked.key is None else replace(command, tags={**asked.tags, _KEY_TAG: asked.key})

    async def _find(self, name: str, caller: Caller) -> Process:
        """Return a caller's process by its process id or its command id."""
        if is_process_id(name):
            process = await self._engine.queries.find(name)
            if is_visible(process, caller):
                return process
        hint = "Use list to see your processes."
        try:
            return await self._runner.find(ProcessFilter(principal=caller.principal, command_id=name), caller)
        except OutliveError as error:
            text = f"No process of yours has the id {name[:40]!r}."
            raise type(error)(error.code, text, hint=hint) from None

    async def _settle(self, process: Process, before: Cursor, *, wait_s: float) -> None:
        """Wait for output after `before` and then for a short silence."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_s
        woken = asyncio.Event()
        unsubscribe = process.subscribers.add(woken.set)
        try:
            async with asyncio.timeout_at(deadline):
                while not process.is_complete and process.log.read(before, 1) == []:
                    woken.clear()
                    await woken.wait()
        except TimeoutError:
            return
        finally:
            unsubscribe()
        left_s = max(0.0, deadline - loop.time())
        await wait_ready(process, WaitFor(idle_s=_SETTLED_S), wait_s=left_s)

    async def _show(
        self,
        process: Process,
        page: LeanPage,
        budget: int,
        *,
        nothing: str = "",
        workspace: str | None = None,
    ) -> Outcome:
        hidden = page.redacted(budget=budget)
        first = await self._header(
            process, page.cursor, lines=page.lines, workspace=workspace, redacted=hidden
        )
        text = page.text(process.process_id, budget=budget) or nothing
        return Outcome(text=f"{first}\n{text}" if text else first)

    async def _header(
        self,
        process: Process,
        cursor: Cursor | None = None,
        *,
        lines: int | None = None,
        workspace: str | None = None,
        redacted: int = 0,
    ) -> str:
        seen = await self._engine.queries.observe(process)
        record = process.record
        now = Circumstances(
            duration_s=duration_s(record),
            cursor=cursor,
            lines=lines,
            ports=seen.ports,
            waiting=seen.waiting,
            workspace=workspace,
            redacted=redacted,
        )
        return header(record, now)


def _admitted_words(asked: RunArguments, admission: ToolPolicy) -> tuple[str, ...] | None:
    """Return the argv of a command that may be run; None of a line.

    Raises:
        OutliveError: It may not.
    """
    if asked.script is not None:
        admission.check_script(asked.interpreter, asked.script)
        return (asked.interpreter,)
    if asked.argv is not None:
        admission.check_argv(asked.argv)
        return asked.argv
    admission.check_line(asked.command or "")
    return None


def _failed(error: OutliveError) -> Outcome:
    return Outcome(text=error_text(error), is_error=True)
