"""Every text that MCP tools answer, once. Pure.

The documented tools' texts are promised (S1.7, S4.3-S4.6): a changed letter breaks clients. The terminal
tools answer with one line and then the output (promise S3.6). The lean tools answer with one `header` line
(promise S4.13.answers), then what `protocols.output` shows of the output: what has become of a process, in as
few words as a model needs. A complete answer says `[exit 0]` and nothing else. The short id stands there only
where a later call may need it; what is as the caller asked (folder, backend) is not repeated.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from outlive.core.command import Profile
from outlive.core.errors import OutliveError
from outlive.core.hints import elapsed, hint_for
from outlive.core.lifecycle import Cause, State, signal_name
from outlive.core.location import HERE
from outlive.core.printable import hidden_words
from outlive.core.process import ProcessRecord, Waiting
from outlive.core.values import dataclass

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


def terminals_text(members: Mapping[str, Any]) -> str:
    """Return a line for each terminal."""
    rows = [
        f"{one['terminal_id']} {one['state']} {one['target']} {one['terminal_name']!r} {one['cwd'] or ''}".rstrip()  # noqa: E501 -- cut nowhere better: a table, or another program's text
        for one in members["terminals"]
    ]
    return "\n".join(rows) or "[no terminals]"


STOPPED_NOTE = "Stopped by the agent."  # of what a model has ended by name (`stop`)
_BY_CLIENT = (
    "Cancelled by the client"  # how the notes of cancelled calls begin: a person's Esc (`http.calls`)
)
_SHOWN_PORTS = 5
_WAITS = {
    "approval": "waits for a person's approval",
    "group": "waits for its turn in its group",
    "place": "waits for a machine that has room",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What is known of a process beside its record.

    Attributes:
        duration_s: How long it has run.
        name: By which a later call may name it; its short id where empty.
        shows_id: Whether a later call may need its id.
        ports: What its tree listens on.
        waiting: Whether it waits for input.
        workspace: The name of its workspace, and what it has left there.
        redacted: How many secrets in the shown output are redacted.
        remark: One more fact that the caller should know first, in a few words.
        end: How that part of it has ended which the answer shows; empty where it shows the whole.
        command: What it runs, where the answer has to stand alone: its caller has waited for long.
    """

    duration_s: float
    name: str = ""
    shows_id: bool = True
    ports: tuple[int, ...] = ()
    waiting: Waiting = "no"
    workspace: str | None = None
    redacted: int = 0
    remark: str = ""
    end: str = ""
    command: str = ""


def header(record: ProcessRecord, now: Circumstances) -> str:
    """Return the line; a second one says what a person has to do where one has to."""
    state = now.end or (_end(record) if record.is_complete else _life(record, now))
    # The state first: a model that reads one word knows whether to go on. Rare facts follow in the order of
    # their weight.
    parts = [f"{now.name or record.short_id} {state}" if now.shows_id else state]
    parts += _alone(record, now)
    if now.remark:
        parts.append(now.remark)
    if record.sandbox.profile is not Profile.OPEN:
        parts.append(f"sandbox {record.sandbox.profile}")
    elif record.sandbox.features:  # limits alone, by what holds them
        parts.append(f"limited by {', '.join(record.sandbox.features)}")
    if record.location != HERE:
        parts.append(f"on {record.location.backend}")
    if record.output_lost:
        parts.append(
            "output lost" if record.lost_bytes is None else f"{record.lost_bytes} bytes of output lost"
        )
    if not record.is_reachable:
        parts.append("reachable=false (its node is away: this is what was known last)")
    elif record.is_unknown:
        parts.append("not found again yet: this is what was known last")
    if now.workspace is not None:
        parts.append(f"workspace {now.workspace}")
    if now.ports:
        parts.append(f"listens on {', '.join(map(str, now.ports[:_SHOWN_PORTS]))}")
    if record.is_complete and record.descendants:
        parts.append(f"{record.descendants} of its processes still run")
    if now.redacted:
        parts.append(hidden_words(now.redacted))
    text = f"[{', '.join(parts)}]"
    return text if record.hint is None else f"{text}\n[{record.hint}]"


def _alone(record: ProcessRecord, now: Circumstances) -> list[str]:
    if not now.command:
        return []
    return [*([f"after {elapsed(now.duration_s)}"] if record.is_complete else []), repr(now.command)]


def before_words(failure: int | None) -> str:
    """Return what a header says of the exit code before a final filter; empty for none."""
    return "" if failure is None else f"but exit {failure} before the last |"


def _life(record: ProcessRecord, now: Circumstances) -> str:
    """Return what a process does now.

    One that has ended counts as running until all of its output was read.
    """
    match record.state:
        case State.QUEUED:
            return _WAITS[record.waits_for or "group"]
        case State.PAUSED:
            return "paused"
        case State.STOPPING:
            return "is being stopped"
        case _:
            pass
    if now.waiting != "no":
        what = "a password" if now.waiting == "password" else "input"
        return f"waiting for {what}" + (", a person was asked" if record.is_person_asked else "")
    return f"running, {elapsed(now.duration_s)}"


def _end(record: ProcessRecord) -> str:
    """Return how a process has ended, and by which of several possible hands."""
    error = (record.error or "").rstrip(".")
    code = f" (exit {record.exit_code})" if record.exit_code else ""
    match record.cause:
        # "by you": the note is this door's own. An operator, a group or another client says its own words.
        case Cause.CANCEL if record.error == STOPPED_NOTE:
            return f"stopped by you{code}"
        case Cause.CANCEL if error.startswith(_BY_CLIENT):
            return f"the user cancelled{code}"
        case Cause.CANCEL:
            return f"stopped: {error}{code}"
        case Cause.TIMEOUT:
            return f"timed out after {record.timeout_s or 0:g} s, killed{code}"
        case Cause.OOM:
            return "killed: out of memory"
        case Cause.OUTPUT_LIMIT:
            return "killed: more output than its limit"
        case _:
            pass
    if record.state is State.EXITED:
        return (
            f"exit {record.exit_code}"
            if record.error is None or record.output_lost
            else f"exit {record.exit_code}, {error}"
        )
    if record.state is State.SIGNALED:
        return f"killed by {signal_name(record.exit_signal)}" + (f": {error}" if error else "")
    return error or str(record.state.value)
