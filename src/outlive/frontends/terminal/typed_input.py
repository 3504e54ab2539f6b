"""A viewer's input on its way to the process: `TypedInput`.

While a process does not read its input, 64 KiB wait here. Then the viewer's messages are not read any more,
and further input waits in the client's own buffers. No input is dropped as long as the process lives. Whether
a viewer may type is decided by `viewer`.
"""

import asyncio
import contextlib
from collections.abc import Callable

from outlive.core.errors import LimitExceeded, OutliveError
from outlive.engine import AuditedControls, Process

_MOST_BYTES = 64 * 1024  # the size of one write to the backend
_LEAVING_S = 1.0  # half of the time that a stopping server gives its connections
_AGAIN_S = 0.5  # between two attempts, and between two checks that the viewer is still there


class TypedInput:
    """Writes the input of `put`, in order and in as few pieces as possible; `run` is a task of the
    viewer's.
    """

    def __init__(
        self,
        process: Process,
        acting: AuditedControls,
        *,
        report: Callable[[OutliveError], None],
        is_gone: Callable[[], bool],
    ) -> None:
        """Write to `process` by `acting`.

        Args:
            process: The process that gets the input.
            acting: The verbs as the viewer's principal, which the audit log records.
            report: Called with the error when input is stuck, or did not arrive.
            is_gone: Returns whether the viewer has left: no message is read while input waits for room, so no
                other check sees it.
        """
        self._is_gone = is_gone
        self._process = process
        self._acting = acting
        self._report = report
        self._waiting = bytearray()
        self._is_writing = False
        self._changed = asyncio.Event()
        self._moved = asyncio.Event()

    async def put(self, data: bytes) -> None:
        """Take input; returns when all of it is written or waits here, or when the viewer has left.

        Cancellation: safe; the part that was taken is written.
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
        """Return when all input is written, or when the viewer has left."""
        while self._is_busy and not self._is_gone():
            await self._wait()

    async def finish(self) -> None:
        """Return when all input is written, after a second at the latest.

        For a viewer that types and leaves at once.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LEAVING_S):
                while self._is_busy:
                    await self._wait()

    async def _wait(self) -> None:
        """Return when the writer has moved on, or after half a second."""
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
        """Write one piece, without a deadline; a piece that may have arrived is never written again."""
        while True:
            try:
                await self._acting.write(self._process, piece)
            except LimitExceeded as error:
                self._report(error)
                if "waiting_bytes" in error.details:
                    return  # the keeper holds this piece; the next one waits behind it
            except OutliveError as error:
                self._report(error)
                if error.code == "process_queued":  # it has no input before it runs: try again
                    await asyncio.sleep(_AGAIN_S)
                    continue
                return
            else:
                return
            await asyncio.sleep(_AGAIN_S)
