"""What is typed into a shell: commands of any number of lines (`typed_command`), and keys by name
(`typed_keys`). Pure.

Keys are sent as terminals send them (xterm, "PC-Style Function Keys").
"""

from collections.abc import Sequence

from outlive.core.errors import InvalidRequest
from outlive.core.terminal import ShellKind

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
