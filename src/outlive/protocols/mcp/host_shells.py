"""Arguments and texts of the tool sets `claude` and `codex`: the shells of two hosts, by their names (promise S4.13.shells). Pure.

A model that was trained with one of these shells knows its tools without reading a schema. They are offered to hosts whose own
shell is switched off. Sources: Claude Code's documentation ("Tools available to Claude", Bash tool behavior), and openai/codex,
codex-rs/core/src/tools (handlers/unified_exec.rs, spec.rs) and codex-rs/core/src/unified_exec. Names, units and defaults are theirs:
`timeout` and `yield_time_ms` are milliseconds.
"""

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from outlive.core.process import ProcessRecord
from outlive.operations.requests import Text
from outlive.operations.start import check_words

SHOWN_CHARACTERS = 30_000  # of Bash and BashOutput: what Claude Code shows by default
INTERRUPT = "\x03"  # Ctrl-C, as `write_stdin` is given it
_MOST_MS = 24 * 3600 * 1000
_CHARACTERS_PER_TOKEN = 4  # as codex estimates (codex-rs/utils/string, APPROX_BYTES_PER_TOKEN)
# codex's own times: for a command, for what characters cause, and for a look without any. A model counts on them.
_EXEC_YIELD_MS, _WRITE_YIELD_MS, _POLL_YIELD_MS = 10_000, 250, 5_000
_MOST_YIELD_MS = 30_000
_TOKENS = 10_000

_Milliseconds = Annotated[float, Meta(ge=0, le=_MOST_MS)]
_YieldTime = Annotated[float | None, Meta(description="Milliseconds to wait for output before yielding.")]
_OutputTokens = Annotated[
    Annotated[int, Meta(ge=1, le=1_000_000)] | None, Meta(description="Maximum tokens of output to return.")
]


class BashArguments(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """`Bash`."""

    command: Annotated[str, Meta(description="The command to execute.")]
    timeout_ms: Annotated[
        _Milliseconds | None, Meta(description="Timeout in milliseconds, then it is killed. Default: none.")
    ] = msgspec.field(default=None, name="timeout")
    run_in_background: Annotated[
        bool, Meta(description="Return at once; read the output with BashOutput.")
    ] = False

    def __post_init__(self) -> None:
        """Refuse what no shell could run."""
        check_words(self.command, None)


class BashOutputArguments(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """`BashOutput`."""

    bash_id: Annotated[str, Meta(description="The ID of the background shell.")]
    filter: Annotated[Text | None, Meta(description="Regex; only matching lines are returned.")] = None


class KillShellArguments(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """`KillShell`."""

    shell_id: Annotated[str, Meta(description="The ID of the background shell to kill.")]


class ExecCommandArguments(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """`exec_command`."""

    cmd: Annotated[str, Meta(description="Shell command to execute.")]
    workdir: Annotated[str | None, Meta(description="Working directory. Default: the project's.")] = None
    shell: Annotated[str | None, Meta(description="Shell binary to launch. Default: bash.")] = None
    login: Annotated[bool, Meta(description="Run the shell as a login shell.")] = False
    tty: Annotated[bool, Meta(description="Allocate a TTY, so that write_stdin can type into it.")] = False
    yield_time_ms: _YieldTime = None
    max_output_tokens: _OutputTokens = None

    def __post_init__(self) -> None:
        """Refuse what no shell could run."""
        check_words(self.cmd, None)

    @property
    def wait_s(self) -> float:
        """How long the call waits for the end."""
        return _yield_s(self.yield_time_ms, _EXEC_YIELD_MS)

    @property
    def budget(self) -> int:
        """The most characters of output."""
        return (self.max_output_tokens or _TOKENS) * _CHARACTERS_PER_TOKEN


class WriteStdinArguments(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """`write_stdin`."""

    session_id: Annotated[int, Meta(description="The session to write to.")]
    chars: Annotated[str, Meta(description="Characters to write; empty to wait for output.")] = ""
    yield_time_ms: _YieldTime = None
    max_output_tokens: _OutputTokens = None

    @property
    def wait_s(self) -> float:
        """How long the call waits for output; a poll waits longer, so that few are needed."""
        return _yield_s(self.yield_time_ms, _WRITE_YIELD_MS if self.chars else _POLL_YIELD_MS)

    @property
    def budget(self) -> int:
        """The most characters of output."""
        return (self.max_output_tokens or _TOKENS) * _CHARACTERS_PER_TOKEN


def _yield_s(asked_ms: float | None, usual_ms: float) -> float:
    return min(usual_ms if asked_ms is None else asked_ms, _MOST_YIELD_MS) / 1000


def exec_text(record: ProcessRecord, output: str, *, wall_s: float, remarks: Sequence[str] = ()) -> str:
    """Return the answer of `exec_command` and `write_stdin`, in the lines that codex writes.

    The session id is the short id's number: codex takes an integer. It stands there only while a later call has a use for it.
    """
    lines = [f"Wall time: {wall_s:.1f} seconds"]
    if record.is_complete:
        code = record.wire_exit_code
        lines.append(f"Process exited with code {'unknown' if code is None else code}")
    else:
        lines.append(f"Process running with session ID {record.number}")
    return "\n".join([*lines, *remarks, "Output:", output])
