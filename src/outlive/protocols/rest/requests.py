"""The bodies that callers send to /v1 and to the documented paths; unknown members of /v1 bodies are refused.

What other frontends take, too, is inherited from `outlive.operations`, where `timeout` and `grace` are seconds and
`output_limit` is bytes. `BODIES` are all of them, with what the OpenAPI document says beside their schemas.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from outlive.core.command import Command
from outlive.operations.controls import Approving, Changes, ControlRequest, Denial, Resize, SignalRequest
from outlive.operations.requests import Text, Timeout, Words
from outlive.operations.start import StartOptions, check_one_way, check_words
from outlive.protocols.terminal.requests import ExecuteRequest, InputRequest, NewTerminalRequest

# The three ways to say what runs.
_TEXT: dict[str, Any] = {"type": "string"}
_WAYS: dict[str, dict[str, Any]] = {
    "command": _TEXT,
    "argv": {"type": "array", "items": _TEXT},
    "script": _TEXT,
}


def _has(name: str) -> dict[str, Any]:
    """Return the schema of an object that holds `name`; null counts as absent."""
    return {"required": [name], "properties": {name: _WAYS[name]}}


def _has_only(name: str) -> dict[str, Any]:
    absent = {other: {"type": "null"} for other in _WAYS if other != name}
    return {"required": [name], "properties": {name: _WAYS[name], **absent}}


# The schema says what `check_one_way` checks: exactly one of the three is there. Not as `oneOf`: generators of clients
# make three classes of that which know none of the other members. `if` binds validators and adds no type.
_EXACTLY_ONE: dict[str, Any] = {
    "if": _has("command"),
    "then": _has_only("command"),
    "else": {"if": _has("argv"), "then": _has_only("argv"), "else": _has_only("script")},
}


class StartRequest(StartOptions, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """A command and how to run it: exactly one of `command`, `argv` and `script`."""

    command: Annotated[Text | None, Meta(description="A shell line, of any length.")] = None
    argv: Annotated[Words | None, Meta(description="A program and its words; no shell is between.")] = None
    script: Annotated[str | None, Meta(description="The content of a file that `interpreter` runs.")] = None
    interpreter: Annotated[Text, Meta(description="What runs `script`.")] = "/bin/bash"
    # A descriptor can only be lent, and output only be released, by a client of the socket.
    stdin: Annotated[Literal["none", "pipe"], Meta(description="pipe: its input can be written to.")] = "none"
    on_limit: Annotated[
        Literal["truncate", "kill"], Meta(description="What happens beyond output_limit.")
    ] = "truncate"

    def __post_init__(self) -> None:
        """Ask for exactly one thing to run."""
        check_one_way(self.command, self.argv, self.script)
        super().__post_init__()

    def to_command(self) -> Command:
        """Return the command as the engine takes it; it belongs to the principal, not to a connection."""
        return self.make_command(
            line=self.command,
            argv=self.argv if self.script is None else (self.interpreter,),
            script=self.script,
            detached=True,
        )


class SyncRequest(msgspec.Struct, kw_only=True, frozen=True):
    """A command for /api/sync/execute/; other members are ignored."""

    command: Text
    timeout: Annotated[
        Timeout | None, Meta(description="After this many seconds the whole tree is ended.")
    ] = None

    def __post_init__(self) -> None:
        """Refuse what no shell could run."""
        check_words(self.command, None)


class BackgroundRequest(SyncRequest, kw_only=True, frozen=True):
    """A command for /api/async/execute/background/; other members are ignored."""


# Every body -> what the OpenAPI document says beside its schema.
BODIES: Mapping[type[msgspec.Struct], dict[str, Any]] = MappingProxyType(
    {
        StartRequest: {
            **_EXACTLY_ONE,
            "examples": [
                {"command": "make -j8", "cwd": "/srv", "timeout": 3600, "tags": {"job": "build"}},
                {"argv": ["python3", "-u", "train.py"], "group": "night"},
                {"command": "cat", "stdin": "pipe"},
            ],
        },
        Changes: {"examples": [{"tags": {"job": "release", "draft": None}}]},
        ControlRequest: {"examples": [{"action": "cancel", "grace": 5}]},
        SignalRequest: {"examples": [{"signal": "INT"}]},
        Approving: {"examples": [{"digest": "0f" * 32}]},
        Denial: {"examples": [{"reason": "Not on a Friday."}]},
        Resize: {"examples": [{"rows": 50, "cols": 132}]},
        SyncRequest: {"examples": [{"command": "uname -a"}]},
        BackgroundRequest: {"examples": [{"command": "sleep 60", "timeout": 120}]},
        NewTerminalRequest: {"examples": [{"terminal_name": "build", "cwd": "/srv"}]},
        ExecuteRequest: {"examples": [{"command": "make test", "wait_s": 60}]},
        InputRequest: {"examples": [{"text": "y", "keys": ["enter"]}]},
    }
)
