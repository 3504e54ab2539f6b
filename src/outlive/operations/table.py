"""The table of operations: what each is called, how much its caller must be allowed, what it takes, what it
is for. Pure.

A frontend gives an operation its own name (a JSON-RPC method, a route, a tool) and takes scope and help from
here. An operation without a line here has no scope, so no frontend can offer it.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

import msgspec

from outlive.operations.answers import (
    ClosedTerminal,
    DiskRequest,
    DiskUsageAnswer,
    ExecutedView,
    ResizedTerminal,
    TerminalPage,
    TerminalTextView,
    TerminalView,
    TypedView,
)
from outlive.operations.controls import (
    Approving,
    Changes,
    Control,
    Denial,
    Move,
    Resize,
    SignalRequest,
)
from outlive.operations.files import FILE_OPERATIONS
from outlive.operations.nodes import (
    NodeAdd,
    NodeAdopt,
    NodeDrain,
    NodeInvite,
    NodeJoin,
    NodeLeave,
    NodeList,
    NodeRemoval,
    NodeResume,
    NodesRequest,
)
from outlive.operations.repetition import Rerun
from outlive.operations.reports import (
    AuditPage,
    AuditRequest,
    ChecksAnswer,
    ChecksRequest,
    GroupsAnswer,
    GroupsRequest,
    SettingsAnswer,
    SettingsRequest,
    StatisticsAnswer,
    StatisticsRequest,
)
from outlive.operations.search import SearchRequest
from outlive.operations.services.requests import (
    DownRequest,
    RestartRequest,
    ServicesRequest,
    StackList,
    UpRequest,
)
from outlive.operations.start import RunOptions
from outlive.operations.terminals.requests import (
    CloseTerminal,
    CreateTerminal,
    ExecuteInTerminal,
    ListTerminals,
    ReadTerminal,
    ResizeTerminal,
    WriteToTerminal,
)
from outlive.policy.access import Scope

Pace = Literal["brief", "long", "open"]


class Operation(msgspec.Struct, kw_only=True, frozen=True):
    """One operation.

    `request` is what every frontend takes that has it; the frontends' own shapes inherit from it. None: what
    is asked for is a place in the output, a page of a list or a time to wait, which each protocol says in its
    own way.

    With an `answer` every door takes and gives the same: `server.operations` carries it out, and JSON-RPC and
    REST have nothing of their own for it. `pace` says whether others wait for it: a brief one is answered in
    the order of the requests, a long one takes some time (a disk, another program), an open one as long as
    its caller likes, so that a server which stops ends it.
    """

    name: str
    scope: Scope
    help: str
    request: type[msgspec.Struct] | None = None
    answer: type[msgspec.Struct] | None = None
    pace: Pace = "long"


_Shape = type[msgspec.Struct] | None


def _reads(
    name: str, text: str, request: _Shape = None, answer: _Shape = None, *, pace: Pace = "long"
) -> Operation:
    return Operation(name=name, scope=Scope.READ, help=text, request=request, answer=answer, pace=pace)


def _runs(
    name: str, text: str, request: _Shape = None, answer: _Shape = None, *, pace: Pace = "long"
) -> Operation:
    return Operation(name=name, scope=Scope.RUN, help=text, request=request, answer=answer, pace=pace)


def _decides(
    name: str, text: str, request: _Shape = None, answer: _Shape = None, *, pace: Pace = "long"
) -> Operation:
    return Operation(name=name, scope=Scope.ADMIN, help=text, request=request, answer=answer, pace=pace)


_ALL = (
    _runs("execute", "Start a command; repeated with the same id it starts nothing twice.", RunOptions),
    _runs("rerun", "Start a process's command again, as it was started; the new one runs beside it.", Rerun),
    _runs("control", "Pause, resume or cancel a process with all that it started.", Control),
    _runs("signal", "Send a signal to a process, its group or its whole tree.", SignalRequest),
    _runs("write", "Write to a process's input; answered when all of it is in the pipe or terminal."),
    _runs("close_stdin", "Let a process read end-of-file, after the writes before."),
    _runs("close_output", "Close the reading end of a pipe of a process: its next write there fails."),
    _runs("release", "Let go of delivered output of a process whose on_limit is block."),
    _runs("resize", "Set the window size of a process's terminal.", Resize),
    _runs("move", "Move a process that waits for its group's turn back or forward in the line.", Move),
    _runs("relabel", "Change a process's tags, group and name, while it runs and afterwards.", Changes),
    _runs("remove", "Forget a finished process: its record, its output and its folder."),
    _reads("attach", "Follow a process's output from a cursor on."),
    _reads("list", "List processes, newest first."),
    _reads("get", "Describe a process."),
    _reads("usage", "Say what many processes use now: processor time, memory, listening ports."),
    _reads("read", "Return output from a cursor on, both streams in the order of writing."),
    Operation(
        name="search",
        scope=Scope.READ,
        help="Find lines in the output of all processes, the newest process first.",
        request=SearchRequest,
    ),
    _reads("wait", "Answer when a process has ended, or as it is when the time is up."),
    _reads("events", "Follow what happens to processes from now on."),
    _reads(
        "nodes",
        "List the machines that commands run on, and what is free there.",
        NodesRequest,
        NodeList,
        pace="brief",
    ),  # a heartbeat asks for it
    _decides(
        "node_add", "Run commands on another server from now on, or reach it otherwise.", NodeAdd, NodeList
    ),
    _decides("node_drain", "Place no more commands on a node; what runs there goes on.", NodeDrain, NodeList),
    _decides("node_resume", "Place commands on a drained node again.", NodeResume, NodeList),
    _decides("node_remove", "Forget a node that was added.", NodeRemoval, NodeList),
    _decides(
        "node_adopt",
        "Follow what other servers have started on a node, as if it were this one's.",
        NodeAdopt,
        NodeList,
    ),
    _decides(
        "node_invite",
        "Make a code with which a machine joins as a node by dialling in.",
        NodeInvite,
        NodeList,
    ),
    _decides("node_join", "Make this machine a node of the server that has invited it.", NodeJoin, NodeList),
    _decides(
        "node_leave", "Run no more commands for a server that this machine has joined.", NodeLeave, NodeList
    ),
    *(_runs(name, text, request) for name, (text, request, _) in FILE_OPERATIONS.items()),
    _decides("approvals", "List what waits for an approval, oldest first."),
    _decides(
        "approve", "Let a process start that waits for an approval, if it is what was shown.", Approving
    ),
    _decides("deny", "End a process that waits for an approval; it never runs.", Denial),
    _reads("terminal_list", "List the open terminals.", ListTerminals, TerminalPage),
    _runs(
        "terminal_create", "Open a terminal: a shell that stays.", CreateTerminal, TerminalView, pace="open"
    ),
    _runs(
        "terminal_execute",
        "Run a command at a terminal's prompt.",
        ExecuteInTerminal,
        ExecutedView,
        pace="open",
    ),
    _reads("terminal_read", "Return what a terminal shows.", ReadTerminal, TerminalTextView),
    _runs("terminal_write", "Type into a terminal, whatever runs there.", WriteToTerminal, TypedView),
    _runs("terminal_resize", "Set a terminal's size.", ResizeTerminal, ResizedTerminal),
    _runs(
        "terminal_close",
        "Close a terminal: its shell and what runs in it end.",
        CloseTerminal,
        ClosedTerminal,
    ),
    _runs("services_up", "Make a project's services run as they are declared.", UpRequest, StackList),
    _runs(
        "services_down",
        "Stop a project's services, those that wait for others first.",
        DownRequest,
        StackList,
    ),
    _runs("services_restart", "End a project's services and start them again.", RestartRequest, StackList),
    _reads(
        "services_list",
        "List services, at once or after news of them.",
        ServicesRequest,
        StackList,
        pace="open",
    ),
    _reads(
        "disk",
        "Say what takes the state folder's disk, by project and state, and what retention will remove.",
        DiskRequest,
        DiskUsageAnswer,
    ),
    _reads(
        "statistics",
        "Count the caller's starts, ends and failures in a span of time, and say when no server ran.",
        StatisticsRequest,
        StatisticsAnswer,
    ),
    _reads(
        "groups",
        "List the caller's groups: their limits, how many run, and what waits, in the order of turns.",
        GroupsRequest,
        GroupsAnswer,
        pace="brief",
    ),
    _decides("audit", "Return entries of the audit log, newest first.", AuditRequest, AuditPage),
    _decides(
        "settings",
        "Return the settings in effect, and where each comes from.",
        SettingsRequest,
        SettingsAnswer,
        pace="brief",
    ),
    _decides(
        "checks", "Try out what outlive stands on, as `outlive doctor` does.", ChecksRequest, ChecksAnswer
    ),
    _reads("ui_code", "Make a file that opens the page of the caller's processes in a browser, once."),
    _reads("health", "Say how the server is."),
)
OPERATIONS: Mapping[str, Operation] = MappingProxyType({one.name: one for one in _ALL})
