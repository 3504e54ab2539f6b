"""`SessionEnds`: which MCP sessions their clients have ended, and so which processes are left behind by them.

An ended session ends no process. What it has started and still lives is marked
(`ProcessRecord.is_session_over`), and `SessionEnded` is published for each. The end is what the client says:
a host that is killed says nothing, and its sessions look as if they went on.

The file of ended sessions (`mcp.ended`) is read here, and written by `frontends.mcp.http.sessions`. A
session's name is the second in which it was made and 12 random bytes, as hexadecimal digits. The file has a
name a line; one word, `<` and a second, stands for all sessions that were made until then. What is neither is
left out: damage costs names, nothing else.
"""

import asyncio
import contextlib
import os
import re
from collections.abc import Collection

from outlive.core.events import SessionEnded
from outlive.core.values import dataclass
from outlive.engine.processes.event_publisher import EventPublisher
from outlive.engine.processes.process_table import LiveTable
from outlive.kernel.files import open_place, read_all, write_whole

ISSUED_DIGITS = 8  # hexadecimal digits of a name that say the second it was made in, until 2106
_FLOOR = "<"  # begins the word of the file before which all sessions are over
_NAME = re.compile(r"[0-9a-f]{32}", re.ASCII)
_FLOOR_WORD = re.compile(rf"{_FLOOR}[0-9a-f]{{{ISSUED_DIGITS}}}", re.ASCII)


@dataclass(eq=False, slots=True)
class SessionEnds:
    """Marks what ended sessions have left behind. On the engine's loop only.

    `path` is their file, which `frontends.mcp.http.sessions` writes.
    """

    path: str
    processes: LiveTable
    events: EventPublisher

    async def open(self) -> None:
        """Read which sessions have ended; before what lives is found again."""
        # What was forgotten of the oldest (the file's floor) is of sessions years ago: nothing of them is
        # marked.
        with contextlib.suppress(OSError):  # a file that cannot be read costs marks
            names, _ = await asyncio.to_thread(read_ended, self.path)
            for name in names:
                self.processes.end_connection(connection_of(name))

    def end(self, connection_id: str) -> None:
        """Note that a session is over; whatever follows events hears of the processes that it leaves."""
        for process in self.processes.end_connection(connection_id):
            self.events.publish_process(SessionEnded, process)


def connection_of(name: str) -> str:
    """Return how records name a session (`Owner.connection_id`)."""
    return f"mcp-{name}"


def issued_at(name: str) -> int:
    """Return the second in which a session was made."""
    return int(name[:ISSUED_DIGITS], 16)


def read_ended(path: str) -> tuple[set[str], int]:
    """Return the ended names and the floor; what is neither in the file is left out."""
    words = read_all(path).decode("ascii", "replace").split()
    floors = [int(word[1:], 16) for word in words if _FLOOR_WORD.fullmatch(word)]
    return {word for word in words if _NAME.fullmatch(word)}, max(floors, default=-1)


def rewrite_ended(path: str, names: Collection[str], floor: int) -> None:
    """Replace the file at once: a kill or a power cut leaves the old one or the new one."""
    content = "\n".join([f"{_FLOOR}{floor:0{ISSUED_DIGITS}x}", *names, ""])
    write_whole(path, content.encode(), survives="power cut")


def append_ended(path: str, name: str) -> None:
    """Add a name; what the disk does not take is not kept."""
    try:
        fd = open_place(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    except OSError:  # a disk that takes nothing: this server knows it
        return
    try:
        # A line of its own on both sides: a torn write before it spoils no other name.
        os.write(fd, f"\n{name}\n".encode())
        os.fsync(fd)
    finally:
        os.close(fd)
