"""Whether a state folder is the one that was made here, or a copy of it: `claim_folder`.

The file `identity` has one line: a random id, the device and the inode of the folder it was made in, the boot, and what its
containers are labelled with. A folder that lies under another inode is a copy (`cp -a`, a restored backup, a `mv` to another
file system): what its journal calls live is the original's. It takes a new identity, after `folder_copy` has let go of that.
A `mv` within a file system keeps the inode, and a bind mount and a symbolic link lead to it.

A folder of before there were identities is taken for an original: what runs in it is taken over.
"""

import contextlib
import fcntl
import os

from outlive.core.layout import Layout
from outlive.keeper.common.failpoints import hit
from outlive.keeper.common.files import read_small, write_whole
from outlive.keeper.common.locks import holder_of
from outlive.protocols.frames import decode_identity, encode_identity

_ID_BYTES = 16


def claim_folder(layout: Layout) -> None:
    """Return when the folder has an identity of its own; whoever is about to use one calls this first.

    A folder that has one costs three system calls. Killed at any point, it is done again by the next who calls; by several at
    once, one after the other.

    Raises:
        OSError: The folder is missing; or it is a copy, and its new identity cannot be written (a full disk).
    """
    folder = os.open(layout.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if _stands_in(folder, _read(layout)):
            return
        # On the folder itself: lock files in a copy may be hard links to the original's (cp -al).
        fcntl.flock(folder, fcntl.LOCK_EX)
        known = _read(layout)
        if not _stands_in(folder, known):
            _claim(layout, folder, known)
    finally:
        os.close(folder)


def _is_same_folder(folder: int, path: str) -> bool:
    """Tell whether the path leads to an open folder."""
    try:
        found, held = os.stat(path), os.fstat(folder)
    except OSError:
        return False
    return (found.st_dev, found.st_ino) == (held.st_dev, held.st_ino)


def moved_to(folder: int) -> str | None:
    """Return where an open folder lies now; None when it was deleted, or its place cannot be told from here."""
    if os.fstat(folder).st_nlink == 0:
        return None
    try:
        path = os.readlink(f"/proc/self/fd/{folder}")
    except OSError:
        return None
    return path if _is_same_folder(folder, path) else None


def _read(layout: Layout) -> tuple[str, int, int, str, str] | None:
    raw = read_small(layout.identity)
    return None if raw is None else decode_identity(raw)


def _stands_in(folder: int, known: tuple[str, int, int, str, str] | None) -> bool:
    about = os.fstat(folder)
    return known is not None and known[1:3] == (about.st_dev, about.st_ino)


def _claim(layout: Layout, folder: int, known: tuple[str, int, int, str, str] | None) -> None:
    from outlive.keeper.common.kernel import BOOT_ID  # noqa: PLC0415 - it loads ctypes; who looks only never gets here

    about = os.fstat(folder)
    name = os.urandom(_ID_BYTES).hex()
    base = name
    if known is None:
        if os.path.isdir(layout.processes):  # of an earlier version, which labelled containers so
            base = os.path.realpath(layout.root)
    elif (
        known[2] == about.st_ino and known[3] != BOOT_ID
    ):  # devices get other numbers at a boot, and nothing lives
        name, base = known[0], known[4]
    elif _is_served(layout):
        return  # its keeper runs, and this is its folder, whatever was put into it
    else:
        from outlive.keeper.common.folder_copy import let_go  # noqa: PLC0415 - hardly ever needed

        let_go(layout)
        hit("identity.let_go")
    words = encode_identity(name, about.st_dev, about.st_ino, BOOT_ID, base)
    with contextlib.suppress(OSError) if known is None else contextlib.nullcontext():
        write_whole(layout.identity, words)
    hit("identity.written")


def _is_served(layout: Layout) -> bool:
    """Tell whether a supervisor holds this folder's lock: a file of its own, and no hard link to another folder's."""
    try:
        return os.stat(layout.supervisor_lock).st_nlink == 1 and holder_of(layout.supervisor_lock) is not None
    except OSError:
        return False
