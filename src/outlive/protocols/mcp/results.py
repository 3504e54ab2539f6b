"""Records as the documented tools show them: the 13 keys of a command (promise S1.2) and their variants.

And `WorkspaceState`.

`WorkspaceState` is what a workspace's shell leaves behind, read from the bytes that `workspace.bash` writes:
the folder and a newline, then NAME=VALUE for each exported variable that is not as the caller's, NAME for
each that is gone, each followed by a NUL; then "end".
"""

import re
import signal
from collections.abc import Mapping

from outlive.core.lifecycle import ENDED, Cause, State
from outlive.core.process import ProcessRecord, status_of
from outlive.core.redactions import redacted_member
from outlive.core.values import dataclass
from outlive.protocols.mcp.texts import status_call


def command_status(
    record: ProcessRecord,
    *,
    stdout: str,
    stderr: str,
    redacted: int = 0,
    is_script: bool = False,
    start_time: str,
    duration_s: float,
    cwd: str | None,
) -> dict[str, object]:
    """Return the 13 keys of promise S1.2.

    `completed` says that the command ended by itself: it is false while it runs, and when it was ended or
    lost. A running command has one key more, `running`, because its `success` is false (promise S1.5)
    although it has not failed. A command whose output is incomplete is no success, and has `output_lost`.
    A script's `shell` is true, whatever interpreter runs it (promise S1.4).
    `reachable` is false while its node is away. `redacted` is the number of secrets that are redacted in the
    streams or in the command, if there are any.
    """
    more = {} if record.is_complete else {"running": True}
    if record.output_lost:
        more["output_lost"] = True
    if not record.is_reachable:
        more["reachable"] = False
    # The order of the keys is the documents'; clients that print the object show it in this order.
    return {
        "id": record.command_id,
        "command": record.command,
        "success": _is_natural(record) and record.exit_code == 0 and not record.output_lost,
        "stdout": stdout,
        "stderr": stderr,
        "return_code": record.wire_exit_code if record.is_complete else None,
        "error": error_sentence(record),
        "completed": _is_natural(record),
        "start_time": start_time,
        "duration": round(duration_s, 6),
        "timeout": None if record.timeout_s is None else round(record.timeout_s),
        "shell": is_script or record.shell is not None,
        "cwd": cwd,
        **more,
        **redacted_member(redacted + record.redacted),
    }


def still_running(record: ProcessRecord, *, waited_s: float) -> dict[str, object]:
    """Return what replaces and extends the 13 keys in the answer of a call whose command goes on (promise
    S1.10).

    `success` is null: a running command has neither failed nor succeeded.
    """
    state = "still runs" if record.pid is not None else "waits for its start"
    message = (
        f"The command {state} after {waited_s:g} s and goes on; this answer is not its end. "
        f"For its result: {status_call(record.command_id or record.process_id)}."
    )
    return {"success": None, "running": True, "message": message}


def _is_natural(record: ProcessRecord) -> bool:
    # By itself: no signal, no stop of ours, and all of its output read.
    return record.is_complete and record.state is State.EXITED and record.cause is Cause.NONE


def error_sentence(record: ProcessRecord) -> str | None:
    """Return why a command did not end by itself, or what has to be done so that it starts; None if neither
    applies.
    """
    if record.error is not None:
        return record.error
    if record.hint is not None:
        return f"It waits for an approval. {record.hint}"
    if record.state is State.SIGNALED:
        return f"Command was ended by signal {record.exit_signal} ({_signal_name(record.exit_signal)})"
    if record.state not in ENDED and record.cause is Cause.TIMEOUT:  # within the grace period
        return f"Command timed out after {record.timeout_s or 0:g} seconds"
    return None


def _signal_name(number: int | None) -> str:
    return signal.Signals(number).name if number in set(signal.Signals) else "unknown"


def history_entry(record: ProcessRecord, *, start_time: str, cwd: str | None) -> dict[str, object]:
    """Return a row of the history (promise S1.6)."""
    entry = {"id": record.command_id, "command": record.command, "start_time": start_time, "cwd": cwd}
    return {**entry, **redacted_member(record.redacted)}


def refusal(error: str, command: str | None) -> dict[str, object]:
    """Return the answer about a command that was not run (promise S1.7)."""
    shape: dict[str, object] = {"success": False, "error": error}
    if command is not None:
        shape["command"] = command
    return shape


def status_word(record: ProcessRecord) -> str:
    """Return the process tools' word for a process's state (promise W.state.rest), and whether it is
    paused.
    """
    return "running (paused)" if record.state is State.PAUSED else status_of(record)


_END = b"end"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
# execve(2): MAX_ARG_STRLEN with the final NUL. No shell can pass a longer variable to a program.
_MAX_WORD_BYTES = 131_071
# Variables that each shell and each terminal sets anew: the shell's depth, the last word, the folder, the
# window.
_OWN = frozenset({"SHLVL", "_", "PWD", "TERM", "LINES", "COLUMNS"})
_STARTUP_FILE = "BASH_ENV"
_OURS = "OUTLIVE_"  # our own variables belong to one process, and are not carried to the next


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceState:
    """A folder, as the shell named it (`pwd -L`), and how the next command's variables differ there from the
    caller's.

    A variable of None is removed.
    """

    cwd: str
    variables: Mapping[str, str | None]


def carried_environment(variables: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return variables that go on in a workspace, and the two that tell its shell which they are
    (`workspace.bash`).
    """
    carried = " ".join(name for name, value in variables.items() if value is not None)
    removed = " ".join(name for name, value in variables.items() if value is None)
    return {**variables, "OUTLIVE_CARRIED": carried, "OUTLIVE_REMOVED": removed}


def parse_state(data: bytes) -> WorkspaceState | None:
    """Return the state; None when the bytes are torn or something else. Never raises."""
    # "end" comes last: without it the shell was killed while it wrote, and the rest is missing.
    folder, *words = data.split(b"\0")
    if not words or words.pop() != _END or not (folder.startswith(b"/") and folder.endswith(b"\n")):
        return None
    variables: dict[str, str | None] = {}
    for word in words:
        name, separator, value = word.decode("utf-8", "surrogateescape").partition("=")
        if not _NAME.fullmatch(name):
            return None
        if name == _STARTUP_FILE and not separator:
            continue  # it was the prelude's own, which every command of a workspace begins with
        if _is_carried(name) and len(word) < _MAX_WORD_BYTES:
            variables[name] = value if separator else None
    return WorkspaceState(cwd=folder[:-1].decode("utf-8", "surrogateescape"), variables=variables)


def _is_carried(name: str) -> bool:
    return name not in _OWN and not name.startswith(_OURS) and _NAME.fullmatch(name) is not None
