"""The library that moves output (`native/flow/flow.c`), as the supervisor calls it: `FlowLibrary`.

It lies behind the program of shims, in the same file: the keeper was handed that file open and checked
(decision 220), and needs no second one. When a stream is moved is decided there, what a move means in `pump`.
"""

import ctypes
import errno
import os
import struct

from outlive.core.layout import LIBRARY_MARK
from outlive.kernel import failpoints

ENDED, NEEDS_LOG = -1000, -1001  # results beside negative error numbers
_VERSION = 1
_TRAILER_BYTES = 8 + len(LIBRARY_MARK)  # behind the library: its size, and the mark
_REPORT = struct.Struct("=iiq")
_MOST_REPORTS = 2048  # of one turn
_MOST_PROCESSES = 1 << 17  # 19 MB of addresses; pages are given when they are touched

# A stream's number; bytes moved, or a negative result; the size of its log now.
Report = tuple[int, int, int]


class FlowLibrary:
    """Streams by number, two for each process: 2 * n is stdout, 2 * n + 1 stderr of the n-th."""

    def __init__(self, program: int) -> None:
        """Load the library behind an open program.

        Raises:
            OSError: The program has none, or one of another version, or the kernel refuses.
        """
        library = _loaded(program)
        pointer, number, size = ctypes.c_void_p, ctypes.c_int, ctypes.c_int64
        for name, *arguments in (
            ("descriptor", pointer),
            ("open", pointer, number, size, size),
            ("set", pointer, *(number,) * 6),
            ("watch", pointer, number, number),
            ("close", pointer, number),
            ("move", pointer, number, size, pointer),
            ("turn", pointer, size, pointer),
        ):
            getattr(library, f"flow_{name}").argtypes = arguments
        library.flow_new.restype = pointer
        self._words = failpoints.armed.encode() or None, failpoints.token.encode()  # the library keeps them
        self._flow = library.flow_new(_MOST_PROCESSES, *self._words)
        if not self._flow:
            raise OSError(errno.ENOMEM, "The library that moves output cannot begin")
        self.library = library
        self._buffer = ctypes.create_string_buffer(_REPORT.size * _MOST_REPORTS)
        self._reports = memoryview(self._buffer).cast("B")
        self._address = ctypes.addressof(self._buffer)
        self.descriptor: int = library.flow_descriptor(self._flow)

    def open(self, idx: int, out: int, err: int) -> int:
        """Return the number of a process's output; `idx` takes its runs' records, the logs have these sizes.

        Raises:
            OSError: EMFILE: there are too many.
        """
        number: int = self.library.flow_open(self._flow, idx, out, err)
        if number < 0:
            raise OSError(errno.EMFILE, "too many processes have output")
        return number

    def set(
        self, stream: int, *, source: int, log: int, relay: tuple[int, int] | None, is_terminal: bool
    ) -> None:
        """Set where a stream's bytes come from and go to; -1: its log is not open yet."""
        write_end, read_end = relay or (-1, -1)
        self.library.flow_set(self._flow, stream, source, log, write_end, read_end, is_terminal)

    def watch(self, stream: int, *, is_watched: bool) -> None:
        """Move a stream whenever it brings something, or not any more, before a descriptor of it is closed.

        Raises:
            OSError: A watched descriptor was closed (EBADF), or no more can be watched.
        """
        if failed := self.library.flow_watch(self._flow, stream, is_watched):
            raise OSError(-failed, os.strerror(-failed))

    def close(self, number: int) -> None:
        """Let go of a process's output, of which nothing is watched; its number is used again."""
        self.library.flow_close(self._flow, number)

    def move(self, stream: int, now_ns: int) -> Report:
        """Move what a stream has now, at most 1 MiB."""
        self.library.flow_move(self._flow, stream, now_ns, self._address)
        return _REPORT.unpack_from(self._buffer)

    def turn(self, now_ns: int) -> list[Report]:
        """Move each watched stream that is ready, once; return what was found."""
        count = self.library.flow_turn(self._flow, now_ns, self._address)
        return list(_REPORT.iter_unpack(self._reports[: count * _REPORT.size]))


def _loaded(program: int) -> ctypes.PyDLL:
    """Load what lies behind a program. The interpreter's lock is kept: a call takes microseconds."""
    if program < 0:
        raise OSError(errno.ENOEXEC, "The keeper was handed no program of shims")
    end = os.fstat(program).st_size - _TRAILER_BYTES
    trailer = os.pread(program, _TRAILER_BYTES, max(0, end))
    if not trailer.endswith(LIBRARY_MARK):
        raise OSError(errno.ENOEXEC, "The program of shims carries no library that moves output")
    file = os.memfd_create("outlive-flow", os.MFD_CLOEXEC)
    try:
        size = int.from_bytes(trailer[: -len(LIBRARY_MARK)], "little")
        os.sendfile(file, program, end - size, size)
        library = ctypes.PyDLL(f"/proc/self/fd/{file}")
    finally:
        os.close(file)
    if library.flow_version() != _VERSION:
        raise OSError(errno.ENOEXEC, "The program of shims is of another version: stop the keeper")
    return library
