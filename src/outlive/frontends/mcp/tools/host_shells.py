"""The tool sets `claude` and `codex`: Bash, BashOutput and KillShell; exec_command and write_stdin (promise S4.13.shells).

The same engine as everywhere, under the names and in the answers that models of these hosts know. What outlasts a call goes on, and
is found under its id, also after a restart of host or server. A Bash command begins in the folder in which the one before has ended.
"""

import html
import os
from dataclasses import replace

from outlive.core.cursor import BEGINNING, Cursor
from outlive.core.errors import InvalidState, ProcessNotFound
from outlive.core.identity import number_of, short_id
from outlive.core.lifecycle import Cause
from outlive.engine import Process
from outlive.engine.commands.unfiltered import HiddenByFilter, hidden_by_filter, unfiltered_log
from outlive.frontends.mcp.tools.calls import Outcome
from outlive.frontends.mcp.tools.pages import LeanPage, read_matches, read_page
from outlive.frontends.mcp.tools.runner import AGENT_GRACE_S, ToolCall
from outlive.frontends.mcp.tools.waits import Reason, reporting, until_answerable
from outlive.frontends.mcp.tools.workspaces import enter_folder
from outlive.operations.start import RunOptions
from outlive.protocols.mcp.headers import Circumstances, before_words, header
from outlive.protocols.mcp.host_shells import (
    INTERRUPT,
    SHOWN_CHARACTERS,
    BashArguments,
    BashOutputArguments,
    ExecCommandArguments,
    KillShellArguments,
    WriteStdinArguments,
    exec_text,
)
from outlive.protocols.output.body import Source
from outlive.server.shown_output import duration_s


async def bash(call: ToolCall, asked: BashArguments) -> Outcome:
    """Run a command line; answer with its output, stderr behind stdout, and "Exit code N" before it where that is not 0.

    Cancellation: as `lean.run`.
    """
    # Before anything is resolved or written: a refused line leaves no trace but its audit event.
    call.runner.policy.check_line(asked.command)
    command = call.make_command(_OPTIONS, line=asked.command, keeps_unfiltered=True)
    timeout_s = (
        # In the host's own shell a time limit bounds the call, and a background command has none. 0 would mean "no limit" here.
        None if asked.timeout_ms is None or asked.run_in_background else max(asked.timeout_ms / 1000, 0.001)
    )
    command = await enter_folder(call, replace(command, timeout_s=timeout_s, grace_s=AGENT_GRACE_S))
    process, _ = await call.start(command, in_background=asked.run_in_background)
    name = process.record.short_id
    if asked.run_in_background:
        return Outcome(text=f"Command running in background with ID: {name}")
    reason = await _answerable(call, process, wait_s=call.patience_s())
    # Read after the wait: what came in between is shown, and the note below ends where the page does.
    page = await read_page(process.log, BEGINNING)
    text, _ = await page.shown(_bash_source(name), budget=SHOWN_CHARACTERS)
    call.note_shown(process.process_id, page.excerpt.start, page.cursor)
    if not process.is_complete:
        state = (
            "waits for input"
            if reason == "question"
            else f"is still running after {duration_s(process.record):.0f} s"
        )
        return Outcome(
            text=f"{text}\nCommand {state} and continues in background with ID: {name}. "
            "BashOutput shows its output, KillShell kills it.".lstrip("\n")
        )
    record = process.record
    before = await hidden_by_filter(process)
    first = (
        f"Exit code {record.exit_code}"
        if record.error is None and record.exit_signal is None
        else _end(process)
    )
    if before.failure is not None:
        first += _before(before, name)
    # What was ended by a limit or a person may have exited with 0 all the same, and is no success.
    is_success = record.exit_code == 0 and record.cause is Cause.NONE
    shown = [
        first if before.failure is not None or not is_success else "",
        text,
        f"[{before.hint}]" if before.hint else "",
    ]
    return Outcome(text="\n".join(filter(None, shown)), is_error=not is_success)


async def bash_output(call: ToolCall, asked: BashOutputArguments) -> Outcome:
    """Show what a background command has printed since the last look, and its state.

    With a filter only matching lines are shown, and the others count as seen: so it is in the host's own tool.

    Raises:
        ProcessNotFound: There is no such shell.
        InvalidRequest: The filter is too long.
    """
    process = await _find(call, asked.bash_id)
    record = process.record  # before the output: a complete record goes with all of it
    start = call.runner.memory.shown(call.caller, process.process_id)
    before = await hidden_by_filter(process)
    if asked.filter is None:
        page = await read_page(process.log, start)
        call.note_shown(process.process_id, page.excerpt.start, page.cursor)
    elif record.is_complete and start == process.log.end:
        # Behind the end of a command that has ended there is nothing: then a search is one through all of it.
        page = await _search_all(process, before, asked.filter)
    else:
        page = await read_matches(process.log, start, asked.filter, context=0, most=SHOWN_CHARACTERS)
        call.note_shown(process.process_id, page.excerpt.start, page.cursor)
    # The three words of the host's own tool; "killed" is said of what a caller has ended, whatever its exit code was.
    status = "running" if not record.is_complete else "completed" if record.exit_code == 0 else "failed"
    if record.cause is Cause.CANCEL and record.is_complete:
        status = "killed"
    parts = [f"<status>{status}</status>"]
    if record.is_complete and record.exit_code is not None:
        # A search needs no call for a search behind it.
        note = _before(before, record.short_id, names_search=asked.filter is None)
        parts.append(f"<exit_code>{record.exit_code}{note}</exit_code>")
    if record.waiting != "no":
        parts.append(f"<waiting_for>{record.waiting}</waiting_for>")
    text, _ = await page.shown(_bash_source(record.short_id), budget=SHOWN_CHARACTERS)
    if text:
        parts.append(
            # Output that closes the element itself could pretend to be a state: then, and only then, it is escaped.
            f"<stdout>\n{html.escape(text, quote=False) if '</stdout>' in text else text}\n</stdout>"
        )
    if before.hint and page.excerpt.lines:  # with the output that it is about, not with every look
        parts.append(f"[{before.hint}]")
    return Outcome(text="\n\n".join(parts))


async def _search_all(process: Process, before: HiddenByFilter, pattern: str) -> LeanPage:
    """Search all that a command has printed; of a line with a final filter what entered it, where more of that is kept."""
    log = unfiltered_log(process) if before.size else process.log
    try:
        return await read_matches(log, BEGINNING, pattern, context=0, most=SHOWN_CHARACTERS)
    finally:
        if before.size:
            log.close()


def _before(before: HiddenByFilter, name: str, *, names_search: bool = True) -> str:
    """Return what stands behind an exit code that hides a failure before a final filter; empty where there is none."""
    if before.failure is None:
        return ""
    call = f"{_bash_source(name).call})"
    kept = f"all {before.size} bytes before it: {call}" if before.size and names_search else ""
    return "".join(f", {words}" for words in (before_words(before.failure), kept) if words)


def _bash_source(name: str) -> Source:
    """Return how these tools show what was left out: by a search through all of it."""
    return Source(f'BashOutput(bash_id="{name}", filter="REGEX"', takes_ranges=False)


async def kill_shell(call: ToolCall, asked: KillShellArguments) -> Outcome:
    """End a background command's whole tree; answers when it is gone.

    Raises:
        ProcessNotFound: There is no such shell.
        BackendUnavailable: The keeper did not say that it is gone.
    """
    process = await _find(call, asked.shell_id)
    if process.is_ended:
        return Outcome(text=f"Shell {asked.shell_id} is not running: {_end(process)}", is_error=True)
    await call.end(process, note="Cancelled by the client.", grace_s=AGENT_GRACE_S)
    return Outcome(text=f"Successfully killed shell: {asked.shell_id} ({process.record.command[:200]})")


async def exec_command(call: ToolCall, asked: ExecCommandArguments) -> Outcome:
    """Run a command line; answer at its end, or after the yield time with a session id.

    Cancellation: as `lean.run`.
    """
    call.runner.policy.check_line(asked.cmd)
    # Without a TTY stdin is empty, as in codex: a program that reads ends, and does not wait for input that cannot come.
    stdio = "pty" if asked.tty else "pipes"
    options = _OPTIONS if asked.workdir is None else RunOptions(cwd=asked.workdir)
    if asked.shell is None and not asked.login:
        command = call.make_command(options, line=asked.cmd, stdio=stdio, keeps_unfiltered=True)
    else:
        argv = (asked.shell or "bash", "-lc" if asked.login else "-c", asked.cmd)
        own = os.path.basename(call.runner.engine.starts.shell)
        if asked.shell not in {None, own, f"/bin/{own}", f"/usr/bin/{own}"}:
            # Another program may make anything of the line: `python3 -c`, `rm -c -rf`. It has to pass on its own.
            call.runner.policy.check_argv(argv)
        command = call.make_command(options, argv=argv, stdio=stdio, title=asked.cmd)
    process, _ = await call.start(replace(command, grace_s=AGENT_GRACE_S), in_background=False)
    await _answerable(call, process, wait_s=call.patience_s(asked.wait_s))
    return await _executed(call, process, BEGINNING, asked.budget)


async def write_stdin(call: ToolCall, asked: WriteStdinArguments) -> Outcome:
    """Type into a session, or look at it; answers with the output since the last look.

    Ctrl-C alone ends the whole tree of a session without TTY: there is no other tool for that here.

    Raises:
        InvalidState: `stdin_closed`: the session was started without a TTY.
        BackendUnavailable: The keeper did not say that an interrupted tree is gone.
    """
    process = await _find(call, str(asked.session_id))
    start = call.runner.memory.shown(call.caller, process.process_id)
    if asked.chars and not process.is_ended and not process.has_stdin:
        if asked.chars != INTERRUPT:
            # In codex's words: the model knows them, and the tools that the usual hint names are not in this set.
            raise InvalidState(
                "stdin_closed",
                "stdin is closed for this session",
                hint="Rerun exec_command with tty=true to keep stdin open.",
            )
        await call.end(process, note="Cancelled by the client.", grace_s=AGENT_GRACE_S)
    elif asked.chars:
        await call.runner.engine.as_(call.caller.owner).write(process, asked.chars.encode())
    # Only what is written from here on answers the characters; what came earlier is shown, but ends no wait.
    before = process.log.end if asked.chars else start
    if asked.chars or start == process.log.end:  # else there is something to show at once
        await _answerable(call, process, wait_s=call.patience_s(asked.wait_s), start=before)
    return await _executed(call, process, start, asked.budget)


# The options of a command that these tools do not offer: all as the server has them.
_OPTIONS = RunOptions()


async def _answerable(
    call: ToolCall, process: Process, *, wait_s: float, start: Cursor = BEGINNING
) -> Reason:
    """Wait for what a model can act on."""
    async with reporting([process], call.progress):
        return await until_answerable(
            call.runner.engine, process, wait_s=wait_s, start=start, heeds_servers=True
        )


async def _executed(call: ToolCall, process: Process, start: Cursor, budget: int) -> Outcome:
    page = await read_page(process.log, start)
    call.note_shown(process.process_id, page.excerpt.start, page.cursor)
    record = process.record
    waits = (
        ""
        if record.waiting == "no"
        else f"Process waits for {'a password' if record.waiting == 'password' else 'input'}"
    )
    shown, _ = await page.shown(Source(), budget=budget)
    before = await hidden_by_filter(process)
    hint = before.hint if page.excerpt.lines or start == BEGINNING else ""
    remarks = [waits or _abnormal(process), before_words(before.failure), hint]
    text = exec_text(
        record,
        shown,
        wall_s=duration_s(record),
        remarks=[remark for remark in remarks if remark],
    )
    return Outcome(text=text)


def _abnormal(process: Process) -> str:
    record = process.record
    return "" if not record.is_complete or record.error is None else _end(process)


def _end(process: Process) -> str:
    now = Circumstances(duration_s=duration_s(process.record), shows_id=False)
    return header(process.record, now).splitlines()[0].strip("[]")


async def _find(call: ToolCall, name: str) -> Process:
    """Return a process by the id that Bash or exec_command has given.

    Raises:
        ProcessNotFound: The caller's project has none of that id.
    """
    # Models repeat an id as they like: "p7", "P7", "7".
    number = number_of(f"p{name.strip().lower().removeprefix('p')}")
    try:
        return await call.lookup(name if number is None else short_id(number))
    except ProcessNotFound as error:
        text = f"No command of this project has the ID {name[:40]!r}."
        # Where one of that name lives in another project, the hint says that.
        if error.details:
            raise ProcessNotFound(error.code, text, hint=error.hint) from None
        raise ProcessNotFound(error.code, text) from None
