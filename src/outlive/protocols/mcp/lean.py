"""The lean tools for agents: arguments and schemas, together at most 8 KB of JSON (promise S4.13)."""

from typing import Annotated, Literal, get_args

import msgspec
from msgspec import Meta

from outlive.core.location import Isolation
from outlive.core.sandbox import Profile
from outlive.protocols.limits import LimitParams
from outlive.protocols.mcp.arguments import GroupLimit, Seconds, Umask, WaitSeconds, WorkspaceName
from outlive.protocols.mcp.schemas import Schema, describe_tool
from outlive.protocols.terminal.typed import check_keys

_Budget = Annotated[int, Meta(ge=100, le=1_000_000)]


class _Lean(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """An agent that misspells an argument is told, not ignored."""


class WaitFor(_Lean, kw_only=True, frozen=True):
    """When a call may answer before the end."""

    text: str | None = None
    port: Annotated[int, Meta(ge=1, le=65535)] | None = None
    idle_s: Seconds | None = None


class RunArguments(_Lean, kw_only=True, frozen=True):
    """`run`."""

    command: str | None = None
    argv: Annotated[list[str], Meta(min_length=1)] | None = None
    script: str | None = None
    interpreter: str = "/bin/bash"
    cwd: str | None = None
    env: dict[str, str | None] = {}
    env_secrets: dict[str, str] = {}
    profile: str | None = None
    limits: LimitParams | None = None
    backend: str | None = None
    image: str | None = None
    isolation: Isolation | None = None
    umask: Umask | None = None
    stdin: Literal["none", "pipe"] = "none"
    pty: bool = False
    wait_s: WaitSeconds | None = None
    wait_for: WaitFor | None = None
    timeout: Seconds | None = None
    budget: _Budget = 8000
    raw: bool = False
    tags: dict[str, str] = {}
    group: Annotated[str, Meta(min_length=1)] | None = None
    group_limit: GroupLimit | None = None
    key: str | None = None
    workspace: WorkspaceName | None = None

    def __post_init__(self) -> None:
        """Ask for exactly one thing to run."""
        if sum(one is not None for one in (self.command, self.argv, self.script)) != 1:
            raise ValueError("pass exactly one of command, argv and script")


class ReadArguments(_Lean, kw_only=True, frozen=True):
    """`read`."""

    id: str
    cursor: str | None = None
    end: str | None = None
    tail: Annotated[int, Meta(ge=1, le=100_000)] | None = None
    grep: Annotated[str, Meta(min_length=1)] | None = None
    context: Annotated[int, Meta(ge=0, le=100)] = 0
    budget: _Budget = 8000
    raw: bool = False


class WaitArguments(_Lean, kw_only=True, frozen=True):
    """`wait`."""

    ids: Annotated[list[str], Meta(min_length=1, max_length=100)]
    mode: Literal["any", "all"] = "all"
    wait_s: WaitSeconds | None = None


class SendArguments(_Lean, kw_only=True, frozen=True):
    """`send`."""

    id: str
    text: str | None = None
    keys: list[str] | None = None
    eof: bool = False
    cursor: str | None = None
    wait_s: WaitSeconds = 1.0
    budget: _Budget = 8000

    def __post_init__(self) -> None:
        """Ask for something to send."""
        if self.text is None and not self.keys and not self.eof:
            raise ValueError("pass text, keys or eof")
        check_keys(self.keys or ())


class ControlArguments(_Lean, kw_only=True, frozen=True):
    """`control`."""

    id: str
    action: Literal["pause", "resume", "cancel", "signal"]
    signal: str | None = None
    grace: Seconds | None = None


class ListArguments(_Lean, kw_only=True, frozen=True):
    """`list`."""

    all: bool = False
    tags: dict[str, str] | None = None
    limit: Annotated[int, Meta(ge=1, le=200)] = 20


def _text(description: str = "") -> Schema:
    return {"type": "string", **({"description": description} if description else {})}


def _number(description: str = "") -> Schema:
    return {"type": "number", **({"description": description} if description else {})}


def _whole(description: str = "") -> Schema:
    return {"type": "integer", **({"description": description} if description else {})}


def _flag(description: str) -> Schema:
    return {"type": "boolean", "description": description}


def _object(required: tuple[str, ...] = (), /, **properties: Schema) -> Schema:
    schema: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**schema, "required": list(required)} if required else schema


_TEXTS: Schema = {"type": "object", "additionalProperties": {"type": "string"}}


def _described(schema: Schema, description: str) -> Schema:
    return {**schema, "description": description}


_COUNT = _whole()
_BUDGET = _whole("Most characters of output to show (8000).")
_RAW = _flag("Keep ANSI codes, progress bars and repeated lines.")

LEAN_TOOLS: tuple[Schema, ...] = (
    describe_tool(
        "run",
        "Run",
        description="Run a command. Answers at its end, when wait_for is met, or after wait_s with the command still "
        "running; then use wait, read, send, control with its id. Output is kept: never run again to see more.",
        arguments=_object(
            command=_text("A bash line."),
            argv={"type": "array", "items": {"type": "string"}, "description": "Words, without a shell."},
            script=_text("A script's text, any length and quoting."),
            interpreter=_text("For script (/bin/bash)."),
            cwd=_text(),
            env={"type": "object", "description": "Added variables; null removes one."},
            env_secrets=_described(_TEXTS, "Variables that are written nowhere."),
            profile={"enum": list(map(str, Profile)), "description": "Sandbox, weakest first."},
            limits=_described(
                _object(
                    cpu=_whole("Seconds."),
                    cpus=_number(),
                    memory=_whole("Bytes."),
                    files=_COUNT,
                    processes=_COUNT,
                ),
                "Most that it may take.",
            ),
            backend=_text("Where: local, docker or a node's name."),
            image=_text(),
            isolation={"enum": list(get_args(Isolation))},
            umask=_text("As 022."),
            stdin={"enum": ["none", "pipe"], "description": "pipe: send can write to it."},
            pty=_flag("Run in a terminal."),
            wait_s=_number("Seconds to wait for the end (45); 0 starts in the background."),
            wait_for=_object(
                text=_text("Output contains this."),
                port=_whole("Something listens on this TCP port."),
                idle_s=_number("No output for so long."),
            ),
            timeout=_number("Seconds until the process tree is ended (never)."),
            budget=_BUDGET,
            raw=_RAW,
            tags=_TEXTS,
            group=_text(),
            group_limit=_whole("Of the group run at once; more wait for their turn."),
            key=_text("Repeating a run with the same key starts nothing twice."),
            workspace=_text("A name: cd and export of its last command that exited 0 go on here."),
        ),
        destroys=True,
    ),
    describe_tool(
        "read",
        "Read output",
        description="Read a process's output, running or ended: from cursor on (to end), its last lines, or "
        "matching lines.",
        arguments=_object(
            ("id",),
            id=_text(),
            cursor=_text('Where to go on, from the last answer; "0" is the beginning.'),
            end=_text("Cursor to stop at."),
            tail=_whole("Last lines."),
            grep=_text("Only lines with this text; a|b finds both."),
            context=_whole("Lines around a match."),
            budget=_BUDGET,
            raw=_RAW,
        ),
        reads_only=True,
    ),
    describe_tool(
        "wait",
        "Wait",
        description="Wait until any or all of these processes have ended.",
        arguments=_object(
            ("ids",),
            ids={"type": "array", "items": {"type": "string"}},
            mode={"enum": ["any", "all"]},
            wait_s=_number("At most so many seconds (45)."),
        ),
        reads_only=True,
    ),
    describe_tool(
        "send",
        "Send input",
        description="Write to a process started with stdin=pipe or pty; answers with what it then prints.",
        arguments=_object(
            ("id",),
            id=_text(),
            text=_text("As it is: end a line with \\n."),
            keys={
                "type": "array",
                "items": {"type": "string"},
                "description": "enter, tab, esc, up, down, left, right, ctrl-c …",
            },
            eof=_flag("Close the input afterwards."),
            cursor=_text("Your last cursor: show output from there, not only what comes now."),
            wait_s=_number("Seconds to wait for output (1)."),
            budget=_BUDGET,
        ),
        destroys=True,
    ),
    describe_tool(
        "control",
        "Control",
        description="Pause, resume, cancel (TERM, then KILL) a whole process tree, or signal its main process.",
        arguments=_object(
            ("id", "action"),
            id=_text(),
            action={"enum": ["pause", "resume", "cancel", "signal"]},
            signal=_text("For signal: INT, HUP, USR1 …"),
            grace=_number("For cancel: seconds until KILL."),
        ),
        destroys=True,
    ),
    describe_tool(
        "list",
        "List",
        description="List processes, newest first: those that run, or all.",
        arguments=_object(all=_flag("Ended ones too."), tags=_TEXTS, limit=_whole("Default 20.")),
        reads_only=True,
    ),
)
