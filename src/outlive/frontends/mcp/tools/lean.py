"""The lean tools for agents (promise S4.13): run, read, wait, send, control, list.

Answers are text: one header line, then output within a budget. Nothing is remembered about a client: cursors travel
in the answers.
"""

import asyncio
import contextlib
from dataclasses import replace

from outlive.core.controls import CloseInput, Pause, Resume, SignalProcess
from outlive.core.cursor import BEGINNING, Cursor
from outlive.core.errors import OutliveError
from outlive.core.identity import is_process_id
from outlive.core.lifecycle import signal_number
from outlive.engine import Process, ProcessFilter
from outlive.engine.processes.process import until
from outlive.frontends.mcp.tools.calls import Outcome, ToolPolicy, Unfinished
from outlive.frontends.mcp.tools.pages import LeanPage, read_matches, read_page, read_tail
from outlive.frontends.mcp.tools.runner import Runner, ToolCall, is_visible, wait_ready
from outlive.frontends.mcp.tools.workspaces import enter, shown_workspace
from outlive.protocols.mcp.arguments import (
    ControlArguments,
    ListArguments,
    ReadArguments,
    RunArguments,
    SendArguments,
    WaitArguments,
    WaitFor,
)
from outlive.protocols.mcp.tasks import TaskCall
from outlive.protocols.mcp.texts import Circumstances, header
from outlive.protocols.terminal.typed import typed_keys
from outlive.server.shown_output import duration_s

# The tag that makes a key findable again, after a restart too.
_KEY_TAG = "key"
_SETTLED_S = 0.2  # this long without output after an input, and the answer is there


async def run(call: ToolCall, asked: RunArguments) -> Outcome:
    """Start a command, wait, and show what it wrote.

    Cancellation: ends what this call started, unless wait_s is 0 or a key found it running.
    """
    wait_s = call.runner.settings.wait_s if asked.wait_s is None else asked.wait_s
    process, is_new = await _start(call, asked, in_background=wait_s <= 0)
    try:
        if asked.wait_for is not None:
            await wait_ready(process, asked.wait_for, wait_s=wait_s)
        else:
            await call.wait(process, wait_s=wait_s)
    except asyncio.CancelledError:
        if is_new and wait_s > 0:
            await call.runner.abandon(process.process_id)
        raise
    is_complete = process.is_complete
    task_call = TaskCall(tool="run", budget=asked.budget, raw=asked.raw)
    outcome = await result(call.runner, process, task_call)
    if is_complete or asked.wait_s is not None or asked.wait_for is not None:
        return outcome
    return replace(outcome, unfinished=Unfinished(process, task_call))


async def result(runner: Runner, process: Process, call: TaskCall) -> Outcome:
    """Show what a process has written that a call of `run` has started."""
    page = await read_page(process, BEGINNING, raw=call.raw)
    return await _show(runner, process, page, call.budget, workspace=await shown_workspace(process))


async def read(call: ToolCall, asked: ReadArguments) -> Outcome:
    """Show output that was written, from a cursor, from the end, or by a text."""
    process = await _find(call, asked.id)
    cursor = Cursor.parse(asked.cursor or "0")
    end = None if asked.end is None else Cursor.parse(asked.end)
    nothing = "[nothing new]"
    if asked.grep is not None:
        nothing = "[no line matches]"
        page = await read_matches(
            process, cursor, asked.grep, context=asked.context, most=asked.budget, raw=asked.raw
        )
    elif asked.tail is not None:
        page = await read_tail(process, asked.tail, raw=asked.raw)
    else:
        page = await read_page(process, cursor, end, raw=asked.raw)
    return await _show(call.runner, process, page, asked.budget, nothing=nothing)


async def wait(call: ToolCall, asked: WaitArguments) -> Outcome:
    """Wait until any or all of some processes are complete; show their headers. Ends nothing."""
    found = [await _find(call, one) for one in asked.ids]
    wait_s = call.runner.settings.wait_s if asked.wait_s is None else asked.wait_s
    waiting = {asyncio.create_task(call.wait(process, wait_s=wait_s)) for process in found}
    try:
        when = asyncio.FIRST_COMPLETED if asked.mode == "any" else asyncio.ALL_COMPLETED
        await asyncio.wait(waiting, return_when=when)
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
    return Outcome(text="\n".join([await _header(call.runner, process) for process in found]))


async def send(call: ToolCall, asked: SendArguments) -> Outcome:
    """Write to a process and show what it then writes."""
    process = await _find(call, asked.id)
    acting = call.runner.engine.as_(call.caller.owner)
    before = Cursor(process.log.size(0), process.log.size(1))
    start = before if asked.cursor is None else Cursor.parse(asked.cursor)
    if typed := typed_keys(asked.text, asked.keys):
        await acting.write(process, typed)
    if asked.eof:
        await acting.control(process, CloseInput())
    await _settle(process, before, wait_s=asked.wait_s)
    page = await read_page(process, start)
    return await _show(call.runner, process, page, asked.budget, nothing="[no output yet]")


async def control(call: ToolCall, asked: ControlArguments) -> Outcome:
    """Pause, resume, cancel or signal; a cancel answers when the tree is gone."""
    process = await _find(call, asked.id)
    acting = call.runner.engine.as_(call.caller.owner)
    match asked.action:
        case "pause":
            await acting.control(process, Pause())
        case "resume":
            await acting.control(process, Resume())
        case "cancel":
            await call.end(process, note="Cancelled by the client.", grace_s=asked.grace)
        case "signal":
            await acting.control(process, SignalProcess(number=signal_number(asked.signal or "")))
    return Outcome(text=await _header(call.runner, process))


async def list_all(call: ToolCall, asked: ListArguments) -> Outcome:
    """List the caller's processes, one line each, newest first."""
    engine = call.runner.engine
    active = None if asked.all else True
    wanted = ProcessFilter(principal=call.caller.principal, active=active, tags=asked.tags, detached=True)
    rows = []
    for record in await engine.queries.list(wanted, limit=asked.limit):
        now = Circumstances(duration_s=duration_s(record), redacted=record.redacted)
        rows.append(f"{header(record, now).splitlines()[0]} {record.command[:120]!r}")
    notice = [f"[{sentence}]"] if (sentence := engine.disk.sentence()) else []
    return Outcome(text="\n".join([*notice, *(rows or ["[no processes]"])]))


async def _start(call: ToolCall, asked: RunArguments, *, in_background: bool) -> tuple[Process, bool]:
    """Start what was asked for, or find what the same key started; return whether it is new."""
    command = call.make_command(
        asked,
        line=asked.command,
        argv=_admitted_words(asked, call.runner.policy),
        script=asked.script,
        stdin=asked.stdin,
        stdio="pty" if asked.pty else "pipes",
    )
    if asked.key is not None:
        command = replace(command, tags={**asked.tags, _KEY_TAG: asked.key})
    if asked.workspace is not None:
        command = await enter(call, asked.workspace, command)
    if asked.key is None:
        return await call.start(command, in_background=in_background), True
    queries = call.runner.engine.queries
    async with call.runner.keys:  # two calls with one key at once must not both start
        wanted = ProcessFilter(principal=call.caller.principal, tags={_KEY_TAG: asked.key})
        for record in await queries.list(wanted, limit=1):
            return await queries.find(record.process_id), False
        return await call.start(command, in_background=in_background), True


def _admitted_words(asked: RunArguments, policy: ToolPolicy) -> tuple[str, ...] | None:
    """Return the argv of a command that may be run; None of a line.

    Raises:
        OutliveError: It may not.
    """
    if asked.script is not None:
        policy.check_script(asked.interpreter, asked.script)
        return (asked.interpreter,)
    if asked.argv is not None:
        policy.check_argv(asked.argv)
        return asked.argv
    policy.check_line(asked.command or "")
    return None


async def _find(call: ToolCall, name: str) -> Process:
    """Return a caller's process by its process id or its command id."""
    if is_process_id(name):
        process = await call.runner.engine.queries.find(name)
        if is_visible(process, call.caller):
            return process
    try:
        return await call.find(name)
    except OutliveError as error:
        text = f"No process of yours has the id {name[:40]!r}."
        raise type(error)(error.code, text, hint="Use list to see your processes.") from None


async def _settle(process: Process, before: Cursor, *, wait_s: float) -> None:
    """Wait for output after `before` and then for a short silence."""
    clock = asyncio.get_running_loop().time
    deadline = clock() + wait_s
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout_at(deadline):
            await until(process, lambda one: one.is_complete or one.log.read(before, 1) != [])
            await wait_ready(process, WaitFor(idle_s=_SETTLED_S), wait_s=max(0.0, deadline - clock()))


async def _show(
    runner: Runner,
    process: Process,
    page: LeanPage,
    budget: int,
    *,
    nothing: str = "",
    workspace: str | None = None,
) -> Outcome:
    first = await _header(runner, process, page, workspace=workspace, redacted=page.redacted(budget=budget))
    text = page.text(process.process_id, budget=budget) or nothing
    return Outcome(text=f"{first}\n{text}" if text else first)


async def _header(
    runner: Runner,
    process: Process,
    page: LeanPage | None = None,
    *,
    workspace: str | None = None,
    redacted: int = 0,
) -> str:
    seen = await runner.engine.queries.observe(process)
    record = process.record
    now = Circumstances(
        duration_s=duration_s(record),
        cursor=None if page is None else page.cursor,
        lines=None if page is None else page.lines,
        ports=seen.ports,
        waiting=seen.waiting,
        workspace=workspace,
        redacted=redacted,
    )
    return header(record, now)
