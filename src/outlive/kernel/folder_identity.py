"""Which state folder this is, and of which format: the file `identity`, which every process checks before it
uses the folder.

Its one line has the number of the format (`outlive.FORMAT`: of all files, and of what keeper, shims and
server say to each other), the version of outlive that made it, a random id, the device and inode of the
folder in which it was made, and the boot id. It is the first file of a folder, on the disk before any other
is made: so a folder with files and without it is of another format, and is refused like one with another
number.

A folder that has another inode now is a copy (`cp -a`, a restored backup, a `mv` to another file system): the
processes that its journal calls live are the original's. The copy takes a new identity, after `let_go` has
given up whatever belongs to the original. A `mv` within a file system keeps the inode; a bind mount and a
symbolic link lead to the same one.

In a copy nothing is signalled and no socket is connected to: both would reach the original. Each step may be
repeated: if the process is killed in between, the folder still counts as a copy, and the next process begins
anew.
"""

import contextlib
import fcntl
import os
import time

from outlive import FORMAT, __version__
from outlive.core.errors import ConfigInvalid
from outlive.core.identity import is_process_id
from outlive.core.layout import VARIABLE, Layout
from outlive.kernel.failpoints import hit
from outlive.kernel.files import is_written, read_head, sync_file, sync_folder, write_prepared, write_whole
from outlive.kernel.locks import holder_of
from outlive.kernel.processes import this_boot
from outlive.kernel.state_files import read_end, read_journal
from outlive.protocols.frames import COPIED, ExitRecord, decode_identity, encode_exit, encode_identity


def let_go(layout: Layout) -> None:
    """Record as lost what lived when the copy was made, and remove what leads to the original.

    The journal goes last.
    """
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
    # After `cp -al` these are hard links to the original's own files: writing to them would write to the
    # original.
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
    # Without a journal the folders would be asked what lives.
    write_whole(layout.live, b"#\n")
    words = f"{layout.root} is a copy: {len(live)} processes live in the original, and are lost here\n"
    with (
        contextlib.suppress(OSError),
        open(layout.keeper_log, "a", encoding="utf-8", errors="replace") as file,
    ):
        file.write(words)


def make_copy(staged: Layout, root: str) -> None:
    """Make of what was restored into `staged` a copy that stands in the folder `root`, into which it is moved
    afterwards.

    An identity that came out of a backup may be that of `root` itself: then nothing else would show that the
    processes which lived when the backup was made do not live here.
    """
    let_go(staged)
    _Identity.new(os.stat(root)).write(staged)


def _call_lost(folder: str) -> None:
    """Record the end as lost, unless an end is known, and remove the socket: a hard link leads to the
    original's shim.
    """
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
    """Start nothing twice: what waits here for its turn or an approval also waits in the original, or has run
    there.
    """
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


class _Identity:
    """What the file says, once its format is known to be ours."""

    __slots__ = ("boot", "device", "inode", "name")

    def __init__(self, name: str, device: int, inode: int, boot: str) -> None:
        self.name = name
        self.device = device
        self.inode = inode
        self.boot = boot

    @classmethod
    def new(cls, folder: os.stat_result) -> "_Identity":
        """Return one for a folder that stands where it is now; two folders never get the same id."""
        return cls(os.urandom(16).hex(), folder.st_dev, folder.st_ino, this_boot())

    def stands_in(self, folder: os.stat_result) -> bool:
        """Return whether the folder is the one that this was made for."""
        return (self.device, self.inode) == (folder.st_dev, folder.st_ino)

    def write(self, layout: Layout) -> None:
        """Replace the file.

        It is on the disk when this returns, so that nothing else is there without it after a power cut.
        """
        unfinished = layout.identity + _UNFINISHED
        write_prepared(unfinished, encode_identity(self.name, self.device, self.inode, self.boot))
        sync_file(unfinished)
        hit("identity.prepared")
        os.rename(unfinished, layout.identity)
        sync_folder(layout.root)


_UNFINISHED = ".new"
# What may be in a folder that is not begun yet: an identity of which a power cut has left the name alone, and
# what belongs to a file system. Hidden files are none of ours.
_IN_EMPTY_FOLDERS = frozenset({"identity", f"identity{_UNFINISHED}", "lost+found"})


def check_format(layout: Layout) -> None:
    """Return if this program can use the folder: it is of our format, or empty, or missing. Changes nothing.

    Raises:
        ConfigInvalid: `state_format`: it is of another format.
        OSError: It cannot be read.
    """
    with contextlib.suppress(FileNotFoundError):
        _read(layout)


def claim_folder(layout: Layout, *, begins: bool = True) -> str:
    """Return the folder's random id, once it has one of its own.

    A process calls this before it uses a state folder.

    A folder that has one costs three system calls. If the caller is killed at any point, the next caller does
    it again; several callers at once do it one after the other. With `begins` False an empty folder is left
    so, and the id is "".

    Raises:
        ConfigInvalid: `state_format`: the folder is of another format; nothing in it was changed.
        OSError: The folder is missing, or cannot be read; or its new identity cannot be written (a full
        disk).
    """
    folder = os.open(layout.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        about, known = os.fstat(folder), _read(layout)
        if known is None and not begins:
            return ""
        if known is None or not known.stands_in(about):
            # The folder itself is locked: the lock files in a copy may be hard links to the original's (cp
            # -al).
            fcntl.flock(folder, fcntl.LOCK_EX)
            # Read again: another process may have claimed the folder while this one waited for the lock.
            known = _read(layout)
            if known is None or not known.stands_in(about):
                known = _claim(layout, about, known)
        return known.name
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
    """Return the present path of an open folder; None when it was deleted, or its path is not visible from
    here.
    """
    if os.fstat(folder).st_nlink == 0:
        return None
    try:
        path = os.readlink(f"/proc/self/fd/{folder}")
    except OSError:
        return None
    return path if _is_same_folder(folder, path) else None


def _read(layout: Layout) -> _Identity | None:
    """Return what the file says; None where the folder is not begun yet.

    Raises:
        ConfigInvalid: `state_format`: it is of another format.
        OSError: The folder, or the file, cannot be read.
    """
    raw = _content(layout)
    if not raw:
        if all(name in _IN_EMPTY_FOLDERS or name.startswith(".") for name in os.listdir(layout.root)):
            return None
        # Another process may have begun the folder between both looks: it makes this file first.
        raw = _content(layout)
    known = decode_identity(raw)
    if known is None:
        raise _another_format(layout.root, raw.decode(errors="replace").split())
    return _Identity(*known)


def _content(layout: Layout) -> bytes:
    try:
        return read_head(layout.identity)
    except FileNotFoundError:
        return b""


def _another_format(root: str, words: list[str]) -> ConfigInvalid:
    import shlex  # noqa: PLC0415 -- it loads `re`, and every shim that is forked would have that in memory

    # Of a damaged file nothing is quoted.
    is_whole = len(words) > 1 and all(word.isascii() and word.isprintable() for word in words)
    if is_whole and words[0].isdigit() and words[0] != str(FORMAT):
        text = (
            f"The state folder {root} is of format {words[0]}, made by outlive {words[1]}: outlive "
            f"{__version__} uses format {FORMAT}."
        )
        way = f"Use outlive {words[1]} for it"
    else:
        text = (
            f"The state folder {root} holds files, but does not say of which format: outlive "
            f"{__version__} uses format {FORMAT}."
        )
        way = "If it is outlive's, use the version that made it"
    moved = f"{root.rstrip('/')}.old"
    hint = (
        f"{way}, move it away (`mv {shlex.quote(root)} {shlex.quote(moved)}`), or name another "
        f"folder: {VARIABLE}=/path."
    )
    return ConfigInvalid("state_format", text, hint=hint)


def _claim(layout: Layout, folder: os.stat_result, known: _Identity | None) -> _Identity:
    made = _Identity.new(folder)
    if known is None:
        pass
    elif known.inode == folder.st_ino and known.boot != made.boot:
        # The same folder after a boot: devices may get other numbers then, and no process has survived.
        made.name = known.name
    elif _is_served(layout):
        return known  # its supervisor runs, so this is the original, whatever file was put into it
    else:
        let_go(layout)
        hit("identity.let_go")
    made.write(layout)
    hit("identity.written")
    return made


def _is_served(layout: Layout) -> bool:
    """Return whether a supervisor holds this folder's lock: a file of its own, not a hard link to another
    folder's.
    """
    try:
        return os.stat(layout.supervisor_lock).st_nlink == 1 and holder_of(layout.supervisor_lock) is not None
    except OSError:
        return False
