"""What to do next after an error, in the words of each frontend: `hint_for`, and `worded` for a slug without
an error.

The hint of `core.errors` is written for JSON-RPC, whose words are names of methods and parameters. A person
at the command line, a program that uses REST and a model with MCP tools have other words for the same step:
those are here, once for each frontend.

`MEANINGS` says what each slug means, in one sentence: docs/errors.md is made from it.

`elapsed` and `ran_before` are words of several frontends, too: how long ago something was.

Separate from `errors`, which every keeper and every short program loads: none of these texts is needed while
nothing fails.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from outlive.core.errors import SLUGS, OutliveError

# The last ones are the sets of MCP tools: a model must not be sent to a tool, or an argument, that it is not
# offered.
Door = Literal["cli", "rest", "mcp", "lean", "documents", "terminals"]
_TOOL_SETS = frozenset({"lean", "documents", "terminals"})

_NOT_UNDERSTOOD = "Check the address; if it is right, upgrade the older one of client and server."

# By slug; a frontend that is not named here shows the hint of `core.errors`, a set of MCP tools that of "mcp"
# before that.
HINTS: Mapping[str, Mapping[Door, str]] = MappingProxyType(
    {
        "invalid_params": {
            "cli": "`outlive VERB --help` shows what the verb takes.",
            "rest": "See /docs or /openapi.json of this server for what the path takes.",
            "mcp": "See the tool's input schema.",
        },
        "invalid_cursor": {
            "cli": "`outlive inspect ID` shows the cursor; 0 is the beginning.",
            "rest": 'Take `cursor` from the last answer; "0" is the beginning.',
            "mcp": 'Take the cursor from the last answer; "0" is the beginning.',
        },
        "process_ambiguous": {
            "cli": "`outlive ps` shows the ids: name one.",
            "rest": "GET /v1/processes lists them: name one.",
            "mcp": "Name one by its id.",
        },
        "name_taken": {
            "cli": (
                "Use another name, end that process (`outlive stop NAME`), or let `outlive run "
                "--replace` end it."
            ),
            "mcp": "Use another name, or end that process.",
            "lean": "Use another name, or end that process with `stop`.",
        },
        "copy_unknown": {"cli": "Type it again: what was sent is not sent twice."},
        "process_running": {
            "cli": "Wait for it (`outlive wait ID`) or end it (`outlive stop ID`).",
            "rest": "Wait for it, or cancel it first.",
            "mcp": "Wait for it, or cancel it first.",
        },
        "process_not_found": {
            "cli": "`outlive ps -a` shows the processes that are known.",
            "rest": "GET /v1/processes lists those of this caller.",
            "mcp": "Use an id that a tool has returned.",
            "lean": "`list` shows running processes, with all=true ended ones, too.",
            "documents": "`list_processes` shows those that run, `command_list_history` all.",
        },
        "no_process": {
            "cli": "`outlive ps -a` shows the processes that are known.",
            "rest": "POST /v1/processes starts one.",
            "mcp": "Start one.",
            "lean": "`run` starts one.",
            "documents": "`command_execute` starts one.",
        },
        "stdin_closed": {
            "cli": "It has no input: `outlive run -d --pty -- PROGRAM` gives it a terminal to send to.",
            "rest": 'Start the process with "stdin": "pipe" to write to it.',
            "mcp": "It was started without an input.",
            "lean": "Start it with `run` and `pty` to type into it.",
        },
        "process_ended": {
            "cli": "`outlive logs ID` still shows its output, `outlive inspect ID` how it ended.",
            "lean": "It has ended: `read` shows its output.",
        },
        "no_terminal": {
            "cli": "Only a terminal has a size: `outlive run --pty`.",
            "mcp": "Only a command in a terminal has a window size.",
        },
        "cwd_missing": {
            "cli": "Create the folder, or name another one: `outlive run --cwd FOLDER`.",
            "lean": 'Pass another cwd; run(command="mkdir -p …", cwd="/") creates it.',
        },
        "not_found": {
            "cli": "Check the program's name and your PATH; `outlive run -c 'LINE'` takes a shell line.",
        },
        "argument_too_long": {
            "cli": "One argument may have 128 KiB: put the text into a file, or pipe it in.",
        },
        "stdin_lost": {"cli": "Run it again: its input was not handed over."},
        "key_missing": {"cli": "Set OUTLIVE_TOKEN to the key."},
        "token_missing": {
            "cli": "Set OUTLIVE_TOKEN; `outlive token create` makes a token.",
            "rest": "Send Authorization: Bearer TOKEN; `outlive token create` makes one.",
        },
        "terminal_busy": {
            "cli": (
                "`outlive terminal read ID` shows it, `outlive terminal send ID` answers it (`--key "
                "ctrl-c` ends it)."
            ),
            "rest": (
                "GET /v1/terminals/ID/output shows it, POST /v1/terminals/ID/input answers it or "
                "sends ctrl-c."
            ),
        },
        "terminal_not_found": {
            "cli": "`outlive terminal ls` shows those that are open.",
            "rest": "GET /v1/terminals lists those that are open.",
        },
        "terminal_not_ours": {
            "cli": "Only a terminal of the engine gives this: `outlive terminal new` without a target.",
            "rest": "Only a terminal of the engine gives this: POST /v1/terminals without a target.",
        },
        "cursor_expired": {"cli": "`outlive logs ID` shows what is left of the output."},
        "stream_timeout": {
            "cli": "`outlive logs -f ID` goes on where it was.",
            "rest": "Follow again with the last cursor: GET /v1/processes/ID/follow?cursor=CURSOR.",
            "mcp": "Read on from the last cursor.",
            "lean": "`read` shows all of it.",
            "documents": "`command_get_status` shows all of it.",
        },
        "process_queued": {"cli": "`outlive ps` shows what runs before it; `outlive stop ID` withdraws it."},
        "no_unfiltered": {
            "cli": "`outlive logs ID` shows what the line printed; run it without its final filter."
        },
        "key_taken": {"cli": "Choose another key: `outlive ps -a` shows the process that has this one."},
        "stdin_full": {
            "cli": "It does not read its input now: `outlive stats ID` shows whether it computes or waits."
        },
        "not_owner": {"cli": "`outlive ps -a` shows the processes of this caller."},
        "permission_denied": {
            "cli": "`chmod +x FILE` makes a file executable; `outlive run -- sh FILE` does without."
        },
        "secrets_lost": {
            "cli": "Run it again: `outlive run --secret NAME` takes the value from your environment."
        },
        "audit_unavailable": {
            "cli": "Make the audit log writable (`outlive audit verify`), or leave what is hidden hidden."
        },
        "connection_limit": {
            "cli": "End what is attached or follows, or start the server with more --max-connections."
        },
        "rate_limited": {"cli": "Ask less often, or allow more: `outlive serve --max-request-rate COUNT`."},
        "process_limit": {
            "cli": "`outlive ps` shows what runs; `outlive serve --max-processes COUNT` allows more."
        },
        "folder_gone": {"cli": "End the server and start it again: `outlive serve` makes the folder anew."},
        "keeper_restarted": {"cli": "`outlive inspect ID` shows whether it was done, before you repeat it."},
        "server_lost": {"cli": "`outlive ps -a` shows whether it was done, before you repeat it."},
        "timeout": {"cli": "`outlive ps -a` shows whether it was done, before you repeat it."},
        "start_unanswered": {
            "cli": "Do not start it again: `outlive ps` lists it, and knows more once the answer is there."
        },
        "port_taken": {"cli": "Choose another port; 0 takes any free one: `outlive serve --rest-port 0`."},
        "server_running": {
            "cli": "`outlive ps` uses the server that runs; --state-dir FOLDER begins another."
        },
        "mount_failed": {
            "cli": "Create the folder, or mount another one: `outlive config show` has what is mounted."
        },
        "terminal_limit": {
            "cli": "`outlive terminal ls` shows them; `outlive terminal close ID` closes one."
        },
        "extension_lost": {
            "cli": "`outlive terminal read ID` shows whether it was done, before you repeat it."
        },
        "no_terminal_host": {
            "cli": "`outlive terminal new` makes one here; for VS Code connect the extension first."
        },
        "parse_error": {
            "cli": _NOT_UNDERSTOOD,
            "rest": "Send one JSON object.",
            "mcp": "Send one JSON-RPC message: an object, or an array of them.",
        },
        "invalid_request": {
            "cli": _NOT_UNDERSTOOD,
            "rest": 'A body looks like {"command": "date"}.',
            "mcp": 'A message looks like {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}.',
        },
        "method_not_found": {
            "cli": "The server is of another version: upgrade the older one of the two.",
            "rest": "/docs and /openapi.json of this server list every path.",
            "mcp": "Use `tools/list` and `tools/call`.",
        },
        "binary_frame": {
            "cli": _NOT_UNDERSTOOD,
            "rest": "Send messages as text; bytes for a process go to POST /v1/processes/ID/stdin.",
            "mcp": "Send messages as text.",
        },
    }
)


def hint_for(error: OutliveError, door: Door) -> str:
    """Return the hint of an error in the words of a frontend.

    A hint that was written for this very error is unchanged.
    """
    return worded(error.code, error.hint, door)


def worded(slug: str, hint: str, door: Door) -> str:
    """Return the hint of a slug as `hint_for` does.

    The hint of a slug that only one frontend has is unchanged.
    """
    if slug not in SLUGS or hint != SLUGS[slug][1]:
        return hint
    words = HINTS.get(slug, {})
    return words.get(door) or words.get("mcp" if door in _TOOL_SETS else door, hint)


MEANINGS: Mapping[str, str] = MappingProxyType(
    {
        "command_not_allowed": "A program of the command line is not on the operator's list.",
        "command_opaque": "The line holds more than the operator's list can judge.",
        "command_denied": "A rule of the operator's denies the command.",
        "approval_denied": "The command needed a person's approval, and was denied it.",
        "approval_expired": "The command needed a person's approval, and got none in time.",
        "not_in_line": "The process does not wait for its group's turn, or not any more.",
        "approval_settled": "The process does not wait for an approval, or not any more.",
        "approval_changed": "What waits is not what was approved, or a file that it names has changed.",
        "approval_limit": "Too many commands wait for an approval.",
        "foreign_origin": "A web page of another origin asked.",
        "foreign_host": "The Host header names no address of this server.",
        "foreign_user": "The socket belongs to another user.",
        "key_missing": "The server wants a key, and none or a wrong one came.",
        "token_missing": "This caller has to show a token, and showed none.",
        "token_invalid": "The token is unknown, has expired or was revoked.",
        "inside_process": "A process that outlive has started asks, without a token of its own.",
        "caller_undetermined": "The machine is too busy to tell in time whose connection this is.",
        "token_not_found": "There is no token of that name.",
        "scope_missing": "The caller may look, or start, but not do this.",
        "not_owner": "The process belongs to another principal.",
        "invalid_params": "A parameter, or a word of the command line, makes no sense.",
        "invalid_cursor": "The text is no cursor, or lies behind the end of the output.",
        "no_unfiltered": "Nothing is kept of what entered a final filter of the command.",
        "key_taken": "The key names a process that runs another command.",
        "name_invalid": "No process can be called so: it is no name, or looks like an id.",
        "name_taken": "A process of that name lives in the project already.",
        "process_ambiguous": "Several processes could be meant.",
        "process_running": "Something still runs that would have to have ended.",
        "process_not_found": "There is no such process, or not for this caller.",
        "no_process": "No process runs in this session.",
        "terminal_busy": "Something runs in the terminal, or an unfinished line waits there.",
        "terminal_not_found": "There is no such terminal, or not for this caller.",
        "terminal_not_ours": "The output of this terminal does not come here: it is not the engine's.",
        "no_terminal_host": "Nothing is connected that has terminals of this target.",
        "command_incomplete": "The shell waits for the rest of the command; it was taken back.",
        "process_ended": "The process has ended, and this can only be done to one that runs.",
        "process_queued": (
            "The process waits for its group's turn or for an approval, and has not been started."
        ),
        "stdin_closed": "The process has no input, or it was closed.",
        "stdin_lost": "The descriptor that the command was to read is not there any more.",
        "secrets_lost": (
            "The secrets of the command were in memory only, and went with a server or a keeper that ended."
        ),
        "sandbox_unavailable": "This machine cannot keep what the profile promises, so nothing was started.",
        "profile_too_weak": (
            "The profile that was asked for, or that of the process to act on, is weaker than this "
            "caller may choose."
        ),
        "line_too_long": "A terminal that reads whole lines takes 4095 bytes of each; nothing was written.",
        "stdin_full": "The process has not read its input for 30 s; the details tell what is in.",
        "no_terminal": "The process does not run in a terminal.",
        "not_holder": (
            "Another viewer holds the terminal, or none does: what this one typed or asked for was dropped."
        ),
        "terminal_limit": "The principal has as many terminals as it may have.",
        "extension_away": (
            "The VS Code of this terminal is not connected, or does not read; nothing was sent to it."
        ),
        "extension_lost": "VS Code got the request and did not answer: whether it was done is not known.",
        "extension_failed": "The extension in VS Code could not do it.",
        "cwd_missing": "The working folder is missing, or is no folder.",
        "not_found": "There is no such program.",
        "permission_denied": "Program or folder may not be used by this user.",
        "argument_too_long": (
            "An argument, or all of them with the environment, is longer than the kernel takes."
        ),
        "start_failed": "The operating system did not start the program; the message says why.",
        "docker_unavailable": (
            "Docker cannot be used here: no daemon, no permission, no client package, or no runner."
        ),
        "docker_timeout": "The Docker daemon did not answer within its deadline.",
        "image_missing": "The Docker daemon does not have the image.",
        "container_failed": "The container could not be made, or ended at once; the message says why.",
        "mount_failed": "A folder that the container should see is missing, or cannot be mounted.",
        "mount_refused": (
            "A container must not see this folder: it holds, or is part of, what would open the machine."
        ),
        "connection_limit": "All sessions of the server are taken.",
        "rate_limited": "The principal asks more often than the server allows.",
        "path_refused": "The path leads to outlive's own files, or to what is no file.",
        "file_missing": "There is no such file or folder.",
        "file_failed": "The operating system does not let the file be read or written; the message says why.",
        "file_changed": "The file was changed while it was copied, or did not arrive as it was sent.",
        "copy_unknown": "The copy is not open: it has rested too long, or the server was started again.",
        "batch_limit": "The answers of the batch before this one are as large as they may be.",
        "copy_limit": "A piece came far before those that lie before it.",
        "node_busy": "Processes of this server run on the node.",
        "no_room": "No machine has as much free as the command needs.",
        "process_limit": "There are too many processes, or too many open questions.",
        "audit_unavailable": "The audit log cannot be written, so that no secret is shown.",
        "disk_full": "The state folder's file system is full.",
        "read_only": "The state folder's file system is read-only.",
        "disk_silent": "The state folder's disk has not answered for some seconds (frozen, or very busy).",
        "folder_gone": "The state folder was deleted or moved while the server serves it.",
        "keeper_unavailable": "The keeper does not answer; commands go on meanwhile.",
        "keeper_restarted": "The keeper restarted in the middle: whether it was done is not known.",
        "node_unavailable": (
            "The node that has, or would get, the process does not answer; what runs there goes on."
        ),
        "start_unanswered": (
            "A start was asked for, and not answered yet: it may run. Its id is in the details; a "
            "node is asked again under it until it answers."
        ),
        "server_lost": "The server went away in the middle: whether it was done is not known.",
        "server_unavailable": "No server answers.",
        "timeout": "Something did not answer within its deadline.",
        "stream_timeout": "A stream had to be given up.",
        "parse_error": "The message is no JSON.",
        "invalid_request": "The message is JSON, but not what the protocol asks for.",
        "protocol_mismatch": (
            "Client and server, or a server and its node, are of versions that do not speak the same "
            "protocol."
        ),
        "method_not_found": "There is no such method.",
        "binary_frame": "A binary frame came where text is due.",
        "cursor_expired": "The log no longer holds the output at this place.",
        "store_corrupt": "A file of the state folder is not what it should be, or cannot be read or written.",
        "config_invalid": "A setting is missing, unknown or impossible.",
        "state_folder": "The state folder cannot be used.",
        "state_format": "The state folder is of another format: another version of outlive made it.",
        "port_taken": "Another program listens on the port.",
        "server_running": "A server of this state folder runs already.",
        "unsupported_platform": "This is no Linux, or lacks what outlive cannot do without.",
        "internal_error": "A fault of outlive's; the message has a reference to the server's log.",
    }
)


def elapsed(seconds: float) -> str:
    """Return a time as people say it: "0.4 s", "45 s", "12 min", "3 h", "2 days"."""
    if seconds < 9.95:  # "10.0 s" is one digit too many
        return f"{seconds:.1f} s"
    for unit, size in (("days", 172_800), ("h", 7200), ("min", 180)):
        if seconds >= size:
            return f"{seconds / {'days': 86_400, 'h': 3600, 'min': 60}[unit]:.0f} {unit}"
    return f"{seconds:.0f} s"


def ran_before(ended_s_ago: float | None) -> str:
    """Return when the process of a key ran, since its result may be old; None: it has not ended."""
    if ended_s_ago is None:
        return "started before with this key, not again"
    return f"ran {elapsed(max(0.0, ended_s_ago))} ago with this key, not again"
