"""What the lean tools answer about a process: a header line, a page of output, and what is best done next
(promise S4.13.answers).

Texts are `protocols.mcp.texts`' and `protocols.output`'s; here is decided what of them an answer needs, and
the session's memory is told what was shown.
"""

import asyncio
import contextlib
import os
import re
import shlex
import shutil
import sys
from datetime import UTC, datetime
from itertools import groupby

from outlive.core.cursor import BEGINNING, Cursor
from outlive.core.errors import OutliveError
from outlive.core.hints import elapsed
from outlive.core.identity import short_name
from outlive.core.lifecycle import State
from outlive.core.printable import hidden_words
from outlive.core.process import ProcessRecord
from outlive.engine import Process
from outlive.engine.commands.unfiltered import HiddenByFilter, hidden_by_filter
from outlive.frontends.mcp.tools.calls import Caller, Outcome
from outlive.frontends.mcp.tools.pages import LeanPage
from outlive.frontends.mcp.tools.runner import Runner, ToolCall
from outlive.frontends.mcp.tools.search import AllFound
from outlive.frontends.mcp.tools.waits import Reason
from outlive.protocols.mcp.hosts import McpHost, host_of
from outlive.protocols.mcp.texts import Circumstances, before_words, header
from outlive.protocols.output.body import Source, default_budget
from outlive.protocols.output.matches import quoted
from outlive.protocols.output.pattern import Pattern
from outlive.server.shown_output import duration_s

# After so many minutes a model has other work, or has ended its turn: more would be a way to forget the
# process.
_MOST_MINUTES = 30  # between two looks at a process that has no news

_OUTLIVE = re.compile(r"(`|: )outlive (?=[a-z])")  # a command line that a text of ours names
# After so long an answer stands alone: of what was asked for nothing is near it any more.
_ALONE_S = 30.0
# What programs say that ask at a terminal and have none.
_NO_TERMINAL = re.compile(
    r"/dev/tty|a terminal is required|not a (?:tty|terminal)\b|inappropriate ioctl for device", re.IGNORECASE
)
_TERMINAL_HINT = "[it looked for a terminal: run again with pty=true]"
_ALONE_CHARACTERS = 60  # of a command that is known already
_LAST_LINES = 20  # of a program that has failed, among which it says why
_LISTED_CHARACTERS = 120  # of a command in a list: enough to know it again
_MB = 1_000_000
_SCRIPT_BYTES = 4096  # of a script, in which its first line is looked for


async def show(
    call: ToolCall,
    process: Process,
    page: LeanPage,
    budget: int | None,
    *,
    nothing: str = "",
    workspace: str | None = None,
    remark: str = "",
    reason: Reason | None = None,
    shows_id: bool = False,
    is_part: bool = False,
    is_unfiltered: bool = False,
    note: str = "",
) -> Outcome:
    """Return a header and a page of output, and note that the answer shows it (unless it `is_part` of what
    there is).

    Args:
        call: The call that is answered.
        process: What it is about.
        page: The output that the answer has room for.
        budget: Characters of output; None for as many as the kind of end deserves.
        nothing: Said in the place of output where there is none.
        workspace: The name of its workspace, and what it has left there.
        remark: One more fact for the header.
        reason: Why the wait for it is over, from which follows what to do next; None to say nothing of that.
        shows_id: Whether the header names it in any case, as where an answer is about several.
        is_part: Whether the page leaves out lines without a mark for them.
        is_unfiltered: Whether the page is of what entered the final filter, not of the output.
        note: What to do next, in the place of what follows from `reason`.
    """
    memory = call.runner.memory
    if memory.take_given_up(process.process_id):
        remark = remark or "the host gave up waiting, and it went on"
    first, text = await described(
        call.runner,
        process,
        page,
        budget,
        workspace=workspace,
        remark=remark,
        shows_id=shows_id,
        is_unfiltered=is_unfiltered,
        # Once, with the end or what was printed last: a look that shows nothing new has said it before.
        hints=not is_part and bool(reason or page.excerpt.lines),
        is_alone=reason is not None and duration_s(process.record) > _ALONE_S,
    )
    if process.has_terminal and not text.strip():
        text = ""  # a full-screen program has cleared its screen
    if not is_part:
        call.shown[process.process_id] = (page.excerpt.start, page.cursor, process.status.is_complete)
    if reason == "question" and process.status.waiting == "password":
        # The answer names the way by which a person can type it.
        call.runner.engine.questions.note_asked(process)
    idle_waits = 0
    if reason == "time" and not text:
        idle_waits = memory.count_idle_wait(call.caller, process.process_id)
    else:
        memory.forget_idle_waits(call.caller, process.process_id)
    following = note
    if reason == "end" and process.record.exit_code and not process.has_terminal:
        is_asking = any(_NO_TERMINAL.search(line.text) for line in page.excerpt.lines[-_LAST_LINES:])
        following = following or (_TERMINAL_HINT if is_asking else "")
    if not note and reason is not None and not process.status.is_complete:
        following = _next(process, reason, host_of(call.caller.client), idle_waits=idle_waits)
    # What a person has to do (`ProcessRecord.hint`) stands below the header.
    state, *rest = first.split("\n", 1)
    first = "\n".join([state, *[await runnable(call.caller, one) for one in rest]])
    following = await runnable(call.caller, following)
    parts = [first, text or nothing, following]
    return Outcome(text="\n".join(filter(None, parts)))


def shown_before(process: Process, start: Cursor) -> str:
    """Return what stands in the place of an ended process's output of which all was shown, up to `start`: the
    model asks for it since its conversation was shortened.
    """
    if start == BEGINNING:
        return "[it has printed nothing]"
    call = f'read(id="{process.record.short_id}", cursor="0")'
    return f"[its output was shown before: {call} shows it again]"


async def runnable(caller: Caller, text: str) -> str:
    """Return a text of ours with its command lines of outlive as the caller's host can run them.

    Cancellation: safe.
    """
    if _OUTLIVE.search(text) is None:
        return text
    path = None if caller.project is None else caller.project.env.get("PATH")
    program = await asyncio.to_thread(_outlive_program, path)
    return _OUTLIVE.sub(lambda found: f"{found[1]}{program} ", text)


def _outlive_program(path: str | None) -> str:
    """Return how a shell with this PATH (None: this server's own) runs outlive: by its path where PATH does
    not lead to it, as after an installation into a venv.
    """
    if shutil.which("outlive", path=path) is not None:
        return "outlive"
    beside = os.path.join(os.path.dirname(sys.executable), "outlive")
    if os.access(beside, os.X_OK):
        return shlex.quote(beside)
    return f"{shlex.quote(sys.executable)} -P -m outlive"


def _next(process: Process, reason: Reason, host: McpHost, *, idle_waits: int) -> str:
    """Return what a model does best about a process that goes on; empty where that is known.

    Asking again and again is the dearest way to wait: where a host can be woken, that is named, and a model
    that has heard nothing new `idle_waits` times in a row is sent away for longer each time.
    """
    name = process.record.short_id
    # A user may type it in any folder, and a short id counts in its project's.
    typed = short_name(process.process_id)
    if process.status.state is State.QUEUED:
        return ""
    waking = "" if host.wake is None else f"; to be notified when it ends, {host.wake.format(id=typed)}"
    match reason:
        case "question" if process.status.waiting == "password":
            return (
                f"[it asks for a password: have the user run `outlive answer {typed}`, which does not "
                "show it to you, "
                f'and call wait(ids=["{name}"]); or send(id="{name}", text="…\\n")]'
            )
        case "question":
            return f'[it waits for input: send(id="{name}", text="…\\n")]'
        case "paused":
            return f'[it is paused: control(id="{name}", action="resume") lets it go on]'
        case "time" if idle_waits > 1:
            # Doubled each time: a job of a night is asked about some ten times, not every minute.
            minutes = min(2 ** (idle_waits - 2), _MOST_MINUTES)
            return f"[nothing new: do something else, and check again in {minutes} min or more{waking}]"
        case "time" | "error":
            return f'[still running: wait(ids=["{name}"]) returns when it ends, stop kills it{waking}]'
        case _:
            return ""


async def described(
    runner: Runner,
    process: Process,
    page: LeanPage | None,
    budget: int | None,
    *,
    workspace: str | None = None,
    remark: str = "",
    shows_id: bool = False,
    is_unfiltered: bool = False,
    hints: bool = False,
    is_alone: bool = False,
) -> tuple[str, str]:
    """Return the header line and the text of a page.

    Of no page the text is empty, but for a hint where it `hints` at a filter. One that `is_alone` names its
    command.

    Cancellation: safe; nothing is noted, consumed or changed.
    """
    record = process.record
    budget = budget or default_budget(record, None if page is None else page.excerpt)
    more = ", unfiltered=true" if is_unfiltered else ""
    source = Source(f'read(id="{record.short_id}"{more}')
    text, redacted = ("", 0) if page is None else await page.shown(source, budget=budget)
    before = await hidden_by_filter(process)
    # A filter that shows something of a success hides nothing that a model has to know.
    is_success = before.exit_code is not None and before.failure is None
    is_plain = is_success and page is not None and bool(page.excerpt.lines)
    kept = "" if is_unfiltered or is_plain else _kept(before, process)
    # Ports and descendants are the kernel's, as they are now: no record has them. Some milliseconds for a
    # large tree.
    seen = await runner.engine.queries.observe(process)
    now = Circumstances(
        duration_s=duration_s(record),
        shows_id=shows_id
        or is_alone
        or source.call in text
        or " raw=true" in text  # a mark that names a part of the output without the call
        or bool(kept)
        or not record.is_finished,
        ports=seen.ports,
        waiting=record.waiting,
        workspace=workspace,
        redacted=redacted,
        remark=", ".join(filter(None, [remark, kept])),
        end=_end_before(before) if is_unfiltered else "",
        command=record.command[:_ALONE_CHARACTERS] if is_alone else "",
    )
    hint = f"[{before.hint}]" if hints and before.hint else ""
    return header(record, now), "\n".join(filter(None, [text, hint]))


async def listed(runner: Runner, record: ProcessRecord, *, near: str) -> str:
    """Return a process's line in a list: its header, the ports that it listens on, and its command.

    One of another project than `near` has its long id, since a short one counts in its own, and its project.

    Cancellation: safe.
    """
    is_near = (record.project or "") == near
    ports: tuple[int, ...] = ()
    command = record.command
    # Retention may have removed it meanwhile: then there is nothing to look at any more.
    with contextlib.suppress(OutliveError):
        process = await runner.engine.queries.find(record.process_id)
        ports = (await runner.engine.queries.observe(process)).ports
        path = f"{process.folder}/script"
        if path in command:  # a path in the state folder says nothing: the script itself does
            text = await asyncio.to_thread(_first_line, path)
            mask = runner.engine.redaction.texts_of(record.process_id)
            command = command.replace(path, f"script: {mask(text)}".rstrip(": "))
    now = Circumstances(
        duration_s=duration_s(record),
        name="" if is_near else record.process_id,
        ports=ports,
        waiting=record.waiting,
        redacted=record.redacted,
        remark=_ended_ago(record),
    )
    place = "" if is_near or not record.project else f" in {record.project}"
    return f"{header(record, now).splitlines()[0]} {command[:_LISTED_CHARACTERS]!r}{place}"


def _ended_ago(record: ProcessRecord) -> str:
    if record.ended_at is None:
        return ""
    return f"{elapsed(max(0.0, (datetime.now(UTC) - record.ended_at).total_seconds()))} ago"


async def show_all(
    call: ToolCall, found: AllFound, pattern: Pattern, *, is_everywhere: bool, elsewhere: str = ""
) -> Outcome:
    """Return what was found in the output of all processes: for each its line, and below it the lines that
    match.

    `is_everywhere`: other projects' processes were searched, too. `elsewhere`: what they have where nothing
    was found here.

    Cancellation: safe; nothing is noted as seen.
    """
    parts = []
    if pattern.is_literal:
        parts.append("[grep is no regular expression of RE2, which has no look-around: taken as plain text]")
    if not found.shown:
        nothing = "no line matches so far" if found.following else "no line matches"
        parts.append(f"[{'; '.join(filter(None, [nothing, elsewhere]))}]")
    for process_id, shown in groupby(found.shown, key=lambda one: one[0]):
        # A process that was removed meanwhile is known by nothing but its id.
        name, first = short_name(process_id), f"[{short_name(process_id)} is removed]"
        with contextlib.suppress(OutliveError):
            record = (await call.runner.engine.queries.find(process_id)).record
            is_near = (record.project or "") == call.caller.project_root
            name = record.short_id if is_near else process_id  # a short id counts in its own project
            first = await listed(call.runner, record, near=call.caller.project_root)
        parts += [first, *(line for _, lines in shown for line in lines)]
        if process_id in found.more:
            parts.append(f'[more lines match: read(id="{name}", grep={quoted(pattern.text)})]')
    if found.redacted:
        parts.append(f"[{hidden_words(found.redacted)}]")
    if found.unreadable:
        parts.append(f"[the output of {found.unreadable} processes cannot be read]")
    if found.following is not None:
        everywhere = ", all_projects=true" if is_everywhere else ""
        following = f'read(grep={quoted(pattern.text)}, cursor="{found.following}"{everywhere})'
        left = f" ({found.left_bytes // _MB} MB)" if found.left_bytes >= _MB else ""
        parts.append(f"[older output{left} was not searched yet: {following}]")
    return Outcome(text="\n".join(parts))


def _first_line(path: str) -> str:
    """Return the first line of a script that does something; empty where none does, or the file is gone."""
    with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as file:
        lines = map(str.strip, file.read(_SCRIPT_BYTES).splitlines())
        return next((line for line in lines if line and not line.startswith("#")), "")
    return ""


def _kept(before: HiddenByFilter, process: Process) -> str:
    """Return what a final filter (`make | tail`) hides: the exit code of what stands before it, and how to
    read the rest.
    """
    words = [before_words(before.failure)]
    if before.size:
        call = f'read(id="{process.record.short_id}", unfiltered=true)'
        words.append(f"all {before.size} bytes before it: {call}")
    return ", ".join(filter(None, words))


def _end_before(before: HiddenByFilter) -> str:
    """Return how what stands before a final filter has ended: the process's own exit code is the filter's."""
    code = "exit code unknown" if before.exit_code is None else f"exit {before.exit_code}"
    return f"{code} before the last |"
