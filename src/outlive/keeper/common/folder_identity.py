"""Whether a state folder is the original or a copy (`claim_folder`), and what a copy gives up (`let_go`).

The file `identity` has one line: a random id, the device and inode of the folder in which it was made, the boot id, and the
label of the folder's containers. A folder that has another inode now is a copy (`cp -a`, a restored backup, a `mv` to
another file system): the processes that its journal calls live are the original's. The copy takes a new identity, after
`let_go` has given up whatever belongs to the original. A `mv` within a file system keeps the inode; a bind mount and a
symbolic link lead to the same one.

A folder of a version that wrote no identity is taken for an original: what runs in it is taken over.

In a copy nothing is signalled and no socket is connected to: both would reach the original. Each step may be repeated: if
the process is killed in between, the folder still counts as a copy, and the next process begins anew.
"""

import contextlib
import fcntl
import os
import time

from outlive.core.identity import is_process_id
from outlive.core.layout import Layout
from outlive.keeper.common.files import is_written, read_end, read_journal, read_small, write_whole
from outlive.keeper.common.locks import holder_of
from outlive.keeper.common.spawn import hit
from outlive.protocols.frames import COPIED, ExitRecord, decode_identity, encode_exit, encode_identity


def let_go(layout: Layout) -> None:
    """Record as lost what lived when the copy was made, and remove what leads to the original. The journal goes last."""
    live = read_journal(layout.live)
    # Behind a symbolic link lie the original's own folders: they must not be changed.
    if not os.path.islink(layout.processes):
        for process_id in [*live, *_followed(layout)]:
            _call_lost(layout.process(process_id))
    hit("identity.lost")
    _set_waiting_aside(layout)
    for path in (
        layout.keeper_socket,
        layout.guardian_socket,
        layout.server_socket,
        layout.server_ports,
        layout.service,
    ):
        _remove(path)
    # After `cp -al` these are hard links to the original's own files: writing to them would write to the original.
    index = (layout.registry, f"{layout.registry}-wal", f"{layout.registry}-shm")
    for path in (
        layout.supervisor_lock,
        layout.supervisor_pid,
        layout.guardian_lock,
        layout.keeper_lock,
        layout.server_lock,
        *index,
    ):
        if _has_other_names(path):
            _remove(path)
    if not os.path.islink(layout.containers):
        import shutil  # noqa: PLC0415 -- start-up time: all compressors come with it, and copies are rare

        shutil.rmtree(layout.containers, ignore_errors=True)
    # Last, because it lists what is to be done: a kill before this line lets the next process begin anew.
    _remove(layout.live)
    words = f"{layout.root} is a copy: {len(live)} processes live in the original, and are lost here\n"
    with (
        contextlib.suppress(OSError),
        open(layout.keeper_log, "a", encoding="utf-8", errors="replace") as file,
    ):
        file.write(words)


def make_copy(staged: Layout, root: str) -> None:
    """Make of what was restored into `staged` a copy that stands in the folder `root`, into which it is moved afterwards.

    An identity that came out of a backup may be that of `root` itself: then nothing else would show that the processes which lived
    when the backup was made do not live here.
    """
    from outlive.keeper.common.kernel import BOOT_ID  # noqa: PLC0415 - loads ctypes, see `_claim`

    let_go(staged)
    about = os.stat(root)
    name = os.urandom(_ID_BYTES).hex()
    write_whole(staged.identity, encode_identity(name, about.st_dev, about.st_ino, BOOT_ID, name))


def _call_lost(folder: str) -> None:
    """Record the end as lost, unless an end is known, and remove the socket: a hard link leads to the original's shim."""
    if not os.path.isdir(folder):
        return
    _remove(f"{folder}/sock")
    if read_end(folder) is None and not is_written(f"{folder}/done"):
        ended = ExitRecord(kind="lost", number=0, ended_ns=time.time_ns(), note=COPIED)
        with contextlib.suppress(OSError):  # a full disk: without a record it counts as lost all the same
            write_whole(f"{folder}/exit", encode_exit(ended))


def _followed(layout: Layout) -> list[str]:
    """Return the processes on nodes that were followed, and stop following them: the original does that."""
    found = []
    for node in _names(layout.nodes):
        for name in filter(is_process_id, _names(f"{layout.nodes}/{node}/live")):
            found.append(name)
            _remove(f"{layout.nodes}/{node}/live/{name}")
    return found


def _set_waiting_aside(layout: Layout) -> None:
    """Start nothing twice: what waits here for its turn or an approval also waits in the original, or has run there."""
    for name in filter(is_process_id, _names(layout.waiting)):
        os.rename(f"{layout.waiting}/{name}", f"{layout.waiting}/{name}{Layout.ASIDE}")
    # The original's server goes on with its services.
    for name in _names(layout.services):
        if not name.endswith(Layout.ASIDE):
            os.rename(f"{layout.services}/{name}", f"{layout.services}/{name}{Layout.ASIDE}")
    _remove(layout.server_wanted)
    # The original stays the node that it is: two machines with one credential would push each other out.
    for name in _names(layout.gateways):
        _remove(f"{layout.gateways}/{name}")
    with contextlib.suppress(OSError):
        os.rmdir(layout.gateways)


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _has_other_names(path: str) -> bool:
    try:
        return os.lstat(path).st_nlink > 1
    except OSError:
        return False


def _remove(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


_ID_BYTES = 16  # random: two folders never get the same id


def claim_folder(layout: Layout) -> None:
    """Return when the folder has an identity of its own; a process calls this before it uses a state folder.

    A folder that has one costs three system calls. If the caller is killed at any point, the next caller does it again;
    several callers at once do it one after the other.

    Raises:
        OSError: The folder is missing; or it is a copy, and its new identity cannot be written (a full disk).
    """
    folder = os.open(layout.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if _stands_in(folder, _read(layout)):
            return
        # The folder itself is locked: the lock files in a copy may be hard links to the original's (cp -al).
        fcntl.flock(folder, fcntl.LOCK_EX)
        # Read again: another process may have claimed the folder while this one waited for the lock.
        known = _read(layout)
        if not _stands_in(folder, known):
            _claim(layout, folder, known)
    finally:
        os.close(folder)


def _is_same_folder(folder: int, path: str) -> bool:
    """Return whether the path leads to an open folder."""
    try:
        found, held = os.stat(path), os.fstat(folder)
    except OSError:
        return False
    return (found.st_dev, found.st_ino) == (held.st_dev, held.st_ino)


def moved_to(folder: int) -> str | None:
    """Return the present path of an open folder; None when it was deleted, or its path is not visible from here."""
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
    # Imported here because it loads ctypes, which a process that finds an identity never needs.
    from outlive.keeper.common.kernel import BOOT_ID  # noqa: PLC0415 - as above

    about = os.fstat(folder)
    name = os.urandom(_ID_BYTES).hex()
    base = name
    if known is None:
        # Made by an earlier version, which labelled containers with the path.
        if os.path.isdir(layout.processes):
            base = os.path.realpath(layout.root)
    elif known[2] == about.st_ino and known[3] != BOOT_ID:
        # The same folder after a boot: devices may get other numbers then, and no process has survived.
        name, base = known[0], known[4]
    elif _is_served(layout):
        return  # its supervisor runs, so this is the original, whatever file was put into it
    else:
        let_go(layout)
        hit("identity.let_go")
    words = encode_identity(name, about.st_dev, about.st_ino, BOOT_ID, base)
    # A first identity may fail to be written (full disk); a copy's may not, or the copy would count as the original.
    with contextlib.suppress(OSError) if known is None else contextlib.nullcontext():
        write_whole(layout.identity, words)
    hit("identity.written")


def _is_served(layout: Layout) -> bool:
    """Return whether a supervisor holds this folder's lock: a file of its own, not a hard link to another folder's."""
    try:
        return os.stat(layout.supervisor_lock).st_nlink == 1 and holder_of(layout.supervisor_lock) is not None
    except OSError:
        return False
