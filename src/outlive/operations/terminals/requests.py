"""What callers ask of terminals, checked once for all doors (promise S3.6).

`wait_s` is seconds, `budget` characters, `rows` and `cols` character cells. REST names the terminal in the
path and refuses unknown members; JSON-RPC and MCP name it in `terminal_id` and ignore them: their requests
inherit from those of REST.

Terminals as members of a JSON object, the same at every door (promise S3.6). Pure.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from outlive.core.redactions import redacted_member
from outlive.core.terminal import ENGINE, Executed, Form, Target, TerminalInfo, TerminalText
from outlive.operations.controls import Resize
from outlive.operations.requests import BackendName, Cells, ProfileName, Tags, Text, WaitSeconds
from outlive.operations.terminals.typed import check_keys

DEFAULT_BUDGET = 8000
_Name = Annotated[str, Meta(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]*$")]  # shown in a line
_Shell = Annotated[str, Meta(min_length=1, max_length=4096)]


class ListTerminals(msgspec.Struct, kw_only=True, frozen=True):
    """`terminal_list`."""


class NewTerminalRequest(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """A terminal that is wanted; everything may be left out."""

    terminal_name: Annotated[_Name | None, Meta(description='Its name ("MCP Terminal N").')] = None
    target: Annotated[
        Target,
        Meta(description="engine: on this machine, output captured. vscode: one that VS Code shows."),
    ] = ENGINE
    shell: Annotated[_Shell | None, Meta(description="A program; the user's shell if left out.")] = None
    cwd: Annotated[str | None, Meta(description="The folder that it begins in.")] = None
    env: Annotated[dict[str, str], Meta(description="Variables that are added.")] = {}
    rows: Annotated[Cells, Meta(description="Character cells: height.")] = 24
    cols: Annotated[Cells, Meta(description="Character cells: width.")] = 80
    profile: Annotated[
        ProfileName | None,
        Meta(description="The sandbox, weakest first: open, guarded, workspace, offline, sealed."),
    ] = None
    backend: Annotated[BackendName | None, Meta(description="Where: local, docker, or a node's name.")] = None
    image: Annotated[Text | None, Meta(description="The image of its container.")] = None
    tags: Annotated[Tags, Meta(description="Names and values that lists can be filtered by.")] = {}


class CreateTerminal(NewTerminalRequest, kw_only=True, frozen=True, forbid_unknown_fields=False):
    """`terminal_create`."""


_TerminalId = Annotated[
    str,
    Meta(
        min_length=1, max_length=200, description="From terminal_create or terminal_list; a name does, too."
    ),
]


class ExecuteRequest(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """A command of any number of lines, as it would be typed at the prompt."""

    command: Annotated[Text, Meta(description="As it would be typed.")]
    wait_s: Annotated[
        WaitSeconds | None,
        Meta(description="Seconds to wait for its end (45); it goes on when they are over."),
    ] = None


class ExecuteInTerminal(ExecuteRequest, kw_only=True, frozen=True, forbid_unknown_fields=False):
    """`terminal_execute`.

    Without `terminal_id` in the active terminal: the one used last, the newest, or a new one.
    """

    terminal_id: Annotated[
        Annotated[str, Meta(min_length=1, max_length=200)] | None,
        Meta(description="As elsewhere; left out: the one you used last, your newest, or a new one."),
    ] = None


class ReadTerminal(msgspec.Struct, kw_only=True, frozen=True):
    """`terminal_read`."""

    terminal_id: _TerminalId
    form: Annotated[
        Form,
        Meta(
            description="clean (default): no escape sequences, progress bars collapsed. screen: what a "
            "person sees now, for full-screen programs."
        ),
    ] = "clean"
    cursor: Annotated[str | None, Meta(description="Where to go on, from the last answer.")] = None
    budget: Annotated[int, Meta(ge=100, le=1_000_000, description="Most characters (8000).")] = DEFAULT_BUDGET


class InputRequest(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """What is typed: a text as it is, then keys by name."""

    text: Annotated[str | None, Meta(description="As it is: end a line with \\n.")] = None
    keys: Annotated[
        list[str] | None, Meta(description="enter, tab, esc, up, down, left, right, ctrl-c …")
    ] = None

    def __post_init__(self) -> None:
        """Require something to type."""
        if not self.text and not self.keys:
            raise ValueError("pass text or keys")
        check_keys(self.keys or ())


class WriteToTerminal(InputRequest, kw_only=True, frozen=True, forbid_unknown_fields=False):
    """`terminal_write`: a text as it is, and then keys by name."""

    terminal_id: _TerminalId


class ResizeTerminal(Resize, kw_only=True, frozen=True, forbid_unknown_fields=False):
    """`terminal_resize`."""

    terminal_id: _TerminalId


class CloseTerminal(msgspec.Struct, kw_only=True, frozen=True):
    """`terminal_close`."""

    terminal_id: _TerminalId


# Written out, so that a member that a class gets for internal use is not sent to clients by itself.
_TERMINAL = ("terminal_id", "terminal_name", "target", "state", "process_id", "cwd")
_EXECUTED = ("terminal_id", "output", "exit_code", "cursor", "is_complete", "waiting", "is_closed")
_TEXT = ("terminal_id", "text", "form", "cursor", "state", "waiting", "exit_code", "has_more", "has_gap")


def terminal_view(info: TerminalInfo) -> dict[str, object]:
    """Return the members of a terminal."""
    return {name: getattr(info, name) for name in _TERMINAL}


def executed_view(executed: Executed) -> dict[str, object]:
    """Return the members of a command's result."""
    return {name: getattr(executed, name) for name in _EXECUTED} | redacted_member(executed.redacted)


def text_view(text: TerminalText) -> dict[str, object]:
    """Return the members of a text that was read."""
    return {name: getattr(text, name) for name in _TEXT} | redacted_member(text.redacted)
