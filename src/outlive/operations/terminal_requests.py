"""What callers ask of terminals, checked once for all doors (promise S3.6); their members in answers; and
what is typed into a shell: commands of any number of lines (`typed_command`), and keys by name
(`typed_keys`), sent as terminals send them (xterm, "PC-Style Function Keys"). Pure.

`wait_s` is seconds, `budget` characters, `rows` and `cols` character cells. REST names the terminal in the
path and refuses unknown members; JSON-RPC and MCP name it in `terminal_id` and ignore them: their requests
inherit from those of REST.
"""

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from outlive.core.errors import InvalidRequest
from outlive.core.redactions import redacted_member
from outlive.core.terminal import ENGINE, Executed, Form, ShellKind, Target, TerminalInfo, TerminalText
from outlive.operations.controls import Resize
from outlive.operations.requests import BackendName, Cells, ProfileName, Tags, Text, WaitSeconds

# Keys that no keyboard has; the shells' start files bind them.
_CLEAR = b"\x1b[133;1~"  # removes what is typed already
_SUBMIT = {"fish": b"\x1b[133;2~"}
_PASTE, _PASTE_END = b"\x1b[200~", b"\x1b[201~"
KILL_LINE = b"\x15"  # termios(3), VKILL
# What a terminal or a line editor reads as a key, even within a paste.
_KEYS = {chr(code) for code in (*range(32), 127)} - {"\t", "\n"}
# n_tty keeps 4095 bytes of a line without a line editor (termios(3), "Canonical and noncanonical mode").
_MAX_LINE_BYTES = 4000


def typed_command(command: str, shell: ShellKind, key: str) -> bytes:
    """Return the bytes to send to a shell at its prompt so that it runs a command of any number of lines.

    Raises:
        InvalidRequest: The command is empty, contains control characters that are keys, or has lines that are
            too long for a shell without a line editor.
    """
    text = command.replace("\r\n", "\n").replace("\r", "\n").strip("\n")
    if not text.strip():
        raise InvalidRequest("invalid_params", "The command is empty.")
    if not _KEYS.isdisjoint(text):
        hint = "Type keys with terminal_write; in a command write $'\\e' and the like."
        raise InvalidRequest("invalid_params", "The command holds control characters.", hint=hint)
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise InvalidRequest("invalid_params", "Half of a surrogate pair in the command.") from None
    # A shell with a line editor of its own: as a bracketed paste, in which newlines run nothing, then the key
    # that runs it.
    if shell != "sh":
        return b"".join((_CLEAR, _PASTE, data, _PASTE_END, _SUBMIT.get(shell, b"\r")))
    # One compound line: the shell has read all of it before its first word runs, so no part is taken for a
    # program's input. Within single quotes only the quote itself has to be escaped (POSIX.1-2017, 2.2.2).
    # `eval` gives 0: its own failure would end a shell under `set -e` where the command in it ends none.
    quoted = data.replace(b"'", b"'\\''")
    before = f"printf '\\033]133;C;aid=%s\\007' {key}; eval '".encode()
    behind = f"\n__outlive_code=$?'; printf '\\033]133;D;%s;aid=%s\\007' \"$__outlive_code\" {key}\n".encode()
    lines = before + quoted + behind
    if max(map(len, lines.split(b"\n"))) > _MAX_LINE_BYTES:
        text = (
            f"A line of the command has more than {_MAX_LINE_BYTES} bytes, which this shell cannot be typed."
        )
        raise InvalidRequest("invalid_params", text, hint="Use a terminal of bash, or put it in a file.")
    return KILL_LINE + lines


def prompts(key: str) -> dict[str, str]:
    """Return the prompts (PS1), with our marks, of a shell that reads no start file of ours."""
    first, begin, last = (f"\x1b]133;{mark};aid={key}\x07" for mark in ("D;$?;k=p", "A", "B"))
    return {"PS1": f"{first}{begin}$ {last}"}


KEYS = {
    "enter": "\r",
    "tab": "\t",
    "space": " ",
    "esc": "\x1b",
    "backspace": "\x7f",
    "up": "\x1b[A",
    "down": "\x1b[B",
    "right": "\x1b[C",
    "left": "\x1b[D",
    "home": "\x1b[H",
    "end": "\x1b[F",
    "pageup": "\x1b[5~",
    "pagedown": "\x1b[6~",
    "delete": "\x1b[3~",
    **{f"ctrl-{chr(code + 96)}": chr(code) for code in range(1, 27)},
}


def check_keys(keys: Sequence[str]) -> None:
    """Do nothing for names of keys, in upper or lower case, and for single characters, which are keys, too.

    Raises:
        ValueError: A name is no key; the message lists all names.
    """
    for key in keys:
        if key.lower() not in KEYS and not _is_character(key):
            named = ", ".join(name for name in KEYS if not name.startswith("ctrl-"))
            raise ValueError(
                f"keys: {key[:20]!r} is no key; known are {named}, ctrl-a to ctrl-z, single characters"
            )


def _is_character(key: str) -> bool:
    return len(key) == 1 and key.isprintable()


def typed_keys(text: str | None, keys: Sequence[str] | None) -> bytes:
    """Return the bytes to send for a text and the keys behind it."""
    typed = (text or "") + "".join(key if _is_character(key) else KEYS[key.lower()] for key in keys or ())
    return typed.encode("utf-8", "replace")


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
