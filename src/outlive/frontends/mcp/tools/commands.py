"""The command tools (promises S1.1-S1.10): command_execute, command_execute_script, …_get_status, …_list_history."""

import shlex
from collections.abc import Mapping

import orjson

from outlive.core.command import Command
from outlive.core.errors import InvalidRequest, OutliveError, ProcessNotFound
from outlive.core.hints import hint_for
from outlive.engine import Process, ProcessFilter
from outlive.frontends.mcp.tools.calls import Caller, Outcome, Progress, ToolPolicy, Unfinished
from outlive.frontends.mcp.tools.runner import Runner
from outlive.frontends.mcp.tools.workspaces import Workspaces
from outlive.protocols.mcp.arguments import (
    ExecuteArguments,
    HistoryArguments,
    ScriptArguments,
    StatusArguments,
    read_arguments,
)
from outlive.protocols.mcp.results import command_status, history_entry, refusal, still_running
from outlive.protocols.mcp.tasks import TaskCall
from outlive.protocols.mcp.texts import command_not_found, interpreter_not_found
from outlive.server.shown_output import duration_s, local_time, shown_output

_Arguments = Mapping[str, object]


class CommandTools:
    """Answers the four tools; each method is one."""

    def __init__(self, runner: Runner, admission: ToolPolicy, workspaces: Workspaces) -> None:
        """Take what runs commands, what decides whether they may, and where they may go on."""
        self._runner = runner
        self._workspaces = workspaces
        self._settings = runner.settings
        self._admission = admission

    async def execute(self, arguments: _Arguments, caller: Caller, progress: Progress | None) -> Outcome:
        """Run a command line (or its words, `shell` false) and answer with the 13 keys."""
        wanted: str | None = None
        try:
            asked = read_arguments(arguments, ExecuteArguments)
            wanted = asked.command
            if asked.shell:
                self._admission.check_line(asked.command)
                line, argv = asked.command, None
            else:
                line, argv = None, _words(asked.command)
                self._admission.check_argv(argv)
            command = self._command(asked, line=line, argv=argv, title=asked.command)
            if asked.workspace is not None:
                command = await self._workspaces.enter(asked.workspace, command, caller)
            return await self._run(command, asked, caller, progress)
        except OutliveError as error:
            return _refused(error, wanted)

    async def execute_script(
        self, arguments: _Arguments, caller: Caller, progress: Progress | None
    ) -> Outcome:
        """Run a script from a file of its own and answer with the 13 keys, script_path and interpreter."""
        try:
            asked = read_arguments(arguments, ScriptArguments)
        except InvalidRequest as error:
            return _refused(error, None)
        try:
            self._admission.check_script(asked.interpreter, asked.script_content)
            command = self._command(asked, argv=(asked.interpreter,), script=asked.script_content)
            return await self._run(command, asked, caller, progress)
        except OutliveError as error:
            if error.code in {"not_found", "permission_denied"} or not asked.interpreter:
                named = self._runner.engine.redaction.redactor.mask_text(asked.interpreter)
                return _answer(refusal(interpreter_not_found(named), None), is_error=True)
            return _refused(error, None)

    async def get_status(self, arguments: _Arguments, caller: Caller, _progress: Progress | None) -> Outcome:
        """Answer with state and output so far, or that nobody knows the id."""
        try:
            command_id = read_arguments(arguments, StatusArguments).command_id
        except InvalidRequest as error:
            return _answer({"found": False, "error": _sentence(error)}, is_error=True)
        wanted = ProcessFilter(principal=caller.principal, command_id=command_id)
        try:
            process = await self._runner.find(wanted, caller)
        except ProcessNotFound:
            return _answer({"found": False, "error": command_not_found(command_id)})
        return _answer({"found": True, "status": await self._status(process, cwd=self._shown_cwd(process))})

    async def list_history(
        self, arguments: _Arguments, caller: Caller, _progress: Progress | None
    ) -> Outcome:
        """Answer with the caller's newest commands."""
        try:
            limit = read_arguments(arguments, HistoryArguments).limit
        except InvalidRequest as error:
            return _refused(error, None)
        wanted = ProcessFilter(principal=caller.principal, detached=True)
        records = await self._runner.engine.queries.list(wanted, limit=limit)
        default = self._runner.engine.settings.cwd
        history = [
            history_entry(
                record,
                start_time=local_time(record.started_at or record.created_at),
                cwd=None if record.cwd == default else record.cwd,
            )
            for record in records
        ]
        return _answer({"count": len(history), "history": history})

    async def result(self, process: Process, call: TaskCall) -> Outcome:
        """Answer with the state of what a call of `execute` or `execute_script` has started."""
        return _answer(await self._called(process, call))

    def _command(
        self,
        asked: ExecuteArguments | ScriptArguments,
        *,
        line: str | None = None,
        argv: tuple[str, ...] | None = None,
        script: str | None = None,
        title: str | None = None,
    ) -> Command:
        return asked.make_command(
            line=line,
            argv=argv,
            script=script,
            title=title,
            default_timeout_s=self._settings.timeout_s,
            default_grace_s=self._settings.termination_timeout_s,
            detached=True,  # it belongs to the principal: an MCP session may end, its commands go on
        )

    async def _run(
        self,
        command: Command,
        asked: ExecuteArguments | ScriptArguments,
        caller: Caller,
        progress: Progress | None,
    ) -> Outcome:
        wait_s = self._runner.patience_s(
            caller, progress, asked_s=asked.wait_s, in_background=asked.background
        )
        process = await self._runner.run(command, caller, wait_s=wait_s, progress=progress)
        is_complete = process.is_complete  # before the output: a complete process goes with all of it
        interpreter = asked.interpreter if isinstance(asked, ScriptArguments) else None
        call = TaskCall(
            tool="command_execute" if interpreter is None else "command_execute_script",
            has_cwd=command.cwd is not None,
            interpreter=interpreter,
        )
        result = await self._called(process, call)
        if is_complete:
            return _answer(result)
        result |= still_running(process.record, waited_s=wait_s)
        return _answer(result, unfinished=Unfinished(process, call) if asked.is_patient else None)

    async def _called(self, process: Process, call: TaskCall) -> dict[str, object]:
        result = await self._status(process, cwd=process.record.cwd if call.has_cwd else None)
        if call.interpreter is not None:
            result |= {"script_path": f"{process.folder}/script", "interpreter": call.interpreter}
        return result

    async def _status(self, process: Process, *, cwd: str | None) -> dict[str, object]:
        record = process.record  # before the output: a complete record goes with all of it
        shown = await shown_output(process, limit_bytes=self._settings.max_output_bytes)
        start_time = local_time(record.started_at or record.created_at)
        return command_status(
            record,
            stdout=shown.stdout,
            stderr=shown.stderr,
            redacted=shown.redacted,
            start_time=start_time,
            duration_s=duration_s(record),
            cwd=cwd,
        )

    def _shown_cwd(self, process: Process) -> str | None:
        cwd = process.record.cwd
        return None if cwd == self._runner.engine.settings.cwd else cwd


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


def _refused(error: OutliveError, command: str | None) -> Outcome:
    return _answer(refusal(_sentence(error), command), is_error=True)


def _sentence(error: OutliveError) -> str:
    """Return the literal text of a refusal; for wrong arguments also what to do."""
    if isinstance(error, InvalidRequest):
        return f"{error.message}. {hint_for(error, 'mcp')}".replace("..", ".")
    return error.message
