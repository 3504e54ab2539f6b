"""Output as it comes, for doors that take it piece by piece: a cursor on the log, woken by kicks, no queue.

The JSON-RPC door has its own, faster way; this is the plain one.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

from outlive.core.cursor import Cursor
from outlive.engine.processes.process import Process
from outlive.store.output_log import MAX_PREAD_BYTES, OutputChunk


async def follow(
    process: Process, cursor: Cursor, *, limit_bytes: int = 65536
) -> AsyncIterator[list[OutputChunk]]:
    """Yield output from `cursor` on as it comes; end when the process is complete and all of it was yielded.

    What descendants write after the completion is not followed. A slow reader slows nobody: the log waits.
    Cancellation: safe; the next call goes on at `OutputChunk.after(cursor, chunks)`.
    """
    woken = asyncio.Event()
    unsubscribe = process.subscribers.add(woken.set, reads=True)
    try:
        while True:
            woken.clear()
            is_complete = process.is_complete  # asked before the read: then the read sees everything
            chunks = process.log.read(cursor, min(limit_bytes, MAX_PREAD_BYTES))
            if is_complete:
                chunks = _until_completion(process, chunks)
            if chunks:
                cursor = OutputChunk.after(cursor, chunks)
                yield chunks
                await asyncio.sleep(0)  # one loud process must not starve the rest
            elif is_complete:
                return
            else:
                await woken.wait()
    finally:
        unsubscribe()


def _until_completion(process: Process, chunks: list[OutputChunk]) -> list[OutputChunk]:
    """Cut off what was written after the completion."""
    ends = (process.status.complete_stdout_bytes or 0, process.status.complete_stderr_bytes or 0)
    kept = []
    for chunk in chunks:
        end = min(chunk.end, ends[chunk.stream])
        if end > chunk.offset:
            kept.append(replace(chunk, end=end, data=chunk.data[: end - chunk.offset]))
    return kept
