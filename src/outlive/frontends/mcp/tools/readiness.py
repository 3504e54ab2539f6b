"""Waits that end before the process does: `wait_ready` for a text, a port or silence (promise S4.13).

Whether anything on this machine listens on a port: what `wait_for` asks. Reads /proc in a thread, never connects.
"""

import asyncio
import codecs
import contextlib

from outlive.core.cursor import BEGINNING, Cursor
from outlive.engine import OutputChunk, Process
from outlive.protocols.mcp.lean import WaitFor

_LISTEN = "0A"  # the state's number in /proc/net/tcp (include/net/tcp_states.h)


async def is_listening(port: int) -> bool:
    """Tell whether anything on this machine listens on a TCP port; never connects to it."""
    return await asyncio.to_thread(_is_listening, port)


def _is_listening(port: int) -> bool:
    wanted = f":{port:04X}"
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError), open(table, encoding="ascii") as file:
            for row in file:
                words = row.split(maxsplit=4)
                if len(words) > 3 and words[3] == _LISTEN and words[1].endswith(wanted):
                    return True
    return False


_LOOK_S = 0.1  # a port has no event; ten looks a second cost a hundredth of a core


async def wait_ready(process: Process, wanted: WaitFor, *, wait_s: float, cursor: Cursor = BEGINNING) -> None:
    """Return when one of the wishes is met, when the process is complete, or after `wait_s`.

    Cancellation: safe.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + wait_s
    finder = _Finder(process, wanted.text, cursor)
    woken = asyncio.Event()
    unsubscribe = process.subscribers.add(woken.set)
    size, changed = -1, loop.time()
    try:
        while not process.is_complete and loop.time() < deadline:
            woken.clear()
            if finder.has_found() or (wanted.port is not None and await is_listening(wanted.port)):
                return
            now = process.status.stdout_bytes + process.status.stderr_bytes
            if now != size:
                size, changed = now, loop.time()
            at = deadline
            if wanted.idle_s is not None:
                if loop.time() - changed >= wanted.idle_s:
                    return
                at = min(at, changed + wanted.idle_s)
            if wanted.port is not None:
                at = min(at, loop.time() + _LOOK_S)
            if finder.is_behind:
                await asyncio.sleep(0)  # bounded work per turn
                continue
            try:
                async with asyncio.timeout_at(at):
                    await woken.wait()
            except TimeoutError:
                continue
    finally:
        unsubscribe()


class _Finder:
    """Looks for a text in new output, each stream for itself; holds no more than the text's length of it."""

    def __init__(self, process: Process, text: str | None, cursor: Cursor) -> None:
        self._process = process
        self._text = text
        self._cursor = cursor
        self._ends = ["", ""]
        self._decoders = [codecs.getincrementaldecoder("utf-8")("replace") for _ in range(2)]

    @property
    def is_behind(self) -> bool:
        """Whether there is output that was not looked at."""
        process = self._process
        told = (
            process.status.stdout_bytes > self._cursor.stdout
            or process.status.stderr_bytes > self._cursor.stderr
        )
        return bool(self._text) and told

    def has_found(self) -> bool:
        """Look at the next 64 KiB."""
        if not self._text:
            return False
        chunks = self._process.log.read(self._cursor, 65536)
        self._cursor = OutputChunk.after(self._cursor, chunks)
        for chunk in chunks:
            seen = self._ends[chunk.stream] + self._decoders[chunk.stream].decode(chunk.data)
            if self._text in seen:
                return True
            keep = len(self._text) - 1
            self._ends[chunk.stream] = seen[-keep:] if keep else ""
        return False
