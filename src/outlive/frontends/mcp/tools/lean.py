"""The lean tools for agents (promise S4.13): run, read, wait, send, stop, control, list.

Answers are text: one header line, then output within a budget. What a session has seen is remembered
(`SessionMemory`), so that nothing is shown twice and no cursor has to be passed; `waits` says when a call
answers before the end.
"""

import asyncio
import contextlib
import os
import re
from datetime import UTC, datetime

from outlive.core.command import Command, Profile
from outlive.core.controls import CloseInput, Pause, Resume, SignalProcess
from outlive.core.cursor import BEGINNING, Cursor
from outlive.core.errors import InvalidState, OutliveError, ProcessNotFound
from outlive.core.hints import ran_before
from outlive.core.lifecycle import State, signal_number
from outlive.core.process import ProcessRecord
from outlive.core.values import replace
from outlive.engine import OutputLog, Process, ProcessFilter
from outlive.engine.commands.unfiltered import unfiltered_log, unfiltered_of
from outlive.frontends.mcp.tools.calls import Outcome, Unfinished, allowed_patterns
from outlive.frontends.mcp.tools.lean_answers import described, listed, show, show_all, shown_before
from outlive.frontends.mcp.tools.pages import read_head, read_page, read_tail
from outlive.frontends.mcp.tools.runner import AGENT_GRACE_S, Runner, ToolCall
from outlive.frontends.mcp.tools.search import count_elsewhere, read_matches, search_all
from outlive.frontends.mcp.tools.waits import (
    Reason,
    WaitEnd,
    cut_words,
    reporting,
    until_answerable,
    until_any,
    wish_words,
)
from outlive.frontends.mcp.tools.workspaces import enter, shown_workspace
from outlive.operations.terminal_requests import typed_keys
from outlive.policy.patterns import CommandPatterns
from outlive.protocols.mcp.arguments import (
    ControlArguments,
    ListArguments,
    ReadArguments,
    RunArguments,
    SendArguments,
    StopArguments,
    WaitArguments,
    WaitFor,
)
from outlive.protocols.mcp.lenient import MOST_LISTED
from outlive.protocols.mcp.tasks import TaskCall
from outlive.protocols.mcp.texts import STOPPED_NOTE, error_text
from outlive.protocols.output.body import FAILURE_BUDGET
from outlive.protocols.output.pattern import Pattern

_SETTLED_S = 0.5  # silence after an input, of a program that the kernel does not show waiting
_SEND_S = 30.0  # for the answer to an input
# Of a model that believes itself in a shell that stays.
_BARE_CD = re.compile(r"\s*(?:cd|pushd)(?:\s+[^\s;&|]+)?\s*")
_CD_HINT = '[cd does not last: pass cwd="…", or the same workspace="…" in each run]'
_LISTS = "list() shows running processes, list(all=true) ended ones, too."


async def run(call: ToolCall, asked: RunArguments) -> Outcome:
    """Start a command, wait, and show what it wrote.

    Cancellation: ends what this call started, unless it runs in the background, a key found it, or the host
    gave up waiting (`Runner.leave`).
    """
    wait_s = call.patience_s(asked.wait_s, has_wish=asked.wait_for is not None)
    process, is_new = await _start(call, asked, in_background=wait_s <= 0)
    async with reporting([process], call.progress):
        over = await until_answerable(
            call.runner.engine,
            process,
            asked.wait_for,
            wait_s=wait_s,
            heeds_servers=asked.wait_for is None and asked.wait_s is None,
        )
    # Before the output is read: an end that comes in between is reported by the next call, together with its
    # last lines.
    is_complete = process.status.is_complete
    task_call = TaskCall(tool="run", budget=asked.budget or 0, raw=asked.raw)
    page = await read_page(process.log, BEGINNING, raw=asked.raw)
    remark = "" if is_new else _ran(process.record)
    workspace = await shown_workspace(process)
    remark = remark or await _wait_words(asked, wait_s, over)
    note = ""
    if is_complete and asked.workspace is None and _BARE_CD.fullmatch(asked.command or ""):
        note = _CD_HINT if call.runner.memory.note_cd(call.caller) else ""
    outcome = await show(
        call, process, page, asked.budget, workspace=workspace, remark=remark, reason=over.reason, note=note
    )
    # A caller that has said how long it waits wants this answer, and no task in its place.
    if is_complete or asked.wait_s is not None or asked.wait_for is not None:
        return outcome
    return replace(outcome, unfinished=Unfinished(process, task_call))


async def result(runner: Runner, process: Process, call: TaskCall) -> Outcome:
    """Show what a process has written that a call of `run` has started."""
    page = await read_page(process.log, BEGINNING, raw=call.raw)
    first, text = await described(
        runner, process, page, call.budget, workspace=await shown_workspace(process), hints=True
    )
    return Outcome(text=f"{first}\n{text}" if text else first)


async def read(call: ToolCall, asked: ReadArguments) -> Outcome:
    """Show output: what the session has not seen yet, or from a cursor, from the end, or by a pattern,
    without an id in all output.

    Raises:
        ProcessNotFound: The caller's project has no such process.
        InvalidState: `no_unfiltered`: nothing was kept beside its final filter.

    Cancellation: safe; nothing is noted as seen.
    """
    if asked.id is None:
        return await _read_all(call, asked)
    process = await _find(call, asked.id)
    if not asked.unfiltered:
        return await _read(call, process, process.log, asked)
    kept = await unfiltered_of(process)
    if kept is None or kept.size is None:
        text = "Nothing is kept of what entered a final filter of this command."
        raise InvalidState("no_unfiltered", text)
    log = unfiltered_log(process)
    try:
        return await _read(call, process, log, asked)
    finally:
        log.close()


async def _read_all(call: ToolCall, asked: ReadArguments) -> Outcome:
    pattern = Pattern(asked.grep or "")
    caller = call.caller
    found = await search_all(
        call.runner.engine, asked, pattern, principal=caller.principal, project=caller.project_root
    )
    elsewhere = ""
    if not found.shown and found.following is None and not asked.all_projects:
        count, is_whole = await count_elsewhere(call.runner.engine, pattern, principal=caller.principal)
        if count or not is_whole:
            least = "" if is_whole else "at least "
            elsewhere = f"in {least}{count} processes of other projects: all_projects=true"
    return await show_all(call, found, pattern, is_everywhere=asked.all_projects, elsewhere=elsewhere)


async def _read(call: ToolCall, process: Process, log: OutputLog, asked: ReadArguments) -> Outcome:
    # "100.0-400.20": the range that an omission mark names; a plain cursor has no end.
    first, _, last = (asked.cursor or "").partition("-")
    cursor = Cursor.parse(first) if first else None
    end = Cursor.parse(asked.end or last) if asked.end or last else None
    budget = FAILURE_BUDGET if asked.budget is None else asked.budget  # a caller that reads on has a reason
    nothing = "[nothing new]"
    if asked.grep is not None:
        nothing = "[no line matches]"
        page = await read_matches(
            log, cursor or BEGINNING, asked.grep, context=asked.context, most=budget, raw=asked.raw, end=end
        )
    elif asked.tail is not None:
        page = await read_tail(log, asked.tail, raw=asked.raw)
    elif asked.head is not None:
        page = await read_head(log, asked.head, raw=asked.raw)
    else:
        is_new = cursor is None and not asked.unfiltered
        start = call.runner.memory.shown(call.caller, process.process_id) if is_new else cursor or BEGINNING
        page = await read_page(log, start, end, raw=asked.raw)
        if is_new and process.status.is_complete:
            nothing = shown_before(process, start)
    # Such a page leaves out lines without a mark for them, and must not be noted as seen.
    is_part = asked.unfiltered or any(one is not None for one in (asked.grep, asked.tail, asked.head, end))
    return await show(
        call, process, page, budget, nothing=nothing, is_part=is_part, is_unfiltered=asked.unfiltered
    )


async def wait(call: ToolCall, asked: WaitArguments) -> Outcome:
    """Wait until any or all of some processes are answerable; show of each what the session has not seen.

    Ends nothing.
    """
    found = [await _find(call, one) for one in asked.ids]
    starts = [call.runner.memory.shown(call.caller, process.process_id) for process in found]
    wait_s = call.patience_s(asked.wait_s, has_wish=asked.wait_for is not None)
    async with reporting(found, call.progress):
        ends = await until_any(
            call.runner.engine,
            found,
            asked.wait_for,
            wait_s=wait_s,
            needs_all=asked.mode == "all",
            starts=starts,
        )
    # A model that asks again about ends has lost the answers that told them.
    memory = call.runner.memory
    is_again = all(one.status.is_complete and memory.was_over(call.caller, one.process_id) for one in found)
    texts = []
    for process, start, over in zip(found, starts, ends, strict=True):
        reason = None if over is None else over.reason
        if process.status.is_complete:
            reason = "end"
        elif process.status.waiting != "no":
            reason = "question"
        if reason is None:  # another one is the answer: this one's output is for later
            texts.append((await described(call.runner, process, None, None, shows_id=True))[0])
            continue
        page = await read_page(process.log, start)
        remark = await _wait_words(asked, wait_s, over)
        nothing = shown_before(process, start) if is_again and start != BEGINNING else ""
        shown = await show(
            call, process, page, asked.budget, nothing=nothing, remark=remark, reason=reason, shows_id=True
        )
        texts.append(shown.text)
    return Outcome(text="\n".join(texts))


async def send(call: ToolCall, asked: SendArguments) -> Outcome:
    """Write to a process and show what it then writes, to its next question or its end.

    Raises:
        ProcessNotFound: The caller's project has no such process.
        InvalidState: Its input is closed, or it has ended.

    Cancellation: what was written stays written; the process goes on, and the answer is shown by the next
    look.
    """
    process = await _find(call, asked.id)
    engine = call.runner.engine
    acting = engine.as_(call.caller.owner)
    # Taken before the write: a fast program answers before this task runs again, and its answer must not be
    # missed.
    before = process.log.end
    start = (
        call.runner.memory.shown(call.caller, process.process_id)
        if asked.cursor is None
        else Cursor.parse(asked.cursor)
    )
    if typed := typed_keys(asked.text, asked.keys):
        await acting.write(process, typed)
    if asked.eof:
        await acting.control(process, CloseInput())
    wait_s = call.patience_s(_SEND_S if asked.wait_s is None else asked.wait_s)
    # A program that the kernel shows waiting again has said all; of one that never waits, silence has to do.
    wanted = asked.wait_for or (None if process.has_stdin else WaitFor(idle_s=_SETTLED_S))
    async with reporting([process], call.progress):
        over = await until_answerable(engine, process, wanted, wait_s=wait_s, start=before)
    page = await read_page(process.log, start, raw=asked.raw)
    nothing = "" if process.status.is_complete else "[no output yet]"
    remark = await _wait_words(asked, wait_s, over)
    reason: Reason | None = over.reason
    note = ""
    if reason == "question" and await _lacks_enter(process, asked, before):
        note = "[no Enter was sent: end text with \\n]"
    if reason == "question" and process.status.waiting == "input":
        reason = None  # a caller that has just answered one question knows how
    return await show(
        call, process, page, asked.budget, nothing=nothing, remark=remark, reason=reason, note=note
    )


async def _wait_words(
    asked: RunArguments | WaitArguments | SendArguments, wait_s: float, over: WaitEnd | None
) -> str:
    """Return what a header says of the wait itself."""
    words = [await wish_words(asked.wait_for, over), cut_words(asked.wait_s, wait_s, over)]
    return ", ".join(filter(None, words))


async def _lacks_enter(process: Process, asked: SendArguments, before: Cursor) -> bool:
    """Tell whether a process that still waits was sent a text without Enter, and has only echoed it."""
    if not asked.text or asked.keys or asked.eof or not asked.text[-1].isprintable():
        return False
    lines = (await read_page(process.log, before)).excerpt.lines
    echo = "".join(line.text for line in lines).strip()
    return echo in ("", asked.text.strip())


async def stop(call: ToolCall, asked: StopArguments) -> Outcome:
    """End whole process trees, side by side; answers when they are gone, with the output that was not shown.

    An id that is unknown, and an end that is refused or fails, is said in its line; the answer is an error
    when that is so of all.

    Raises:
        ProcessNotFound: The only id is unknown.

    Cancellation: ends that were asked for go on.
    """
    found: list[Process | OutliveError] = []
    for name in asked.ids:
        try:
            found.append(await _find(call, name))
        except OutliveError as error:
            if len(asked.ids) == 1:
                raise
            call.runner.engine.redaction.finish(error)
            found.append(error)  # the others end all the same
    grace_s = AGENT_GRACE_S if asked.grace is None else asked.grace
    lines = await asyncio.gather(*(_stopped(call, one, grace_s=grace_s) for one in found))
    return Outcome(
        text="\n".join(text for text, _ in lines), is_error=not any(is_done for _, is_done in lines)
    )


async def _stopped(call: ToolCall, found: Process | OutliveError, *, grace_s: float) -> tuple[str, bool]:
    """End one tree; return what the answer says of it, and whether it is gone."""
    if isinstance(found, OutliveError):
        return found.message, False
    try:
        with contextlib.suppress(InvalidState):  # it has ended, and nothing of it is left
            await call.end(found, note=STOPPED_NOTE, grace_s=grace_s)
    except OutliveError as error:
        return f"{found.record.short_id}: {error_text(error)}", False
    page = await read_page(found.log, call.runner.memory.shown(call.caller, found.process_id))
    return (await show(call, found, page, None, shows_id=True)).text, True


async def control(call: ToolCall, asked: ControlArguments) -> Outcome:
    """Pause, resume, cancel or signal; a cancel answers when the tree is gone."""
    process = await _find(call, asked.id)
    acting = call.runner.engine.as_(call.caller.owner)
    is_paused, remark = process.status.state is State.PAUSED, ""
    match asked.action:
        case "pause":
            await acting.control(process, Pause())
            remark = "it was paused already" if is_paused else ""
        case "resume":
            await acting.control(process, Resume())
            remark = "" if is_paused else "it was not paused"
        case "cancel":
            return await stop(call, StopArguments(ids=[asked.id], grace=asked.grace))
        case "signal":
            await acting.control(
                process, SignalProcess(signal=signal_number("INT" if asked.signal is None else asked.signal))
            )
    first, _ = await described(call.runner, process, None, None, shows_id=True, remark=remark)
    return Outcome(text=first)


async def list_all(call: ToolCall, asked: ListArguments) -> Outcome:
    """List the processes of the caller's project, one line each, newest first."""
    engine, near = call.runner.engine, call.caller.project_root
    wanted = ProcessFilter(
        principal=call.caller.principal,
        project=None if asked.all_projects else near,
        active=None if asked.all else True,
        tags=asked.tags,
        detached=True,
    )
    # One more than is shown tells that there are more.
    records = await engine.queries.list(wanted, limit=asked.limit + 1, may_lack=True)
    # Side by side: each looks at the ports of a tree, which takes some milliseconds.
    rows = await asyncio.gather(
        *(listed(call.runner, record, near=near) for record in records[: asked.limit])
    )
    notice = [f"[{sentence}]"] if (sentence := await engine.disk.sentence()) else []
    if len(records) > asked.limit:
        notice.append(f"[the newest {asked.limit}; limit={min(5 * asked.limit, MOST_LISTED)} shows more]")
    if rows:
        return Outcome(text="\n".join([*notice, *rows]))
    hint = "no processes" if asked.all else "nothing is running; all=true includes ended ones"
    if not asked.all_projects:
        count = len(await engine.queries.list(replace(wanted, project=None), limit=MOST_LISTED))
        which = "all=true, all_projects=true" if asked.all else "all_projects=true"
        hint += f"; {count} in other projects: list({which})" if count else ""
    return Outcome(text="\n".join([*notice, f"[{hint}]"]))


async def _start(call: ToolCall, asked: RunArguments, *, in_background: bool) -> tuple[Process, bool]:
    """Start what was asked for, or find what the same key started; return whether it is new."""
    runner = call.runner
    # A password for sudo is typed by a person, unseen; in every other profile sudo could do nothing.
    is_open = (asked.profile or runner.engine.sandboxes.default) == Profile.OPEN
    patterns = allowed_patterns(
        runner.settings, has_script=asked.script is not None, is_lean_and_open=is_open
    )
    command = call.make_command(
        asked,
        line=asked.command,
        argv=_admitted_words(asked, patterns),
        script=asked.script,
        stdin=asked.stdin,
        stdio="pty" if asked.pty else "pipes",
        key=asked.key,
        name=asked.name,
        replaces=asked.replace,
        keeps_unfiltered=True,
        default_grace_s=AGENT_GRACE_S,
    )
    command = _at_home(command)
    if asked.workspace is not None:
        command = await enter(call, asked.workspace, command)
    return await call.start(command, in_background=in_background)


def _at_home(command: Command) -> Command:
    """Return a command whose folder has no `~`, which no kernel knows: its caller's home folder."""
    cwd = command.cwd or ""
    if cwd.split("/")[0] != "~":
        return command
    home = (command.caller_env or {}).get("HOME") or os.path.expanduser("~")
    return replace(command, cwd=home + cwd[1:])


def _admitted_words(asked: RunArguments, patterns: CommandPatterns) -> tuple[str, ...] | None:
    """Return the argv of a command that may be run; None of a line.

    Raises:
        OutliveError: It may not.
    """
    if asked.script is not None:
        words = _interpreter(asked)
        patterns.check_script(words[0], asked.script)
        return words
    if asked.argv is not None:
        patterns.check_argv(asked.argv)
        return asked.argv
    patterns.check_line(asked.command or "")
    return None


def _interpreter(asked: RunArguments) -> tuple[str, ...]:
    """Return the words that run a script: those asked for, else those of its first line (execve(2),
    "Interpreter scripts").
    """
    if asked.interpreter is not None:
        return (asked.interpreter,)
    first = (asked.script or "").partition("\n")[0].strip()
    words = first[2:].split(maxsplit=1) if first.startswith("#!") else []
    return tuple(words) or ("/bin/bash",)


async def _find(call: ToolCall, word: str) -> Process:
    """Return the process that a word means in the caller's project.

    Raises:
        ProcessNotFound: None.
        InvalidRequest: It could mean several.
    """
    try:
        return await call.lookup(word)
    except ProcessNotFound as error:
        text = f"No process of this project has the id {word.strip()[:40]!r}."
        # Where one of that name lives in another project, the hint says that.
        if error.details:
            raise ProcessNotFound(error.code, text, hint=error.hint) from None
        raise ProcessNotFound(error.code, text) from None


def _ran(record: ProcessRecord) -> str:
    """Return when the process of a key ran: its result may be old."""
    if not record.is_ended:
        return ran_before(None)
    # A model that repeats what failed wants it run.
    again = "" if record.exit_code == 0 else " (another key runs it again)"
    return ran_before((datetime.now(UTC) - (record.ended_at or record.created_at)).total_seconds()) + again
