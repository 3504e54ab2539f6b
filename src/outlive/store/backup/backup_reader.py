"""`read_backup`: checks an archive whole, and writes its files below a new folder on the way.

The archive may come from anywhere. Nothing of a member counts but its name, its size, its time and its bytes: files are this
user's, with mode 0600, and made anew (O_EXCL) in a folder that was empty; a member that is no regular file, has an owner or a name that no
backup has, or comes twice ends the reading. That the bytes are those that were backed up is known at the end, from the manifest: the
caller lets nothing count before. An attacker who wrote the manifest, too, has written the state: restore what you trust.

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
    BadArchive,
    Contents,
    StoredFile,
    checked_path,
    decode_header,
)

_READ_BYTES = 1 << 20
_MAX_DOCUMENT = 1 << 30  # a manifest has some 150 bytes for each file, and a process some eight files
_PRIVATE_FILE, _PRIVATE_FOLDER = 0o600, 0o700
_HINT = "Take another backup, or another outlive: `outlive restore --dry-run FILE` checks one, and changes nothing."


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
    except (tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError, ValueError) as error:
        text = "This is no whole backup of outlive: it is cut, damaged or something else."
        raise StoreCorrupt("store_corrupt", text, hint=_HINT) from error


def _read_to_the_end(packed: gzip.GzipFile) -> None:
    """Read on to where gzip's own checksum stands; tar fills its last record with zeros."""
    while piece := packed.read(_READ_BYTES):
        if any(piece):
            raise BadArchive("something stands behind its end")


@contextmanager
def _opened(packed: gzip.GzipFile) -> Iterator[tarfile.TarFile]:
    with tarfile.open(fileobj=packed, mode="r|", errorlevel=2) as tar:
        yield tar


def _read(tar: tarfile.TarFile, into: str | None) -> Contents:
    first = tar.next()
    if first is None or first.name != HEADER:
        raise BadArchive("it does not begin as one")
    header = decode_header(_document(tar, first))
    found: dict[str, StoredFile] = {}
    while (member := tar.next()) is None or member.name != MANIFEST:
        if member is None:
            raise BadArchive("its end is missing")
        _check(member)
        if member.name in found:
            raise BadArchive(f"{member.name[:80]!r} is in it twice")
        found[member.name] = _take(tar, member, into)
        tar.members = []  # type: ignore[attr-defined]  # tarfile keeps every member otherwise, a kilobyte each
    contents = Contents.parse(header, _document(tar, member))
    if tar.next() is not None:
        raise BadArchive("something stands behind its end")
    _compare(found, contents)
    return contents


def _check(member: tarfile.TarInfo) -> None:
    """Let regular files pass, as a backup has them."""
    if member.type not in {tarfile.REGTYPE, tarfile.AREGTYPE}:
        raise BadArchive(f"{member.name[:80]!r} is no regular file")
    # What a backup writes is owned by no user in particular (uid 0 without a name): an archive that names owners was made by another program.
    if member.uid or member.gid or member.uname or member.gname:
        raise BadArchive(f"{member.name[:80]!r} has an owner")
    if member.mode != _PRIVATE_FILE:
        raise BadArchive(f"{member.name[:80]!r} has the mode {member.mode:o}")
    if member.size < 0:
        raise BadArchive(f"{member.name[:80]!r} has no size")


def _document(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    _check(member)
    if member.sparse is not None or member.size > _MAX_DOCUMENT:
        raise BadArchive(f"{member.name!r} cannot be read")
    file = tar.extractfile(member)
    return b"" if file is None else file.read()


def _take(tar: tarfile.TarFile, member: tarfile.TarInfo, into: str | None) -> StoredFile:
    """Read one member, into a new file below a folder where there is one."""
    parts = checked_path(member.name)
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


def _compare(found: dict[str, StoredFile], contents: Contents) -> None:
    """Let only what the manifest says count: every file, no other one, each as it was."""
    # Both ways: a file that is not listed could be anything, and one that is missing makes the state another one.
    listed = {one.name: one for one in contents.files}
    if len(listed) != len(contents.files):
        raise BadArchive("its manifest names a file twice")
    if listed != found:
        names = sorted(name for name in {*listed, *found} if listed.get(name) != found.get(name))
        raise BadArchive(f"{names[0][:80]!r} is not as its manifest says")
