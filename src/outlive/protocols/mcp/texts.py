"""Every text that MCP tools answer, once. Pure.

The documented tools' texts are promised (S1.7, S4.3-S4.6): a changed letter breaks clients. The lean tools
answer with one header line (`headers`), then what `protocols.output` shows of the output (promise S4.13), the
terminal tools with one line and then the output (promise S3.6).
"""

from collections.abc import Mapping, Sequence

from outlive.core.errors import OutliveError
from outlive.core.hints import hint_for
from outlive.core.printable import hidden_words
from outlive.core.process import ProcessRecord

EXECUTION_DISABLED = "Command execution is disabled"
SCRIPTS_DISABLED = "Script execution is disabled"
TERMINATED = "[Process was terminated]"  # the beginning of a cancelled command's result (promise S4.6)


def interpreter_not_found(interpreter: str) -> str:
    """Promise S1.7."""
    return f"Interpreter not found: {interpreter}"


def command_not_found(command_id: str) -> str:
    """Promise S1.7."""
    return f"Command with ID {command_id} not found"


def status_call(command_id: str) -> str:
    """Return the call that shows a command's state and output."""
    return f"command_get_status with command_id {command_id}"


def unknown_pid(pid: int) -> str:
    """Promise S4.4."""
    return f"No process with PID {pid} is running that this server started for you"


def error_text(error: OutliveError) -> str:
    """Return an error as a tool's text: what is wrong, and on a second line what to do next."""
    hint = hint_for(error, "mcp")
    return f"{error.message}\nHint: {hint}" if hint else error.message


def join_streams(stdout: str, stderr: str) -> str:
    """Return both streams as one text: each without its final newline, stderr after its mark (promise
    S4.3).
    """
    stdout, stderr = stdout.removesuffix("\n"), stderr.removesuffix("\n")
    return f"{stdout}\n\nSTDERR:\n{stderr}" if stderr else stdout


def started_text(record: ProcessRecord) -> str:
    """Return the answer to a background start (promise S4.3)."""
    # Three cases: it waits for a person, for its turn, or it runs.
    last = f"Process ID: {record.process_id}\nFor its output: {status_call(record.process_id)}"
    if record.hint is not None:
        return f"Background process queued: it waits for an approval\n{last}\n{record.hint}"
    if record.pid is None:
        return f"Background process queued: {record.held_up_by}, it waits for its turn\n{last}"
    return f"Background process started\nPID: {record.pid}\n{last}"


def still_running_text(record: ProcessRecord, *, waited_s: float) -> str:
    """Return the first lines of an answer that did not wait for the end (promise S1.10)."""
    last = f"Process ID: {record.process_id}\nFor its output later: {status_call(record.process_id)}"
    if record.hint is not None:
        return (
            f"[Still waiting for an approval after {waited_s:g} s; it starts when it is approved]\n"
            f"{last}\n{record.hint}"
        )
    if record.pid is None:
        return (
            f"[Still waiting for its turn after {waited_s:g} s: {record.held_up_by}; it starts when "
            "there is room]\n"
            f"{last}\nUse list_processes to see it."
        )
    return (
        f"[Still running after {waited_s:g} s; it goes on in the background]\n"
        f"PID: {record.pid}\n{last}\n"
        "Use list_processes to see it and terminate_process to end it."
    )


def terminated_text(pid: int, *, request_id: str, signal: str) -> str:
    """Return the four lines of `terminate_process` (promise S4.4)."""
    return (
        f"Process {pid} terminated successfully\n"
        f"Request ID: {request_id}\n"
        f"Signal: {signal}\n"
        "Reason: Manual termination via terminate_process tool"
    )


def list_text(rows: Sequence[Mapping[str, object]], *, notice: str = "") -> str:
    """Return what `list_processes` prints of its rows (promise S4.5), with `notice` in a line before it."""
    if notice:
        return f"{notice}\n\n{list_text(rows)}"
    if not rows:
        return "No background processes running"
    return f"Background Processes ({len(rows)}):\n\n" + "\n\n".join(map(_process_text, rows))


def _process_text(row: Mapping[str, object]) -> str:
    """Return the five lines of a process; its `started_at` is local time, naive ISO with microseconds."""
    started = str(row["started_at"]).replace("T", " ").partition(".")[0]
    status = row["status"] if row.get("reachable", True) else f"{row['status']} (unreachable)"
    return (
        f"PID: {row['pid']}\n"
        f"  Request ID: {row['request_id']}\n"
        f"  Command: {row['command']}\n"
        f"  Status: {status}\n"
        f"  Started: {started}"
    )


def executed_text(members: Mapping[str, object]) -> str:
    """Return the result of a command: one line about its end, then its output."""
    # The end first: a model that reads only the beginning learns whether to wait, to answer or to go on.
    if members["is_closed"]:
        first = f"the terminal is closed; exit {members['exit_code']}"
    elif members["is_complete"]:
        code = members["exit_code"]
        first = f"exit {'unknown' if code is None else code}"
    else:
        waits = "" if members["waiting"] == "none" else f", waits for {members['waiting']}"
        first = f"still running{waits}; cursor {members['cursor']}"
    return f"[{'; '.join([first, *_hidden(members)])}]\n{members['output']}"


def read_text(members: Mapping[str, object]) -> str:
    """Return what was read: one line about the terminal, then the text."""
    words = [f"[{members['state']}", f"cursor {members['cursor']}"]
    if members["waiting"] != "none":
        words.append(f"waits for {members['waiting']}")
    if members["exit_code"] is not None:
        words.append(f"last exit {members['exit_code']}")
    if members["has_gap"]:
        words.append("output in between is not kept any more")
    if members["has_more"]:
        words.append("there is more from the cursor on")
    words += _hidden(members)
    return f"{'; '.join(words)}]\n{members['text']}"


def _hidden(members: Mapping[str, object]) -> list[str]:
    redacted = members.get("redacted")
    return [hidden_words(redacted)] if isinstance(redacted, int) else []


def terminals_text(terminals: object) -> str:
    """Return a line for each terminal."""
    rows = [
        f"{one['terminal_id']} {one['state']} {one['target']} {one['terminal_name']!r} {one['cwd'] or ''}".rstrip()  # noqa: E501 -- cut nowhere better: a table, or another program's text
        for one in (terminals if isinstance(terminals, list) else ())
    ]
    return "\n".join(rows) or "[no terminals]"
