"""What a copy of a state folder lets go of: everything that lives, which is the original's. Nothing is signalled or dialled.

Each step may be repeated: whoever was killed in the middle left the folder a copy still (`folder_identity`).
"""

import contextlib
import os
import shutil
import time

from outlive.core.identity import is_process_id
from outlive.core.layout import Layout
from outlive.keeper.common.failpoints import hit
from outlive.keeper.common.files import is_written, write_whole
from outlive.keeper.common.journal import read_journal
from outlive.keeper.common.records import read_end
from outlive.protocols.frames import COPIED, ExitRecord, encode_exit


def let_go(layout: Layout) -> None:
    """Call lost what lived when the copy was made, and remove what leads to the original. The journal goes last."""
    live = read_journal(layout.live)
    # Behind a link lie the original's own folders.
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
    # By `cp -al` these are the original's very files.
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
        shutil.rmtree(layout.containers, ignore_errors=True)
    _remove(layout.live)
    words = f"{layout.root} is a copy: {len(live)} processes live in the original, and are lost here\n"
    with (
        contextlib.suppress(OSError),
        open(layout.keeper_log, "a", encoding="utf-8", errors="replace") as file,
    ):
        file.write(words)


def _call_lost(folder: str) -> None:
    """Write how it ended, unless that is known, and remove the socket: a hard link leads to the original's shim."""
    if not os.path.isdir(folder):
        return
    _remove(f"{folder}/sock")
    if read_end(folder) is None and not is_written(f"{folder}/done"):
        ended = ExitRecord(kind="lost", number=0, ended_ns=time.time_ns(), note=COPIED)
        with contextlib.suppress(OSError):  # a full disk: without it, it is lost all the same
            write_whole(f"{folder}/exit", encode_exit(ended))


def _followed(layout: Layout) -> list[str]:
    """Return the processes of nodes that were followed, and follow them no more: the original does."""
    found = []
    for node in _names(layout.nodes):
        for name in filter(is_process_id, _names(f"{layout.nodes}/{node}/live")):
            found.append(name)
            _remove(f"{layout.nodes}/{node}/live/{name}")
    return found


def _set_waiting_aside(layout: Layout) -> None:
    """Start nothing twice: what waits here for its turn or an approval waits in the original, or ran there since."""
    for name in filter(is_process_id, _names(layout.waiting)):
        os.rename(f"{layout.waiting}/{name}", f"{layout.waiting}/{name}{Layout.ASIDE}")


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
