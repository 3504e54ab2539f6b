"""What callers ask of terminals, checked once for all frontends, and the answers' members (promise S3.6). Pure.

Unknown members are ignored. `wait_s` is seconds, `budget` characters, `rows` and `cols` character cells. The answers have the
same members in every frontend.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from outlive.core.redactions import redacted_member
from outlive.core.tags import MAX_TAG_NAME, MAX_TAG_VALUE, MAX_TAGS
from outlive.core.terminal import ENGINE, Executed, Form, Target, TerminalInfo, TerminalText
from outlive.protocols.terminal.typed import check_keys

DEFAULT_BUDGET = 8000  # characters of an answer, as for the lean tools
_Cells = Annotated[int, Meta(ge=1, le=65535)]  # struct winsize holds 16 bits (ioctl_tty(2))
_Name = Annotated[str, Meta(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]*$")]  # shown in a line
_WaitSeconds = Annotated[float, Meta(ge=0, le=3600)]
_TagName = Annotated[str, Meta(min_length=1, max_length=MAX_TAG_NAME)]
_TagValue = Annotated[str, Meta(max_length=MAX_TAG_VALUE)]


class ListTerminals(msgspec.Struct, kw_only=True, frozen=True):
    """`terminal_list`."""


class CreateTerminal(msgspec.Struct, kw_only=True, frozen=True):
    """`terminal_create`."""

    terminal_name: _Name | None = None
    target: Target = ENGINE
    shell: Annotated[str, Meta(min_length=1, max_length=4096)] | None = None
    cwd: str | None = None
    env: dict[str, str] = {}
    rows: _Cells = 24
    cols: _Cells = 80
    profile: str | None = None
    backend: str | None = None
    image: str | None = None
    tags: Annotated[dict[_TagName, _TagValue], Meta(max_length=MAX_TAGS)] = {}


_TerminalId = Annotated[str, Meta(min_length=1, max_length=200)]


class _OfTerminal(msgspec.Struct, kw_only=True, frozen=True):
    terminal_id: _TerminalId


class ExecuteInTerminal(msgspec.Struct, kw_only=True, frozen=True):
    """`terminal_execute`. Without `terminal_id` in the active terminal: the one used last, the newest, or a new one."""

    terminal_id: _TerminalId | None = None
    command: str
    wait_s: _WaitSeconds | None = None


class ReadTerminal(_OfTerminal, kw_only=True, frozen=True):
    """`terminal_read`."""

    form: Form = "clean"
    cursor: str | None = None
    budget: Annotated[int, Meta(ge=100, le=1_000_000)] = DEFAULT_BUDGET


class WriteToTerminal(_OfTerminal, kw_only=True, frozen=True):
    """`terminal_write`: a text as it is, and then keys by name."""

    text: str | None = None
    keys: list[str] | None = None

    def __post_init__(self) -> None:
        """Require something to type."""
        if not self.text and not self.keys:
            raise ValueError("pass text or keys")
        check_keys(self.keys or ())


class ResizeTerminal(_OfTerminal, kw_only=True, frozen=True):
    """`terminal_resize`."""

    rows: _Cells
    cols: _Cells


class CloseTerminal(_OfTerminal, kw_only=True, frozen=True):
    """`terminal_close`."""


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
