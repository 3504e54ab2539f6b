"""From a path to an open folder and a name in it: `find` for what a caller has named, `enter` for what lies
below it, `folders_around` for the way up. Blocking.

What a caller names may lead over symbolic links, as every path does. Below it none is followed: each part is
opened by itself, without following it, from the folder before it, so that a folder that is swapped for a link
meanwhile leads nowhere (openat(2), O_NOFOLLOW). In a folder where every user may make links (`/tmp`), only
those of this user and of the folder's owner are followed, as the kernel does where it follows them itself.
Every step is checked. Nothing is opened but as a path (O_PATH) before it is known what it is:
opening a device or a FIFO may do something, or wait.
"""

import contextlib
import os
import stat
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from outlive.core.errors import InvalidState
from outlive.core.file_words import shown_name, wire_name
from outlive.files.denied import DeniedPaths, identity_of

_PATH = os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW
_FOLDER = _PATH | os.O_DIRECTORY
_MOST_LINKS = 40  # as the kernel follows (path_resolution(7))
SHARED = (
    stat.S_ISVTX | stat.S_IWOTH
)  # of a folder in which every user makes links, and removes their own only


def find(path: bytes, denied: DeniedPaths, *, keeps_link: bool, root: int = -1) -> tuple[int, bytes]:
    """Return the folder in which a path's last part lies, opened, and that part's name.

    The name is b"." for the root.

    Args:
        path: An absolute path. The last part need not exist.
        denied: What is refused.
        keeps_link: A link at the end is meant itself, unless it leads to a folder; else what it leads to is
            meant.
        root: A folder, opened, in which the path and absolute links begin, and above which nothing leads;
            below 0 it is `/`.

    Raises:
        AccessDenied: `path_refused`.
        InvalidState: `file_missing`: a part before the last is not there, or is no folder; `file_failed`: it
            leads over a link that another user has made in a folder of all users.
        OSError: It cannot be looked at.
    """
    folder, name, parts, links = _begin(root), b".", deque(_split(path)), 0
    with contextlib.ExitStack() as stack:
        stack.callback(lambda: os.close(folder))
        link: tuple[int, bytes] | None = None  # at the end: its folder, and its name
        try:
            while parts:
                part = parts.popleft()
                if name != b".":
                    folder, name = _go_on(folder, name, denied), b"."
                if part == b"..":
                    if root < 0 or not os.path.samestat(os.fstat(folder), os.fstat(root)):
                        folder = _moved(folder, os.open(b"..", _FOLDER, dir_fd=folder))
                    continue
                target = _link_at(folder, part)
                if target is None:
                    name = part
                    continue
                if keeps_link and not parts and link is None:
                    link = os.dup(folder), part
                    stack.callback(os.close, link[0])
                links += 1
                if links > _MOST_LINKS:
                    raise _missing(part)
                if target.startswith(b"/"):
                    folder = _moved(folder, _begin(root))
                parts.extendleft(reversed(_split(target)))
            is_meant = link is None or _is_folder(folder, name)
        except InvalidState as error:
            if link is None or error.code != "file_missing":
                raise
            is_meant = False
        if link is None or is_meant:
            return os.dup(folder), name
        return os.dup(link[0]), link[1]


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
    top = "" if root < 0 else identity_of(os.fstat(root))
    found = []
    if name != b"." and _is_folder(folder, name):
        found.append(identity_of(os.stat(name, dir_fd=folder, follow_symlinks=False)))
    below, current = "", os.dup(folder)
    try:
        while (here := identity_of(os.fstat(current))) != below:  # what lies above `/` is itself
            found.append(here)
            if here == top:
                break
            below, current = here, _moved(current, os.open(b"..", _FOLDER, dir_fd=current))
    except (PermissionError, FileNotFoundError):  # this user may not look any further, or it was removed
        pass
    finally:
        os.close(current)
    return found


def path_of(folder: int, name: bytes) -> bytes:
    """Return the absolute path of what has a name in an opened folder, as it is called at this moment."""
    around = os.readlink(f"/proc/self/fd/{folder}").encode(errors="surrogateescape")
    return around if name == b"." else os.path.join(around, name)


def _split(path: bytes) -> list[bytes]:
    return [part for part in path.split(b"/") if part not in {b"", b"."}]


def _moved(old: int, new: int) -> int:
    os.close(old)
    return new


def _go_on(folder: int, name: bytes, denied: DeniedPaths) -> int:
    """Return the folder of that name, opened, in the place of the one before it."""
    try:
        new = os.open(name, _FOLDER, dir_fd=folder)
    except (FileNotFoundError, NotADirectoryError):
        raise _missing(name) from None
    try:
        denied.check(new, os.fstat(new))
    except BaseException:
        os.close(new)
        raise
    return _moved(folder, new)


def _link_at(folder: int, name: bytes) -> bytes | None:
    """Return where a link leads that this user may follow, None where that name is none.

    The link is read step by step here, so fs.protected_symlinks (proc(5), proc_sys_fs(5)) does not see it
    followed: the same is decided here, about the link that is read.

    Raises:
        InvalidState: `file_failed`: another user has made it in a folder where all users may.
    """
    try:
        link = os.open(name, _PATH, dir_fd=folder)
    except FileNotFoundError:  # the next step says so
        return None
    try:
        found, around = os.fstat(link), os.fstat(folder)
        if not stat.S_ISLNK(found.st_mode):
            return None
        is_foreign = found.st_uid not in {os.geteuid(), around.st_uid}
        if is_foreign and around.st_mode & SHARED == SHARED:
            text = "It leads over a link of another user's, in a folder where all may make some."
            raise InvalidState("file_failed", text)
        return os.readlink(b"", dir_fd=link)
    finally:
        os.close(link)


def _is_folder(folder: int, name: bytes) -> bool:
    try:
        return stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


def _begin(root: int) -> int:
    """Return the folder in which absolute paths begin, opened."""
    return os.open("/", _FOLDER) if root < 0 else os.open(b".", _FOLDER, dir_fd=root)


@contextmanager
def enter(folder: int, parts: list[bytes], denied: DeniedPaths) -> Iterator[tuple[int, bytes]]:
    """Give the folder in which the last of `parts` lies, opened while the block runs, and its name.

    No link is followed. The descriptor that it begins with is closed.

    Raises:
        AccessDenied: `path_refused`.
        InvalidState: `file_missing`: a part before the last is not there, or is no folder (any more).
    """
    current, name = folder, b"."
    try:
        for part in parts:
            if name != b".":
                current = _go_on(current, name, denied)
            name = part
        yield current, name
    finally:
        os.close(current)


@contextmanager
def looked_at(
    folder: int, name: bytes, denied: DeniedPaths | None = None
) -> Iterator[tuple[int, os.stat_result]]:
    """Give what has that name, opened as a path, and what it is; a link is not followed.

    Without `denied` it is shown only, and nothing of its content.

    Raises:
        AccessDenied: `path_refused`.
        InvalidState: `file_missing`.
    """
    try:
        fd = os.open(name, _PATH, dir_fd=folder)
    except FileNotFoundError:
        raise _missing(name) from None
    try:
        found = os.fstat(fd)
        if denied is not None:
            denied.check(fd, found)
        yield fd, found
    finally:
        os.close(fd)


def reopened(fd: int, flags: int) -> int:
    """Return a regular file or a folder that was looked at, opened for use: exactly it, whatever has its name
    by now.
    """
    return os.open(f"/proc/self/fd/{fd}", flags | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)


def _missing(name: bytes) -> InvalidState:
    return InvalidState("file_missing", f"There is no {shown_name(wire_name(name))}, or it is no folder.")
