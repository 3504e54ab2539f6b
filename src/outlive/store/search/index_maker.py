"""The program that makes indexes of output logs (`python -m outlive.store.search.index_maker FOLDER KEY
[at-once]`), beside the server.

A process of its own, which the kernel runs when nothing else wants the processor: making an index takes 40 s
of processor time a gigabyte, and in a thread of the server every millisecond of that would be one of the
event loop's. It makes what is missing, newest process first, and ends. It ends with the server, too: at its
parent's death, and when its stdin is closed.

Of a process that has ended the whole log is indexed, of one that lives what is surely final: whole groups
that lie well before the end.
"""

import contextlib
import ctypes
import fcntl
import os
import select
import signal
import sys

from outlive.core.errors import OutliveError
from outlive.core.identity import ProcessId, is_process_id
from outlive.core.layout import STREAM_FILES, Layout
from outlive.policy.redaction import Redactor
from outlive.policy.secret_patterns import REACH_BYTES
from outlive.store.folder import read_folder
from outlive.store.log_mask import Hiding, noted_patterns
from outlive.store.output_log import OutputLog
from outlive.store.search.log_index import GROUP_BYTES, INDEX_FILE, LEAST_BYTES, LogIndex, key_of, make_record

# With less free space than this on the disk nothing is indexed: what commands write comes first.
_FREE_BYTES = 512 * 1024 * 1024
_PR_SET_PDEATHSIG = 1  # prctl(2)


def main(words: list[str]) -> int:
    """Make what is missing in a state folder.

    Return 0, or 2 where output is redacted by other rules than the server's.

    With a third word it does not step back: for a measurement that waits for it.
    """
    layout, key = Layout(words[0]), bytes.fromhex(words[1])
    redactor = Redactor(extra=noted_patterns(layout))
    if key_of(redactor) != key:
        return 2
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if not words[2:]:
        _step_back()
    # Ids begin with the time: the newest are searched first, and are indexed first.
    for name in sorted(os.listdir(layout.processes), reverse=True):
        if not _goes_on():
            return 0
        if is_process_id(name):
            with contextlib.suppress(OSError, OutliveError):  # removed meanwhile, or unreadable: the next one
                _index(layout, ProcessId(name), redactor, key)
    return 0


def _step_back() -> None:
    """Run only when nothing else wants to."""
    os.nice(19)
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def _goes_on() -> bool:
    """Tell whether the server is still there; it never writes anything."""
    return not select.select([sys.stdin.fileno()], [], [], 0)[0]


def _index(layout: Layout, process_id: ProcessId, redactor: Redactor, key: bytes) -> None:
    """Index what is missing of one process.

    Raises:
        OSError: Its folder has gone, or the disk refuses it.
        StoreCorrupt: The disk does not give the bytes.
    """
    folder = layout.process(process_id)
    known = LogIndex(folder, key)
    size, covered = known.size, [known.covered(stream) for stream in (0, 1)]
    known.close()
    # Most are done, or too small: that is seen without reading what the folder says.
    ends = _indexed_ends(folder, is_over=os.path.exists(f"{folder}/done"))
    if all(covered[stream] >= ends[stream] for stream in (0, 1)):
        return
    read = read_folder(folder, process_id, is_live=True)
    if read is None or read[0].record.secret_names:
        return
    # Known before the sizes are: then these are final.
    is_over = os.path.exists(f"{folder}/done") and read[0].record.is_closed
    ends = _indexed_ends(folder, is_over=is_over)
    log = OutputLog(folder, hiding=Hiding(redactor=redactor, is_over=lambda: is_over))
    fd = os.open(f"{folder}/{INDEX_FILE}", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        # Held until it is closed: of two servers, one of which is just ending, one has it made.
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(fd, size)  # what a crash has cut, or other rules have made
        for stream in (0, 1):
            for offset in range(covered[stream], ends[stream], GROUP_BYTES):
                length = min(GROUP_BYTES, ends[stream] - offset)
                record = make_record(log, stream, offset, length, key, go_on=_goes_on)
                if record is None or not _has_room(folder):
                    return
                size += os.pwrite(fd, record, size)
    finally:
        os.close(fd)
        log.close()


def _indexed_ends(folder: str, *, is_over: bool) -> list[int]:
    """Return up to where each stream is indexed."""
    ends = []
    for name in STREAM_FILES:
        size = 0
        with contextlib.suppress(FileNotFoundError):
            size = os.stat(f"{folder}/{name}").st_size
        if is_over:
            ends.append(size if size >= LEAST_BYTES else 0)
        else:
            ends.append(max(0, size - REACH_BYTES) // GROUP_BYTES * GROUP_BYTES)
    return ends


def _has_room(folder: str) -> bool:
    free = os.statvfs(folder)
    return free.f_bavail * free.f_frsize >= _FREE_BYTES


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
