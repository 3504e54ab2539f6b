"""What callers send to /v1 and to the documented paths: bodies, and the parameters of addresses and headers.

Unknown members of a /v1 body are refused, unknown parameters ignored. A parameter that the path names is
taken from there, one marked `_HEADER` from the header of its name, all others from the query.

What other frontends take, too, is inherited from `outlive.operations`, where `timeout` and `grace` are
seconds and `output_limit` is bytes. `BODIES` are all of them, with what the OpenAPI document says beside
their schemas.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from outlive.core.command import Command
from outlive.core.errors import InvalidRequest
from outlive.core.process import WaitUntil
from outlive.operations.controls import CONTROLS, Approving, Changes, Denial
from outlive.operations.files import NamingFolder, Place
from outlive.operations.repetition import Rerun
from outlive.operations.requests import (
    Bytes,
    ListFilter,
    ProcessWord,
    ProjectFolder,
    Text,
    Timeout,
    WaitSeconds,
    Words,
)
from outlive.operations.search import SearchRequest
from outlive.operations.start import StartOptions, check_one_way, check_words
from outlive.operations.terminal_requests import (
    ExecuteRequest,
    InputRequest,
    NewTerminalRequest,
)
from outlive.protocols.jsonrpc.views import Encoding

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


# The schema says what `check_one_way` checks: exactly one of the three is there. Not as `oneOf`: generators
# of clients make three classes of that which know none of the other members. `if` binds validators and adds
# no type.
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
        Rerun: {"examples": [{}]},
        Changes: {"examples": [{"tags": {"job": "release", "draft": None}}]},
        **{shape: {"examples": [example]} for shape, example in CONTROLS.values()},
        Approving: {"examples": [{"digest": "0f" * 32}]},
        Denial: {"examples": [{"reason": "Not on a Friday."}]},
        SyncRequest: {"examples": [{"command": "uname -a"}]},
        BackgroundRequest: {"examples": [{"command": "sleep 60", "timeout": 120}]},
        NewTerminalRequest: {"examples": [{"terminal_name": "build", "cwd": "/srv"}]},
        ExecuteRequest: {"examples": [{"command": "make test", "wait_s": 60}]},
        InputRequest: {"examples": [{"text": "y", "keys": ["enter"]}]},
    }
)


_HEADER = {"in": "header"}  # is taken out of the schema again (`frontends.rest.routes`)
_MAX_OFFSET = 2**62  # pread and SQLite accept less than 2**63
_MAX_PID = 2**31 - 1  # pid_t
_Offset = Annotated[int, Meta(ge=0, le=_MAX_OFFSET)]
_EventId = Annotated[str, Meta(max_length=60)]
StateName = Literal[
    "active",
    "ended",
    "queued",
    "starting",
    "running",
    "paused",
    "stopping",
    "exited",
    "signaled",
    "failed_to_start",
    "lost",
]


class OfProcess(msgspec.Struct, kw_only=True, frozen=True):
    """The process that a path names."""

    process_id: Annotated[
        ProcessWord,
        Meta(
            description=(
                "The process's id, name, short id (p7), command id, the end of its id, its pid, or @last."
            ),
            examples=["01k9zq3v8d4t6r2m5x7b1n0c9f", "web", "p7"],
        ),
    ]
    project: Annotated[
        ProjectFolder | None, Meta(description="The folder in which names, short ids and @last count.")
    ] = None


class OfWaiting(msgspec.Struct, kw_only=True, frozen=True):
    """The process that a path names and that waits for an approval: by the server's id alone."""

    process_id: Annotated[
        str,
        Meta(
            pattern=r"^[0-7][0-9a-hjkmnp-tv-z]{25}(?!\n)$",
            description="The process's permanent id.",
            examples=["01k9zq3v8d4t6r2m5x7b1n0c9f"],
        ),
    ]


class OfTerminal(msgspec.Struct, kw_only=True, frozen=True):
    """The terminal that a path names."""

    terminal_id: Annotated[str, Meta(min_length=1, max_length=200, description="The terminal's id.")]


class OfTracked(msgspec.Struct, kw_only=True, frozen=True):
    """The process that a documented path names."""

    process_id: Annotated[
        str, Meta(max_length=256, description="A process id, or the request id it is listed under.")
    ]


class OfPid(msgspec.Struct, kw_only=True, frozen=True):
    """A process by its pid."""

    pid: Annotated[int, Meta(ge=1, le=_MAX_PID, description="Of a process that this server has started.")]


class StartParameters(msgspec.Struct, kw_only=True, frozen=True):
    """How often a start may be sent."""

    idempotency_key: Annotated[
        Annotated[str, Meta(min_length=1, max_length=255)] | None,
        Meta(
            description="A word of your own for this start: sent again, it starts nothing twice.",
            extra_json_schema=_HEADER,
        ),
    ] = None


class ListParameters(ListFilter, kw_only=True, frozen=True):
    """Which processes a page shows."""

    state: Annotated[
        list[StateName] | None,
        Meta(description="Only in one of these states; active and ended are several."),
    ] = None
    tag: Annotated[
        list[Annotated[str, Meta(pattern="^[^=]+=")]] | None,
        Meta(description="Only with these tags, each as name=value.", examples=[["job=build"]]),
    ] = None
    group: Annotated[str | None, Meta(description="Only of this group.")] = None
    q: Annotated[
        Annotated[str, Meta(max_length=1000)] | None,
        Meta(description="Only with this in the command, in either case."),
    ] = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 50
    cursor: Annotated[str | None, Meta(description="`next` of the page before.")] = None


class SearchParameters(SearchRequest, kw_only=True, frozen=True):
    """What is looked for, and in the output of which processes."""

    tag: Annotated[
        list[Annotated[str, Meta(pattern="^[^=]+=")]] | None,
        Meta(description="Only in processes with these tags, each as name=value."),
    ] = None


class RemoveParameters(OfProcess, kw_only=True, frozen=True):
    """How a process is removed."""

    force: Annotated[bool, Meta(description="End it first (KILL at once) if it still runs.")] = False


class WriteParameters(OfProcess, kw_only=True, frozen=True):
    """How a body is written to a process's input."""

    eof: Annotated[bool, Meta(description="Close the input behind these bytes.")] = False


class UploadParameters(OfProcess, kw_only=True, frozen=True):
    """Where a file goes."""

    name: Annotated[
        str,
        Meta(min_length=1, max_length=255, description="The file's name: no slash, no control characters."),
    ]
    folder: Annotated[
        ProjectFolder | None,
        Meta(description="Its folder, absolute; the process's working folder as it is now, if left out."),
    ] = None
    replace: Annotated[bool, Meta(description="Replace a file of that name; otherwise it is refused.")] = (
        False
    )


class WaitParameters(OfProcess, kw_only=True, frozen=True):
    """How long a process is waited for, and what for."""

    timeout: Annotated[WaitSeconds, Meta(description="Answer after this many seconds in any case.")] = 45.0
    until: Annotated[
        WaitUntil,
        Meta(
            description="Closed: nothing that it left running can write to its streams, either. Input: or "
            "until it waits for input. "
            "Question: or until it waits for more than the next command at its own prompt."
        ),
    ] = "complete"


def tags_of(pairs: list[str] | None) -> dict[str, str] | None:
    """Return tags from an address, each as name=value; None without any."""
    return None if pairs is None else dict(one.split("=", 1) for one in pairs)


class ApprovalParameters(msgspec.Struct, kw_only=True, frozen=True):
    """How approvals are shown."""

    raw: Annotated[bool, Meta(description="Hide no secrets in the words, and no values of variables.")] = (
        False
    )


class OutputParameters(OfProcess, kw_only=True, frozen=True):
    """Which output is read, and in which form."""

    stream: Annotated[
        Literal["both", "stdout", "stderr"],
        Meta(description="Both come in the order in which they were written."),
    ] = "both"
    cursor: Annotated[
        Annotated[str, Meta(max_length=40)] | None,
        Meta(description="Where to begin: the `cursor` of an earlier answer.", examples=["1024.0"]),
    ] = None
    start: Annotated[_Offset | None, Meta(description="For one stream: a byte's number.")] = None
    end: Annotated[_Offset | None, Meta(description="For one stream: a byte's number.")] = None
    at: Annotated[
        _Offset | None,
        Meta(description="Where to begin: behind so many bytes of both streams, in the order of writing."),
    ] = None
    since: Annotated[
        Annotated[str, Meta(max_length=40)] | None,
        Meta(
            description="Where to begin: with what was written then or later.",
            examples=["2026-01-31T12:00:00Z"],
        ),
    ] = None
    line: Annotated[
        Annotated[int, Meta(ge=1, le=_MAX_OFFSET)] | None,
        Meta(description="Where to begin: at the line with this number; 1 is the first."),
    ] = None
    tail: Annotated[
        Annotated[int, Meta(ge=1, le=100_000)] | None, Meta(description="Only the last lines.")
    ] = None
    grep: Annotated[
        Annotated[str, Meta(min_length=1, max_length=1000)] | None,
        Meta(description="Only lines that contain this text (no pattern)."),
    ] = None
    ignore_case: Annotated[bool, Meta(description="With grep: ASCII letters in either case.")] = False
    context: Annotated[int, Meta(ge=0, le=100, description="With grep: lines around each match.")] = 0
    matches: Annotated[int, Meta(ge=1, le=1000, description="With grep: at most this many lines.")] = 100
    limit: Annotated[
        Bytes | None,
        Meta(
            description=(
                "Bytes. A page has at most 256 KiB (64 KiB unless given), an answer in bytes as many "
                "as you like."
            )
        ),
    ] = None
    encoding: Annotated[Encoding, Meta(description="Of the data in a page.")] = "utf-8"
    times: Annotated[
        bool, Meta(description="In a page of both streams: say when each piece was written.")
    ] = False
    format: Annotated[
        Literal["json", "raw", "clean", "asciicast"] | None,
        Meta(
            description="raw: the bytes themselves, as `Accept: application/octet-stream` asks for, too. "
            "clean: the text without escape sequences and what was overwritten. asciicast: a recording "
            "for asciinema and its like."
        ),
    ] = None
    skip_gaps: Annotated[
        bool, Meta(description="With bytes: leave out what is no longer kept, rather than refuse.")
    ] = False
    raw: Annotated[bool, Meta(description="Hide no secrets; needs the scope admin, and is not for grep.")] = (
        False
    )


class FollowParameters(OfProcess, kw_only=True, frozen=True):
    """Where a process is followed from, and in which form."""

    cursor: Annotated[
        _EventId | None,
        Meta(description="Where to begin; the beginning unless given.", examples=["1024.0"]),
    ] = None
    encoding: Annotated[Encoding, Meta(description="Of the events' data.")] = "utf-8"
    raw: Annotated[bool, Meta(description="Hide no secrets; needs the scope admin.")] = False


class EventParameters(FollowParameters, kw_only=True, frozen=True):
    """The same for server-sent events."""

    last_event_id: Annotated[
        _EventId | None,
        Meta(description="The id of the last event that came; wins over cursor.", extra_json_schema=_HEADER),
    ] = None


class SocketParameters(FollowParameters, kw_only=True, frozen=True):
    """The same for a WebSocket."""

    output: Literal["text", "binary"] = "text"


_RANGE = re.compile(r"bytes=([0-9]{0,19})-([0-9]{0,19})", re.ASCII)


class FileParameters(msgspec.Struct, kw_only=True, frozen=True):
    """A file or folder of a machine."""

    path: Annotated[
        str,
        Meta(
            min_length=1,
            # PATH_MAX; more would not fit into an address whose bytes are three characters each
            max_length=4096,
            description="Its path; a relative one begins in the process's folder, or in the home folder.",
        ),
    ]
    place: Place = "local"
    project: NamingFolder = ""


class FolderParameters(FileParameters, kw_only=True, frozen=True):
    """What to show of a folder."""

    after: Annotated[str, Meta(max_length=1024, description="Entries behind this name.")] = ""


class ContentParameters(FileParameters, kw_only=True, frozen=True):
    """Which part of a file."""

    range: Annotated[
        str,
        Meta(
            max_length=60,
            description="One range of bytes: `bytes=100-` for the rest of a file that came halfway.",
            extra_json_schema={"in": "header"},
        ),
    ] = ""
    if_range: Annotated[
        str,
        Meta(
            max_length=200,
            description="The `ETag` that came with what you have: of another file by now, all is sent.",
            extra_json_schema={"in": "header"},
        ),
    ] = ""


class NewContentParameters(FileParameters, kw_only=True, frozen=True):
    """What a new file is to be."""

    mode: Annotated[str, Meta(pattern="^[0-7]{3}$", description="Its permissions.")] = "644"
    sha256: Annotated[
        str, Meta(pattern="^([0-9a-f]{64})?$", description="It gets its name only if it has this digest.")
    ] = ""


def range_of(text: str, size: int) -> tuple[int, int] | None:
    """Return where a range of a file of `size` bytes begins and ends (exclusive); None where none is asked
    for.

    Raises:
        InvalidRequest: It is no single range, or lies behind the file's end (RFC 9110, section 14.2: any may
        be refused).
    """
    if not text:
        return None
    found = _RANGE.fullmatch(text)
    if found is None or not (found[1] or found[2]):
        raise InvalidRequest("invalid_params", "header.range: one range is understood, as bytes=100-199.")
    if not found[1]:
        return max(0, size - int(found[2])), size
    begin, end = int(found[1]), min(size, int(found[2]) + 1) if found[2] else size
    if begin > size or end < begin:
        raise InvalidRequest("invalid_params", f"header.range: the file has {size} bytes.")
    return begin, end
