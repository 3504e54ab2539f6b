"""The table of operations: what each is called, how much its caller must be allowed, what it takes, what it
is for (`OPERATIONS`; with those of extensions `all_operations`). Pure.

A frontend gives an operation its own name (a JSON-RPC method, a route, a tool) and takes scope and help from
here. An operation without a line here has no scope, so no frontend can offer it.
"""

import functools
from collections.abc import Mapping
from types import MappingProxyType

from outlive.extensions.contract import check_new, extensions, load
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
from outlive.operations.operation import Operation, decides, reads, runs
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
from outlive.operations.start import RunOptions
from outlive.operations.terminal_requests import (
    CloseTerminal,
    CreateTerminal,
    ExecuteInTerminal,
    ListTerminals,
    ReadTerminal,
    ResizeTerminal,
    WriteToTerminal,
)
from outlive.policy.access import Scope

_ALL = (
    runs("execute", "Start a command; repeated with the same id it starts nothing twice.", RunOptions),
    runs("rerun", "Start a process's command again, as it was started; the new one runs beside it.", Rerun),
    runs("control", "Pause, resume or cancel a process with all that it started.", Control),
    runs("signal", "Send a signal to a process, its group or its whole tree.", SignalRequest),
    runs("write", "Write to a process's input; answered when all of it is in the pipe or terminal."),
    runs("close_stdin", "Let a process read end-of-file, after the writes before."),
    runs("close_output", "Close the reading end of a pipe of a process: its next write there fails."),
    runs("release", "Let go of delivered output of a process whose on_limit is block."),
    runs("resize", "Set the window size of a process's terminal.", Resize),
    runs("move", "Move a process that waits for its group's turn back or forward in the line.", Move),
    runs("relabel", "Change a process's tags, group and name, while it runs and afterwards.", Changes),
    runs("remove", "Forget a finished process: its record, its output and its folder."),
    reads("attach", "Follow a process's output from a cursor on."),
    reads("list", "List processes, newest first."),
    reads("get", "Describe a process."),
    reads("usage", "Say what many processes use now: processor time, memory, listening ports."),
    reads("read", "Return output from a cursor on, both streams in the order of writing."),
    Operation(
        name="search",
        scope=Scope.READ,
        help="Find lines in the output of all processes, the newest process first.",
        request=SearchRequest,
    ),
    reads("wait", "Answer when a process has ended, or as it is when the time is up."),
    reads("events", "Follow what happens to processes from now on."),
    *(runs(name, text, request) for name, (text, request, _) in FILE_OPERATIONS.items()),
    decides("approvals", "List what waits for an approval, oldest first."),
    decides("approve", "Let a process start that waits for an approval, if it is what was shown.", Approving),
    decides("deny", "End a process that waits for an approval; it never runs.", Denial),
    reads("terminal_list", "List the open terminals.", ListTerminals, TerminalPage),
    runs(
        "terminal_create", "Open a terminal: a shell that stays.", CreateTerminal, TerminalView, pace="open"
    ),
    runs(
        "terminal_execute",
        "Run a command at a terminal's prompt.",
        ExecuteInTerminal,
        ExecutedView,
        pace="open",
    ),
    reads("terminal_read", "Return what a terminal shows.", ReadTerminal, TerminalTextView),
    runs("terminal_write", "Type into a terminal, whatever runs there.", WriteToTerminal, TypedView),
    runs("terminal_resize", "Set a terminal's size.", ResizeTerminal, ResizedTerminal),
    runs(
        "terminal_close",
        "Close a terminal: its shell and what runs in it end.",
        CloseTerminal,
        ClosedTerminal,
    ),
    reads(
        "disk",
        "Say what takes the state folder's disk, by project and state, and what retention will remove.",
        DiskRequest,
        DiskUsageAnswer,
    ),
    reads(
        "statistics",
        "Count the caller's starts, ends and failures in a span of time, and say when no server ran.",
        StatisticsRequest,
        StatisticsAnswer,
    ),
    reads(
        "groups",
        "List the caller's groups: their limits, how many run, and what waits, in the order of turns.",
        GroupsRequest,
        GroupsAnswer,
        pace="brief",
    ),
    decides("audit", "Return entries of the audit log, newest first.", AuditRequest, AuditPage),
    decides(
        "settings",
        "Return the settings in effect, and where each comes from.",
        SettingsRequest,
        SettingsAnswer,
        pace="brief",
    ),
    decides(
        "checks", "Try out what outlive stands on, as `outlive doctor` does.", ChecksRequest, ChecksAnswer
    ),
    reads("ui_code", "Make a file that opens the page of the caller's processes in a browser, once."),
    reads("health", "Say how the server is."),
)
OPERATIONS: Mapping[str, Operation] = MappingProxyType({one.name: one for one in _ALL})


@functools.cache
def all_operations() -> Mapping[str, Operation]:
    """Return the operations with those of extensions, whose modules are imported now.

    Raises:
        ConfigInvalid: An extension has an operation of a name that there is already.
    """
    found = dict(OPERATIONS)
    for added in (load(one.operations) for one in extensions() if one.operations):
        declared = {one.name: one for one in added}
        check_new(declared, found, kind="operation")
        found |= declared
    return MappingProxyType(found)
