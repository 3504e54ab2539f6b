"""Keys by name, and what terminals send for them (xterm, "PC-Style Function Keys"). Pure."""

from collections.abc import Sequence

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
