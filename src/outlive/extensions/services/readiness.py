"""When a service is ready: `until_ready` looks for a port, a text or an HTTP answer until it is there, or the
process has ended.

A text is found in the output as it comes. A port and an address have no event: they are looked at again and
again, ever more seldom.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from outlive.core.cursor import BEGINNING
from outlive.engine.processes.process import Process, follow
from outlive.engine.queries import Queries
from outlive.extensions.services.declaration import ReadyWhen, split_address
from outlive.protocols.output.pattern import Pattern

_FIRST_LOOK_S = 0.1
_LONGEST_LOOK_S = 1.0  # a server that takes minutes to begin is noticed a second late
_ANSWER_S = 5.0  # an answer that takes longer says that it is not ready
_STATUS_BYTES = 4096  # more than any status line
# So much before a piece of output is looked at with it: a text that reads have cut is found, and memory is
# bounded.
_KEPT_BYTES = 16 * 1024


async def until_ready(process: Process, wanted: ReadyWhen, *, queries: Queries) -> bool:
    """Return True once a process is ready; False when it has ended before. Cancellation: safe."""
    if wanted.text is not None:
        return await _until_printed(process, _containing(wanted.text))
    if wanted.pattern is not None:
        pattern = await asyncio.to_thread(Pattern, wanted.pattern)
        return await _until_printed(process, lambda data: next(pattern.lines(data), None) is not None)
    if wanted.http is not None:
        address = wanted.http
        return await _until_seen(process, lambda: _answers(address))

    async def is_open() -> bool:
        return wanted.port in (await queries.observe(process)).ports

    return await _until_seen(process, is_open)


def _containing(text: str) -> Callable[[bytes], bool]:
    wanted = text.encode("utf-8", "surrogateescape")
    return lambda data: wanted in data


async def _until_printed(process: Process, is_in: Callable[[bytes], bool]) -> bool:
    kept = [b"", b""]
    async for chunks in follow(process, BEGINNING):
        for chunk in chunks:
            data = b"" if chunk.is_gap else kept[chunk.stream] + chunk.data
            if is_in(data):
                return True
            kept[chunk.stream] = data[-_KEPT_BYTES:]
    return False


async def _until_seen(process: Process, look: Callable[[], Awaitable[bool]]) -> bool:
    pause_s = _FIRST_LOOK_S
    while not process.status.is_ended:
        if await look():
            return True
        await asyncio.sleep(pause_s)
        pause_s = min(_LONGEST_LOOK_S, pause_s * 1.5)
    return False


async def _answers(address: str) -> bool:
    """Return whether an address of this machine answers a GET with a status from 200 to 399 (RFC 9110,
    section 15).
    """
    host, port, target = split_address(address)
    writer: asyncio.StreamWriter | None = None
    with contextlib.suppress(OSError, TimeoutError, ValueError, asyncio.LimitOverrunError):
        try:
            async with asyncio.timeout(_ANSWER_S):
                reader, writer = await asyncio.open_connection(host, port, limit=_STATUS_BYTES)
                named = f"[{host}]" if ":" in host else host
                head = f"GET {target} HTTP/1.1\r\nHost: {named}:{port}\r\nConnection: close\r\n\r\n"
                writer.write(head.encode())
                words = (await reader.readline()).split(None, 2)
                return len(words) > 1 and words[0].startswith(b"HTTP/") and 200 <= int(words[1]) < 400
        finally:
            if writer is not None:
                writer.close()
    return False
