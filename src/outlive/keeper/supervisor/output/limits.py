"""What happens when a process has written more than its `output_limit`: truncate, block or kill.

`truncate` keeps head and tail and releases the middle by punching holes: offsets stay true. `block` stops
reading, so that the process waits, until a reader reports what was delivered. Readers learn of a gap from the
folder's `gaps` file, which is written before the hole is punched. Bytes are moved by `pump`, which calls
`check` afterwards.
"""

import contextlib
import os
from collections.abc import Callable

from outlive.keeper.supervisor.managed_process import ManagedProcess, Stream
from outlive.keeper.supervisor.output.pump import Pump
from outlive.kernel.calls import punch_hole
from outlive.kernel.files import read_small, write_whole
from outlive.protocols.frames import decode_gaps, decode_idx, decoded
from outlive.protocols.keeper import CauseCode, Flags, Phase, decode_unbound

_PAGE = 4096  # bytes: holes begin and end at the blocks of the file system
_STEP_BYTES = 8 << 20  # released by one call: punching is slow, so it is done seldom


class OutputLimits:
    """Enforces the output limit of each process. `stop` ends a process (process, cause, note)."""

    def __init__(
        self,
        *,
        touch: Callable[[ManagedProcess], None],
        stop: Callable[[ManagedProcess, CauseCode, str], None],
    ) -> None:
        """Take what reports changes and what ends a process; `pump` is set once it exists."""
        self._touch = touch
        self._stop = stop
        self.pump: Pump | None = None

    def check(self, stream: Stream) -> None:
        """Act when the process is over its limit; called after bytes were moved."""
        process = stream.process
        limit = process.spec.output_limit
        if limit is None or process.total - sum(process.released) <= limit:
            return
        if process.spec.on_limit == "kill":
            self._stop(process, CauseCode.OUTPUT_LIMIT, f"The output limit of {limit} bytes was reached.")
        elif process.spec.on_limit == "block":
            if process.phase == Phase.EXITED:
                return  # the rest in its pipes is drained: never more than the pipes hold
            assert self.pump is not None
            process.flags |= Flags.BLOCKED
            for each in process.streams:
                if each.is_open:
                    self.pump.hold(each)
            self._touch(process)
        else:
            self._truncate(process, stream, limit)

    def _truncate(self, process: ManagedProcess, stream: Stream, limit: int) -> None:
        # Half of the budget is for the head, half for the tail; a stream gets at least half of the limit.
        others = sum(
            each.offset - process.released[each.index] for each in process.streams if each is not stream
        )
        budget = max(limit - others, limit // 2)
        step = min(_STEP_BYTES, max(_PAGE, limit // 8))
        end = (stream.offset - budget // 2) // _PAGE * _PAGE
        released = process.released[stream.index]
        begin = read_gaps(process.folder)[stream.index][0] if released else budget // 2 // _PAGE * _PAGE
        if end - (begin + released) >= step:
            self._release(process, stream, begin, end)

    def release(self, process: ManagedProcess, out: int, err: int) -> None:
        """Release output before the offsets (on_limit "block": it was delivered), and let the process go
        on.
        """
        for stream, upto in zip(process.streams, (out, err), strict=False):
            end = min(upto, stream.offset) // _PAGE * _PAGE
            if end > process.released[stream.index]:
                self._release(process, stream, 0, end)
        limit = process.spec.output_limit
        is_free = (
            process.spec.on_limit != "block"
            or limit is None
            or process.total - sum(process.released) <= limit
        )
        if process.flags & Flags.BLOCKED and is_free:
            assert self.pump is not None
            process.flags &= ~Flags.BLOCKED
            for stream in process.streams:
                if stream.is_open:
                    self.pump.add(stream)
        self._touch(process)

    def unbound(self, process: ManagedProcess, limit: int | None) -> None:
        """Stop waiting for readers: from now on `limit` bytes are kept, and beyond that the middle is
        released.

        Recorded in the folder's `unbound` file before it takes effect, for later supervisors.
        """
        if process.spec.on_limit != "block":
            return
        write_whole(f"{process.folder}/unbound", b"-\n" if limit is None else b"%d\n" % limit)
        unbind(process)
        self.release(process, 0, 0)

    def _release(self, process: ManagedProcess, stream: Stream, begin: int, end: int) -> None:
        ranges = list(read_gaps(process.folder))
        ranges[stream.index] = (begin, end)
        try:
            write_whole(f"{process.folder}/gaps", "{} {} {} {}\n".format(*ranges[0], *ranges[1]).encode())
        except OSError:
            return  # a full disk: nothing is released of which readers could not learn
        process.released[stream.index] = end - begin
        process.flags |= Flags.GAPS
        # EOPNOTSUPP: the file system keeps the bytes; readers see the gap all the same.
        with contextlib.suppress(OSError):
            punch_hole(stream.log, begin, end - begin)
            self._release_idx(process, ranges)

    @staticmethod
    def _release_idx(process: ManagedProcess, ranges: list[tuple[int, int]]) -> None:
        """Release whole pages of the index whose runs all lie in released output; readers skip the zeros."""
        fd = os.open(f"{process.folder}/idx", os.O_RDWR | os.O_CLOEXEC)
        try:
            last_page = os.fstat(fd).st_size // _PAGE - 1  # the open run's record always stays
            page = first = process.idx_released or _first_page(fd, last_page, ranges)
            while page < last_page and _is_released(os.pread(fd, _PAGE, page * _PAGE), ranges):
                page += 1
            if page > first:
                punch_hole(fd, first * _PAGE, (page - first) * _PAGE)
            process.idx_released = page
        finally:
            os.close(fd)


def _first_page(fd: int, last_page: int, ranges: list[tuple[int, int]]) -> int:
    """Return the first page of the index that lies wholly in released output (the head's pages stay)."""
    page = 0
    while page < last_page and not _is_released(os.pread(fd, _PAGE, page * _PAGE), ranges):
        page += 1
    return page


def _is_released(page: bytes, ranges: list[tuple[int, int]]) -> bool:
    """Return whether every run that begins in a page of the index begins in released output (a hole
    counts).
    """
    return all(
        ranges[record.stream][0] <= record.offset < ranges[record.stream][1] for record in decode_idx(page)
    )


def unbind(process: ManagedProcess) -> None:
    """Apply what `OutputLimits.unbound` has recorded, if it has."""
    if (found := decoded(read_small(f"{process.folder}/unbound"), decode_unbound)) is not None:
        (limit,) = found
        process.spec = process.spec._replace(on_limit="truncate", output_limit=limit)


def read_gaps(folder: str) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the released range of each stream; (0, 0) where there is none."""
    return decoded(read_small(f"{folder}/gaps"), decode_gaps) or ((0, 0), (0, 0))
