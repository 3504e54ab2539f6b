"""The lean tools for agents: arguments and schemas, together at most 8 KB of JSON (promise S4.13).

The schemas are written by hand, since generated ones would be several times as long: a new argument goes into the struct and into
the schema.
"""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from outlive.operations.requests import Seconds, Text, WaitSeconds, Words, WorkspaceName
from outlive.operations.schemas import arguments_schema
from outlive.operations.start import RunOptions, check_one_way
from outlive.protocols.mcp.schemas import Schema, describe_tool
from outlive.protocols.terminal.typed import check_keys

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


LEAN_TOOLS: tuple[Schema, ...] = (
    describe_tool(
        "run",
        "Run",
        description="Run a command. Answers at its end, when wait_for is met, or after wait_s with the command still "
        "running; then use wait, read, send, control with its id. Output is kept: never run again to see more.",
        arguments=arguments_schema(RunArguments, is_terse=True),
        destroys=True,
    ),
    describe_tool(
        "read",
        "Read output",
        description="Read a process's output, running or ended: from cursor on (to end), its last lines, or "
        "matching lines.",
        arguments=arguments_schema(ReadArguments, is_terse=True),
        reads_only=True,
    ),
    describe_tool(
        "wait",
        "Wait",
        description="Wait until any or all of these processes have ended.",
        arguments=arguments_schema(WaitArguments, is_terse=True),
        reads_only=True,
    ),
    describe_tool(
        "send",
        "Send input",
        description="Write to a process started with stdin=pipe or pty; answers with what it then prints.",
        arguments=arguments_schema(SendArguments, is_terse=True),
        destroys=True,
    ),
    describe_tool(
        "control",
        "Control",
        description="Pause, resume, cancel (TERM, then KILL) a whole process tree, or signal its main process.",
        arguments=arguments_schema(ControlArguments, is_terse=True),
        destroys=True,
    ),
    describe_tool(
        "list",
        "List",
        description="List processes, newest first: those that run, or all.",
        arguments=arguments_schema(ListArguments, is_terse=True),
        reads_only=True,
    ),
)
