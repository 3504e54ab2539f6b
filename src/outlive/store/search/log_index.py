"""The index of one process's output, in the file `index` of its folder: which blocks of a log may hold a text
(`LogIndex`), and its making.

It answers "no" or "perhaps". "No" is certain; where it is missing, damaged, or made by other rules of
redaction, the answer is "perhaps", and the log is read. So it may be removed at any time, a crash may cut it
anywhere, and nothing waits for it.

The file is a row of records, each for a group of eight blocks of one stream: a header, and pages. Every four
bytes in a row (of which every second place counts) name a slot by their remainder; the slot's bits say in
which of the eight blocks they occur. Each page has a CRC-32. What is indexed are the bytes as callers are
shown them, folded (`protocols/output/line_query.py`): nothing that is redacted is in it.

Sizes are measured (decision 203): an eighth of the log, and 40 s of processor time a gigabyte to make.
"""

import contextlib
import hashlib
import os
import struct
import sys
import zlib
from collections.abc import Callable, Sequence

from outlive.core.values import dataclass
from outlive.policy.redaction import Redactor
from outlive.protocols.output.line_query import MAX_LITERAL_BYTES, fold
from outlive.store.output_log import MAX_PREAD_BYTES, OutputLog

INDEX_FILE = "index"
LEAST_BYTES = 64 * 1024  # of a stream: less is read faster than it is asked for
GROUP_BYTES = 8 * MAX_PREAD_BYTES
_BLOCKS = 8  # bits of a slot
# A text that lies across two blocks is in the first of them.
_OVERLAP = MAX_LITERAL_BYTES + 4
_PAGE = 4096
_SLOTS = _PAGE - 4  # of a page; the rest is its CRC
_HEADER = struct.Struct("<4sB3xQII8sI")  # magic, stream, offset, length, pages, key, CRC of all these
_MAGIC = b"oix1"
_KEY_BYTES = 8


def key_of(redactor: Redactor) -> bytes:
    """Return what stands for the rules by which output is redacted: an index that was made by others is not
    asked.
    """
    return hashlib.sha256(redactor.rules.encode()).digest()[:_KEY_BYTES]


@dataclass(frozen=True, slots=True)
class _Group:
    """One record: bytes `offset` to `end` of a stream, in pages from `place` of the file on."""

    offset: int
    end: int
    pages: int
    place: int

    @property
    def block_bytes(self) -> int:
        return -(-(self.end - self.offset) // _BLOCKS)

    @property
    def slots(self) -> int:
        # Odd: an even number would have bytes in common with every remainder.
        return self.pages * _SLOTS - 1


class LogIndex:
    """An index that is asked for some literals. Closed with the last reference, or by `close`."""

    def __init__(self, folder: str, key: bytes, literals: Sequence[bytes] = ()) -> None:
        """Open the index of a process's folder, if there is one made by the rules of `key`. Blocking."""
        self._grams = [way for literal in literals for way in _ways(literal)]
        self._groups: list[list[_Group]] = [[], []]
        self._masks: dict[int, int] = {}
        self._fd = -1
        self.size = 0  # of the file, as far as it is whole
        with contextlib.suppress(OSError):
            self._fd = os.open(f"{folder}/{INDEX_FILE}", os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            self._read_headers(key)

    def __del__(self) -> None:
        """Close the file with the last reference."""
        self.close()

    def close(self) -> None:
        """Close the file; may be called more than once."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def covered(self, stream: int) -> int:
        """Return how many bytes of a stream it knows."""
        groups = self._groups[stream]
        return groups[-1].end if groups else 0

    def next_place(self, stream: int, offset: int) -> tuple[int, int | None]:
        """Return the first byte from `offset` on at which a literal may begin, and up to where it may end.

        The second is None where nothing is known of what follows.
        """
        for group in self._groups[stream][self._first(stream, offset) :]:
            mask = self._mask(group)
            for block in range(_BLOCKS):
                begin = group.offset + block * group.block_bytes
                end = begin + group.block_bytes
                if mask >> block & 1 and offset < end and begin < group.end:
                    return max(begin, offset), end + _OVERLAP
            offset = max(offset, group.end)
        return offset, None

    def _first(self, stream: int, offset: int) -> int:
        """Return the number of the group that holds `offset`: all but the last one have the same size."""
        return min(offset // GROUP_BYTES, len(self._groups[stream]))

    def _mask(self, group: _Group) -> int:
        """Return in which blocks of a group one of the literals may be, a bit for each."""
        mask = self._masks.get(group.place)
        if mask is None:
            mask = 0
            for grams in self._grams:
                one = 0xFF
                for gram in grams:
                    one &= self._slot(group, gram % group.slots)
                    if not one:
                        break
                mask |= one
            self._masks[group.place] = mask
        return mask

    def _slot(self, group: _Group, slot: int) -> int:
        number, place = divmod(slot, _SLOTS)
        page = os.pread(self._fd, _PAGE, group.place + number * _PAGE) if self._fd >= 0 else b""
        if len(page) < _PAGE or _sealed(page[:_SLOTS], group.offset, number) != page[_SLOTS:]:
            return 0xFF  # damaged: it says nothing
        return page[place]

    def _read_headers(self, key: bytes) -> None:
        place = 0
        while True:
            raw = os.pread(self._fd, _HEADER.size, place)
            if len(raw) < _HEADER.size:
                return
            magic, stream, offset, length, pages, made_by, crc = _HEADER.unpack(raw)
            if magic != _MAGIC or crc != zlib.crc32(raw[:-4]) or made_by != key or stream > 1:
                return
            end = place + _HEADER.size + pages * _PAGE
            # Of a stream each record goes on where the one before has ended; one that a crash has cut is not
            # there.
            if offset != self.covered(stream) or not pages or not length or os.fstat(self._fd).st_size < end:
                return
            if offset % GROUP_BYTES:
                return
            self._groups[stream].append(_Group(offset, offset + length, pages, place + _HEADER.size))
            self.size = place = end


def _ways(literal: bytes) -> list[list[int]]:
    """Return the two ways in which a literal can lie in a block, each as numbers of four bytes that are all
    in the index then.
    """
    return [
        [int.from_bytes(literal[at : at + 4], sys.byteorder) for at in range(first, len(literal) - 3, 2)]
        for first in (0, 1)
    ]


def _sealed(page: bytes, offset: int, number: int) -> bytes:
    return zlib.crc32(page, zlib.crc32(struct.pack("<QI", offset, number))).to_bytes(4, "little")


def make_record(
    log: OutputLog, stream: int, offset: int, length: int, key: bytes, *, go_on: Callable[[], bool]
) -> bytes | None:
    """Return the record of a group; None as soon as `go_on` says no.

    Blocking: 80 ms of processor time for a whole one.

    Raises:
        StoreCorrupt: The disk does not give the bytes.
    """
    pages = max(1, -(-length // 8 // _SLOTS))
    slots = pages * _SLOTS - 1
    bits = 0  # of all blocks together, a byte for each slot
    block_bytes = -(-length // _BLOCKS)
    for block in range(_BLOCKS):
        if not go_on():
            return None
        begin = offset + block * block_bytes
        end = min(begin + block_bytes, offset + length) + _OVERLAP
        found = _slots_in(fold(_shown(log, stream, begin, end)), slots)
        bits |= int.from_bytes(found, "little") << block
    table = bits.to_bytes(pages * _SLOTS, "little")
    head = _HEADER.pack(_MAGIC, stream, offset, length, pages, key, 0)[:-4]
    body = bytearray(head + zlib.crc32(head).to_bytes(4, "little"))
    for number in range(pages):
        page = table[number * _SLOTS : (number + 1) * _SLOTS]
        body += page + _sealed(page, offset, number)
    return bytes(body)


def _slots_in(data: bytes, slots: int) -> bytearray:
    """Return a 1 for each slot that one of every second run of four bytes names.

    The one loop that costs something: 36 s a gigabyte. A set of the runs first, or the bits at once, took 1.4
    to 1.9 times as long (decision 203).
    """
    table = bytearray(slots)
    for first in (0, 2):
        part = memoryview(data)[first:]
        for gram in part[: len(part) & ~3].cast("I"):
            table[gram % slots] = 1
    return table


def _shown(log: OutputLog, stream: int, begin: int, end: int) -> bytes:
    """Return what callers are shown of a range; what was released is left out."""
    pieces = []
    while begin < end:
        data = log.pread(stream, end - begin, begin)
        if not data:
            gap = log.gap(stream)
            if gap is None or not gap[0] <= begin < gap[1]:
                break
            begin = gap[1]
            continue
        pieces.append(data)
        begin += len(data)
    return b"".join(pieces)
