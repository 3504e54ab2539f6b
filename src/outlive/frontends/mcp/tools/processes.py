"""The process tools (promises S4.2-S4.5): execute, start in the background, terminate, list."""

from collections.abc import Mapping
from dataclasses import replace

from outlive.core.command import Command
from outlive.core.errors import InvalidRequest, InvalidState, OutliveError
from outlive.core.lifecycle import Cause
from outlive.core.process import ProcessRecord
from outlive.core.redactions import hidden_words, redacted_member
from outlive.engine import Process
from outlive.frontends.mcp.tools.calls import Caller, Outcome, Progress, ToolPolicy, Unfinished
from outlive.frontends.mcp.tools.runner import Runner, is_visible
from outlive.protocols.mcp.arguments import NoArguments, ShellArguments, TerminateArguments, read_arguments
from outlive.protocols.mcp.results import error_sentence, status_word
from outlive.protocols.mcp.tasks import TaskCall
from outlive.protocols.mcp.texts import (
    TERMINATED,
    Block,
    error_text,
    join_streams,
    list_text,
    started_text,
    still_running_text,
    terminated_text,
    unknown_pid,
)
from outlive.server.shown_output import ShownOutput, local_time, shown_output

_Arguments = Mapping[str, object]


class ProcessTools:
    """Answers the four tools; each method is one."""

    def __init__(self, runner: Runner, admission: ToolPolicy) -> None:
        """Take what runs commands and what decides whether they may."""
        self._runner = runner
        self._settings = runner.settings
        self._admission = admission

    async def execute(self, arguments: _Arguments, caller: Caller, progress: Progress | None) -> Outcome:
        """Run a command; the text is both streams, isError tells whether the exit code is not 0."""
        try:
            asked = read_arguments(arguments, ShellArguments)
            return await self._run(asked, caller, progress)
        except OutliveError as error:
            return _failed(error)

    async def execute_background(
        self, arguments: _Arguments, caller: Caller, progress: Progress | None
    ) -> Outcome:
        """Start a command and answer at once; with `progress` report its output until the end or wait_s.

        Cancellation: the command goes on (promise M.background).
        """
        try:
            process = await self.start_background(arguments, caller)
            asked = read_arguments(arguments, ShellArguments)
            if progress is None and asked.wait_s is None:
                return Outcome(text=_started(process.record))
            wait_s = self._settings.wait_s if asked.wait_s is None else asked.wait_s
            if asked.background:
                wait_s = 0.0
            await self._runner.wait(process, wait_s=wait_s, progress=progress)
        except OutliveError as error:
            return _failed(error)
        return await self._result(process, waited_s=wait_s)

    async def start_background(self, arguments: _Arguments, caller: Caller) -> Process:
        """Start a command that no request owns.

        Raises:
            OutliveError: Wrong arguments, a refusal or a failed start.

        Cancellation: the command may run all the same.
        """
        command = self._command(read_arguments(arguments, ShellArguments))
        return await self._runner.start(command, caller, in_background=True)

    async def background_result(self, process: Process) -> Outcome:
        """Return the result of a process that is complete.

        Raises:
            InvalidState: `process_running`: it is not.

        Cancellation: safe; nothing is consumed.
        """
        if not process.is_complete:
            raise InvalidState("process_running", "The process is not complete yet.")
        return _final(process, await shown_output(process, limit_bytes=self._settings.max_output_bytes))

    async def result(self, process: Process, _call: TaskCall) -> Outcome:
        """Return the result of what a call of `execute` has started, once it is complete."""
        return await self._result(process, waited_s=0.0)

    async def terminate(self, arguments: _Arguments, caller: Caller, _progress: Progress | None) -> Outcome:
        """End a process by its pid and answer when its tree is gone, with the signal that worked."""
        try:
            pid = read_arguments(arguments, TerminateArguments).pid
            process = await self._by_pid(pid, caller)
            if process is None:
                return Outcome(text=unknown_pid(pid), is_error=True)
            was_killed = await self._runner.end(
                process, caller, note="Terminated manually via terminate_process tool"
            )
        except OutliveError as error:
            return _failed(error)
        return Outcome(
            text=terminated_text(
                pid,
                request_id=_request_id(process),
                signal="SIGKILL" if was_killed else "SIGTERM",
            )
        )

    async def list(self, arguments: _Arguments, caller: Caller, _progress: Progress | None) -> Outcome:
        """List what runs for the caller's principal, oldest first."""
        try:
            read_arguments(arguments, NoArguments)
        except InvalidRequest as error:
            return _failed(error)
        active = await self._runner.active(caller)
        blocks = [_block(process) for process in active]
        processes = [
            {
                "pid": block.pid,
                "request_id": block.request_id,
                "command": block.command,
                "status": block.status,
                "started_at": block.started_at,
                "process_id": block.process_id,
                **redacted_member(process.record.redacted),
                **({} if block.is_reachable else {"reachable": False}),
            }
            for process, block in zip(active, blocks, strict=True)
        ]
        disk = self._runner.engine.disk
        return Outcome(
            text=list_text(blocks, notice=disk.sentence()),
            structured={"processes": processes, "count": len(processes), **disk.view()},
        )

    async def _by_pid(self, pid: int, caller: Caller) -> Process | None:
        """Return the caller's process of that pid: the one that runs, else one whose descendants still do."""
        await self._runner.engine.queries.known()
        found = [
            one
            for one in self._runner.engine.queries.live(principal=caller.principal)
            if one.record.pid == pid
        ]
        found = [one for one in found if is_visible(one, caller) and not one.is_finished]
        return min(found, key=lambda one: one.is_ended, default=None)

    def _command(self, asked: ShellArguments) -> Command:
        self._admission.check_line(asked.cmd)
        return asked.make_command(
            line=asked.cmd,
            default_grace_s=self._settings.termination_timeout_s,
            detached=True,  # it belongs to the principal and stays findable (promise S4.5)
        )

    async def _run(self, asked: ShellArguments, caller: Caller, progress: Progress | None) -> Outcome:
        wait_s = self._runner.patience_s(
            caller, progress, asked_s=asked.wait_s, in_background=asked.background
        )
        process = await self._runner.run(self._command(asked), caller, wait_s=wait_s, progress=progress)
        is_complete = process.is_complete
        outcome = await self._result(process, waited_s=wait_s)
        if is_complete or not asked.is_patient:
            return outcome
        return replace(outcome, unfinished=Unfinished(process, TaskCall(tool="execute_linux_shell_command")))

    async def _result(self, process: Process, *, waited_s: float) -> Outcome:
        is_complete = process.is_complete  # before the output: a complete process goes with all of it
        shown = await shown_output(process, limit_bytes=self._settings.max_output_bytes)
        if is_complete:
            return _final(process, shown)
        record = process.record
        text = still_running_text(record.pid, record.process_id, waited_s=waited_s, hint=record.hint)
        output = _text(shown)
        structured = {
            "running": True,
            "id": record.process_id,
            "pid": record.pid,
            **redacted_member(shown.redacted),
        }
        structured |= {} if record.is_reachable else {"reachable": False}
        return Outcome(text=f"{text}\n\n{output}" if output else text, structured=structured)


def _started(record: ProcessRecord) -> str:
    return started_text(record.pid, record.process_id, record.hint)


def _text(shown: ShownOutput) -> str:
    """Return both streams as one text; that secrets are hidden in it stands before them."""
    text = join_streams(shown.stdout, shown.stderr)
    return f"[{hidden_words(shown.redacted)}]\n{text}" if shown.redacted else text


def _final(process: Process, shown: ShownOutput) -> Outcome:
    """Return both streams as one text; why it was ended stands before them.

    The number of hidden secrets is in that text: a client that gets `structuredContent` may show nothing else.
    """
    record = process.record
    text = _text(shown)
    error = error_sentence(record)
    if record.cause is Cause.CANCEL:
        text = f"{TERMINATED}\n{text}" if text else TERMINATED
    elif error is not None:
        text = f"[{error}]\n{text}" if text else f"[{error}]"
    # What was ended is no success, though it may have said goodbye with 0; nor is output of which a part is missing.
    is_error = record.exit_code != 0 or record.cause is not Cause.NONE or record.output_lost
    return Outcome(text=text, is_error=is_error)


def _block(process: Process) -> Block:
    record = process.record
    return Block(
        pid=record.pid or 0,
        request_id=_request_id(process),
        command=record.command,
        status=status_word(record) + (f", left {record.descendants}" if record.descendants else ""),
        started_at=local_time(record.started_at or record.created_at),
        process_id=record.process_id,
        is_reachable=record.is_reachable,
    )


def _request_id(process: Process) -> str:
    return process.record.owner.request_id or process.process_id


def _failed(error: OutliveError) -> Outcome:
    return Outcome(text=error_text(error), is_error=True)
