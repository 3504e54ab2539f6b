"""The files of one process, opened in an order in which they fit together while the keeper writes them:
`open_process`.

* Everything is opened before anything is read. A folder gets another name before it is removed
  (`engine.recovery.upkeep`), so that one which still has its own was whole.
* Records of the life and the end come first, then the sizes of the logs, then the index: what a record
  promises is in the log, and the index, which is written ahead, explains every byte that is copied.
* What was released (`gaps`) comes last: it is written before a hole is punched, so that it names every hole
  that was copied.
"""

import contextlib
import os
import stat
from collections.abc import Iterator

from outlive.core.layout import STREAM_FILES
from outlive.core.values import dataclass
from outlive.store.backup.contents import clipped_gaps
from outlive.store.folder import UNFILTERED

_GAPS, _IDX, _SPEC = "gaps", "idx", "spec"
_MAX_GAPS = 4096  # bytes: four numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupSource:
    """Where a file of the archive comes from: the first `size` bytes behind a descriptor, or `content` where
    that is no None.
    """

    name: str
    size: int
    mtime: float
    fd: int = -1
    content: bytes | None = None


def open_process(folder: str) -> Iterator[BackupSource]:
    """Yield a process's files, named within its folder; none where there is no whole folder.

    Each is open until the next is asked for.
    """
    with contextlib.ExitStack() as stack:
        try:
            folder_fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return
        stack.callback(os.close, folder_fd)
        opened = _open_all(folder_fd, stack)
        beside = _open_beside(folder_fd, stack)
        if _SPEC not in opened or not _is_named(folder_fd, folder):
            return
        yield from _in_order(folder_fd, opened, prefix="")
        if beside is not None:
            yield from _in_order(beside[0], beside[1], prefix=f"{UNFILTERED}/")


def _open_all(folder_fd: int, stack: contextlib.ExitStack) -> dict[str, int]:
    """Open every regular file of a folder; sockets, and what has just been removed, are left out."""
    opened: dict[str, int] = {}
    for name in sorted(os.listdir(folder_fd)):
        if (fd := open_regular(name, folder_fd)) is not None:
            stack.callback(os.close, fd)
            opened[name] = fd
    return opened


def open_regular(name: str, folder_fd: int | None = None) -> int | None:
    """Open a regular file for reading; None for everything else.

    A link is never followed, a FIFO never waited for.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        fd = os.open(name, flags, dir_fd=folder_fd)
    except OSError:
        return None
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    return None


def _open_beside(folder_fd: int, stack: contextlib.ExitStack) -> tuple[int, dict[str, int]] | None:
    """Open what entered a line's final filter, which is an output log of its own."""
    try:
        fd = os.open(
            UNFILTERED, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=folder_fd
        )
    except OSError:
        return None
    stack.callback(os.close, fd)
    return fd, _open_all(fd, stack)


def _is_named(folder_fd: int, folder: str) -> bool:
    held = os.fstat(folder_fd)
    try:
        found = os.stat(folder, follow_symlinks=False)
    except OSError:
        return False
    return (found.st_dev, found.st_ino) == (held.st_dev, held.st_ino)


def _in_order(folder_fd: int, opened: dict[str, int], *, prefix: str) -> Iterator[BackupSource]:
    logs = {_IDX, *STREAM_FILES}
    records = {name: source_of(prefix + name, opened[name]) for name in opened if name not in {*logs, _GAPS}}
    yield from records.values()
    streams = {name: source_of(prefix + name, opened[name]) for name in STREAM_FILES if name in opened}
    if _IDX in opened:
        yield source_of(prefix + _IDX, opened[_IDX])
    yield from streams.values()
    sizes = [streams[name].size if name in streams else 0 for name in STREAM_FILES]
    # Looked up again: the keeper replaces the file. Where the whole folder has been removed meanwhile, the
    # earlier one has to do.
    fd = open_regular(_GAPS, folder_fd)
    try:
        if (held := opened.get(_GAPS) if fd is None else fd) is not None:
            content = clipped_gaps(os.pread(held, _MAX_GAPS, 0), sizes)
            mtime = os.fstat(held).st_mtime
            yield BackupSource(name=prefix + _GAPS, size=len(content), mtime=mtime, content=content)
    finally:
        if fd is not None:
            os.close(fd)


def source_of(name: str, fd: int) -> BackupSource:
    """Return a file as long as it is now."""
    found = os.fstat(fd)
    return BackupSource(name=name, size=found.st_size, mtime=found.st_mtime, fd=fd)
