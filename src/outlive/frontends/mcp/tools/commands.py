"""The command tools (promises S1.1-S1.10): command_execute, command_execute_script, …_get_status,
…_list_history.
"""

import shlex

import orjson

from outlive.core.command import Command
from outlive.core.errors import InvalidRequest, OutliveError, ProcessNotFound
from outlive.core.hints import hint_for
from outlive.engine import Process, ProcessFilter
from outlive.frontends.mcp.tools.calls import Outcome, Unfinished
from outlive.frontends.mcp.tools.runner import Runner, ToolCall
from outlive.frontends.mcp.tools.workspaces import enter
from outlive.protocols.mcp.arguments import (
    ExecuteArguments,
    HistoryArguments,
    ScriptArguments,
    StatusArguments,
)
from outlive.protocols.mcp.results import command_status, history_entry, refusal, still_running
from outlive.protocols.mcp.tasks import TaskCall
from outlive.protocols.mcp.texts import command_not_found, interpreter_not_found
from outlive.server.shown_output import duration_s, local_time


async def execute(call: ToolCall, asked: ExecuteArguments) -> Outcome:
    """Run a command line (or its words, `shell` false) and answer with the 13 keys."""
    line, argv = (asked.command, None) if asked.shell else (None, _words(asked.command))
    if argv is None:
        call.runner.policy.check_line(asked.command)
    else:
        call.runner.policy.check_argv(argv)
    default_s = _timeout_s(call)
    command = call.make_command(asked, line=line, argv=argv, title=asked.command, default_timeout_s=default_s)
    if asked.workspace is not None:
        command = await enter(call, asked.workspace, command)
    return await _run(call, asked, command)


async def execute_script(call: ToolCall, asked: ScriptArguments) -> Outcome:
    """Run a script from a file of its own and answer with the 13 keys, script_path and interpreter."""
    try:
        call.runner.policy.check_script(asked.interpreter, asked.script_content)
        words, default_s = (asked.interpreter,), _timeout_s(call)
        command = call.make_command(
            asked, argv=words, script=asked.script_content, default_timeout_s=default_s
        )
        return await _run(call, asked, command)
    except OutliveError as error:
        if error.code not in {"not_found", "permission_denied"} and asked.interpreter:
            raise
        named = call.runner.engine.redaction.redactor.mask_text(asked.interpreter)
        return _answer(refusal(interpreter_not_found(named), None), is_error=True)


def _timeout_s(call: ToolCall) -> int:
    """Return when a command's tree is ended, if the call names no timeout."""
    return max(1, round(call.runner.settings.command_timeout_s))


async def get_status(call: ToolCall, asked: StatusArguments) -> Outcome:
    """Answer with state and output so far, or that the id is not known."""
    word = str(asked.command_id)
    try:
        process = await call.lookup(word)
    except ProcessNotFound:
        return _answer({"found": False, "error": command_not_found(word)})
    except InvalidRequest as error:  # several could be meant
        return refuse_status(error, None)
    return _answer(
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
    return _answer({"count": len(history), "history": history})


async def result(runner: Runner, process: Process, call: TaskCall) -> Outcome:
    """Answer with the state of what a call of `execute` or `execute_script` has started."""
    return _answer(await _called(runner, process, call))


def refuse(error: OutliveError, asked: object) -> Outcome:
    """Answer that nothing was run, with the command if there is one (promise S1.7)."""
    command = asked.command if isinstance(asked, ExecuteArguments) else None
    return _answer(refusal(_sentence(error), command), is_error=True)


def refuse_status(error: OutliveError, asked: object) -> Outcome:
    """Answer that wrong arguments name no command; other errors say nothing about whether there is one."""
    if asked is not None:
        raise error
    return _answer({"found": False, "error": _sentence(error)}, is_error=True)


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
    result = await _called(call.runner, process, task_call)
    if is_complete:
        return _answer(result)
    result |= still_running(process.record, waited_s=wait_s)
    return _answer(result, unfinished=Unfinished(process, task_call) if asked.is_patient else None)


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


def _answer(
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
