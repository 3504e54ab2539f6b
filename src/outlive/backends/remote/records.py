"""What is put down here of a node's process: that it runs, how it has ended, and what came behind its end."""

import asyncio
import contextlib

from outlive.backends.remote.contract import NodeConnection
from outlive.backends.remote.mirror import RemoteProcess
from outlive.core.cursor import Cursor


async def put_down_end(mirror: RemoteProcess, end: Cursor) -> None:
    """Put down how a process has ended, and that its output is whole up to `end`; the mirror knows both then.

    Raises:
        OSError: The disk does not take it now.
    """
    kind, number, ended_ns = mirror.end

    def write() -> None:
        mirror.files.write_end(kind, number, ended_ns)
        mirror.files.write_done(
            end,
            cause=mirror.cause,
            note=mirror.note,
            descendants=mirror.descendants,
            is_closed=mirror.is_closed,
        )

    await asyncio.to_thread(write)
    mirror.complete(end)


async def put_down_state(mirror: RemoteProcess) -> None:
    """Put down that a process was started, and whether it is paused; what a full disk does not take is put down later."""
    if not mirror.is_put_down:
        with contextlib.suppress(OSError):
            await asyncio.to_thread(mirror.put_down)


async def put_down_closed(mirror: RemoteProcess) -> None:
    """Put down that the streams of a process have ended after its completion."""
    await asyncio.to_thread(mirror.files.write_closed)


async def end_here(mirror: RemoteProcess, kind: str, note: str) -> None:
    """End a process of which the node knows nothing: it "failed" to start there, or is "lost"."""
    mirror.end_without_node(kind, note)
    await put_down_end(mirror, mirror.files.cursor)


async def read_late(connection: NodeConnection, mirror: RemoteProcess, *, raw: bool) -> int:
    """Fetch what descendants have written behind the completion; return how many bytes.

    Raises:
        OutliveError: The node does not answer.
        OSError: The disk does not take it now.
    """
    before = sum(mirror.files.sizes)
    page = await connection.read(mirror.process_id, mirror.files.cursor, raw=raw)

    def write() -> None:
        for item in page.items:
            stream = int(item.stream == "stderr")
            end = item.cursor.stderr if stream else item.cursor.stdout
            data = getattr(item, "data", None)
            if data is None:
                mirror.files.skip(stream, mirror.files.sizes[stream], end)
            else:
                mirror.files.append(stream, data, end)

    await asyncio.to_thread(write)
    return sum(mirror.files.sizes) - before
