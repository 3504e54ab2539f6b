"""Every literal text of the documented tools, once. The texts are promised: a changed letter breaks clients."""

from collections.abc import Iterable
from dataclasses import dataclass

from outlive.core.errors import OutliveError
from outlive.core.hints import hint_for

EXECUTION_DISABLED = "Command execution is disabled"
SCRIPTS_DISABLED = "Script execution is disabled"
TERMINATED = "[Process was terminated]"  # the beginning of a cancelled command's result (promise S4.6)


def interpreter_not_found(interpreter: str) -> str:
    """Promise S1.7."""
    return f"Interpreter not found: {interpreter}"


def command_not_found(command_id: str) -> str:
    """Promise S1.7."""
    return f"Command with ID {command_id} not found"


def unknown_pid(pid: int) -> str:
    """Promise S4.4."""
    return f"No process with PID {pid} is running that this server started for you"


def error_text(error: OutliveError) -> str:
    """Return an error as a tool's text: what is wrong, and on a second line what to do next."""
    hint = hint_for(error, "mcp")
    return f"{error.message}\nHint: {hint}" if hint else error.message


def join_streams(stdout: str, stderr: str) -> str:
    """Return both streams as one text: each without its final newline, stderr after its mark (promise S4.3)."""
    stdout, stderr = stdout.removesuffix("\n"), stderr.removesuffix("\n")
    return f"{stdout}\n\nSTDERR:\n{stderr}" if stderr else stdout


def started_text(pid: int | None, process_id: str, hint: str | None = None) -> str:
    """Return the answer to a background start (promise S4.3); `hint` is set if the start waits for an approval."""
    # Three cases: it waits for a person, for its group's turn, or it runs.
    if hint is not None:
        return f"Background process queued: it waits for an approval\nProcess ID: {process_id}\n{hint}"
    if pid is None:
        return (
            f"Background process queued: its group is full, it waits for its turn\nProcess ID: {process_id}"
        )
    return f"Background process started\nPID: {pid}\nProcess ID: {process_id}"


def still_running_text(pid: int | None, process_id: str, *, waited_s: float, hint: str | None = None) -> str:
    """Return the first lines of an answer that did not wait for the end (promise S1.10); `hint` as in `started_text`."""
    if hint is not None:
        return (
            f"[Still waiting for an approval after {waited_s:g} s; it starts when it is approved]\n"
            f"Process ID: {process_id}\n{hint}"
        )
    if pid is None:
        return (
            f"[Still waiting for its turn after {waited_s:g} s: its group is full; it starts when there is room]\n"
            f"Process ID: {process_id}\nUse list_processes to see it."
        )
    return (
        f"[Still running after {waited_s:g} s; it goes on in the background]\n"
        f"PID: {pid}\nProcess ID: {process_id}\n"
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One process as `list_processes` shows it; `started_at` is local time, naive ISO with microseconds."""

    pid: int
    request_id: str
    command: str
    status: str
    started_at: str
    process_id: str
    is_reachable: bool = True

    @property
    def text(self) -> str:
        """Its five lines."""
        started = self.started_at.replace("T", " ").partition(".")[0]
        status = self.status if self.is_reachable else f"{self.status} (unreachable)"
        return (
            f"PID: {self.pid}\n"
            f"  Request ID: {self.request_id}\n"
            f"  Command: {self.command}\n"
            f"  Status: {status}\n"
            f"  Started: {started}"
        )


def list_text(blocks: Iterable[Block], *, notice: str = "") -> str:
    """Return what `list_processes` prints (promise S4.5), with `notice` in a line before it."""
    if notice:
        return f"{notice}\n\n{list_text(blocks)}"
    shown = [block.text for block in blocks]
    if not shown:
        return "No background processes running"
    return f"Background Processes ({len(shown)}):\n\n" + "\n\n".join(shown)
