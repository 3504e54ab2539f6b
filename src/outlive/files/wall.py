"""What no copy reads or writes: `Wall` knows outlive's own folder and files by what they are, whatever name
leads there.

A file is recognized by its device and inode, so links, other mounts and hard links change nothing. Blocking.
"""

import contextlib
import ctypes
import os
import stat
import time
from collections import deque
from collections.abc import Iterator, Sequence

from outlive.core.errors import AccessDenied
from outlive.core.values import dataclass

_Identity = tuple[int, int]

_HINT = "Copy what your programs write; outlive's own files are handled by outlive (`outlive backup`)."
# statfs(2), f_type. What lies there is no file: a link in /proc leads into other processes, and reading may
# do something.
_KERNELS_OWN = frozenset(
    {
        0x9FA0,  # proc
        0x62656572,  # sysfs
        0x64626720,  # debugfs
        0x74726163,  # tracefs
        0x73636673,  # securityfs
        0x63677270,  # cgroup2
        0x27E0EB,  # cgroup
        0x1CD1,  # devpts
        0xDE5E81E4,  # efivarfs
        0xCAFE4A11,  # bpf
    }
)
_MOST_LINKS = 40  # as the kernel follows (path_resolution(7))
# A file system's clock runs behind by a tick of some milliseconds; in this second the folders are looked at
# each time.
_COARSE_NS = 1_000_000_000
_REMEMBERED_S = 60.0  # should a clock be set back
_LIBC = ctypes.CDLL(None, use_errno=True)
_STATFS_BYTES = 256  # struct statfs has 120 on 64-bit machines; its first member, a long, is f_type


class Wall:
    """Refuses outlive's own files, and file systems that are the kernel's."""

    def __init__(self, folders: Sequence[str] = (), files: Sequence[str] = ()) -> None:
        self._folders = tuple(folders)
        self._files = tuple(files)
        self._known_inside = _Inside()
        self._known_device = -1  # the last one that was looked at, and is no kernel's

    def check(self, fd: int, found: os.stat_result, *, parent: int, name: bytes) -> None:
        """Let an opened file or folder pass.

        Args:
            fd: It, opened with O_PATH or otherwise.
            found: What fstat says of it.
            parent: The folder in which it was found, opened,
            name: under this name.

        Raises:
            AccessDenied: `path_refused`.
        """
        if found.st_dev != self._known_device and not stat.S_ISLNK(found.st_mode):
            if _file_system(fd) in _KERNELS_OWN:
                text = f"What lies in {_path_of(fd)} is no file: the kernel makes it up."
                raise AccessDenied("path_refused", text)
            self._known_device = found.st_dev
        if _identity(found) in self._closed():
            raise _refusal()
        self.check_name(parent, name)
        if stat.S_ISREG(found.st_mode) and found.st_nlink > 1 and self._is_linked(found):
            raise _refusal()

    def check_name(self, parent: int, name: bytes) -> None:
        """Let a name pass under which something will be found, or made.

        Raises:
            AccessDenied: `path_refused`: it is a file or folder of outlive's, whether it exists or not.
        """
        for path in (*self._folders, *self._files):
            folder, own = os.path.split(path)
            if os.fsencode(own) == name and _same(folder, parent):
                raise _refusal()

    def check_replaced(self, parent: int, name: bytes) -> None:
        """Let a name pass under which a file or link will be made, in the place of what has it.

        Raises:
            AccessDenied: `path_refused`: the way to what is outlive's leads over this name, so that it would
            lead elsewhere.
        """
        here = _identity(os.fstat(parent))
        for folder in _folders_before(name, (*self._folders, *self._files)):
            with contextlib.suppress(OSError):
                if _identity(os.stat(folder)) == here:
                    raise _refusal()

    def _closed(self) -> set[_Identity]:
        found = set()
        for path in (*self._folders, *self._files):
            with contextlib.suppress(OSError):
                found.add(_identity(os.stat(path)))
        return found

    def _is_linked(self, found: os.stat_result) -> bool:
        """Tell whether a file with several names has one of them in a folder of ours.

        Walking the folders for each piece of each such file would cost more than copying it, so what lies
        there is remembered. A new name changes a file's ctime (link(2)): for one whose ctime is older, what
        is remembered is the truth.
        """
        known = self._known_inside
        age_s = time.monotonic() - known.looked_at
        if found.st_ctime_ns >= known.until_ns or age_s > _REMEMBERED_S:
            known = self._known_inside = _look_inside(self._folders)
        return _identity(found) in known.files


@dataclass(frozen=True, slots=True, kw_only=True)
class _Inside:
    """What lies in folders of ours: right for files whose ctime is before `until_ns`; `looked_at` is
    monotonic, in seconds.
    """

    files: frozenset[_Identity] = frozenset()
    until_ns: int = -(2**63)
    looked_at: float = 0.0


def _look_inside(folders: Sequence[str]) -> _Inside:
    begun_ns, looked_at = time.time_ns(), time.monotonic()
    files: set[_Identity] = set()
    for folder in folders:
        with contextlib.suppress(OSError):
            device = os.stat(folder).st_dev
            files.update((device, inode) for inode in _inodes(folder))
    return _Inside(files=frozenset(files), until_ns=begun_ns - _COARSE_NS, looked_at=looked_at)


def _folders_before(name: bytes, paths: Sequence[str]) -> set[bytes]:
    """Return the folders in which the way along one of these paths leads over that name, as real paths.

    Parts of the links on the way count, too; what is missing ends no way, since it may be made later.
    """
    seen: set[tuple[bytes, bytes]] = set()
    for path in paths:
        folder, parts, links = b"/", deque(os.path.abspath(os.fsencode(path)).split(b"/")), 0
        while parts:
            part = parts.popleft()
            if part in {b"", b"."}:
                continue
            if part == b"..":
                folder = os.path.dirname(folder)
                continue
            seen.add((folder, part))
            try:
                target = os.readlink(os.path.join(folder, part))
            except OSError:
                folder = os.path.join(folder, part)
                continue
            links += 1
            if links > _MOST_LINKS:
                break
            if target.startswith(b"/"):
                folder = b"/"
            parts.extendleft(reversed(target.split(b"/")))
    return {folder for folder, part in seen if part == name}


def _inodes(folder: str) -> Iterator[int]:
    """Yield the inodes of all that is in a folder; what goes meanwhile is left out."""
    waiting = [folder]
    while waiting:
        with contextlib.suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                yield entry.inode()
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)


def _identity(found: os.stat_result) -> _Identity:
    return found.st_dev, found.st_ino


def _same(folder: str, fd: int) -> bool:
    with contextlib.suppress(OSError):
        return _identity(os.stat(folder)) == _identity(os.fstat(fd))
    return False


def _file_system(fd: int) -> int:
    """Return the type of the file system, 0 where the kernel does not say."""
    buffer = ctypes.create_string_buffer(_STATFS_BYTES)
    if _LIBC.fstatfs(fd, buffer) != 0:
        return 0
    # Of the long the lower 32 bits count: the numbers are so large, and some architectures extend their sign.
    return ctypes.c_long.from_buffer(buffer).value & 0xFFFFFFFF


def _path_of(fd: int) -> str:
    with contextlib.suppress(OSError):
        return os.readlink(f"/proc/self/fd/{fd}")
    return "there"


def _refusal() -> AccessDenied:
    return AccessDenied("path_refused", "That is outlive's own: its state, tokens or settings.", hint=_HINT)
