"""What to do next, in the words of the door at which an error is shown: `hint_for`, and `worded` where no error is at hand.

The hint of `core.errors` is written for JSON-RPC, where its words are method and parameter names. A person at the command
line, a program at REST and a model with MCP tools have other words for the same step; they stand here, once for each door.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from outlive.core.errors import SLUGS, OutliveError

Door = Literal["cli", "rest", "mcp"]

_NOT_UNDERSTOOD = "Check the address; if it is right, upgrade the older one of client and server."

# By slug; a door that is not named here shows the hint of `core.errors`.
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
        "process_running": {
            "cli": "Wait for it (`outlive wait ID`) or end it (`outlive stop ID`).",
            "rest": "Wait for it, or cancel it first.",
            "mcp": "Wait for it, or cancel it first.",
        },
        "process_not_found": {
            "cli": "`outlive ps -a` shows the processes that are known.",
            "rest": "GET /v1/processes lists those of this caller.",
            "mcp": "`list` (or `list_processes`) shows those of this caller.",
        },
        "no_process": {
            "cli": "`outlive ps -a` shows the processes that are known.",
            "rest": "POST /v1/processes starts one.",
            "mcp": "`run` (or `command_execute`) starts one.",
        },
        "stdin_closed": {
            "cli": "It has no input: `outlive run -d --pty -- PROGRAM` gives it a terminal to send to.",
            "rest": 'Start the process with "stdin": "pipe" to write to it.',
            "mcp": "Start it with `run` and `stdin` or `pty` to write to it.",
        },
        "no_terminal": {
            "cli": "Only a terminal has a size: `outlive run --pty`.",
            "mcp": "Only a command that was started with pty true has a window size.",
        },
        "cwd_missing": {"cli": "Create the folder, or name another one: `outlive run --cwd FOLDER`."},
        "not_found": {
            "cli": "Check the program's name and your PATH; `outlive run -c 'LINE'` takes a shell line."
        },
        "argument_too_long": {
            "cli": "One argument may have 128 KiB: put the text into a file, or pipe it in."
        },
        "stdin_lost": {"cli": "Run it again: its input was not handed over."},
        "key_missing": {"cli": "Set OUTLIVE_TOKEN to the key."},
        "token_missing": {
            "cli": "Set OUTLIVE_TOKEN; `outlive token create` makes a token.",
            "rest": "Send Authorization: Bearer TOKEN; `outlive token create` makes one.",
        },
        "terminal_busy": {
            "cli": "`outlive terminal read ID` shows it, `outlive terminal send ID` answers it (`--key ctrl-c` ends it).",
            "rest": "GET /v1/terminals/ID/output shows it, POST /v1/terminals/ID/input answers it or sends ctrl-c.",
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
            "mcp": "Read on from the last cursor: `read` (or `command_get_status`) shows all of it.",
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
    """Return the hint of an error in the words of a door; one that was written for this very error stays as it is."""
    return worded(error.code, error.hint, door)


def worded(slug: str, hint: str, door: Door) -> str:
    """Return the hint of a slug as `hint_for` does; slugs that only one door has are in its own words already."""
    if slug not in SLUGS or hint != SLUGS[slug][1]:
        return hint
    return HINTS.get(slug, {}).get(door, hint)
