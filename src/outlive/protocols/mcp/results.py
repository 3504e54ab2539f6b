"""Records as the documents' tools show them: the 13 keys of a command (promise S1.2) and their neighbours.

What a workspace's shell leaves behind: `WorkspaceState`, read from the bytes that `workspace.bash` writes.

The bytes: the folder and a newline, then NAME=VALUE for each exported variable, each followed by a NUL; then "end".
"""

import re
import signal
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from outlive.core.lifecycle import ENDED, Cause, State
from outlive.core.process import ProcessRecord, status_of
from outlive.core.redactions import redacted_member


def command_status(
    record: ProcessRecord,
    *,
    stdout: str,
    stderr: str,
    redacted: int = 0,
    start_time: str,
    duration_s: float,
    cwd: str | None,
) -> dict[str, object]:
    """Return the 13 keys of promise S1.2.

    `completed` tells that the command ended by itself: not while it runs, nor when it was ended or lost. One that runs has
    one key more, `running`, for `success` is false then (promise S1.5) and nothing that runs has failed. So has a command
    whose output is not whole, which is no success: `output_lost`; and `reachable` is false while its node is away. Where
    secrets are stars in the streams (`redacted` of them) or in the command, their number is another.
    """
    more = {} if record.is_complete else {"running": True}
    if record.output_lost:
        more["output_lost"] = True
    if not record.is_reachable:
        more["reachable"] = False
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
        "shell": record.shell is not None,
        "cwd": cwd,
        **more,
        **redacted_member(redacted + record.redacted),
    }


def still_running(record: ProcessRecord, *, waited_s: float) -> dict[str, object]:
    """Return what replaces and follows the 13 keys in the answer of a call whose command goes on (promise S1.10).

    `success` is null: nothing that runs has failed, or succeeded.
    """
    state = "still runs" if record.pid is not None else "waits for its start"
    message = (
        f"The command {state} after {waited_s:g} s and goes on; this answer is not its end. "
        f"Call command_get_status with command_id {record.command_id} for its result."
    )
    return {"success": None, "running": True, "message": message}


def _is_natural(record: ProcessRecord) -> bool:
    return record.is_complete and record.state is State.EXITED and record.cause is Cause.NONE


def error_sentence(record: ProcessRecord) -> str | None:
    """Return why a command did not end by itself, or what somebody has to do so that it starts; else None."""
    if record.error is not None:
        return record.error
    if record.hint is not None:
        return f"It waits for an approval. {record.hint}"
    if record.state is State.SIGNALED:
        return f"Command was ended by signal {record.exit_signal} ({_signal_name(record.exit_signal)})"
    if record.state not in ENDED and record.cause is Cause.TIMEOUT:  # the grace period runs
        return f"Command timed out after {record.timeout_s or 0:g} seconds"
    return None


def _signal_name(number: int | None) -> str:
    return signal.Signals(number).name if number in set(signal.Signals) else "unknown"


def history_entry(record: ProcessRecord, *, start_time: str, cwd: str | None) -> dict[str, object]:
    """Return a row of the history (promise S1.6)."""
    entry = {"id": record.command_id, "command": record.command, "start_time": start_time, "cwd": cwd}
    return {**entry, **redacted_member(record.redacted)}


def refusal(error: str, command: str | None) -> dict[str, object]:
    """Return the shape of everything that was not run (promise S1.7)."""
    shape: dict[str, object] = {"success": False, "error": error}
    if command is not None:
        shape["command"] = command
    return shape


def status_word(record: ProcessRecord) -> str:
    """Return the word for a process's state that the process tools show (promise W.state.rest, and when it is paused)."""
    return "running (paused)" if record.state is State.PAUSED else status_of(record)


_END = b"end"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
# execve(2): MAX_ARG_STRLEN with the final NUL. A longer variable reaches no program, from no shell.
_MAX_WORD_BYTES = 131_071
# Of each shell and each terminal anew: how deep it is, the last word, the folder, the window.
_OWN = frozenset({"SHLVL", "_", "PWD", "TERM", "LINES", "COLUMNS"})
_OURS = "OUTLIVE_"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceState:
    """A folder, as the shell called it (`pwd -L`), and the variables to begin with there."""

    cwd: str
    variables: Mapping[str, str]

    def environment(self, base_names: Iterable[str]) -> dict[str, str | None]:
        """Return what turns an environment of `base_names` into this one; None removes a name."""
        removed = {name: None for name in base_names if _is_carried(name) and name not in self.variables}
        return {**removed, **self.variables}


def parse_state(data: bytes) -> WorkspaceState | None:
    """Return the state; None when the bytes are torn or of something else. Never raises."""
    folder, *words = data.split(b"\0")
    if not words or words.pop() != _END or not (folder.startswith(b"/") and folder.endswith(b"\n")):
        return None
    variables: dict[str, str] = {}
    for word in words:
        name, separator, value = word.decode("utf-8", "surrogateescape").partition("=")
        if not separator or not _NAME.fullmatch(name):
            return None
        if _is_carried(name) and len(word) < _MAX_WORD_BYTES:
            variables[name] = value
    return WorkspaceState(cwd=folder[:-1].decode("utf-8", "surrogateescape"), variables=variables)


def _is_carried(name: str) -> bool:
    return name not in _OWN and not name.startswith(_OURS) and _NAME.fullmatch(name) is not None
