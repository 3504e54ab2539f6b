"""Small files: read as they are found, written whole, each write with the durability that it names.

A file that is missing, empty or no regular file says nothing: `read_small` returns no bytes. What follows
from that, and from bytes that mean nothing, is the reader's to say (`protocols.frames.decoded`).
"""

import contextlib
import errno
import os
import stat
import time
from typing import Literal

_SMALL_BYTES = 1 << 16  # more than any record; also the first read of a file of any size
_BIG_BYTES = 1 << 20  # a read of the rest of a large file
_NO_FILE = b"\0"
# A pipe would be waited for, and a symbolic link lead to a file of another process.
_PLAIN = os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW
_IRREGULAR = frozenset({errno.ELOOP, errno.ENXIO, errno.EISDIR})  # a link, a pipe or a socket, a folder

# What a file that was written outlives: every kill of its writer, or a power cut, too.
Survives = Literal["kill", "power cut"]


def _open_plain(path: str) -> int | None:
    """Open a regular file for reading; None for anything else.

    Raises:
        OSError: It is missing, or cannot be read.
    """
    try:
        fd = os.open(path, os.O_RDONLY | _PLAIN)
    except OSError as error:
        if error.errno in _IRREGULAR:
            return None
        raise
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    return None


def read_small(path: str) -> bytes:
    """Return a small file's content, at most 64 KiB; empty where it cannot be read, or is no regular file.

    Four system calls, a third of the cost of `open`.
    """
    try:
        return read_head(path).removeprefix(_NO_FILE)
    except OSError:
        return b""


def read_head(path: str) -> bytes:
    """Return the first 64 KiB of a file; one NUL for anything but a regular file.

    Raises:
        OSError: It is missing, or cannot be read.
    """
    if (fd := _open_plain(path)) is None:
        return _NO_FILE
    try:
        return os.read(fd, _SMALL_BYTES)
    finally:
        os.close(fd)


def read_any(path: str, *, most: int | None = None) -> bytes:
    """Return a regular file's content, of any size, or at most so many bytes of it.

    Raises:
        OSError: It is missing, cannot be read, or is no regular file (EINVAL).
    """
    if (fd := _open_plain(path)) is None:
        raise OSError(errno.EINVAL, "no regular file", path)
    try:
        pieces: list[bytes] = []
        size = 0
        while (most is None or size < most) and (piece := os.read(fd, _BIG_BYTES if size else _SMALL_BYTES)):
            pieces.append(piece)
            size += len(piece)
            if size < _SMALL_BYTES:
                break
        return b"".join(pieces)[:most]
    finally:
        os.close(fd)


def read_all(path: str) -> bytes:
    """Return a file's content, of any size; empty where it cannot be read, or is no regular file."""
    try:
        return read_any(path)
    except OSError:
        return b""


def sync_file(path: str) -> None:
    """Write a file's content to the disk."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def sync_folder(folder: str) -> None:
    """Write the names in a folder to the disk: after a power cut a file that was renamed there has its new
    name (fsync(2), NOTES).
    """
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def remove_folder(folder: str) -> None:
    """Remove a folder that holds only files; a missing one is no error."""
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            os.unlink(f"{folder}/{name}")
        os.rmdir(folder)


def is_written(path: str) -> bool:
    """Return whether a record is there: its file exists and is not empty."""
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_size > 0


def set_aside(path: str) -> None:
    """Give what is in a file's place and is no regular file another name, so that the file can be made."""
    with contextlib.suppress(OSError):
        if not stat.S_ISREG(os.lstat(path).st_mode):
            os.rename(path, f"{path}.damaged")


def open_place(path: str, flags: int, mode: int = 0o600) -> int:
    """Open a file for writing in its place; what lies there and is no regular file is set aside first.

    Raises:
        OSError: As open(2).
    """
    try:
        return os.open(path, flags | _PLAIN, mode)
    except OSError as error:
        if error.errno not in _IRREGULAR:
            raise
    set_aside(path)
    return os.open(path, flags | _PLAIN, mode)


def write_once(path: str, content: bytes) -> None:
    """Write a record into its empty (or missing) file with one system call; a rename would cost 10 us more.

    The kernel publishes a file's new size after the bytes are in place, and does not interrupt a write within
    one page: a record shorter than a page is seen whole or not at all, at whatever moment the writer is
    killed.

    Raises:
        OSError: The disk is full; the file is as empty as before.
    """
    fd = open_place(path, os.O_WRONLY | os.O_CREAT)
    try:
        if os.write(fd, content) != len(content):
            os.ftruncate(fd, 0)
            raise OSError(errno.ENOSPC, "no room for a record")
    finally:
        os.close(fd)


def write_whole(path: str, content: bytes, *, survives: Survives = "kill", by_many: bool = False) -> None:
    """Replace a file: readers and successors see the old content or the new, never a part of it.

    A power cut may leave an empty file, or none, unless it is written to survive one: then it is on the disk
    under its name when this returns (two fsync, some 4 ms on ext4). With `by_many` several writers may
    replace it at the same time: one of them wins, whole.

    Raises:
        OSError: The disk refuses it; what was there before is there.
    """
    new = f"{path}.{time.monotonic_ns()}" if by_many else f"{path}.new"
    write_prepared(new, content)
    if survives == "power cut":
        sync_file(new)
    try:
        os.rename(new, path)
    except IsADirectoryError:
        set_aside(path)
        os.rename(new, path)
    if survives == "power cut":
        sync_folder(os.path.dirname(path))


def write_prepared(path: str, content: bytes, *, mode: int = 0o600) -> None:
    """Write a file that is empty or missing; what an interrupted attempt left in it is cut off.

    Never with O_TRUNC: ext4 then allocates the blocks and writes them out when the file is closed, which
    takes 45 us (mount option auto_da_alloc), even when there was nothing to truncate.
    """
    fd = open_place(path, os.O_WRONLY | os.O_CREAT, mode)
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(fd, view) :]
        if os.lseek(fd, 0, os.SEEK_END) > len(content):
            os.ftruncate(fd, len(content))
    finally:
        os.close(fd)
