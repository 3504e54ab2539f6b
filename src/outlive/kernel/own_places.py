"""Outlive's own program, package, interpreter and settings inside of folders that a command may write
(decision 220), and the state folders of other servers of our user that it may reach (decision 226).

`other_state_folders` finds those of which a server or a keeper runs, by the sockets that are listened at.
`own_places` finds the names by which the next start of outlive would read or execute something, and
`protection_of` says how they are kept from a command: each is read-only for it, and the folders on the way
there keep their names. The shim does it (`native/shim/confine.h`, `pin`, `protect` and `close`). Blocking.
"""

import contextlib
import os
import re
import shutil
import stat
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence

from outlive.core.layout import Layout
from outlive.core.mounts import PathIdentity, is_within
from outlive.core.values import dataclass, replace
from outlive.kernel.processes import command_line, status_number
from outlive.kernel.socket_tables import bound_paths

_LAYOUT = Layout("")
_SOCKETS = tuple(map(os.fsencode, (_LAYOUT.keeper_socket, _LAYOUT.guardian_socket, _LAYOUT.server_socket)))
_BOUND_BY = re.compile(rb"/proc/([0-9]+)/fd/[0-9]+")  # kernel/sockets.py, for long paths
_ROLES = frozenset({"guardian", "supervisor"})  # before the path in that process's command line
_MOST_LINKS = 40  # as the kernel follows (path_resolution(7))


@dataclass(frozen=True, slots=True)
class OwnPlace:
    """A name that outlive uses: what is there, or a link on the way to it, which might lead elsewhere later.

    `holder` is the same path, or the nearest folder that exists where nothing is there yet.
    """

    path: str
    holder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Protection:
    """What is read-only for a command, what is closed to it, and what keeps its name.

    `obstacle` says which place cannot be protected, "" if all can.
    """

    pinned: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()
    obstacle: str = ""


def own_places(paths: Iterable[str]) -> tuple[OwnPlace, ...]:
    """Return all names on the ways along these paths that count: links, and the ends."""
    return tuple(dict.fromkeys(place for path in paths for place in _names_of(path)))


def protection_of(own: Sequence[OwnPlace], writable: Sequence[str], mounts: PathIdentity) -> Protection:
    """Return how outlive's places are kept from a command that may write to these folders.

    A place is looked for by what it is: a folder that is mounted a second time leads to it by another name.
    The folder of what is not there yet is made, so that it can be read-only.
    """
    pinned: set[str] = set()
    protected: set[str] = set()
    for root in outermost(writable):
        for place in own:
            for seen in mounts.paths_of(place.path, root):
                held = seen if place.path == place.holder else _folder_for(seen)
                if not is_within(held, root):
                    return Protection(obstacle=f"outlive would read {seen!r} if it were there")
                protected.add(held)
                pinned.update(_between(root, held))
    inner = set(outermost(protected))
    for folder in writable:
        for held in inner:
            if is_within(folder, held):
                text = f"it may write to {folder!r}, and outlive's own code or settings are in {held!r}"
                return Protection(obstacle=text)
    return Protection(
        pinned=tuple(path for path in sorted(pinned) if not any(is_within(path, held) for held in inner)),
        protected=tuple(sorted(inner)),
    )


def other_state_folders(own: str) -> dict[str, str]:
    """Return the state folders of our user in which a server or a keeper runs, but for our own.

    Each without links, as `own` is, and as it was named. The kernel names all sockets of this network
    namespace, wherever they are.
    """
    named = {path.rpartition(b"/")[0] for path in bound_paths(_SOCKETS)}
    found = {os.path.realpath(name): name for name in map(_bound_folder, named)}
    return {real: found[real] for real in sorted(found) if real != own and _is_state_folder(real)}


def _bound_folder(name: bytes) -> str:
    """Return the folder that a socket was bound in: of a long path a process of the keeper's names it, in its
    command line.
    """
    by = _BOUND_BY.fullmatch(name)
    if by is None:
        return os.fsdecode(name)
    pid = int(by[1])
    if status_number(pid, b"Uid") != os.getuid():
        return ""  # another user's, whose memory is not to be read: it could make that wait
    words = command_line(pid)
    return next((words[at + 1] for at, word in enumerate(words) if word in _ROLES), "")


def _is_state_folder(path: str) -> bool:
    try:
        about = os.lstat(path)
        return about.st_uid == os.geteuid() and stat.S_ISREG(os.lstat(f"{path}{_LAYOUT.identity}").st_mode)
    except OSError:
        return False


def close_folders(
    known: Protection, folders: Mapping[str, str], writable: Sequence[str], mounts: PathIdentity
) -> Protection:
    """Return a protection that keeps a command out of these folders as well, whatever names they have.

    The names by which they were called lead to them as long as the command runs.
    """
    closed = outermost(sorted({seen for folder in folders for seen in mounts.paths_of(folder, "/")}))
    links = [one.path for one in own_places(folders.values()) if os.path.islink(one.path)]
    ways = {
        above
        for root in writable
        for path in (*closed, *links)
        if is_within(path, root)
        for above in (*_between(root, path), *([path] if path in links else []))
        if not any(is_within(above, held) for held in known.protected)
    }
    return replace(known, pinned=tuple(sorted({*known.pinned, *ways})), closed=closed)


def outermost(folders: Iterable[str]) -> tuple[str, ...]:
    """Return those of some paths that lie in none of the others."""
    named = dict.fromkeys(folders)
    return tuple(
        folder for folder in named if not any(folder != other and is_within(folder, other) for other in named)
    )


def unshare_code() -> None:
    """Give each file of the packages that this process has loaded an inode of its own.

    uv installs by hard links to its cache: what a command writes to another name, in another environment with
    the same package, would be read here. A file is replaced by its copy. A user that may not replace it has
    commands that cannot write it either.
    """
    for path in _loaded():
        with contextlib.suppress(OSError):
            found = os.lstat(path)
            if stat.S_ISREG(found.st_mode) and found.st_nlink > 1:
                copied = f"{path}.{os.getpid()}.new"
                try:
                    shutil.copy2(path, copied)
                    os.chown(copied, found.st_uid, found.st_gid)
                    os.rename(copied, path)
                finally:
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(copied)


def _loaded() -> Iterator[str]:
    """Yield the files of the outermost packages and modules that this process has loaded."""
    for name, module in sys.modules.copy().items():
        path = getattr(module, "__file__", None)
        above = sys.modules.get(name.rpartition(".")[0])
        if path is None or getattr(above, "__file__", None) is not None:
            continue
        if os.path.basename(path) != "__init__.py":
            yield path
            continue
        for folder, _, names in os.walk(os.path.dirname(path)):
            yield from (f"{folder}/{name}" for name in names)


def _folder_for(path: str) -> str:
    """Make the folder of a missing file; return it, or the nearest one if it cannot be made."""
    folder = os.path.dirname(path)
    with contextlib.suppress(OSError):
        os.makedirs(folder, mode=0o700, exist_ok=True)
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    return folder


def _between(root: str, path: str) -> Iterator[str]:
    """Yield the folders below one folder on the way to a path."""
    folder = os.path.dirname(path)
    while is_within(folder, root) and folder != root:
        yield folder
        folder = os.path.dirname(folder)


def _names_of(path: str) -> Iterator[OwnPlace]:
    here, links = "/", 0
    parts = deque(path.split("/"))
    while parts:
        part = parts.popleft()
        if part in {"", "."}:
            continue
        if part == "..":
            here = os.path.dirname(here)
            continue
        name = os.path.join(here, part)
        try:
            target = os.readlink(name)
        except FileNotFoundError:
            yield OwnPlace(os.path.normpath("/".join((name, *parts))), here)
            return
        except OSError:
            here = name
            continue
        yield OwnPlace(name, name)
        links += 1
        if links > _MOST_LINKS:
            return
        if target.startswith("/"):
            here = "/"
        parts.extendleft(reversed(target.split("/")))
    yield OwnPlace(here, here)
