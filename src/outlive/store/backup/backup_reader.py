"""`read_backup`: checks an archive whole, and writes its files below a new folder on the way.

The archive may come from anywhere. Nothing of a member counts but its name, its size, its time and its bytes:
files are this user's, with mode 0600, and made anew (O_EXCL) in a folder that was empty; a member that is no
regular file, has an owner or a name that no backup has, or comes twice ends the reading. That the bytes are
those that were backed up is known at the end, from the manifest: the caller lets nothing count before. The
memory that reading takes does not depend on the archive. An attacker who wrote the manifest, too, has written
the state: restore what you trust.

Blocking.
"""

import contextlib
import gzip
import hashlib
import os
import tarfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO, cast

from outlive.core.errors import StoreCorrupt
from outlive.store.backup.contents import (
    HEADER,
    MANIFEST,
    MAX_DOCUMENT,
    MAX_SMALL,
    BadArchive,
    Contents,
    FileList,
    StoredFile,
    decode_header,
    is_large,
)

_READ_BYTES = 1 << 20
# Bytes of a member's headers. tarfile takes them into memory whole: names of some hundred bytes, and where a
# file has its data.
_MAX_HEADERS = 1 << 20
_PRIVATE_FILE, _PRIVATE_FOLDER = 0o600, 0o700
_HINT = (
    "Take another backup, or another outlive: `outlive restore --dry-run FILE` checks one, and "
    "changes nothing."
)


def read_backup(source: BinaryIO, *, into: str | None) -> Contents:
    """Read an archive to its end; return what is in it.

    Args:
        source: The archive's bytes; not closed here.
        into: An empty folder of this user's; None checks only.

    Raises:
        StoreCorrupt: `store_corrupt`: it is no whole backup. What was written until then lies in `into`.
        OSError: A file cannot be written.
    """
    try:
        with gzip.GzipFile(fileobj=source) as packed:
            with _opened(packed) as tar:
                contents = _read(tar, into)
            _read_to_the_end(packed)
            return contents
    except BadArchive as error:
        raise StoreCorrupt("store_corrupt", f"This is no backup of outlive: {error}.", hint=_HINT) from error
    # RecursionError: tarfile calls itself for each header that is about the next one.
    except (tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError, ValueError, RecursionError) as error:
        text = "This is no whole backup of outlive: it is cut, damaged or something else."
        raise StoreCorrupt("store_corrupt", text, hint=_HINT) from error
    except TimeoutError as error:
        text = "This is no whole backup of outlive yet: the pipe that it comes from is silent."
        raise StoreCorrupt("store_corrupt", text, hint="Look at the program behind the pipe.") from error


def _read_to_the_end(packed: gzip.GzipFile) -> None:
    """Read on to where gzip's own checksum stands; tar fills its last record with zeros."""
    while piece := packed.read(_READ_BYTES):
        if any(piece):
            raise BadArchive("something stands behind its end")


class _Headers:
    """The archive's bytes, of which the next header has a bound: `left`, None for what is no header."""

    def __init__(self, packed: gzip.GzipFile) -> None:
        self._packed = packed
        self.left: int | None = None

    def read(self, size: int) -> bytes:
        """Return the next bytes."""
        piece = self._packed.read(size)
        if self.left is not None:
            self.left -= len(piece)
            if self.left < 0:
                raise BadArchive("the headers of one file are too long")
        return piece


class _Members:
    """The members of an archive, one after the other."""

    def __init__(self, tar: tarfile.TarFile, headers: _Headers) -> None:
        self.tar = tar
        self._headers = headers

    def next(self) -> tarfile.TarInfo | None:
        """Return the next one; None at the end."""
        self._headers.left = _MAX_HEADERS
        member = self.tar.next()
        self._headers.left = None
        self.tar.members = []  # type: ignore[attr-defined]  # tarfile keeps every member otherwise
        if self.tar.pax_headers:
            raise BadArchive("it has headers for all of its files")
        return member


@contextmanager
def _opened(packed: gzip.GzipFile) -> Iterator[_Members]:
    headers = _Headers(packed)
    headers.left = _MAX_HEADERS  # tarfile reads the first one immediately
    with tarfile.open(fileobj=cast("BinaryIO", headers), mode="r|", errorlevel=2) as tar:
        yield _Members(tar, headers)


def _read(members: _Members, into: str | None) -> Contents:
    tar = members.tar
    first = members.next()
    if first is None or first.name != HEADER:
        raise BadArchive("it does not begin as one")
    header = decode_header(_document(tar, first))
    files = FileList()
    while (member := members.next()) is None or member.name != MANIFEST:
        if member is None:
            raise BadArchive("its end is missing")
        _check(member)
        files.add(_take(tar, member, files.check(member.name), into))
    contents = Contents.parse(header, _document(tar, member), files)
    if members.next() is not None:
        raise BadArchive("something stands behind its end")
    return contents


def _check(member: tarfile.TarInfo) -> None:
    """Let regular files pass, as a backup has them."""
    if member.type not in {tarfile.REGTYPE, tarfile.AREGTYPE}:
        raise BadArchive(f"{member.name[:80]!r} is no regular file")
    # What a backup writes is owned by no user in particular (uid 0 without a name): an archive that names
    # owners was made by another program.
    if member.uid or member.gid or member.uname or member.gname:
        raise BadArchive(f"{member.name[:80]!r} has an owner")
    if member.mode != _PRIVATE_FILE:
        raise BadArchive(f"{member.name[:80]!r} has the mode {member.mode:o}")
    if member.size < 0:
        raise BadArchive(f"{member.name[:80]!r} has no size")
    if member.size > MAX_SMALL and not is_large(member.name):
        raise BadArchive(f"{member.name[:80]!r} is larger than {MAX_SMALL >> 20} MiB")


def _document(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    _check(member)
    if member.sparse is not None or member.size > MAX_DOCUMENT:
        raise BadArchive(f"{member.name!r} cannot be read")
    file = tar.extractfile(member)
    return b"" if file is None else file.read()


def _take(
    tar: tarfile.TarFile, member: tarfile.TarInfo, parts: Sequence[str], into: str | None
) -> StoredFile:
    """Read one member, into a new file below a folder where there is one."""
    fd = -1 if into is None else _made(into, parts)
    try:
        data = _data_of(member)
        digest = hashlib.sha256()
        stream = cast("BinaryIO", tar.fileobj)
        stream.seek(member.offset_data)  # a sparse member's data begins behind its map
        for begin, length in [(0, member.size)] if data is None else data:
            _copy(stream, fd, begin, length, digest)
        if fd >= 0:
            os.ftruncate(fd, member.size)
            os.utime(fd, (member.mtime, member.mtime))
    finally:
        if fd >= 0:
            os.close(fd)
    return StoredFile(name=member.name, size=member.size, sha256=digest.hexdigest(), data=data)


def _made(into: str, parts: Sequence[str]) -> int:
    """Make a file, and the folders above it that are not there yet."""
    path = into
    try:
        for part in parts[:-1]:
            path += f"/{part}"
            with contextlib.suppress(FileExistsError):
                os.mkdir(path, _PRIVATE_FOLDER)
        return os.open(
            f"{path}/{parts[-1]}",
            os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW,
            _PRIVATE_FILE,
        )
    except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
        raise BadArchive("one name in it is a file and a folder") from error


def _data_of(member: tarfile.TarInfo) -> tuple[tuple[int, int], ...] | None:
    """Return a sparse member's pieces of data; None for a file without holes."""
    sparse = cast("Sequence[tuple[int, int]] | None", member.sparse)  # typeshed has a single pair
    if sparse is None:
        return None
    end = 0
    pieces = tuple(sparse)
    for begin, length in pieces:
        if begin < end or length < 0 or begin + length > member.size:
            raise BadArchive(f"the pieces of {member.name[:80]!r} do not follow each other")
        end = begin + length
    return pieces


def _copy(stream: BinaryIO, fd: int, begin: int, length: int, digest: "hashlib._Hash") -> None:
    while length:
        piece = stream.read(min(length, _READ_BYTES))
        if not piece:
            raise BadArchive("its end is missing")
        digest.update(piece)
        if fd >= 0:
            view = memoryview(piece)
            while view:
                written = os.pwrite(fd, view, begin)
                view, begin = view[written:], begin + written
        length -= len(piece)
