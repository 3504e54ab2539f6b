"""Arguments of the MCP tools as msgspec structs; everything in a call is checked here, once. Pure.

The options of a command are inherited from `outlive.operations.start`. Names are the wire's (promises S1.1,
S1.10, S4.2, S4.13); `timeout`, `grace` and `wait_s` are seconds, `max_output` is bytes. Tool schemas are made
from these structs. The documented tools ignore unknown members. Those of the terminal tools are
`operations.terminal_requests`, for all frontends alike.

The sentences of the lean tools (promise S4.13) are for models, and stand in each conversation: every word
costs its readers. What a lean tool takes beyond its listed arguments (`table.Tool.listed`) works all the
same. `lenient` turns what models send into these; what is left unknown is refused.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, TypeVar

import msgspec
import orjson
from msgspec import Meta

from outlive.core.errors import SLUGS, InvalidRequest
from outlive.operations.requests import (
    Key,
    ProcessName,
    Seconds,
    Text,
    Timeout,
    WaitSeconds,
    WholeSeconds,
    Words,
    WorkspaceName,
    convert_request,
)
from outlive.operations.start import RunOptions, check_one_way, check_replaced, check_words
from outlive.operations.terminal_requests import check_keys
from outlive.protocols.mcp.lenient import (
    LEAST_BUDGET,
    MOST_BUDGET,
    MOST_LISTED,
    accept_arguments,
    refused_value,
    whole_numbers,
)
from outlive.protocols.output.pattern import MAX_PATTERN_CHARACTERS

_TreeTimeout = Annotated[
    WholeSeconds | None, Meta(description="Seconds after which the whole process tree is ended.")
]

# As the shells of agents' hosts cut by themselves: a model reads an answer again in every later turn.
SHOWN_BYTES = 30_000
_MaxOutput = Annotated[
    Annotated[int, Meta(ge=1)] | None,
    Meta(
        description=f"Bytes shown of each stream, head and tail: {SHOWN_BYTES} unless you ask for more.",
    ),
]


class ToolOptions(RunOptions, kw_only=True, frozen=True):
    """What every tool of the documents takes that runs something."""

    wait_s: Annotated[
        WaitSeconds | None,
        Meta(description="Seconds this call waits before it answers that the command goes on."),
    ] = None
    background: Annotated[bool, Meta(description="Answer at once; the same as wait_s 0.")] = False
    max_output: _MaxOutput = None

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

    command_id: Annotated[str | int, Meta(description="Its id, its process's id, or a running one's pid.")]
    max_output: _MaxOutput = None


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


_Arguments = TypeVar("_Arguments", bound=msgspec.Struct)


def read_arguments(
    raw: Mapping[str, object], shape: type[_Arguments], *, listed: Sequence[str] | None = None
) -> _Arguments:
    """Return checked arguments.

    Those of a tool for models, of which some are `listed`, as models send them (`lenient`).

    Raises:
        InvalidRequest: One is missing, unknown (where the shape forbids that), of the wrong type or
            impossible; the message names it, the hint lists the tool's arguments.
    """
    # Once at the edge: every later answer, log line and record can then be encoded.
    try:
        orjson.dumps(dict(raw))
    except TypeError:  # neither can be run or shown
        text = "An argument holds half of a surrogate pair, or a number of more than 64 bits."
        hint = "Send well-formed Unicode and numbers of 64 bits."
        raise InvalidRequest("invalid_params", text, hint=hint) from None
    # null is what leaving it out means, wherever it is not a value of its own inside an object.
    members = {name: value for name, value in raw.items() if value is not None}
    try:
        if listed is not None:
            members = accept_arguments(members, shape, listed=listed)
        return convert_request(whole_numbers(members), shape, is_text=listed is not None)
    except InvalidRequest as error:
        names = ", ".join(listed or [field.encode_name for field in msgspec.structs.fields(shape)])
        hint = f"The tool's arguments are: {names}." if names else "The tool takes no arguments."
        if listed is not None:
            error = refused_value(error, members)
            if error.hint != SLUGS[error.code][1]:
                hint = error.hint  # it says more than a list
        raise InvalidRequest(error.code, error.message, hint=hint, details=error.details) from None


_Budget = Annotated[
    int,
    Meta(ge=LEAST_BUDGET, le=MOST_BUDGET, description="Show at most this many characters of output."),
]
_Raw = Annotated[bool, Meta(description="Keep ANSI codes, progress bars and repeated lines.")]

_AllProjects = Annotated[bool, Meta(description="Other projects' processes, too.")]


class _Lean(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """Refuses unknown arguments, so that an agent learns of a misspelt one."""


# As long as what `grep` takes, and for the same reason.
_Wished = Annotated[str, Meta(max_length=MAX_PATTERN_CHARACTERS)]
_Port = Annotated[int, Meta(ge=1, le=65535)]


class WaitFor(_Lean, kw_only=True, frozen=True):
    """When a call may answer before the end."""

    text: Annotated[tuple[_Wished, ...], Meta(description="The output has one of these.")] = ()
    port: Annotated[tuple[_Port, ...], Meta(description="Something listens on one of these TCP ports.")] = ()
    idle_s: Annotated[Seconds | None, Meta(description="No output for this long, after the first.")] = None


# Listed as a text: a list, and an object with several kinds of wishes, are taken all the same.
_WaitFor = Annotated[WaitFor | None, Meta(extra_json_schema={"type": "string"})]


class RunArguments(RunOptions, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """`run`."""

    command: Annotated[str | None, Meta(description="Bash command line.")] = None
    argv: Annotated[Words | None, Meta(description="Words, without a shell.")] = None
    script: Annotated[
        str | None, Meta(description="Instead of command: a script, no quoting needed; #! is honored.")
    ] = None
    interpreter: Annotated[Text | None, Meta(description="Runs script. Default: its #! line, else bash.")] = (
        None
    )
    cwd: Annotated[str | None, Meta(description="Default: your project folder.")] = None
    env: dict[str, str | None] = msgspec.field(default_factory=dict)
    pty: Annotated[bool, Meta(description="Run in a terminal: prompts, REPLs, pagers. Answer with send.")] = (
        False
    )
    stdin: Annotated[Literal["none", "pipe"], Meta(description="pipe: send can write to it.")] = "none"
    wait_s: Annotated[
        Seconds | None,
        Meta(description="Seconds to wait for the end; 0: run in background."),
    ] = None
    wait_for: Annotated[
        _WaitFor,
        Meta(description='Return early: once output has this text or regex, or "port 3000" is open.'),
    ] = None
    timeout: Annotated[
        Timeout | None,
        Meta(description="Kill the whole process tree after this many seconds (not ms). Default: none."),
    ] = None
    budget: _Budget | None = None
    raw: _Raw = False
    key: Annotated[
        Key | None,
        Meta(description="Any name. Same key again: returns that result, runs nothing twice."),
    ] = None
    name: Annotated[ProcessName | None, Meta(description="What it is called: works as an id.")] = None
    replace: Annotated[bool, Meta(description="End what lives under that name first.")] = False
    workspace: Annotated[
        WorkspaceName | None,
        Meta(description="Any name. cd and exports carry over to its next run."),
    ] = None

    def __post_init__(self) -> None:
        """Ask for exactly one thing to run."""
        check_one_way(self.command, self.argv, self.script)
        check_replaced(self.name, replace=self.replace)
        super().__post_init__()


class ReadArguments(_Lean, kw_only=True, frozen=True):
    """`read`."""

    id: str | None = None
    grep: Annotated[
        Text | None, Meta(description="Lines matching this regex; without id: of all processes.")
    ] = None
    all_projects: _AllProjects = False
    context: Annotated[int, Meta(ge=0, le=100, description="Lines around each match.")] = 0
    tail: Annotated[Annotated[int, Meta(ge=1, le=100_000)] | None, Meta(description="Last N lines.")] = None
    head: Annotated[Annotated[int, Meta(ge=1, le=100_000)] | None, Meta(description="First N lines.")] = None
    cursor: Annotated[str | None, Meta(description='From an omission mark; "0": the beginning.')] = None
    end: Annotated[str | None, Meta(description="Cursor to stop at.")] = None
    unfiltered: Annotated[bool, Meta(description="What entered the line's final | tail, head or grep.")] = (
        False
    )
    budget: _Budget | None = None
    raw: _Raw = False

    def __post_init__(self) -> None:
        """Say of which process, or look for lines of all of them."""
        if self.id is not None:
            return
        if self.grep is None:
            raise ValueError("Pass id, or grep to search the output of all processes")
        if self.tail is not None or self.head is not None or self.end is not None or self.unfiltered:
            raise ValueError("tail, head, end and unfiltered need an id")


class WaitArguments(_Lean, kw_only=True, frozen=True):
    """`wait`."""

    ids: Annotated[list[str], Meta(min_length=1, max_length=100)]
    mode: Literal["any", "all"] = "all"
    wait_for: _WaitFor = None
    wait_s: Seconds | None = None
    budget: _Budget | None = None


class SendArguments(_Lean, kw_only=True, frozen=True):
    """`send`."""

    id: str
    text: Annotated[str | None, Meta(description="End with \\n for Enter.")] = None
    keys: Annotated[list[str] | None, Meta(description="enter, esc, up, ctrl-c …")] = None
    eof: bool = False
    cursor: Annotated[str | None, Meta(description="Show output from here on.")] = None
    wait_for: _WaitFor = None
    wait_s: Annotated[Seconds | None, Meta(description="At most this many seconds for the answer.")] = None
    budget: _Budget | None = None
    raw: _Raw = False

    def __post_init__(self) -> None:
        """Require something to send."""
        if self.text is None and not self.keys and not self.eof:
            raise ValueError("Pass text, keys or eof")
        check_keys(self.keys or ())


class StopArguments(_Lean, kw_only=True, frozen=True):
    """`stop`."""

    ids: Annotated[list[str], Meta(min_length=1, max_length=100)]
    grace: Annotated[Seconds | None, Meta(description="Seconds from TERM to KILL.")] = None


class ControlArguments(_Lean, kw_only=True, frozen=True):
    """`control`."""

    id: str
    # A cancel is taken, too (`lenient`); models have `stop` for it, and are not shown two ways.
    action: Annotated[str, Meta(extra_json_schema={"enum": ["pause", "resume", "signal"]})]
    signal: Annotated[
        int | str | None, Meta(description="INT, HUP …", extra_json_schema={"type": "string"})
    ] = None
    grace: Annotated[Seconds | None, Meta(description="For cancel: seconds from TERM to KILL.")] = None


class ListArguments(_Lean, kw_only=True, frozen=True):
    """`list`."""

    all: Annotated[bool, Meta(description="Include ended ones.")] = False
    all_projects: _AllProjects = False
    tags: dict[str, str] | None = None
    limit: Annotated[int, Meta(ge=1, le=MOST_LISTED, description="Default 20.")] = 20
