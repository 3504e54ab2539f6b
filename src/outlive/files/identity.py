"""Which folder it is, whatever name or mount leads to it: `identity_of`, `folders_around` and `this_machine`.

Blocking.
"""

import hashlib
import os
import stat
from collections.abc import Iterator

from outlive.kernel.processes import BOOT_ID


def identity_of(found: os.stat_result) -> str:
    """Return what a file or folder is called by the kernel that has it: the same under every name, for as
    long as it is there.
    """
    return f"{found.st_dev:x}-{found.st_ino:x}"


def this_machine() -> str:
    """Return which kernel it is whose identities are compared.

    That is one boot: containers share it with their host, and their device and inode numbers are the host's,
    too. Machines that were cloned while they ran share it as well, until they boot: there a folder could be
    taken for its twin.
    """
    return hashlib.sha256(f"{BOOT_ID}\n".encode()).hexdigest()[:16]


def folders_around(folder: int, name: bytes, root: int) -> list[str]:
    """Return the identities of what has a name in an opened folder, if it is a folder, and of all in which it
    lies, the innermost first.

    Each one is asked where it lies (`..`): no path has to be read, and a mount or link that led here changes
    nothing.

    Args:
        folder: The folder, opened; b"." is its own name.
        name: What is in it, or will be.
        root: The folder above which nothing is looked at, opened; below 0 it is `/`.
    """
    return [identity_of(found) for found in _folders_around(folder, name, root)]


def _folders_around(folder: int, name: bytes, root: int) -> Iterator[os.stat_result]:
    end = os.stat("/") if root < 0 else os.fstat(root)
    current = os.dup(folder)
    try:
        if name != b".":
            try:
                found = os.stat(name, dir_fd=current, follow_symlinks=False)
            except OSError:  # it is not there yet, as a rule
                found = None
            if found is not None and stat.S_ISDIR(found.st_mode):
                yield found
        while True:
            found = os.fstat(current)
            yield found
            if os.path.samestat(found, end):
                return
            try:
                above = os.open(b"..", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=current)
            except OSError:  # this user may not look any further
                return
            is_top = os.path.samestat(os.fstat(above), found)
            os.close(current)
            current = above
            if is_top:
                return
    finally:
        os.close(current)
