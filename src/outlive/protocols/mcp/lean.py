"""Arguments of the lean tools (promise S4.13) as msgspec structs. Pure; `frontends.mcp.tools.lean` answers.

The sentences are for models, and stand in each conversation: every word costs its readers. What a tool takes
beyond its listed arguments (`table.Tool.listed`) works all the same. `lenient` turns what models send into
these; what is left unknown is refused.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from outlive.operations.requests import Key, ProcessName, Seconds, Text, Timeout, Words, WorkspaceName
from outlive.operations.start import RunOptions, check_one_way, check_replaced
from outlive.operations.terminal_requests import check_keys
from outlive.protocols.mcp.lenient import LEAST_BUDGET, MOST_BUDGET, MOST_LISTED
from outlive.protocols.output.pattern import MAX_PATTERN_CHARACTERS

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
