"""`FileRoot`: one file or folder of this machine that is read or written. Blocking.

Names are text of the wire (`core.file_words`), "" for the root itself. What is given and returned are plain
values, as they go over the wire (`operations.files`). A new file is written beside its place under a name of
its own (`part_name`), readable by its owner only, and renamed when it is whole, on the disk and compared:
under its own name it is never there by half.
"""

import contextlib
import errno
import hashlib
import heapq
import os
import stat
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from outlive.core.errors import InvalidState
from outlive.core.file_words import (
    DIGEST_BYTES,
    PIECE_BYTES,
    FileKind,
    OtherRoot,
    is_part,
    name_bytes,
    part_name,
    parts_of,
    shown_name,
    wire_name,
)
from outlive.files.denied import DeniedPaths, identity_of
from outlive.files.walk import SHARED, enter, find, folders_around, looked_at, path_of, reopened
from outlive.kernel.processes import this_boot

Members = Mapping[str, Any]
_Bytes = bytes | memoryview
_Seal = Members | None
_Owner = tuple[int, int] | None  # user and group of what is made; None: this server's

PAGE = 1000  # entries of a folder at once: some 100 KB
_HASHED_BYTES = 1024 * 1024  # at once: what is in memory
_PERMISSIONS = 0o777  # of a mode: a copy gets no set-user-ID bit, since its owner may be another user
# A folder's that are not its source's to clear: what is made in it gets its group, and users remove only
# their own files in it.
_OF_PLACE = stat.S_ISGID | stat.S_ISVTX
_OPEN = 0o700  # of a folder that is being filled
_LINK_KEY = "0" * 16


class FileRoot:
    """A place in the file system, held open: what is renamed or swapped on the way to it changes nothing for
    it any more.

    Every method raises AccessDenied (`path_refused`) for a denied path, InvalidState `file_missing` for what
    is not there and `file_failed` for what the operating system refuses, with its words. For one
    thread at a time, or several. It is closed with its last reference, as a file is.

    Attributes:
        path: Where it really lies, as text of the wire: absolute, and without links before the last part.
        folders: To write: the identities of it and of the folders in which it lies, the innermost first.
    """

    def __init__(
        self, path: bytes, denied: DeniedPaths, *, writes: bool, other: OtherRoot | None = None
    ) -> None:
        """Find an absolute path; to write it need not exist, only the folder in which it lies.

        Args:
            path: A link at its end is followed; to write only where it leads to a folder.
            denied: What is refused.
            writes: Whether it is to be written.
            other: In which root it lies, where it is not in this machine's; needed only until it is found.
        """
        self._folder = -1
        self._denied = denied
        self._closing = threading.Lock()
        self._owner = None if other is None else (other.uid, other.gid)
        with _said(wire_name(path)):
            root = -1 if other is None else other.fd
            self._folder, self._name = find(path, denied, keeps_link=writes, root=root)
            try:
                self.folders = folders_around(self._folder, self._name, root) if writes else []
                self.path = wire_name(path_of(self._folder, self._name))
            except BaseException:  # no descriptors are left, as a rule: then this one counts
                self.close()
                raise

    def close(self) -> None:
        """Let go of it. Safe to repeat."""
        with self._closing:
            if self._folder >= 0:
                os.close(self._folder)
                self._folder = -1

    __del__ = close

    def ask(self, method: str, data: _Bytes = b"", **members: object) -> Members:
        """Return the answer to a method about what was opened, by its name and its members on the wire."""
        return _METHODS[method](self, **members, **({"data": data} if data else {}))

    def opened(self) -> Members:
        """Return what is said of it when it was opened: `entry`, `machine`, `folders`."""
        return {**self.look(), "machine": _this_machine(), "folders": self.folders}

    def look(self, name: str = "") -> Members:
        """Return what has that name as `entry`, None where nothing has."""
        with (
            _if_there(),
            self._at(name) as (folder, last),
            looked_at(folder, last, self._denied) as (fd, found),
        ):
            return {"entry": _entry(name, fd, found)}
        return {"entry": None}

    def list(self, name: str = "", after: str = "") -> Members:
        """Return the entries of a folder behind the name `after`, in the order of their bytes, and `after`
        which the next ones come.

        Unfinished files, and what goes meanwhile, are left out.
        """
        with self._at(name) as (folder, last), looked_at(folder, last, self._denied) as (fd, _):
            opened = reopened(fd, os.O_RDONLY | os.O_DIRECTORY)
            try:
                with os.scandir(opened) as found:
                    names = (os.fsencode(entry.name) for entry in found)
                    later = (one for one in names if one > name_bytes(after) and not is_part(one))
                    page = heapq.nsmallest(PAGE + 1, later)
                entries = []
                for one in page[:PAGE]:
                    with contextlib.suppress(InvalidState), looked_at(opened, one) as (inner, looked):
                        entries.append(_entry(wire_name(one), inner, looked))
            finally:
                os.close(opened)
        return {"entries": entries, "after": wire_name(page[PAGE - 1]) if len(page) > PAGE else None}

    def read(self, name: str = "", offset: int = 0, limit: int = PIECE_BYTES) -> Members:
        """Return a piece of a regular file as `data`, and what the file is then.

        Nothing at its end.

        A caller that has seen the same before knows that it is a piece of that file: it is looked at after
        the bytes were read, and a write changes the time before it changes the bytes. (Of writes within one
        tick of the kernel, some milliseconds, it does so once.)
        """
        with self._regular(name) as fd:
            data = os.pread(fd, limit, offset)
            found = os.fstat(fd)
        known = {"size": found.st_size, "mtime_ns": found.st_mtime_ns, "identity": identity_of(found)}
        return {**known, "data": data}

    def digest(self, name: str = "", offset: int = 0, length: int = DIGEST_BYTES, key: str = "") -> Members:
        """Return the SHA-256 of a stretch of a file, how many bytes it really has, and the file's size.

        With a `key` it is the unfinished file of that name, with a size of 0 where there is none; what is
        said of it is on the disk.
        """
        with _if_there() if key else contextlib.nullcontext(), self._regular(name, key) as fd:
            if key and length:
                os.fdatasync(fd)
            sha256, done = _sha256(fd, offset, length)
            return {"size": os.fstat(fd).st_size, "length": done, "sha256": sha256}
        return {"size": 0, "length": 0, "sha256": hashlib.sha256().hexdigest()}

    def write(
        self,
        name: str,
        key: str,
        offset: int = 0,
        data: _Bytes = b"",
        *,
        cut: bool = False,
        seal: _Seal = None,
    ) -> Members:
        """Write a piece of an unfinished file, which is made where there is none; repeated, it does the same.

        Return its `size`. Less than the offset: what lies before the piece is not there, and nothing was
        written.

        With `cut`, what is there from `offset` on goes before. With `seal` it gets its name.
        """
        with self._at(name) as (folder, last):
            if not offset:  # before anything is written, and of a file of one piece only here
                self._check_replaced(folder, last, name)
            fd = self._part(folder, last, key, os.O_CREAT)
            try:
                size = os.fstat(fd).st_size
                if size < offset:
                    return {"size": size}
                if cut and size > offset:
                    os.ftruncate(fd, offset)
                view, at = memoryview(data), offset
                while view:
                    written = os.pwrite(fd, view, at)
                    view, at = view[written:], at + written
                size = os.fstat(fd).st_size
            finally:
                os.close(fd)
            if seal is not None:
                self._place(folder, last, name, key, seal)
            return {"size": size}

    def make(
        self, name: str = "", kind: str = "folder", key: str = "", seal: _Seal = None, target: str = ""
    ) -> Members:
        """Make a folder or link, give an unfinished file its name, or what is there mode and time; return its
        `entry` (`operations.files.FileMake`).

        Only its owner sees into a new folder until it is settled.
        """
        with self._at(name) as (folder, last):
            if kind == "folder" or seal is None:
                self._make_folder(folder, last, name)
            elif kind == "file":
                self._check_replaced(folder, last, name)
                self._place(folder, last, name, key, seal)
            elif kind == "link":
                self._make_link(folder, last, name, target, seal["mtime_ns"])
            else:
                self._settle(folder, last, name, seal["mode"], seal["mtime_ns"])
            with looked_at(folder, last, self._denied) as (fd, found):
                return {"entry": _entry(name, fd, found)}

    def drop(self, name: str, key: str) -> Members:
        """Remove an unfinished file, if there is one."""
        with self._at(name) as (folder, last), contextlib.suppress(FileNotFoundError):
            os.unlink(part_name(last, key), dir_fd=folder)
        return {"done": True}

    def _make_folder(self, folder: int, last: bytes, name: str) -> None:
        """Make a folder, or open one that is there for its owner."""
        self._denied.check_made(folder, last, as_folder=True)
        is_new = False
        with contextlib.suppress(FileExistsError):
            os.mkdir(last, _OPEN, dir_fd=folder)
            is_new = True
        with looked_at(folder, last, self._denied) as (fd, found):
            _check_kind(found, name, "folder")
            path = f"/proc/self/fd/{fd}"
            if is_new:
                _give(path, self._owner)
            if found.st_mode & _OPEN != _OPEN:
                os.chmod(path, stat.S_IMODE(found.st_mode) | _OPEN)

    def _make_link(self, folder: int, last: bytes, name: str, target: str, mtime_ns: int) -> None:
        """Make a symbolic link, in the place of a file or link."""
        self._check_replaced(folder, last, name)
        part = part_name(last, _LINK_KEY)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(part, dir_fd=folder)
        os.symlink(name_bytes(target), part, dir_fd=folder)
        _give(part, self._owner, dir_fd=folder)
        os.utime(part, ns=(mtime_ns, mtime_ns), dir_fd=folder, follow_symlinks=False)
        os.rename(part, last, src_dir_fd=folder, dst_dir_fd=folder)

    def _settle(self, folder: int, last: bytes, name: str, mode: int, mtime_ns: int) -> None:
        """Give a folder or file its permissions and time."""
        with looked_at(folder, last, self._denied) as (fd, found):
            _check_kind(found, name, "file", "folder")
            path, kept, of_place = f"/proc/self/fd/{fd}", _PERMISSIONS, 0
            if stat.S_ISDIR(found.st_mode):
                kept, of_place = _PERMISSIONS | stat.S_ISVTX, found.st_mode & _OF_PLACE
            os.chmod(path, (mode & kept) | of_place)
            os.utime(path, ns=(mtime_ns, mtime_ns))

    def _place(self, folder: int, last: bytes, name: str, key: str, seal: Members) -> None:
        """Give an unfinished file its name, in the place of a file or link: now it is whole.

        Repeated, when it is there already under its name, nothing is done. Without a SHA-256 its stretches
        were compared already.

        Raises:
            InvalidState: `file_changed`: it is not what was meant to be copied; it is removed.
        """
        size, sha256, mtime_ns = seal["size"], seal["sha256"], seal["mtime_ns"]
        try:
            fd = self._part(folder, last, key)
        except FileNotFoundError:
            with looked_at(folder, last, self._denied) as (_, found):
                if (found.st_size, found.st_mtime_ns) == (size, mtime_ns):
                    return
            raise
        part = part_name(last, key)
        try:
            if os.fstat(fd).st_size != size or (sha256 is not None and _sha256(fd, 0, size)[0] != sha256):
                os.unlink(part, dir_fd=folder)
                text = f"{shown_name(name) or 'The file'} did not arrive as it was sent."
                raise InvalidState("file_changed", text)
            _give(fd, self._owner)
            os.utime(fd, ns=(mtime_ns, mtime_ns))
            os.fsync(fd)
            os.fchmod(fd, seal["mode"] & _PERMISSIONS)
            os.rename(part, last, src_dir_fd=folder, dst_dir_fd=folder)
        finally:
            os.close(fd)

    def _part(self, folder: int, last: bytes, key: str, flags: int = 0) -> int:
        """Return an unfinished file, opened.

        What has its name and is none of ours is refused: a FIFO, a file of another user, one with a second
        name.
        """
        flags |= os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        fd = os.open(part_name(last, key), flags, 0o600, dir_fd=folder)
        found = os.fstat(fd)
        # Given away already, where a server was killed before it had renamed it.
        is_own = found.st_uid in {os.geteuid(), *(() if self._owner is None else self._owner[:1])}
        if stat.S_ISREG(found.st_mode) and found.st_nlink == 1 and is_own:
            return fd
        os.close(fd)
        text = "something else has the name of its unfinished file"
        raise InvalidState("file_failed", f"{shown_name(wire_name(last))} cannot be written: {text}.")

    def _check_replaced(self, folder: int, last: bytes, name: str) -> None:
        """Refuse to replace what is neither a file nor a link, or a denied path."""
        self._denied.check_made(folder, last)
        with _if_there(), looked_at(folder, last, self._denied) as (_, found):
            _check_kind(found, name, "file", "link")

    @contextmanager
    def _at(self, name: str) -> Iterator[tuple[int, bytes]]:
        parts = [self._name, *parts_of(name)]
        with _said(name):
            with self._closing:  # while it is open: its number could else become another folder's
                folder = os.dup(self._folder)
            with enter(folder, parts, self._denied) as found:
                yield found

    @contextmanager
    def _regular(self, name: str, key: str = "") -> Iterator[int]:
        """Give a regular file, opened to be read; with a `key` the unfinished one."""
        with self._at(name) as (folder, last):
            kept = part_name(last, key) if key else last
            with looked_at(folder, kept, self._denied) as (path, found):
                _check_kind(found, name, "file")
                fd = reopened(path, os.O_RDONLY)
            try:
                yield fd
            finally:
                os.close(fd)


_METHODS: Mapping[str, Callable[..., Members]] = MappingProxyType(
    {
        "file_look": FileRoot.look,
        "file_list": FileRoot.list,
        "file_read": FileRoot.read,
        "file_digest": FileRoot.digest,
        "file_write": FileRoot.write,
        "file_make": FileRoot.make,
        "file_drop": FileRoot.drop,
    }
)


def _give(made: int | bytes | str, owner: _Owner, *, dir_fd: int | None = None) -> None:
    """Let what was made in another root be its user's.

    Where this server may not give it away, it stays this server's.

    It is a file's descriptor, a descriptor's path, or the name of a link in a folder.
    """
    if owner is not None:
        with contextlib.suppress(PermissionError):
            os.chown(made, *owner, dir_fd=dir_fd, follow_symlinks=dir_fd is None)


@contextmanager
def _said(name: str) -> Iterator[None]:
    """Turn what the operating system refuses into our errors, about that name."""
    try:
        yield
    except OSError as error:
        code = "file_missing" if error.errno in {errno.ENOENT, errno.ENOTDIR} else "file_failed"
        text = f"{shown_name(name)}: {error.strerror or 'it cannot be used'}."
        raise InvalidState(code, text) from error


@contextmanager
def _if_there() -> Iterator[None]:
    """Go on behind the block where what it is about is missing."""
    try:
        yield
    except InvalidState as error:
        if error.code != "file_missing":
            raise


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


def _sha256(fd: int, offset: int, length: int) -> tuple[str, int]:
    """Return the SHA-256 of a stretch of a file, and how many bytes it really has."""
    hashed, done = hashlib.sha256(), 0
    while done < length and (piece := os.pread(fd, min(_HASHED_BYTES, length - done), offset + done)):
        hashed.update(piece)
        done += len(piece)
    return hashed.hexdigest(), done


def _this_machine() -> str:
    """Return which kernel it is whose identities are compared.

    That is one boot: containers share it with their host, and their device and inode numbers are the host's,
    too. Machines that were cloned while they ran share it as well, until they boot: there a folder could be
    taken for its twin.
    """
    return hashlib.sha256(f"{this_boot()}\n".encode()).hexdigest()[:16]
