"""The file of the MCP sessions that their clients have ended (`mcp.ended`): read, added to, and made shorter. Blocking.

A session's name is the second in which it was made and 12 random bytes, as hexadecimal digits. The file has a name a line; one
word, `<` and a second, stands for all sessions that were made until then. What is neither is left out: damage costs names, nothing else.
"""

import contextlib
import os
import re
from collections.abc import Collection

ISSUED_DIGITS = 8  # hexadecimal digits of a name that say the second it was made in, until 2106
_FLOOR = "<"  # begins the word of the file before which all sessions are over
_NAME = re.compile(r"[0-9a-f]{32}", re.ASCII)
_FLOOR_WORD = re.compile(rf"{_FLOOR}[0-9a-f]{{{ISSUED_DIGITS}}}", re.ASCII)


def connection_of(name: str) -> str:
    """Return how records name a session (`Owner.connection_id`)."""
    return f"mcp-{name}"


def issued_at(name: str) -> int:
    """Return the second in which a session was made."""
    return int(name[:ISSUED_DIGITS], 16)


def read_ended(path: str) -> tuple[set[str], int]:
    """Return the ended names and the floor; what is neither in the file is left out."""
    words: list[str] = []
    with contextlib.suppress(FileNotFoundError), open(path, encoding="ascii", errors="replace") as file:
        words = file.read().split()
    floors = [int(word[1:], 16) for word in words if _FLOOR_WORD.fullmatch(word)]
    return {word for word in words if _NAME.fullmatch(word)}, max(floors, default=-1)


def rewrite_ended(path: str, names: Collection[str], floor: int) -> None:
    """Replace the file at once: a kill leaves the old one or the new one."""
    fd = os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(fd, "w", encoding="ascii") as file:
        file.write("\n".join([f"{_FLOOR}{floor:0{ISSUED_DIGITS}x}", *names, ""]))
        file.flush()
        os.fsync(file.fileno())
    os.rename(path + ".new", path)


def append_ended(path: str, name: str) -> None:
    """Add a name; what the disk does not take is not kept."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except OSError:  # a disk that takes nothing: this server knows it
        return
    try:
        # A line of its own on both sides: a torn write before it spoils no other name.
        os.write(fd, f"\n{name}\n".encode())
        os.fsync(fd)
    finally:
        os.close(fd)
