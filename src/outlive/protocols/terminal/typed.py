"""A command as it is typed into a shell: `typed_command`, bytes for the terminal. Pure.

Keys by name, and what terminals send for them (xterm, "PC-Style Function Keys"). Pure.
"""

from collections.abc import Sequence

from outlive.core.errors import InvalidRequest
from outlive.core.terminal import ShellKind

# Keys that no keyboard has; the start files bind them.
_CLEAR = b"\x1b[133;1~"  # what is typed already goes
_SUBMIT = {"fish": b"\x1b[133;2~"}
_PASTE, _PASTE_END = b"\x1b[200~", b"\x1b[201~"
_KILL_LINE = b"\x15"  # termios(3), VKILL
# What a terminal or a line editor takes for a key even in a paste.
_KEYS = {chr(code) for code in (*range(32), 127)} - {"\t", "\n"}
_MAX_LINE_BYTES = (
    4000  # n_tty keeps 4095 of a line that nobody edits (termios(3), "Canonical and noncanonical mode")
)


def typed_command(command: str, shell: ShellKind, key: str) -> bytes:
    """Return what is sent to a shell at its prompt so that it runs a command of any number of lines.

    Raises:
        InvalidRequest: The command is empty, holds control characters that are keys, or lines that are too long for a
            shell without a line editor.
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
    if shell != "sh":
        return b"".join((_CLEAR, _PASTE, data, _PASTE_END, _SUBMIT.get(shell, b"\r")))
    # One compound line: the shell has read all of it before the first word runs, so nothing of it is taken for input.
    quoted = data.replace(b"'", b"'\\''")
    before = f"printf '\\033]133;C;aid=%s\\007' {key}; eval '".encode()
    behind = f"'; printf '\\033]133;D;%s;aid=%s\\007' \"$?\" {key}\n".encode()
    lines = before + quoted + behind
    if max(map(len, lines.split(b"\n"))) > _MAX_LINE_BYTES:
        text = (
            f"A line of the command has more than {_MAX_LINE_BYTES} bytes, which this shell cannot be typed."
        )
        raise InvalidRequest("invalid_params", text, hint="Use a terminal of bash, or put it in a file.")
    return _KILL_LINE + lines


def prompts(key: str) -> dict[str, str]:
    """Return the prompts (PS1) of a shell that reads no start file of ours, with its marks."""
    first, begin, last = (f"\x1b]133;{mark};aid={key}\x07" for mark in ("D;$?;k=p", "A", "B"))
    return {"PS1": f"{first}{begin}$ {last}"}


KEYS = {
    "enter": "\r",
    "tab": "\t",
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
    """Let names of keys pass, in either case.

    Raises:
        ValueError: One is no key; the message lists those that are.
    """
    for key in keys:
        if key.lower() not in KEYS:
            raise ValueError(f"keys: {key[:20]!r} is no key; known are {', '.join(KEYS)}")


def typed_keys(text: str | None, keys: Sequence[str] | None) -> bytes:
    """Return what is sent for a text and the keys behind it."""
    typed = (text or "") + "".join(KEYS[key.lower()] for key in keys or ())
    return typed.encode("utf-8", "replace")
