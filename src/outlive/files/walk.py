"""From a path to an open folder and a name in it: `find` for what a caller has named, `enter` for what lies
below it. Blocking.

What a caller names may lead over symbolic links, as every path does. Below it none is followed: each part is
opened by itself, without following it, from the folder before it, so that a folder that is swapped for a link
meanwhile leads nowhere (openat(2), O_NOFOLLOW). In a folder where every user may make links (`/tmp`), only
those of this user and of the folder's owner are followed, as the kernel does where it follows them itself.
Every step is shown to the wall. Nothing is opened but as a path (O_PATH) before it is known what it is:
opening a device or a FIFO may do something, or wait.
"""

import errno
import os
import stat
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from outlive.core.errors import InvalidState, OutliveError
from outlive.core.file_words import shown_name, wire_name
from outlive.files.wall import Wall

_PATH = os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW
_FOLDER = _PATH | os.O_DIRECTORY
_MOST_LINKS = 40  # as the kernel follows (path_resolution(7))
SHARED = (
    stat.S_ISVTX | stat.S_IWOTH
)  # of a folder in which every user makes links, and removes their own only


def find(path: bytes, wall: Wall, *, keeps_link: bool, root: int = -1) -> tuple[int, bytes]:
    """Return the folder in which a path's last part lies, opened, and that part's name.

    The name is b"." for the root.

    Args:
        path: An absolute path. The last part need not exist.
        wall: What is refused.
        keeps_link: A link at the end is meant itself, unless it leads to a folder; else what it leads to is
            meant.
        root: A folder, opened, in which the path and absolute links begin, and above which nothing leads;
            below 0 it is `/`.

    Raises:
        AccessDenied: `path_refused`.
        InvalidState: `file_missing`: a part before the last is not there, or is no folder.
        OSError: It cannot be looked at, or leads over a link that another user has made in a folder of all
        users.
    """
    return _walk(_begin(root), _split(path), wall, keeps_link=keeps_link, root=root)


def _walk(folder: int, names: list[bytes], wall: Wall, *, keeps_link: bool, root: int) -> tuple[int, bytes]:
    """Go on from an opened folder, in whose place the one comes that is returned."""
    name, parts, links = b".", deque(names), 0
    try:
        while parts:
            part = parts.popleft()
            if name != b".":
                folder, name = _go_on(folder, name, wall), b"."
            if part == b"..":
                if root < 0 or not os.path.samestat(os.fstat(folder), os.fstat(root)):
                    folder = _moved(folder, os.open(b"..", _FOLDER, dir_fd=folder))
                continue
            target = _link_at(folder, part)
            # A link is followed unless it is the last part and is meant itself.
            if target is not None and (parts or not keeps_link or _is_folder(folder, part, wall, root)):
                links += 1
                _check_count(links)
                target = _followed(folder, part)
                if target.startswith(b"/"):
                    folder = _moved(folder, _begin(root))
                parts.extendleft(reversed(_split(target)))
                continue
            name = part
    except BaseException:
        os.close(folder)
        raise
    return folder, name


def path_of(folder: int, name: bytes) -> bytes:
    """Return the absolute path of what has a name in an opened folder, as it is called at this moment."""
    around = os.readlink(f"/proc/self/fd/{folder}").encode(errors="surrogateescape")
    return around if name == b"." else os.path.join(around, name)


def _check_count(links: int) -> None:
    if links > _MOST_LINKS:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))


def _split(path: bytes) -> list[bytes]:
    return [part for part in path.split(b"/") if part not in {b"", b"."}]


def _moved(old: int, new: int) -> int:
    os.close(old)
    return new


def _go_on(folder: int, name: bytes, wall: Wall) -> int:
    """Return the folder of that name, opened, in the place of the one before it."""
    try:
        new = os.open(name, _FOLDER, dir_fd=folder)
    except (FileNotFoundError, NotADirectoryError):
        raise _missing(name) from None
    try:
        wall.check(new, os.fstat(new), parent=folder, name=name)
    except BaseException:
        os.close(new)
        raise
    return _moved(folder, new)


def _link_at(folder: int, name: bytes) -> bytes | None:
    """Return where a link leads, None where that name is none."""
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError as error:
        # EINVAL: it is no link (readlink(2)). What is missing is found out by the next step.
        if error.errno in {errno.EINVAL, errno.ENOENT}:
            return None
        raise


def _followed(folder: int, name: bytes) -> bytes:
    """Return where a link leads that this user may follow.

    The link is read step by step here, so fs.protected_symlinks (proc(5), proc_sys_fs(5)) does not see it
    followed: the same is decided here, about the link that is read.

    Raises:
        OSError: EACCES: another user has made it in a folder where all users may.
    """
    link = os.open(name, _PATH, dir_fd=folder)
    try:
        owner, around = os.fstat(link).st_uid, os.fstat(folder)
        is_foreign = owner not in {os.geteuid(), around.st_uid}
        if is_foreign and around.st_mode & SHARED == SHARED:
            raise OSError(errno.EACCES, "a link of another user's, in a folder where all may make some")
        return os.readlink(b"", dir_fd=link)
    finally:
        os.close(link)


def _is_folder(folder: int, link: bytes, wall: Wall, root: int) -> bool:
    """Return whether a link leads to a folder."""
    if root < 0:
        try:
            return stat.S_ISDIR(os.stat(link, dir_fd=folder).st_mode)
        except OSError:
            return False
    try:
        around, name = _walk(os.dup(folder), [link], wall, keeps_link=False, root=root)
    except InvalidState:
        return False
    except OSError as error:
        if error.errno == errno.ELOOP:
            return False
        raise
    try:
        return stat.S_ISDIR(os.stat(name, dir_fd=around, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False
    finally:
        os.close(around)


def _begin(root: int) -> int:
    """Return the folder in which absolute paths begin, opened."""
    return os.open("/", _FOLDER) if root < 0 else os.open(b".", _FOLDER, dir_fd=root)


@contextmanager
def opened_again(folder: int) -> Iterator[int]:
    """Give a second descriptor of an opened folder while the block runs."""
    second = os.dup(folder)
    try:
        yield second
    finally:
        os.close(second)


@contextmanager
def enter(folder: int, parts: list[bytes], wall: Wall) -> Iterator[tuple[int, bytes]]:
    """Give the folder in which the last of `parts` lies, opened while the block runs, and its name.

    No link is followed.

    Raises:
        AccessDenied: `path_refused`.
        InvalidState: `file_missing`: a part before the last is not there, or is no folder (any more).
    """
    current, name = os.dup(folder), b"."
    try:
        for part in parts:
            if name != b".":
                current = _go_on(current, name, wall)
            name = part
        yield current, name
    finally:
        os.close(current)


@contextmanager
def looked_at(folder: int, name: bytes, wall: Wall) -> Iterator[tuple[int, os.stat_result]]:
    """Give what has that name, opened as a path, and what it is; a link is not followed.

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
        wall.check(fd, found, parent=folder, name=name)
        yield fd, found
    finally:
        os.close(fd)


def reopened(fd: int, flags: int) -> int:
    """Return a regular file or a folder that was looked at, opened for use: exactly it, whatever has its name
    by now.
    """
    return os.open(f"/proc/self/fd/{fd}", flags | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)


def failure(error: OSError, what: str) -> OutliveError:
    """Return the error for what the operating system says; `what` is text of the wire."""
    reason = error.strerror or "it cannot be used"
    if error.errno in {errno.ENOENT, errno.ENOTDIR}:
        return InvalidState("file_missing", f"{shown_name(what)}: {reason}.")
    return InvalidState("file_failed", f"{shown_name(what)}: {reason}.")


def _missing(name: bytes) -> InvalidState:
    return InvalidState("file_missing", f"There is no {shown_name(wire_name(name))}, or it is no folder.")
