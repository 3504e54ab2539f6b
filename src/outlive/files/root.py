"""`FileRoot`: one file or folder of this machine that is copied, or that a copy is made of. Blocking.

Names are text of the wire (`core.file_words`), "" for the root itself. What is given and returned are plain
values, as they go over the wire. A new file is written beside its place under a name of its own
(`part_name`), readable by its owner only, and renamed when it is whole, on the disk and compared: under its
own name it is never there by half.
"""

import contextlib
import errno
import hashlib
import heapq
import os
import stat
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from outlive.core.errors import InvalidState
from outlive.core.file_words import (
    FileKind,
    OtherRoot,
    is_part,
    name_bytes,
    part_name,
    parts_of,
    shown_name,
    wire_name,
)
from outlive.files.identity import folders_around, identity_of
from outlive.files.walk import SHARED, enter, failure, find, looked_at, opened_again, path_of, reopened
from outlive.files.wall import Wall

Members = Mapping[str, Any]
_Owner = tuple[int, int] | None  # user and group of what is made; None: this server's

PAGE = 1000  # entries of a folder at once: some 100 KB
_HASHED_BYTES = 1024 * 1024  # at once: what is in memory
_PERMISSIONS = 0o777  # of a mode: a copy gets no set-user-ID bit, since its owner may be another user
# A folder's that are not its source's to clear: what is made in it gets its group, and users remove only
# their own files in it.
_OF_PLACE = stat.S_ISGID | stat.S_ISVTX
_OPEN = 0o700  # of a folder that is being filled


class TooEarly(NamedTuple):
    """A piece came before the one that lies before it, and was not written: `size` is how many bytes of the
    file are there.

    No exception: it is an everyday answer, and the frames of a raised one would keep the piece until cycles
    are looked for.
    """

    size: int


class FileRoot:
    """A place in the file system, held open: what is renamed or swapped on the way to it changes nothing for
    it any more.

    Every method raises AccessDenied (`path_refused`) for what the wall refuses, InvalidState `file_missing`
    for what is not there and `file_failed` for what the operating system refuses, with its words. For one
    thread at a time, or several.

    Attributes:
        path: Where it really lies, as text of the wire: absolute, and without links before the last part.
        folders: To write: the identities of it and of the folders in which it lies (`files.identity`), the
            innermost first.
    """

    def __init__(self, path: bytes, wall: Wall, *, writes: bool, other: OtherRoot | None = None) -> None:
        """Find an absolute path; to write it need not exist, only the folder in which it lies.

        Args:
            path: A link at its end is followed; to write only where it leads to a folder.
            wall: What is refused.
            writes: Whether it is to be written.
            other: In which root it lies, where it is not in this machine's; needed only until it is found.
        """
        self._wall = wall
        self._closing = threading.Lock()
        self._owner = None if other is None else (other.uid, other.gid)
        with _said(wire_name(path)):
            root = -1 if other is None else other.fd
            self._folder, self._name = find(path, wall, keeps_link=writes, root=root)
            try:
                self.folders = folders_around(self._folder, self._name, root) if writes else []
                self.path = wire_name(path_of(self._folder, self._name))
            except BaseException:  # no descriptors are left, as a rule: then this one counts
                os.close(self._folder)
                raise

    def close(self) -> None:
        """Let go of it. Safe to repeat."""
        with self._closing:
            if self._folder >= 0:
                os.close(self._folder)
                self._folder = -1

    def look(self, name: str) -> Members | None:
        """Return what has that name, as `list` shows it; None where nothing has."""
        try:
            with self._at(name) as (folder, last), looked_at(folder, last, self._wall) as (fd, found):
                return _entry(name, fd, found)
        except InvalidState as error:
            if error.code == "file_missing":
                return None
            raise

    def list(self, name: str, after: str) -> Members:
        """Return the entries of a folder behind the name `after`, in the order of their bytes: `entries`, and
        whether there are `more`.

        Unfinished files, and what goes meanwhile, are left out.
        """
        with self._at(name) as (folder, last), looked_at(folder, last, self._wall) as (fd, _):
            opened = reopened(fd, os.O_RDONLY | os.O_DIRECTORY)
            try:
                with os.scandir(opened) as found:
                    names = (os.fsencode(entry.name) for entry in found)
                    later = (one for one in names if one > name_bytes(after) and not is_part(one))
                    page = heapq.nsmallest(PAGE + 1, later)
                entries = [_entry_of(opened, one) for one in page[:PAGE]]
            finally:
                os.close(opened)
        return {
            "entries": [one for one in entries if one is not None],
            "after": wire_name(page[PAGE - 1]) if len(page) > PAGE else None,
        }

    def read(self, name: str, offset: int, limit: int) -> tuple[Members, bytes]:
        """Return a piece of a regular file, and what it is then: `size`, `mtime_ns`, `identity`.

        Nothing at its end.

        A caller that has seen the same before knows that it is a piece of that file: it is looked at after
        the bytes were read, and a write changes the time before it changes the bytes. (Of writes within one
        tick of the kernel, some milliseconds, it does so once.)
        """
        with self._regular(name) as fd:
            data = os.pread(fd, limit, offset)
            found = os.fstat(fd)
        known = {"size": found.st_size, "mtime_ns": found.st_mtime_ns, "identity": identity_of(found)}
        return known, data

    def digest(self, name: str, offset: int, length: int, *, key: str) -> Members:
        """Return the SHA-256 of a stretch of a file, how many bytes it really has, and the file's size.

        With a `key` it is the unfinished file of that name, with a size of 0 where there is none; what is
        said of it is on the disk.
        """
        with self._regular(name, key) as fd:
            if fd < 0:
                return {"size": 0, "length": 0, "sha256": hashlib.sha256().hexdigest()}
            if key and length:
                os.fdatasync(fd)
            hashed, done = hashlib.sha256(), 0
            while done < length and (piece := os.pread(fd, min(_HASHED_BYTES, length - done), offset + done)):
                hashed.update(piece)
                done += len(piece)
            return {"size": os.fstat(fd).st_size, "length": done, "sha256": hashed.hexdigest()}

    def write(
        self, name: str, key: str, offset: int, data: bytes | memoryview, *, cut: bool
    ) -> Members | TooEarly:
        """Write a piece of an unfinished file, which is made where there is none; repeated, it does the same.

        Return its `size`.

        With `cut`, what is there from `offset` on goes before. `TooEarly`: what lies before the piece is not
        there yet.
        """
        with self._at(name) as (folder, last):
            self._wall.check_name(folder, last)
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            fd = os.open(part_name(last, key), flags, 0o600, dir_fd=folder)
            try:
                _check_part(fd, folder, last, self._wall, owner=self._owner)
                size = os.fstat(fd).st_size
                if size < offset:
                    return TooEarly(size)
                if cut and size > offset:
                    os.ftruncate(fd, offset)
                view, at = memoryview(data), offset
                while view:
                    written = os.pwrite(fd, view, at)
                    view, at = view[written:], at + written
                return {"size": os.fstat(fd).st_size}
            finally:
                os.close(fd)

    def place(
        self, name: str, key: str, *, size: int, sha256: str | None, mode: int, mtime_ns: int
    ) -> Members:
        """Give an unfinished file its name, replacing a file or link that has it: now it is whole.

        Args:
            name: Its name.
            key: Which unfinished one; repeated, when it is there already under its name, nothing is done.
            size: How many bytes it must have.
            sha256: And which SHA-256, None where its stretches were compared already.
            mode: Its permissions.
            mtime_ns: When it was changed.

        Raises:
            InvalidState: `file_changed`: it is not what was meant to be copied; it is removed.
        """
        with self._at(name) as (folder, last):
            _check_replaced(folder, last, name, self._wall)
            part = part_name(last, key)
            try:
                fd = os.open(part, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
            except FileNotFoundError:
                entry = self.look(name)
                if entry is not None and (entry["size"], entry["mtime_ns"]) == (size, mtime_ns):
                    return entry
                raise
            try:
                _check_part(fd, folder, last, self._wall, owner=self._owner)
                if os.fstat(fd).st_size != size or (sha256 is not None and _sha256(fd) != sha256):
                    os.unlink(part, dir_fd=folder)
                    text = f"{shown_name(name) or 'The file'} did not arrive as it was sent."
                    raise InvalidState("file_changed", text)
                _give(fd, self._owner)
                os.utime(fd, ns=(mtime_ns, mtime_ns))
                os.fsync(fd)
                os.fchmod(fd, mode & _PERMISSIONS)
                os.rename(part, last, src_dir_fd=folder, dst_dir_fd=folder)
                found = os.fstat(fd)
            finally:
                os.close(fd)
            _sync_folder(folder)
            return _entry(name, -1, found)

    def make_folder(self, name: str) -> Members:
        """Make a folder that is filled from now on, or take one that is there.

        Only its owner sees into a new one until `settle`.
        """
        with self._at(name) as (folder, last):
            self._wall.check_name(folder, last)
            is_new = False
            with contextlib.suppress(FileExistsError):
                os.mkdir(last, _OPEN, dir_fd=folder)
                is_new = True
                _sync_folder(folder)
            with looked_at(folder, last, self._wall) as (fd, found):
                _check_kind(found, name, "folder")
                if is_new:
                    _give(f"/proc/self/fd/{fd}", self._owner)
                if found.st_mode & _OPEN != _OPEN:
                    os.chmod(f"/proc/self/fd/{fd}", stat.S_IMODE(found.st_mode) | _OPEN)
                return _entry(name, fd, os.fstat(fd))

    def make_link(self, name: str, target: str, *, mtime_ns: int) -> Members:
        """Make a symbolic link, in the place of a file or link of that name."""
        with self._at(name) as (folder, last):
            _check_replaced(folder, last, name, self._wall)
            part = part_name(last, "0" * 16)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(part, dir_fd=folder)
            os.symlink(name_bytes(target), part, dir_fd=folder)
            _give(part, self._owner, dir_fd=folder)
            os.utime(part, ns=(mtime_ns, mtime_ns), dir_fd=folder, follow_symlinks=False)
            os.rename(part, last, src_dir_fd=folder, dst_dir_fd=folder)
            _sync_folder(folder)
        return self.look(name) or {}

    def settle(self, name: str, *, mode: int, mtime_ns: int) -> Members:
        """Give a folder or file that is there its permissions and time."""
        with self._at(name) as (folder, last), looked_at(folder, last, self._wall) as (fd, found):
            _check_kind(found, name, "file", "folder")
            path = f"/proc/self/fd/{fd}"
            if stat.S_ISDIR(found.st_mode):
                os.chmod(path, (mode & (_PERMISSIONS | stat.S_ISVTX)) | (found.st_mode & _OF_PLACE))
            else:
                os.chmod(path, mode & _PERMISSIONS)
            os.utime(path, ns=(mtime_ns, mtime_ns))
            return _entry(name, fd, os.fstat(fd))

    def drop(self, name: str, key: str) -> None:
        """Remove an unfinished file, if there is one."""
        with self._at(name) as (folder, last):
            part = part_name(last, key)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(part, dir_fd=folder)

    @contextmanager
    def _at(self, name: str) -> Iterator[tuple[int, bytes]]:
        parts = [self._name, *parts_of(name)]
        with _said(name), contextlib.ExitStack() as stack:
            with self._closing:  # while it is open: its number could else become another folder's
                folder = stack.enter_context(opened_again(self._folder))
            yield stack.enter_context(enter(folder, parts, self._wall))

    @contextmanager
    def _regular(self, name: str, key: str = "") -> Iterator[int]:
        """Give a regular file, opened to be read; -1 for an unfinished one that is not there."""
        with self._at(name) as (folder, last):
            fd = -1
            try:
                with looked_at(folder, part_name(last, key) if key else last, self._wall) as (path, found):
                    _check_kind(found, name, "file")
                    fd = reopened(path, os.O_RDONLY)
            except InvalidState as error:
                if not (key and error.code == "file_missing"):
                    raise
            try:
                yield fd
            finally:
                if fd >= 0:
                    os.close(fd)


def _entry_of(folder: int, name: bytes) -> Members | None:
    """Return an entry of an opened folder, None where it has gone."""
    try:
        fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return None
    try:
        return _entry(wire_name(name), fd, os.fstat(fd))
    finally:
        os.close(fd)


def _give(made: int | bytes | str, owner: _Owner, *, dir_fd: int | None = None) -> None:
    """Let what was made in another root be its user's.

    Where this server may not give it away, it stays this server's.

    It is a file's descriptor, a descriptor's path, or the name of a link in a folder.
    """
    if owner is not None:
        with contextlib.suppress(PermissionError):
            os.chown(made, *owner, dir_fd=dir_fd, follow_symlinks=dir_fd is None)


def _check_part(fd: int, folder: int, last: bytes, wall: Wall, *, owner: _Owner) -> None:
    """Refuse what has an unfinished file's name and is none of ours: a FIFO, a file of another user, one with
    a second name.
    """
    found = os.fstat(fd)
    wall.check(fd, found, parent=folder, name=last)
    # Given away already, where a server was killed before it had renamed it.
    is_own = found.st_uid in {os.geteuid(), *(() if owner is None else owner[:1])}
    if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1 or not is_own:
        text = (
            f"{shown_name(wire_name(last))} cannot be written: something else has the name of its "
            "unfinished file."
        )
        raise InvalidState("file_failed", text)


def _check_replaced(folder: int, last: bytes, name: str, wall: Wall) -> None:
    """Refuse to replace what is neither a file nor a link, or what the wall refuses."""
    wall.check_replaced(folder, last)
    try:
        with looked_at(folder, last, wall) as (_, found):
            _check_kind(found, name, "file", "link")
    except InvalidState as error:
        if error.code != "file_missing":
            raise


@contextmanager
def _said(name: str) -> Iterator[None]:
    """Turn what the operating system refuses into our errors, about that name."""
    try:
        yield
    except OSError as error:
        raise failure(error, name) from error


def _kind(found: os.stat_result) -> FileKind:
    if stat.S_ISREG(found.st_mode):
        return "file"
    if stat.S_ISDIR(found.st_mode):
        return "folder"
    return "link" if stat.S_ISLNK(found.st_mode) else "other"


def _check_kind(found: os.stat_result, name: str, *kinds: FileKind) -> None:
    """Let what was looked at pass if it is of one of these kinds."""
    kind = _kind(found)
    if kind not in kinds:
        is_what = "a socket, FIFO or device" if kind == "other" else f"a {kind}"
        text = f"{shown_name(name) or 'What is there'} is {is_what}, not a {' or '.join(kinds)}."
        raise InvalidState("file_failed", text)


def _mode(found: os.stat_result) -> int:
    """Return the permissions that a copy gets.

    A folder in which every user may write keeps their files apart, and so does its copy.
    """
    is_shared = stat.S_ISDIR(found.st_mode) and found.st_mode & SHARED == SHARED
    return stat.S_IMODE(found.st_mode) & (_PERMISSIONS | (stat.S_ISVTX if is_shared else 0))


def _entry(name: str, fd: int, found: os.stat_result) -> Members:
    """Return an entry as it goes over the wire; `fd` is a link's, opened as a path."""
    kind = _kind(found)
    return {
        "name": name,
        "kind": kind,
        "size": found.st_size if kind == "file" else 0,
        "mode": _mode(found),
        "mtime_ns": found.st_mtime_ns,
        "identity": identity_of(found),
        # readlinkat(2) with an empty name reads the link that was opened, whatever has its name by now.
        "target": wire_name(os.readlink(b"", dir_fd=fd)) if kind == "link" else None,
    }


def _sha256(fd: int) -> str:
    hashed, at = hashlib.sha256(), 0
    while piece := os.pread(fd, _HASHED_BYTES, at):
        hashed.update(piece)
        at += len(piece)
    return hashed.hexdigest()


def _sync_folder(folder: int) -> None:
    """Have the names in a folder on the disk; some file systems have no such call (EINVAL)."""
    opened = reopened(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(opened)
    except OSError as error:
        if error.errno not in {errno.EINVAL, errno.EROFS}:
            raise
    finally:
        os.close(opened)
