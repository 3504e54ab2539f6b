"""The documents' tools: those about commands, which answer with the 13 keys (promises S1.1-S1.10), and those
about processes, which answer with both streams as one text (promises S4.2-S4.5).
"""

import shlex

import orjson

from outlive.core.command import Command
from outlive.core.errors import InvalidRequest, OutliveError, ProcessNotFound
from outlive.core.hints import hint_for
from outlive.core.lifecycle import Cause
from outlive.core.printable import hidden_words
from outlive.core.redactions import redacted_member
from outlive.core.values import replace
from outlive.engine import Process, ProcessFilter
from outlive.frontends.mcp.tools.calls import Outcome, Unfinished, allowed_patterns
from outlive.frontends.mcp.tools.runner import Runner, ToolCall
from outlive.frontends.mcp.tools.workspaces import enter
from outlive.protocols.mcp.arguments import (
    ExecuteArguments,
    HistoryArguments,
    NoArguments,
    ScriptArguments,
    ShellArguments,
    StatusArguments,
    TerminateArguments,
)
from outlive.protocols.mcp.results import (
    command_status,
    error_sentence,
    history_entry,
    refusal,
    status_word,
    still_running,
)
from outlive.protocols.mcp.tasks import TaskCall
from outlive.protocols.mcp.texts import (
    TERMINATED,
    command_not_found,
    interpreter_not_found,
    join_streams,
    list_text,
    started_text,
    still_running_text,
    terminated_text,
    unknown_pid,
)
from outlive.server.shown_output import ShownOutput, duration_s, local_time


async def execute_command(call: ToolCall, asked: ExecuteArguments) -> Outcome:
    """Run a command line (or its words, `shell` false) and answer with the 13 keys."""
    line, argv = (asked.command, None) if asked.shell else (None, _words(asked.command))
    patterns = allowed_patterns(call.runner.settings)
    if argv is None:
        patterns.check_line(asked.command)
    else:
        patterns.check_argv(argv)
    default_s = _timeout_s(call)
    command = call.make_command(asked, line=line, argv=argv, title=asked.command, default_timeout_s=default_s)
    if asked.workspace is not None:
        command = await enter(call, asked.workspace, command)
    return await _run(call, asked, command)


async def execute_script(call: ToolCall, asked: ScriptArguments) -> Outcome:
    """Run a script from a file of its own and answer with the 13 keys, script_path and interpreter."""
    try:
        patterns = allowed_patterns(call.runner.settings, has_script=True)
        patterns.check_script(asked.interpreter, asked.script_content)
        words, default_s = (asked.interpreter,), _timeout_s(call)
        command = call.make_command(
            asked, argv=words, script=asked.script_content, default_timeout_s=default_s
        )
        return await _run(call, asked, command)
    except OutliveError as error:
        if error.code not in {"not_found", "permission_denied"} and asked.interpreter:
            raise
        named = call.runner.engine.redaction.redactor.mask_text(asked.interpreter)
        return _answer_json(refusal(interpreter_not_found(named), None), is_error=True)


def _timeout_s(call: ToolCall) -> int:
    """Return when a command's tree is ended, if the call names no timeout."""
    return max(1, round(call.runner.settings.command_timeout_s))


async def get_status(call: ToolCall, asked: StatusArguments) -> Outcome:
    """Answer with state and output so far, or that the id is not known."""
    word = str(asked.command_id)
    try:
        process = await call.lookup(word)
    except ProcessNotFound:
        return _answer_json({"found": False, "error": command_not_found(word)})
    except InvalidRequest as error:  # several could be meant
        return refuse_status(error, None)
    return _answer_json(
        {
            "found": True,
            "status": await _status(
                call.runner,
                process,
                limit_bytes=call.limit_bytes(asked.max_output),
                cwd=_shown_cwd(call, process.record.cwd),
            ),
        }
    )


async def list_history(call: ToolCall, asked: HistoryArguments) -> Outcome:
    """Answer with the caller's newest commands."""
    wanted = ProcessFilter(principal=call.caller.principal, detached=True)
    history = [
        history_entry(
            record,
            start_time=local_time(record.started_at or record.created_at),
            cwd=_shown_cwd(call, record.cwd),
        )
        for record in await call.runner.engine.queries.list(wanted, limit=asked.limit, may_lack=True)
    ]
    return _answer_json({"count": len(history), "history": history})


async def command_result(runner: Runner, process: Process, call: TaskCall) -> Outcome:
    """Answer with the state of what a call of `execute_command` or `execute_script` has started."""
    return _answer_json(await _called(runner, process, call))


def refuse(error: OutliveError, asked: object) -> Outcome:
    """Answer that nothing was run, with the command if there is one (promise S1.7)."""
    command = asked.command if isinstance(asked, ExecuteArguments) else None
    return _answer_json(refusal(_sentence(error), command), is_error=True)


def refuse_status(error: OutliveError, asked: object) -> Outcome:
    """Answer that wrong arguments name no command; other errors say nothing about whether there is one."""
    if asked is not None:
        raise error
    return _answer_json({"found": False, "error": _sentence(error)}, is_error=True)


async def _run(call: ToolCall, asked: ExecuteArguments | ScriptArguments, command: Command) -> Outcome:
    process, wait_s = await call.run(command, asked)
    is_complete = process.status.is_complete  # before the output: a complete process goes with all of it
    interpreter = asked.interpreter if isinstance(asked, ScriptArguments) else None
    task_call = TaskCall(
        tool="command_execute" if interpreter is None else "command_execute_script",
        has_cwd=command.cwd is not None,
        limit_bytes=call.limit_bytes(asked.max_output),
        interpreter=interpreter,
    )
    called = await _called(call.runner, process, task_call)
    if is_complete:
        return _answer_json(called)
    called |= still_running(process.record, waited_s=wait_s)
    return _answer_json(called, unfinished=Unfinished(process, task_call) if asked.is_patient else None)


async def _called(runner: Runner, process: Process, call: TaskCall) -> dict[str, object]:
    limit_bytes = call.limit_bytes or runner.settings.max_output_bytes
    cwd = process.record.cwd if call.has_cwd else None
    status = await _status(runner, process, limit_bytes=limit_bytes, cwd=cwd)
    if call.interpreter is not None:
        script_path = f"{process.folder}/script"
        status |= {"shell": True, "script_path": script_path, "interpreter": call.interpreter}
    return status


async def _status(
    runner: Runner, process: Process, *, limit_bytes: int, cwd: str | None
) -> dict[str, object]:
    record = process.record  # before the output: a complete record goes with all of it
    shown = await runner.shown(process, limit_bytes=limit_bytes)
    return command_status(
        record,
        stdout=shown.stdout,
        stderr=shown.stderr,
        redacted=shown.redacted,
        is_script=record.command.endswith(f" {process.folder}/script"),
        start_time=local_time(record.started_at or record.created_at),
        duration_s=duration_s(record),
        cwd=cwd,
    )


def _shown_cwd(call: ToolCall, cwd: str) -> str | None:
    return None if cwd == call.runner.engine.settings.cwd else cwd


def _words(command: str) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(command))
    except ValueError as error:
        raise InvalidRequest(
            "invalid_params", f"command: these are no words ({error})", hint="Close the quotes."
        ) from None
    if not words:
        raise InvalidRequest("invalid_params", "The command is empty.")
    return words


def _answer_json(
    shape: dict[str, object], *, is_error: bool = False, unfinished: Unfinished | None = None
) -> Outcome:
    return Outcome(
        text=orjson.dumps(shape).decode(), structured=shape, is_error=is_error, unfinished=unfinished
    )


def _sentence(error: OutliveError) -> str:
    """Return the literal text of a refusal; for wrong arguments also what to do."""
    if isinstance(error, InvalidRequest):
        return f"{error.message}. {hint_for(error, 'mcp')}".replace("..", ".")
    return error.message


async def execute_shell(call: ToolCall, asked: ShellArguments) -> Outcome:
    """Run a command; the text is both streams, isError tells whether the exit code is not 0."""
    allowed_patterns(call.runner.settings).check_line(asked.cmd)
    process, wait_s = await call.run(call.make_command(asked, line=asked.cmd), asked)
    is_complete = process.status.is_complete
    limit_bytes = call.limit_bytes(asked.max_output)
    outcome = await _shown(call.runner, process, limit_bytes=limit_bytes, waited_s=wait_s)
    if is_complete or not asked.is_patient:
        return outcome
    task_call = TaskCall(tool="execute_linux_shell_command", limit_bytes=limit_bytes)
    return replace(outcome, unfinished=Unfinished(process, task_call))


async def execute_background(call: ToolCall, asked: ShellArguments) -> Outcome:
    """Start a command and answer at once; with progress report its output until the end or wait_s.

    Cancellation: the command goes on (promise M.background).
    """
    process = await start_background(call, asked)
    record = process.record
    if call.progress is None and asked.wait_s is None:
        return Outcome(text=started_text(record))
    wait_s = call.runner.settings.wait_s if asked.wait_s is None else asked.wait_s
    if asked.background:
        wait_s = 0.0
    await call.wait(process, wait_s=wait_s)
    return await _shown(call.runner, process, limit_bytes=call.limit_bytes(asked.max_output), waited_s=wait_s)


async def start_background(call: ToolCall, asked: ShellArguments) -> Process:
    """Start a command that no request owns.

    Raises:
        OutliveError: A refusal or a failed start.

    Cancellation: the command may run all the same.
    """
    allowed_patterns(call.runner.settings).check_line(asked.cmd)
    process, _ = await call.start(call.make_command(asked, line=asked.cmd), in_background=True)
    return process


async def shell_result(runner: Runner, process: Process, call: TaskCall | None = None) -> Outcome:
    """Return the answer for what a call of these tools has started: as it is now."""
    asked_bytes = 0 if call is None else call.limit_bytes
    limit_bytes = asked_bytes or runner.settings.max_output_bytes
    return await _shown(runner, process, limit_bytes=limit_bytes, waited_s=0.0)


async def terminate(call: ToolCall, asked: TerminateArguments) -> Outcome:
    """End a process by its pid and answer when its tree is gone, with the signal that worked."""
    found = [one for one in await call.live() if one.record.pid == asked.pid and not one.status.is_finished]
    # Of the process that runs and one of the same pid whose descendants still do, the first is meant.
    process = min(found, key=lambda one: one.status.is_ended, default=None)
    if process is None:
        return Outcome(text=unknown_pid(asked.pid), is_error=True)
    was_killed = await call.end(process, note="Terminated manually via terminate_process tool")
    signal = "SIGKILL" if was_killed else "SIGTERM"
    return Outcome(text=terminated_text(asked.pid, request_id=_request_id(process), signal=signal))


async def list_active(call: ToolCall, _asked: NoArguments) -> Outcome:
    """List what runs for the caller's principal, oldest first; also what only has descendants left.

    Terminals are the terminal tools' own.
    """
    found = [one for one in await call.live() if one.record.terminal is None]
    rows = [_row(one) for one in found if not one.status.is_ended or one.record.descendants]
    disk = call.runner.engine.disk
    return Outcome(
        text=list_text(rows, notice=await disk.sentence()),
        structured={"processes": rows, "count": len(rows), **await disk.view()},
    )


async def _shown(runner: Runner, process: Process, *, limit_bytes: int, waited_s: float) -> Outcome:
    is_complete = process.status.is_complete  # before the output: a complete process goes with all of it
    shown = await runner.shown(process, limit_bytes=limit_bytes)
    if is_complete:
        return _final(process, shown)
    record = process.record
    text = still_running_text(record, waited_s=waited_s)
    output = output_text(shown)
    structured = {
        "running": True,
        "id": record.process_id,
        "pid": record.pid,
        **redacted_member(shown.redacted),
        **({} if record.is_reachable else {"reachable": False}),
    }
    return Outcome(text=f"{text}\n\n{output}" if output else text, structured=structured)


def output_text(shown: ShownOutput) -> str:
    """Return both streams as one text; that secrets are redacted in it stands before them."""
    text = join_streams(shown.stdout, shown.stderr)
    return f"[{hidden_words(shown.redacted)}]\n{text}" if shown.redacted else text


def _final(process: Process, shown: ShownOutput) -> Outcome:
    """Return both streams as one text; why it was ended and its exit code stand before them.

    The number of redacted secrets is in that text: a client that gets `structuredContent` may show nothing
    else. So is the exit code where it is not 0, and where a command has printed nothing: an empty text says
    neither that it worked nor that it failed.
    """
    record = process.record
    lines = [output_text(shown)]
    error, code = error_sentence(record), record.wire_exit_code
    if code is not None and (code != 0 or not lines[0]):
        lines.insert(0, f"[exit code {code}]")
    if record.cause is Cause.CANCEL:
        lines.insert(0, TERMINATED)
    elif error is not None:
        lines.insert(0, f"[{error}]")
    text = "\n".join(line for line in lines if line)
    # What was ended is no success, though it may have said goodbye with 0; nor is output of which a part is
    # missing.
    is_error = record.exit_code != 0 or record.cause is not Cause.NONE or record.output_lost
    return Outcome(text=text, is_error=is_error)


def _row(process: Process) -> dict[str, object]:
    record = process.record
    return {
        "pid": record.pid or 0,
        "request_id": _request_id(process),
        "command": record.command,
        "status": status_word(record) + (f", left {record.descendants}" if record.descendants else ""),
        "started_at": local_time(record.started_at or record.created_at),
        "process_id": record.process_id,
        **redacted_member(record.redacted),
        **({} if record.is_reachable else {"reachable": False}),
    }


def _request_id(process: Process) -> str:
    return process.record.owner.request_id or process.process_id
