"""What was heard of a node's processes, on its way to their folders: `Writing`, a bounded batch at a time.

The next batch is heard when this one is on disk: a disk that is full or slow makes the node wait, and nothing piles up here.
"""

import asyncio
import errno
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from outlive.backends.remote.mirror import RemoteProcess
from outlive.core.errors import ProtocolViolation

_logger = logging.getLogger(__name__)
_FULL_S = 0.25
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG})


@dataclass(frozen=True, slots=True)
class _Piece:
    """Bytes of a stream up to `end`; `data` None: a gap from `start` on."""

    mirror: RemoteProcess
    stream: int
    start: int
    end: int
    data: bytes | None

    def write(self) -> None:
        if self.data is None:
            self.mirror.files.skip(self.stream, self.start, self.end)
        else:
            self.mirror.files.append(self.stream, self.data, self.end)


class Writing:
    """Collects pieces on the event loop and writes them in a thread; `ring` tells of the mirrors that have grown."""

    def __init__(
        self, mirrors: Mapping[str, RemoteProcess], *, ring: Callable[[list[RemoteProcess]], None]
    ) -> None:
        """Nothing was heard yet."""
        self._mirrors = mirrors
        self._ring = ring
        self._pieces: list[_Piece] = []

    def add(self, process_id: str, stream: int, *, start: int, end: int, data: bytes | None) -> None:
        """Take a piece of a process that is followed; of others nothing is wanted."""
        mirror = self._mirrors.get(process_id)
        if mirror is not None:
            self._pieces.append(_Piece(mirror, stream, start, end, data))

    async def flush(self) -> None:
        """Return when all that was taken is in the files, however long the disk is full.

        Raises:
            ProtocolViolation: The node has left bytes out: follow again from the files' end.
        """
        pieces, self._pieces = self._pieces, []
        grown = list({piece.mirror.process_id: piece.mirror for piece in pieces}.values())
        while pieces:
            count, error = await asyncio.to_thread(_write, pieces)
            if isinstance(error, ValueError):
                raise ProtocolViolation("invalid_request", f"The node told output with holes: {error}.")
            stuck = pieces[count].mirror if count < len(pieces) else None
            pieces = pieces[count:]
            for mirror in grown:
                mirror.is_stalled = mirror is stuck and error is not None and error.errno in _FULL
            if stuck is not None and not stuck.is_stalled:  # its folder was removed
                _logger.warning("output of a process on a node cannot be kept: %s", stuck.process_id)
                pieces = [piece for piece in pieces if piece.mirror is not stuck]
            self._ring(grown)
            if pieces:
                await asyncio.sleep(_FULL_S)


def _write(pieces: list[_Piece]) -> tuple[int, OSError | ValueError | None]:
    """Write in order; return how many were written, and what kept the next one from it."""
    for count, piece in enumerate(pieces):
        try:
            piece.write()
        except (OSError, ValueError) as error:
            return count, error
    return len(pieces), None
