"""Reading files that others wrote: small ones whole (`read_found`, `read_named`), others as a stream
(`NamedStream`). Blocking.

A file that outlive itself finds (a project's settings in the nearest folder) is a regular one or refused: a
pipe in its place would be waited for. A file that a person names may be a pipe, which is read to its end, up
to a size and for a time. What the text means: `core.documents`.
"""

import errno
import os
import select
import stat
import time

_PIECE_BYTES = 1 << 18
MAX_TOKEN_BYTES = 1 << 16  # of a file with a token, or with those of all nodes
NAMED_S = 10.0  # a program behind a pipe has begun by then, and a file of settings or a token is there
SILENT_S = 30.0  # a program that makes gigabytes writes on after so long, also on a busy machine


def read_found(path: str, max_bytes: int, *, follows_link: bool = True) -> bytes:
    """Return a regular file's content.

    Args:
        path: The file.
        max_bytes: How large it may be.
        follows_link: Whether it may be a link to one.

    Raises:
        OSError: It is missing, cannot be read, is too large or no regular file; `strerror` says which.
    """
    # O_NONBLOCK: opening a FIFO would wait for a writer.
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
    fd = os.open(path, flags if follows_link else flags | os.O_NOFOLLOW)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file")
        return _read(fd, max_bytes, time.monotonic())
    finally:
        os.close(fd)


def read_named(path: str, max_bytes: int, *, wait_s: float = NAMED_S) -> bytes:
    """Return the content of a file that a person has named, a pipe's and a terminal's up to their end.

    Raises:
        OSError: It is missing, cannot be read or is too large.
        TimeoutError: Its end did not come within `wait_s` seconds.
    """
    end = time.monotonic() + wait_s
    fd = _open_named(path, end)
    try:
        return _read(fd, max_bytes, end)
    finally:
        os.close(fd)


class NamedStream:
    """A file that a person has named, of any size; a pipe may be silent for some seconds at a time."""

    def __init__(self, path: str, *, silent_s: float = SILENT_S) -> None:
        """Open it.

        Raises:
            OSError: It is missing, a folder, or cannot be read.
            TimeoutError: No program has begun to write into a FIFO.
        """
        self._silent_s = silent_s
        self._fd = _open_named(path, time.monotonic() + silent_s)

    def read(self, size: int) -> bytes:
        """Return so many bytes, fewer at the end only.

        Raises:
            TimeoutError: A pipe was silent for longer.
        """
        content = bytearray()
        while len(content) < size:
            try:
                piece = os.read(self._fd, min(size - len(content), _PIECE_BYTES))
            except BlockingIOError:
                _wait(self._fd, time.monotonic() + self._silent_s)
                continue
            if not piece:
                break
            content += piece
        return bytes(content)

    def close(self) -> None:
        """Close the file; once."""
        os.close(self._fd)


def _open_named(path: str, end: float) -> int:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        # A FIFO reads as ended until its first writer has come; a pipe without a name has had its own.
        if stat.S_ISFIFO(_kind(fd)) and not _is_anonymous(fd):
            _wait(fd, end)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _kind(fd: int) -> int:
    kind = os.fstat(fd).st_mode
    if stat.S_ISDIR(kind):
        raise OSError(errno.EISDIR, "it is a folder")
    return kind


def _read(fd: int, max_bytes: int, end: float) -> bytes:
    content = bytearray()
    while True:
        try:
            piece = os.read(fd, _PIECE_BYTES)
        except BlockingIOError:
            _wait(fd, end)
            continue
        if not piece:
            return bytes(content)
        content += piece
        if len(content) > max_bytes:
            raise OSError(errno.EFBIG, f"it is larger than {_shown(max_bytes)}")


def _wait(fd: int, end: float) -> None:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    if not poll.poll(max(0.0, end - time.monotonic()) * 1000):
        raise TimeoutError(errno.ETIMEDOUT, "its end did not come in time")


def _is_anonymous(fd: int) -> bool:
    return os.readlink(f"/proc/self/fd/{fd}").startswith("pipe:")


def _shown(size: int) -> str:
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"
