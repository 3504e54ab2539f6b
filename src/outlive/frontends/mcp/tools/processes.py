"""The process tools (promises S4.2-S4.5): execute, start in the background, terminate, list."""

from outlive.core.lifecycle import Cause
from outlive.core.printable import hidden_words
from outlive.core.redactions import redacted_member
from outlive.core.values import replace
from outlive.engine import Process
from outlive.frontends.mcp.tools.calls import Outcome, Unfinished
from outlive.frontends.mcp.tools.runner import Runner, ToolCall
from outlive.protocols.mcp.arguments import NoArguments, ShellArguments, TerminateArguments
from outlive.protocols.mcp.results import error_sentence, status_word
from outlive.protocols.mcp.tasks import TaskCall
from outlive.protocols.mcp.texts import (
    TERMINATED,
    join_streams,
    list_text,
    started_text,
    still_running_text,
    terminated_text,
    unknown_pid,
)
from outlive.server.shown_output import ShownOutput, local_time


async def execute(call: ToolCall, asked: ShellArguments) -> Outcome:
    """Run a command; the text is both streams, isError tells whether the exit code is not 0."""
    call.runner.policy.check_line(asked.cmd)
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
    call.runner.policy.check_line(asked.cmd)
    process, _ = await call.start(call.make_command(asked, line=asked.cmd), in_background=True)
    return process


async def result(runner: Runner, process: Process, call: TaskCall | None = None) -> Outcome:
    """Return the answer for what a call of `execute` or `execute_background` has started: as it is now."""
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
        text=list_text(rows, notice=disk.sentence()),
        structured={"processes": rows, "count": len(rows), **disk.view()},
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
