"""Files that no caller reads or writes: `DeniedPaths` knows outlive's own folder and files by what they are,
whatever name leads there.

A file is recognized by its device and inode, so links, other mounts and hard links change nothing. Blocking.
"""

import contextlib
import os
import stat
import time
from collections.abc import Iterator, Sequence

from outlive.core.errors import AccessDenied
from outlive.kernel.calls import file_system_type

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
# A file system's clock runs behind by a tick of some milliseconds; in this second the folders are looked at
# each time.
_COARSE_NS = 1_000_000_000


def identity_of(found: os.stat_result) -> str:
    """Return what a file or folder is called by the kernel that has it: the same under every name, for as
    long as it is there.
    """
    return f"{found.st_dev:x}-{found.st_ino:x}"


class DeniedPaths:
    """Refuses outlive's own files, and file systems that are the kernel's."""

    def __init__(self, own: Sequence[str] = ()) -> None:
        """Take outlive's own folders and files, which need not exist."""
        self._own = tuple(map(os.fsencode, own))
        # The files in our folders: all of those whose ctime is before that number of nanoseconds.
        self._inside: tuple[frozenset[str], int] = frozenset(), -(2**63)
        self._known_device = -1  # the last one that was looked at, and is no kernel's

    def check(self, fd: int, found: os.stat_result) -> None:
        """Let an opened file or folder pass; `found` is what fstat says of it.

        Raises:
            AccessDenied: `path_refused`.
        """
        if found.st_dev != self._known_device and not stat.S_ISLNK(found.st_mode):
            if file_system_type(fd) in _KERNELS_OWN:
                text = (
                    f"What lies in {os.readlink(f'/proc/self/fd/{fd}')} is no file: the kernel makes it up."
                )
                raise AccessDenied("path_refused", text)
            self._known_device = found.st_dev
        if any(identity == identity_of(found) for identity in self._identities()) or self._is_linked(found):
            raise _refusal()

    def check_made(self, parent: int, name: bytes, *, as_folder: bool = False) -> None:
        """Let a name pass in an opened folder under which a file, link or folder will be made.

        Raises:
            AccessDenied: `path_refused`: it is outlive's own, whether it exists or not; or it is a file or
            link over whose name the way to that leads, so that it would lead elsewhere.
        """
        here = identity_of(os.fstat(parent))
        for own in self._own:
            last = os.path.split(own)
            for folder, part in {last} if as_folder else _steps(own, set()):
                with contextlib.suppress(OSError):
                    if part == name and identity_of(os.stat(folder)) == here:
                        raise _refusal()

    def _identities(self) -> Iterator[str]:
        for path in self._own:
            with contextlib.suppress(OSError):
                yield identity_of(os.stat(path))

    def _is_linked(self, found: os.stat_result) -> bool:
        """Tell whether a file with several names has one of them in a folder of ours.

        Walking the folders for each piece of each such file would cost more than copying it, so what lies
        there is remembered. A new name changes a file's ctime (link(2)): for one whose ctime is older, what
        is remembered is the truth.
        """
        if not stat.S_ISREG(found.st_mode) or found.st_nlink < 2:
            return False
        if found.st_ctime_ns >= self._inside[1]:
            begun_ns = time.time_ns()
            self._inside = frozenset(_inside(self._own)), begun_ns - _COARSE_NS
        return identity_of(found) in self._inside[0]


def _steps(path: bytes, seen: set[tuple[bytes, bytes]]) -> set[tuple[bytes, bytes]]:
    """Add to `seen` each folder, as a real path, and the name in it over which the way along a path leads.

    Parts of the links on the way count, too; what is missing ends no way, since it may be made later.
    """
    before, part = os.path.split(path)
    if before != path:
        _steps(before, seen)
    step = os.path.realpath(before), part
    if part not in {b"", b".", b".."} and step not in seen:
        seen.add(step)
        with contextlib.suppress(OSError):
            _steps(os.path.join(step[0], os.readlink(path)), seen)
    return seen


def _inside(folders: Sequence[bytes]) -> Iterator[str]:
    """Yield the identities of all files in these folders; what goes meanwhile is left out."""
    waiting = list(folders)
    while waiting:
        with contextlib.suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                else:
                    with contextlib.suppress(OSError):
                        yield identity_of(entry.stat(follow_symlinks=False))


def _refusal() -> AccessDenied:
    return AccessDenied("path_refused", "That is outlive's own: its state, tokens or settings.", hint=_HINT)
