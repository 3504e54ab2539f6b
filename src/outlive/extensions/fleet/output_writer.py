"""`OutputWriter`: output of a node's processes on its way from the connection to their folders, a bounded
batch at a time.
"""

import asyncio
import errno
import functools
import logging
from collections import OrderedDict
from collections.abc import Iterable

from outlive.core.errors import ProtocolViolation
from outlive.core.values import dataclass
from outlive.extensions.fleet.process import RemoteProcess
from outlive.extensions.fleet.processes import NodeProcesses
from outlive.store.process_folder import ProcessFolder

_logger = logging.getLogger(__name__)
_MOST_OPEN = 16  # processes whose files are kept open: of a thousand that have written, most rest
_MOST_BYTES = (
    2**44
)  # a file of ext4 ends there; a hole up to a place beyond would look like a log of exabytes
_FULL_S = 0.25  # between two attempts to write to a full disk
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG})


@dataclass(frozen=True, slots=True)
class _Piece:
    """Bytes of a stream up to `end`; `data` None: a gap from `start` on."""

    process: RemoteProcess
    stream: int
    start: int
    end: int
    data: bytes | None


class OutputWriter:
    """Collects output on the event loop and writes it in a thread, a bounded batch at a time.

    The next batch is read from the connection when this one is on disk: a disk that is full or slow makes the
    node wait, and nothing piles up in memory.
    """

    def __init__(self, processes: NodeProcesses) -> None:
        self._processes = processes
        self._pieces: list[_Piece] = []
        self._open: OrderedDict[str, ProcessFolder] = (
            OrderedDict()
        )  # the one that was written last at the end

    def add(self, process_id: str, stream: int, *, start: int, end: int, data: bytes | None) -> None:
        """Take a piece of a followed process; those of others are dropped.

        Raises:
            ProtocolViolation: No log is as long.
        """
        if not 0 <= start <= end <= _MOST_BYTES:
            text = f"The node reported output at an impossible place: {start} to {end}."
            raise ProtocolViolation("invalid_request", text)
        process = self._processes.by_id.get(process_id)
        if process is not None:
            self._pieces.append(_Piece(process, stream, start, end, data))

    async def flush(self) -> None:
        """Return when everything taken is in the files, however long the disk is full.

        Raises:
            ProtocolViolation: The node has left bytes out: follow again from the files' end.
        """
        pieces, self._pieces = self._pieces, []
        grown = list({piece.process.process_id: piece.process for piece in pieces}.values())
        while pieces:
            count, error = await self._processes.disk.run(functools.partial(self._write, pieces))
            if isinstance(error, ValueError):
                raise ProtocolViolation("invalid_request", f"The node reported output with holes: {error}.")
            stuck = pieces[count].process if count < len(pieces) else None
            pieces = pieces[count:]
            for process in grown:
                process.is_stalled = process is stuck and error is not None and error.errno in _FULL
            if stuck is not None and not stuck.is_stalled:  # its folder was removed
                _logger.warning("output of a process on a node cannot be kept: %s", stuck.process_id)
                pieces = [piece for piece in pieces if piece.process is not stuck]
            self._processes.publish(*grown)
            if pieces:
                await asyncio.sleep(_FULL_S)

    def _write(self, pieces: Iterable[_Piece]) -> tuple[int, OSError | ValueError | None]:
        """Write in order; return how many were written, and the error of the next one.

        One call at a time, in a thread.
        """
        count = 0
        for piece in pieces:
            files, process_id = piece.process.files, piece.process.process_id
            try:
                if piece.data is None:
                    files.skip(piece.stream, piece.start, piece.end)
                else:
                    files.append(piece.stream, piece.data, piece.end)
            except (OSError, ValueError) as error:
                return count, error
            finally:
                self._open[process_id] = files
                self._open.move_to_end(process_id)
                if len(self._open) > _MOST_OPEN:
                    self._open.popitem(last=False)[1].close()
            count += 1
        return count, None
