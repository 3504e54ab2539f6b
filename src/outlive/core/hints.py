"""What to do next, in the words of the door at which an error is shown: `hint_for`.

The hint of `core.errors` is written for JSON-RPC, where its words are method and parameter names. A person at the command
line, a program at REST and a model with MCP tools have other words for the same step; they stand here, once for each door.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from outlive.core.errors import SLUGS, OutliveError

__all__ = ["HINTS", "Door", "hint_for"]

Door = Literal["cli", "rest", "mcp"]

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
        "stream_timeout": {"cli": "Try again: `outlive logs -f ID` goes on where it was."},
        "method_not_found": {"cli": "The server is of another version: upgrade the older one of the two."},
        "parse_error": {"rest": "Send one JSON object."},
        "invalid_request": {"rest": 'A body looks like {"command": "date"}.'},
    }
)


def hint_for(error: OutliveError, door: Door) -> str:
    """Return the hint of an error in the words of a door; one that was written for this very error stays as it is."""
    if error.hint != SLUGS[error.code][1]:
        return error.hint
    return HINTS.get(error.code, {}).get(door, error.hint)
