"""Putting a backup into a state folder: `restore`, so that whatever kills it leaves the old state or a folder
that says it is incomplete.

1. All locks of the folder are taken, and held to the end: no server and no keeper lives there, and none can
   begin.
2. The archive is read into `restore.new` inside the folder (a state folder may be a file system of its own,
   which nothing can be renamed into) and checked. Until here the folder is as it was.
3. `restore.incomplete` is written: from now on every program refuses the folder. What lay there moves to
   `restore.old`, what was read to its place, the mark goes, and then `restore.old`.

What lived when the backup was made does not live here: `folder_identity.make_copy` records that before
anything is moved.
"""

import contextlib
import errno
import os
import shutil
from typing import BinaryIO

from outlive.core.errors import ConfigInvalid, LimitExceeded
from outlive.core.identity import is_process_id
from outlive.core.layout import Layout
from outlive.discovery.state_folder import unusable
from outlive.kernel.disk import FULL
from outlive.kernel.failpoints import hit
from outlive.kernel.files import sync_folder
from outlive.kernel.folder_identity import make_copy
from outlive.kernel.locks import holder_of, take_lock
from outlive.store.backup.backup_reader import read_backup
from outlive.store.backup.contents import IDENTITY, KEPT, Contents

_NEW, _OLD = "restore.new", "restore.old"
# What every folder has that was ever looked at: it is nothing that could be lost.
_NOTHING = frozenset({IDENTITY, "retention-clock", "redact.extra", "audit.key"})


def restore(layout: Layout, source: BinaryIO, *, replaces: bool) -> Contents:
    """Make the folder what the archive holds; return that.

    Args:
        layout: The folder, which exists and is this user's.
        source: The archive.
        replaces: Whether what lies there may go.

    Raises:
        ConfigInvalid: `server_running` or `state_folder`: a server or a keeper lives there, or something
        would be lost.
        StoreCorrupt: `store_corrupt`: the archive is no whole backup; the folder is as it was.
        LimitExceeded: `disk_full`: it has no room; the folder is as it was.
    """
    with contextlib.ExitStack() as stack:
        _take_locks(layout, stack)
        if not replaces and not os.path.exists(layout.restore_mark):
            _check_empty(layout)
        # Inside the folder: beside it may be another file system, or a folder that is not ours to write to.
        new = f"{layout.root}/{_NEW}"
        shutil.rmtree(new, ignore_errors=True)  # of one that was killed
        try:
            os.mkdir(new, 0o700)
            contents = read_backup(source, into=new)
            make_copy(Layout(new), layout.root)
            # One call for tens of thousands of small files: each of its own would take milliseconds.
            os.sync()
        except OSError as error:
            shutil.rmtree(new, ignore_errors=True)
            if error.errno in FULL:
                text = f"The backup does not fit into {layout.root}; nothing there has changed."
                raise LimitExceeded("disk_full", text, hint="Make room, and restore again.") from error
            raise unusable(layout.root, error.strerror or type(error).__name__) from error
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise
        hit("restore.read")
        _exchange(layout, new)
    return contents


def _take_locks(layout: Layout, stack: contextlib.ExitStack) -> None:
    """Take every lock, the server's first: a server would start a keeper."""
    for lock, what in (
        (layout.server_lock, "server"),
        (layout.keeper_lock, "keeper"),
        (layout.guardian_lock, "keeper"),
        (layout.supervisor_lock, "keeper"),
    ):
        fd = take_lock(lock)
        if fd is None:
            _refuse(layout, what, holder_of(lock) or 0)
            continue
        stack.callback(os.close, fd)


def _refuse(layout: Layout, what: str, pid: int) -> None:
    text = f"A {what} (pid {pid or 'unknown'}) lives in {layout.root}."
    if what == "server":
        stop = f"End it first: `kill {pid}`" if pid else "End it first"
        hint = (
            f"{stop}, then the keeper: `outlive keeper stop`. Or restore into another folder: "
            "--state-dir FOLDER."
        )
        raise ConfigInvalid("server_running", text, hint=hint, details={"pid": pid})
    hint = (
        "End it first, `outlive keeper stop --kill` with all that runs, or restore into another "
        "folder: --state-dir FOLDER."
    )
    raise ConfigInvalid("state_folder", text, hint=hint, details={"pid": pid})


def _check_empty(layout: Layout) -> None:
    """Refuse a folder with something in it that could be lost."""
    count = sum(map(is_process_id, _names(layout.processes)))
    is_used = any(_has_content(f"{layout.root}/{name}") for name in KEPT if name not in _NOTHING)
    if not is_used:
        return
    held = f"{count} processes" if count != 1 else "one process"
    raise ConfigInvalid(
        "state_folder",
        (
            f"The state folder {layout.root} is not empty: it holds "
            f"{held if count else 'settings or keys of a server'}."
        ),
        hint="--replace removes what is there, or restore into another folder: --state-dir FOLDER.",
        details={"processes": count},
    )


def _has_content(path: str) -> bool:
    return bool(_names(path)) if os.path.isdir(path) else os.path.exists(path) and os.path.getsize(path) > 0


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError as error:
        if error.errno not in {errno.ENOENT, errno.ENOTDIR}:
            raise
        return []


def _exchange(layout: Layout, new: str) -> None:
    """Put what was read in the place of what was there."""
    root, old = layout.root, f"{layout.root}/{_OLD}"
    locks = {layout.server_lock, layout.keeper_lock, layout.guardian_lock, layout.supervisor_lock}
    # The folder says of which format it is all the time: the identity is replaced last.
    stays = {new, old, layout.restore_mark, layout.identity, *locks}
    # On the disk before the first rename: after a power cut a mixture must not be taken for a state folder.
    _write_mark(layout)
    hit("restore.marked")
    # A restore that was killed here has left some of the old state in `restore.old`, and some of what it read
    # in its place.
    os.makedirs(old, mode=0o700, exist_ok=True)
    for name in _names(root):
        path = f"{root}/{name}"
        if path not in stays:
            _remove(f"{old}/{name}")
            os.rename(path, f"{old}/{name}")
    hit("restore.emptied")
    for name in sorted(_names(new), key=IDENTITY.__eq__):
        os.rename(f"{new}/{name}", f"{root}/{name}")
        hit("restore.moved")
    os.rmdir(new)
    sync_folder(root)
    os.unlink(layout.restore_mark)
    sync_folder(root)
    hit("restore.done")
    shutil.rmtree(old, ignore_errors=True)


def _write_mark(layout: Layout) -> None:
    fd = os.open(layout.restore_mark, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.pwrite(
            fd, b"A restore is under way here, or was interrupted: `outlive restore FILE` does it again.\n", 0
        )
        os.fsync(fd)
    finally:
        os.close(fd)
    sync_folder(layout.root)


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
