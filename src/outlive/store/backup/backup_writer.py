"""`write_backup`: the state folder as an archive, while server and keeper go on.

It only reads, takes no lock that another program waits for, and asks no server. The result is what a power
cut at that moment would have left, but for torn files: what lived then is lost to the one that restores it.

Blocking, and as long as copying the output takes. Where the archive goes, and that it appears whole or not at
all, is the caller's business.

The files of one process are opened in an order in which they fit together while the keeper writes them
(`open_process`):

* Everything is opened before anything is read. A folder gets another name before it is removed
  (`engine.recovery.upkeep`), so that one which still has its own was whole.
* Records of the life and the end come first, then the sizes of the logs, then the index: what a record
  promises is in the log, and the index, which is written ahead, explains every byte that is copied.
* What was released (`gaps`) comes last: it is written before a hole is punched, so that it names every hole
  that was copied.

The copy of the registry (`RegistryCopy`) is taken before the folders are read, by SQLite's online backup
(sqlite.org/backup.html), which waits for no writer and no reader. A log may then be longer than its row
knows, which the next server finds in the folder; it is never shorter. Rows of processes that have been
removed meanwhile are taken out again. It is in memory: a backup that is killed leaves no file with commands.
"""

import contextlib
import errno
import fcntl
import gzip
import hashlib
import io
import json
import os
import sqlite3
import stat
import tarfile
from collections.abc import Collection, Iterator
from typing import BinaryIO, Protocol
from urllib.parse import quote

from outlive.core.identity import is_process_id
from outlive.core.layout import STREAM_FILES, Layout
from outlive.core.values import dataclass
from outlive.store.backup.contents import (
    AUDIT,
    HEADER,
    KEPT,
    KEYS,
    MANIFEST,
    MAX_PIECES,
    PROCESSES,
    REGISTRY,
    Contents,
    FileList,
    StoredFile,
    clipped_gaps,
    encode_header,
    is_kept,
)
from outlive.store.folder import UNFILTERED
from outlive.store.writer import AUDIT_LOG

_WAIT_S = 10.0  # for a writer that has the file to itself, at a checkpoint


class RegistryCopy:
    """The registry as it was when this was made; `close` it in the end."""

    def __init__(self, path: str) -> None:
        self._connection = sqlite3.connect(":memory:", isolation_level=None)
        self._is_there = os.path.exists(path)
        if not self._is_there:
            return
        try:
            kept = sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True, timeout=_WAIT_S)
            with contextlib.closing(kept):
                kept.backup(self._connection)
                self._connection.execute("SELECT count(*) FROM processes").fetchone()
        except sqlite3.Error:
            self._is_there = False

    def content(self, process_ids: Collection[str], *, forgets_audit: bool = False) -> bytes | None:
        """Return the file with the rows of these processes only; None where there is none.

        With `forgets_audit` it knows of no audit log: one that is left out of the backup was not removed by
        an attacker.
        """
        if not self._is_there:
            return None
        # As one parameter: SQLite takes 32766 variables at most (sqlite.org/limits.html), and there may be
        # more processes.
        kept = json.dumps(sorted(process_ids))
        delete = "DELETE FROM processes WHERE process_id NOT IN (SELECT value FROM json_each(?))"
        self._connection.execute(delete, [kept])
        if forgets_audit:
            self._connection.execute("DELETE FROM counters WHERE name = ?", [AUDIT_LOG])
        return self._connection.serialize()

    def close(self) -> None:
        """Let go of the memory."""
        self._connection.close()


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


_READ_BYTES = 1 << 20
_BLOCK = 512  # of tar
_GZIP_LEVEL = (
    1  # output is text: a third of its size at 100 MB/s; level 6 makes it a quarter at a third of the speed
)
_PRIVATE = 0o600
_AUDIT_NOTE, _AUDIT_LOCK = "head", "lock"


class BackupTally(Protocol):
    """Counts what is done, for a person who waits."""

    def __call__(self) -> None:
        """One process more is in the archive."""


def write_backup(
    layout: Layout,
    into: BinaryIO,
    *,
    live: Collection[str],
    outlive: str,
    created: str,
    with_keys: bool = True,
    one_more: BackupTally = lambda: None,
) -> Contents:
    """Write the archive and return what is in it.

    Args:
        layout: The state folder.
        into: Where the bytes go; not closed here.
        live: Which processes the journal calls live now.
        outlive: The version that writes it.
        created: Now, ISO 8601 in UTC.
        with_keys: Whether the keys, the tokens' hashes and the audit log that one of the keys is for are in
            it.
        one_more: Called after each process.

    Raises:
        OSError: A file cannot be read, or the archive not be written.
    """
    with (
        contextlib.closing(RegistryCopy(layout.registry)) as registry,
        # Without a name and a time in gzip's header: two backups of the same state differ in nothing but
        # their dates.
        gzip.GzipFile("", "wb", _GZIP_LEVEL, into, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT) as tar,
    ):
        archive = _Archive(tar)
        archive.add(_document(HEADER, encode_header(outlive=outlive, created=created)), is_listed=False)
        left_out = set() if with_keys else {*KEYS, AUDIT}
        # In the order of the table: the journal before the folders that it names, the registry behind them,
        # though it was copied first.
        for name in KEPT:
            if name not in {PROCESSES, REGISTRY, *left_out}:
                for source in _audit_files(layout.audit) if name == AUDIT else _tree(layout.root, name):
                    archive.add(source)
        processes = _add_processes(layout, archive, one_more)
        if (content := registry.content(processes, forgets_audit=not with_keys)) is not None:
            archive.add(_document(REGISTRY, content))
        header = {"outlive": outlive, "created": created}
        running = len(processes.intersection(live))
        contents = Contents.of(archive.files, header, running=running, has_keys=with_keys)
        archive.add(_document(MANIFEST, contents.encode()), is_listed=False)
        return contents


def count_processes(layout: Layout) -> int:
    """Return how many processes a backup would hold now."""
    return len(_process_ids(layout))


def _add_processes(layout: Layout, archive: "_Archive", one_more: BackupTally) -> set[str]:
    """Add every process that has a whole folder, oldest first; return their ids."""
    added = set()
    for process_id in _process_ids(layout):
        for source in open_process(layout.process(process_id)):
            if is_kept(f"{PROCESSES}/{process_id}/{source.name}"):
                archive.add(source, below=f"{PROCESSES}/{process_id}/")
                added.add(process_id)
        one_more()
    return added


def _process_ids(layout: Layout) -> list[str]:
    try:
        return sorted(filter(is_process_id, os.listdir(layout.processes)))
    except FileNotFoundError:
        return []


def _tree(root: str, name: str) -> Iterator[BackupSource]:
    """Yield a file, or all regular files below a folder; what vanishes meanwhile is left out."""
    path = f"{root}/{name}"
    if (fd := open_regular(path)) is not None:
        try:
            if is_kept(name):
                yield source_of(name, fd)
        finally:
            os.close(fd)
        return
    # Not `os.walk`: what is removed between the listing and the opening is no error here, and nothing is
    # followed.
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        for entry in sorted(os.listdir(path)):
            if not os.path.islink(f"{path}/{entry}"):
                yield from _tree(root, f"{name}/{entry}")


def _audit_files(folder: str) -> Iterator[BackupSource]:
    """Yield the audit log as it is between two entries.

    The lock is the log's own, and is held while files are opened and measured only: a writer waits for
    microseconds.
    """
    with contextlib.ExitStack() as stack:
        lock = open_regular(f"{folder}/{_AUDIT_LOCK}")
        if lock is not None:
            stack.callback(os.close, lock)
            fcntl.flock(lock, fcntl.LOCK_SH)
        sources = []
        with contextlib.suppress(FileNotFoundError):
            for name in filter(lambda one: is_kept(f"{AUDIT}/{one}"), sorted(os.listdir(folder))):
                if (fd := open_regular(f"{folder}/{name}")) is not None:
                    stack.callback(os.close, fd)
                    source = source_of(f"{AUDIT}/{name}", fd)
                    # The note is replaced in place: its content counts now, not when its turn comes.
                    is_note = name == _AUDIT_NOTE
                    sources.append(
                        _document(source.name, os.pread(fd, source.size, 0)) if is_note else source
                    )
        if lock is not None:
            fcntl.flock(lock, fcntl.LOCK_UN)
        yield from sources


def _document(name: str, content: bytes) -> BackupSource:
    return BackupSource(name=name, size=len(content), mtime=0, content=content)


class _Archive:
    """The members that were written; `files` is what the manifest counts."""

    def __init__(self, tar: tarfile.TarFile) -> None:
        self._tar = tar
        self.files = FileList()

    def add(self, source: BackupSource, *, below: str = "", is_listed: bool = True) -> None:
        """Write one file, without its holes."""
        name = below + source.name
        if is_listed:
            self.files.check(name)
        member = tarfile.TarInfo(name)
        member.mode, member.mtime, member.size = _PRIVATE, int(source.mtime), source.size
        # Holes are found anew for each file: a log of 600 MB may hold 2 MB, and reading its zeros would take
        # longer than all the rest.
        data = None if source.content is not None else _data_of(source.fd, source.size)
        before = b""
        if data is not None:
            before = _sparse_map(data)
            member.pax_headers = _sparse_headers(name, source.size)
            folder, _, base = name.rpartition("/")
            # as GNU tar names it for programs that know no sparse files
            member.name = f"{folder}/GNUSparseFile.0/{base}"
            member.size = len(before) + sum(length for _, length in data)
        pieces = _Pieces(source, before, data)
        self._tar.addfile(member, pieces)
        if is_listed:
            digest = pieces.digest.hexdigest()
            self.files.add(StoredFile(name=name, size=source.size, sha256=digest, data=data))


class _Pieces(io.RawIOBase):
    """A member's bytes one after the other: a map of the data, then the data; `digest` is of the latter."""

    def __init__(self, source: BackupSource, before: bytes, data: tuple[tuple[int, int], ...] | None) -> None:
        self._source = source
        self._before = before
        self._left = [list(one) for one in ([(0, source.size)] if data is None else data)]
        self.digest = hashlib.sha256()

    def read(self, size: int = -1, /) -> bytes:
        """Return the next bytes, all that were asked for while there are as many."""
        pieces = []
        while size > 0:
            piece = self._next(min(size, _READ_BYTES))
            if not piece:
                break
            pieces.append(piece)
            size -= len(piece)
        return b"".join(pieces)

    def _next(self, size: int) -> bytes:
        if self._before:
            piece, self._before = self._before[:size], self._before[size:]
            return piece
        while self._left and not self._left[0][1]:
            self._left.pop(0)
        if not self._left:
            return b""
        offset, length = self._left[0]
        length = min(length, size)
        if self._source.content is not None:
            piece = self._source.content[offset : offset + length]
        else:
            # A file that has become shorter meanwhile is none of ours to repair: what is missing reads as a
            # hole does.
            piece = os.pread(self._source.fd, length, offset) or bytes(length)
        self._left[0][0] += len(piece)
        self._left[0][1] -= len(piece)
        self.digest.update(piece)
        return piece


def _data_of(fd: int, size: int) -> tuple[tuple[int, int], ...] | None:
    """Return where a file has data, as offsets and lengths; None where it has no holes."""
    if os.fstat(fd).st_blocks * _BLOCK >= size:
        return None
    found: list[tuple[int, int]] = []
    end = 0
    while end < size:
        try:
            begin = os.lseek(fd, end, os.SEEK_DATA)
            end = min(os.lseek(fd, begin, os.SEEK_HOLE), size)
        except OSError as error:
            if error.errno == errno.ENXIO:  # nothing but a hole up to the end
                break
            return None
        if begin < size:
            found.append((begin, end - begin))
        if len(found) > MAX_PIECES:  # more than a reader takes: with its holes filled it is restored, too
            return None
    return tuple(found)


def _sparse_map(data: tuple[tuple[int, int], ...]) -> bytes:
    """Return what stands before the data of a sparse member: how many pieces, then offset and length of each,
    in whole blocks.
    """
    numbers = [len(data), *(number for pair in data for number in pair)]
    text = "".join(f"{number}\n" for number in numbers).encode()
    return text.ljust(-(-len(text) // _BLOCK) * _BLOCK, b"\0")


def _sparse_headers(name: str, size: int) -> dict[str, str]:
    """Return the headers of a sparse member (GNU tar manual, appendix D.3.3, PAX format 1.0)."""
    return {
        "GNU.sparse.major": "1",
        "GNU.sparse.minor": "0",
        "GNU.sparse.name": name,
        "GNU.sparse.realsize": str(size),
    }
