"""What one viewer types, on its way to the process: `TypedInput`.

Bounded: while a process does not read its input, 64 KiB wait here, then whoever types waits, and with it the client's
own buffers. Nothing is dropped as long as the process lives.
"""

import asyncio
import contextlib
from collections.abc import Callable

from outlive.core.errors import LimitExceeded, OutliveError
from outlive.engine import AuditedControls, Process

_MOST_BYTES = 64 * 1024  # what one write to the backend carries
_LEAVING_S = 1.0  # half of what a server that stops waits for its connections
_AGAIN_S = 0.5  # between two looks at what stands still


class TypedInput:
    """Writes what is `put`, in order and in as few pieces as possible; `run` is a task of the viewer's."""

    def __init__(
        self,
        process: Process,
        acting: AuditedControls,
        *,
        tell: Callable[[OutliveError], None],
        is_gone: Callable[[], bool],
    ) -> None:
        """Write to `process` by `acting`.

        Args:
            process: Whose input it is.
            acting: The verbs on the viewer's behalf.
            tell: Hears of input that is stuck, or that did not arrive.
            is_gone: Tells that the viewer has left, which nobody else notices while it is waited for room.
        """
        self._is_gone = is_gone
        self._process = process
        self._acting = acting
        self._tell = tell
        self._waiting = bytearray()
        self._is_writing = False
        self._changed = asyncio.Event()
        self._moved = asyncio.Event()

    async def put(self, data: bytes) -> None:
        """Take input; returns when all of it is on its way or waits here, or when the viewer has left.

        Cancellation: safe; what was taken is written.
        """
        view = memoryview(data)
        while view:
            while not (room := _MOST_BYTES - len(self._waiting)):
                if self._is_gone():
                    return
                await self._wait()
            self._waiting += view[:room]
            view = view[room:]
            self._changed.set()

    @property
    def _is_busy(self) -> bool:
        return bool(self._waiting) or self._is_writing

    async def flushed(self) -> None:
        """Return when nothing waits here any more, or when the viewer has left."""
        while self._is_busy and not self._is_gone():
            await self._wait()

    async def finish(self) -> None:
        """Return when nothing waits here any more, at the latest after a second: of a viewer that types and leaves."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LEAVING_S):
                while self._is_busy:
                    await self._wait()

    async def _wait(self) -> None:
        self._moved.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_AGAIN_S):
                await self._moved.wait()

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            while self._waiting:
                piece = bytes(self._waiting)
                self._waiting.clear()
                self._is_writing = True
                self._moved.set()
                try:
                    await self._write(piece)
                finally:
                    self._is_writing = False
                    self._moved.set()

    async def _write(self, piece: bytes) -> None:
        """Write one piece, however long the process does not read; a piece that may have arrived is never repeated."""
        while True:
            try:
                await self._acting.write(self._process, piece)
            except LimitExceeded as error:
                self._tell(error)
                if "waiting_bytes" in error.details:
                    return  # the keeper has it, and what comes next waits behind it
            except OutliveError as error:
                self._tell(error)
                if error.code == "process_queued":
                    await asyncio.sleep(_AGAIN_S)
                    continue
                return
            else:
                return
            await asyncio.sleep(_AGAIN_S)
