"""Records as the documented tools show them: the 13 keys of a command (promise S1.2) and their variants, and
the output schemas of the MCP tools, as data (promises S1.6, S4.5; MCP 2025-11-25, "Tools"). Pure.

A documents' tool without a schema here answers in text alone.

`WorkspaceState` is what a workspace's shell leaves behind, read from the bytes that `workspace.bash` writes:
the folder and a newline, then NAME=VALUE for each exported variable that is not as the caller's, NAME for
each that is gone, each followed by a NUL; then "end".
"""

import re
import signal
from collections.abc import Iterable, Mapping

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


Schema = dict[str, object]

# The JSON types that occur often.
_STRING: Schema = {"type": "string"}
_BOOLEAN: Schema = {"type": "boolean"}
_NUMBER: Schema = {"type": "number"}
_WHOLE: Schema = {"type": "integer"}
_CLOSED: Schema = {"additionalProperties": False}


def _or_null(schema: Schema) -> Schema:
    """Allow null, too; a list in `type` would say the same, and is refused by some hosts (Gemini, OpenAI)."""
    return {"anyOf": [schema, {"type": "null"}]}


_NULLABLE = _or_null(_STRING)
_WHOLE_OR_NULL = _or_null(_WHOLE)


def _described(schema: Mapping[str, object], description: str) -> Schema:
    return {**schema, "description": description}


def _flag(description: str, *, value: bool) -> Schema:
    return {"const": value, "type": "boolean", "description": description}


def _object(properties: Schema, required: Iterable[str]) -> Schema:
    return {"type": "object", "properties": properties, "required": list(required)}


def _list_of(item: Schema) -> Schema:
    return {"type": "array", "items": item}


_STATUS: Schema = {
    "id": _described(_STRING, "Name of the command: cmd_<unix seconds>_<counter>."),
    "command": _STRING,
    "success": _described(_BOOLEAN, "Whether it ended by itself with exit code 0."),
    "stdout": _STRING,
    "stderr": _STRING,
    "return_code": _described(
        _WHOLE_OR_NULL, "Exit code, minus the signal after a kill, null while it runs."
    ),
    "error": _described(_NULLABLE, "Why it did not end by itself."),
    "completed": _described(_BOOLEAN, "False while it runs and when it was ended."),
    "start_time": _described(_STRING, "Local time, ISO."),
    "duration": _described(_NUMBER, "Seconds."),
    "timeout": _WHOLE_OR_NULL,
    "shell": _BOOLEAN,
    "cwd": _NULLABLE,
}
_REACHABLE = _flag("There while its node is away: the state is what it was.", value=False)
_REDACTED = _described(_WHOLE, "How many secrets are stars in it.")
# Further keys, each present where it applies.
_MORE: Schema = {
    "reachable": _REACHABLE,
    "running": _flag("There when the command still runs.", value=True),
    "output_lost": _flag("There when some of its output is lost.", value=True),
    "redacted": _REDACTED,
}
# Further keys of a call that is answered before the command's end (promise S1.10).
_UNFINISHED: Schema = {
    **_MORE,
    "success": _described(
        _or_null(_BOOLEAN),
        "Whether it ended by itself with exit code 0; null: the command still runs.",
    ),
    "message": _described(_STRING, "What to do about a command that still runs."),
}


def _or_refusal(properties: Schema) -> Schema:
    """Allow all of these keys, or a refusal: MCP requires one object schema for every answer of a tool."""
    return {
        "type": "object",
        "properties": {**properties, **_UNFINISHED},
        # A refusal has these two keys, and the command if there is one.
        "anyOf": [{"required": list(properties)}, {"required": ["success", "error"], "maxProperties": 3}],
        **_CLOSED,
    }


EXECUTED = _or_refusal(_STATUS)
SCRIPT_EXECUTED = _or_refusal({**_STATUS, "script_path": _STRING, "interpreter": _STRING})
COMMAND_STATUS: Schema = {
    **_object(
        {
            "found": _BOOLEAN,
            "status": {**_object({**_STATUS, **_MORE}, _STATUS), **_CLOSED},
            "error": _STRING,
        },
        ["found"],
    ),
    **_CLOSED,
}
_HISTORY_ROW: Schema = {"id": _STRING, "command": _STRING, "start_time": _STRING, "cwd": _NULLABLE}
HISTORY = _object(
    {"count": _WHOLE, "history": _list_of(_object({**_HISTORY_ROW, "redacted": _WHOLE}, _HISTORY_ROW))},
    ["count", "history"],
)
_PROCESS_ROW: Schema = {
    "pid": _WHOLE_OR_NULL,
    "request_id": _STRING,
    "command": _STRING,
    "status": _STRING,
    "started_at": _STRING,
    "process_id": _STRING,
}
PROCESSES = _object(
    {
        "processes": _list_of(
            _object({**_PROCESS_ROW, "redacted": _WHOLE, "reachable": _REACHABLE}, _PROCESS_ROW)
        ),
        "count": _WHOLE,
        "degraded": _described(
            _STRING, "Why nothing can be started now: the disk is full, read-only or gone."
        ),
    },
    ["processes", "count"],
)
