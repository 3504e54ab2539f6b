"""Where a viewer begins that names no cursor: with the newest history, at a sane place."""

from outlive.core.cursor import Cursor
from outlive.protocols.terminal_socket.history_start import CONTEXT_BYTES, LOOK_BYTES, sane_start
from outlive.store.output_log import OutputLog

HISTORY_BYTES = 256 * 1024  # some thousand lines: about what a terminal emulator scrolls back


def newest_history(log: OutputLog) -> Cursor:
    """Return the cursor of at most 256 KiB before the end. Two reads of 48 KiB, and 3 ms at most for the look at them.

    Raises:
        StoreCorrupt: The disk does not give the bytes.
    """
    wanted = log.tail_cursor(HISTORY_BYTES)
    return Cursor(_sane(log, 0, wanted.stdout), _sane(log, 1, wanted.stderr))


def _sane(log: OutputLog, stream: int, wanted: int) -> int:
    if not wanted:
        return 0
    begin = max(0, wanted - CONTEXT_BYTES)
    gap = log.gap(stream)
    if gap is not None and gap[0] < wanted and begin < gap[1]:
        begin = gap[1]
        wanted = max(wanted, begin)
    data = log.pread(stream, wanted - begin + LOOK_BYTES, begin)
    return begin + sane_start(data, wanted - begin) if len(data) >= wanted - begin else wanted
