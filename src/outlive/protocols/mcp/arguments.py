"""Arguments of the MCP tools as msgspec structs; everything in a call is checked here, once. Pure.

The options of a command are inherited from `outlive.operations.start`. Names are the wire's (promises S1.1, S1.10, S4.2, S4.13);
`timeout`, `grace` and `wait_s` are seconds. Tool schemas are made from these structs. The documented tools ignore unknown
members; the lean tools refuse them. Those of the terminal tools are `protocols.terminal.requests`, for all frontends alike.
"""

from collections.abc import Mapping
from typing import Annotated, Literal, TypeVar

import msgspec
import orjson
from msgspec import Meta

from outlive.core.errors import InvalidRequest
from outlive.operations.requests import (
    Seconds,
    Text,
    WaitSeconds,
    WholeSeconds,
    Words,
    WorkspaceName,
    convert_request,
)
from outlive.operations.start import RunOptions, check_one_way, check_words
from outlive.protocols.terminal.typed import check_keys

_TreeTimeout = Annotated[
    WholeSeconds | None, Meta(description="Seconds after which the whole process tree is ended.")
]


class ToolOptions(RunOptions, kw_only=True, frozen=True):
    """What every tool of the documents takes that runs something."""

    wait_s: Annotated[
        WaitSeconds | None,
        Meta(description="Seconds this call waits for the end before it answers that the command goes on."),
    ] = None
    background: Annotated[bool, Meta(description="Answer at once; the same as wait_s 0.")] = False

    @property
    def is_patient(self) -> bool:
        """Whether the caller lets the server decide how long to wait for the end."""
        return self.wait_s is None and not self.background


class ExecuteArguments(ToolOptions, kw_only=True, frozen=True):
    """`command_execute`."""

    command: Annotated[str, Meta(description="The command line.")]
    timeout: _TreeTimeout = None
    shell: Annotated[bool, Meta(description="Run it in a shell, or as plain words.")] = True
    workspace: Annotated[
        WorkspaceName | None,
        Meta(description="A name: folder and exported variables go on from its last command that exited 0."),
    ] = None

    def __post_init__(self) -> None:
        """Refuse what no shell could run."""
        check_words(self.command, None)
        super().__post_init__()


class ScriptArguments(ToolOptions, kw_only=True, frozen=True):
    """`command_execute_script`."""

    script_content: Annotated[str, Meta(description="The script's text, of any length.")]
    interpreter: Annotated[str, Meta(description="Program that runs it.")] = "/bin/bash"
    timeout: _TreeTimeout = None

    def __post_init__(self) -> None:
        """Refuse what no interpreter could run."""
        check_words(None, None, self.script_content)
        super().__post_init__()


class StatusArguments(msgspec.Struct, kw_only=True, frozen=True):
    """`command_get_status`."""

    command_id: Annotated[str, Meta(description="The id of its result.")]


class HistoryArguments(msgspec.Struct, kw_only=True, frozen=True):
    """`command_list_history`."""

    limit: Annotated[int, Meta(ge=1, le=1000)] = 10


class ShellArguments(ToolOptions, kw_only=True, frozen=True):
    """`execute_linux_shell_command` and `execute_background_linux_shell_command`."""

    cmd: Annotated[str, Meta(description="The command line.")]

    def __post_init__(self) -> None:
        """Refuse what no shell could run."""
        check_words(self.cmd, None)
        super().__post_init__()


class TerminateArguments(msgspec.Struct, kw_only=True, frozen=True):
    """`terminate_process`."""

    pid: Annotated[int, Meta(description="As list_processes shows it.")]


class NoArguments(msgspec.Struct, kw_only=True, frozen=True):
    """A tool without arguments."""


_Budget = Annotated[int, Meta(ge=100, le=1_000_000, description="Most characters of output to show (8000).")]
_Raw = Annotated[bool, Meta(description="Keep ANSI codes, progress bars and repeated lines.")]


class _Lean(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Refuses unknown arguments, so that an agent learns of a misspelt one."""


class WaitFor(_Lean, kw_only=True, frozen=True):
    """When a call may answer before the end."""

    text: Annotated[str | None, Meta(description="Output contains this.")] = None
    port: Annotated[
        Annotated[int, Meta(ge=1, le=65535)] | None, Meta(description="Something listens on this TCP port.")
    ] = None
    idle_s: Annotated[Seconds | None, Meta(description="No output for so long.")] = None


class RunArguments(RunOptions, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """`run`."""

    command: Annotated[str | None, Meta(description="A bash line.")] = None
    argv: Annotated[Words | None, Meta(description="Words, without a shell.")] = None
    script: Annotated[str | None, Meta(description="A script's text, any length and quoting.")] = None
    interpreter: Annotated[Text, Meta(description="For script (/bin/bash).")] = "/bin/bash"
    stdin: Annotated[Literal["none", "pipe"], Meta(description="pipe: send can write to it.")] = "none"
    pty: Annotated[bool, Meta(description="Run in a terminal.")] = False
    wait_s: Annotated[
        WaitSeconds | None,
        Meta(description="Seconds to wait for the end (45); 0 starts in the background."),
    ] = None
    wait_for: WaitFor | None = None
    budget: _Budget = 8000
    raw: _Raw = False
    key: Annotated[
        str | None, Meta(description="Repeating a run with the same key starts nothing twice.")
    ] = None
    workspace: Annotated[
        WorkspaceName | None,
        Meta(description="A name: cd and export of its last command that exited 0 go on here."),
    ] = None

    def __post_init__(self) -> None:
        """Ask for exactly one thing to run."""
        check_one_way(self.command, self.argv, self.script)
        super().__post_init__()


class ReadArguments(_Lean, kw_only=True, frozen=True):
    """`read`."""

    id: str
    cursor: Annotated[
        str | None, Meta(description='Where to go on, from the last answer; "0" is the beginning.')
    ] = None
    end: Annotated[str | None, Meta(description="Cursor to stop at.")] = None
    tail: Annotated[Annotated[int, Meta(ge=1, le=100_000)] | None, Meta(description="Last lines.")] = None
    grep: Annotated[Text | None, Meta(description="Only lines with this text; a|b finds both.")] = None
    context: Annotated[int, Meta(ge=0, le=100, description="Lines around a match.")] = 0
    budget: _Budget = 8000
    raw: _Raw = False


class WaitArguments(_Lean, kw_only=True, frozen=True):
    """`wait`."""

    ids: Annotated[list[str], Meta(min_length=1, max_length=100)]
    mode: Literal["any", "all"] = "all"
    wait_s: Annotated[WaitSeconds | None, Meta(description="At most so many seconds (45).")] = None


class SendArguments(_Lean, kw_only=True, frozen=True):
    """`send`."""

    id: str
    text: Annotated[str | None, Meta(description="As it is: end a line with \\n.")] = None
    keys: Annotated[
        list[str] | None, Meta(description="enter, tab, esc, up, down, left, right, ctrl-c …")
    ] = None
    eof: Annotated[bool, Meta(description="Close the input afterwards.")] = False
    cursor: Annotated[
        str | None, Meta(description="Your last cursor: show output from there, not only what comes now.")
    ] = None
    wait_s: Annotated[WaitSeconds, Meta(description="Seconds to wait for output (1).")] = 1.0
    budget: _Budget = 8000

    def __post_init__(self) -> None:
        """Require something to send."""
        if self.text is None and not self.keys and not self.eof:
            raise ValueError("pass text, keys or eof")
        check_keys(self.keys or ())


class ControlArguments(_Lean, kw_only=True, frozen=True):
    """`control`."""

    id: str
    action: Literal["pause", "resume", "cancel", "signal"]
    signal: Annotated[int | str | None, Meta(description="For signal: INT, HUP, USR1 …")] = None
    grace: Annotated[Seconds | None, Meta(description="For cancel: seconds until KILL.")] = None


class ListArguments(_Lean, kw_only=True, frozen=True):
    """`list`."""

    all: Annotated[bool, Meta(description="Ended ones too.")] = False
    tags: dict[str, str] | None = None
    limit: Annotated[int, Meta(ge=1, le=200, description="Default 20.")] = 20


_Arguments = TypeVar("_Arguments", bound=msgspec.Struct)


def read_arguments(raw: Mapping[str, object], shape: type[_Arguments]) -> _Arguments:
    """Return checked arguments.

    Raises:
        InvalidRequest: One is missing, unknown (where the shape forbids that), of the wrong type or impossible; the
            message names it, the hint lists the tool's arguments.
    """
    # Once at the edge: every later answer, log line and record can then be encoded.
    try:
        orjson.dumps(dict(raw))
    except TypeError as error:  # half of a surrogate pair, a number of 30 digits: neither can be run or shown
        hint = "Send well-formed Unicode and numbers of 64 bits."
        raise InvalidRequest("invalid_params", f"An argument cannot be taken: {error}", hint=hint) from None
    try:
        return convert_request(dict(raw), shape)
    except InvalidRequest as error:
        names = ", ".join(field.encode_name for field in msgspec.structs.fields(shape))
        hint = f"The tool's arguments are: {names}." if names else "The tool takes no arguments."
        raise InvalidRequest(error.code, error.message, hint=hint, details=error.details) from None
