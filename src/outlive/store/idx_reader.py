"""The reader of a process's index file `idx`: finds the run at a position without reading the whole file.

The search is here; what a record means is defined in `protocols.frames`, and output is read with it in `output_log`.
"""

import os
from collections.abc import Callable, Iterator

from outlive.protocols.frames import IDX, IdxRecord, decode_idx

_BLOCK_RECORDS = 128  # in one read: a page of the file
_BLOCK_BYTES = _BLOCK_RECORDS * IDX.size


def totals(record: IdxRecord) -> tuple[int, int]:
    """Return the bytes of stdout and of stderr before a run; both only grow along the file."""
    other = record.start - record.offset
    return (record.offset, other) if record.stream == 0 else (other, record.offset)


class IdxReader:
    """Random access to the records behind one descriptor, which the caller opens and closes.

    Records of a released range read as zeros, in one piece; a tail shorter than a record is ignored.
    """

    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        """Take the descriptor to read through."""
        self._fd = fd

    def records(self, index: int = 0) -> Iterator[IdxRecord]:
        """Yield the records from `index` on, oldest first, as far as the file goes."""
        offset: int | None = index * IDX.size
        while offset is not None:
            block = os.pread(self._fd, _BLOCK_BYTES, offset)
            yield from decode_idx(block)
            offset = self._following(offset, block)

    def last_where(self, claim: Callable[[IdxRecord], bool]) -> int:
        """Return the index of the last record for which `claim` holds; 0 when it holds for none.

        `claim` must be true for some first part of the file and false for the rest, so that halving the range finds it.
        """
        # By halving the range: some 20 reads for a million records. A torn last record does not count.
        low, high = 0, os.fstat(self._fd).st_size // IDX.size
        best = 0
        while low < high:
            middle = (low + high) // 2
            found = self._first_at(middle)
            if found is None or found[0] >= high:
                high = middle  # from here to `high` there are only released records
            elif claim(found[1]):
                best, low = found[0], found[0] + 1
            else:
                high = middle
        return best

    def _first_at(self, index: int) -> tuple[int, IdxRecord] | None:
        """Return the first record at or after `index` that was not released, with its own index."""
        offset: int | None = index * IDX.size
        size = IDX.size  # one record is enough, unless it is released
        while offset is not None:
            block = os.pread(self._fd, size, offset)
            for place, record in enumerate(decode_idx(block)):
                skipped = _leading_zero_records(block)
                return offset // IDX.size + skipped + place, record
            offset = self._following(offset, block)
            size = _BLOCK_BYTES
        return None

    def _following(self, offset: int, block: bytes) -> int | None:
        """Return where to read after `block`; None at the end. Holes are skipped without being read (lseek(2))."""
        whole = len(block) - len(block) % IDX.size
        if whole == 0:
            return None
        if any(block):
            return offset + whole
        try:
            data = os.lseek(self._fd, offset + whole, os.SEEK_DATA)
        except OSError:
            return None  # ENXIO: only a hole up to the end
        return max(offset + whole, data - data % IDX.size)


def _leading_zero_records(block: bytes) -> int:
    return (len(block) - len(block.lstrip(b"\0"))) // IDX.size
