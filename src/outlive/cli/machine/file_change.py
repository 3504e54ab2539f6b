"""One file that a verb changes for the user: shown as a diff, backed up, replaced in one piece.

A file of the user's may be a link, which stays one. A project's files are other people's work: there no link
is followed, neither to read nor to write, and each folder is opened by itself (`files.walk`, decision 224).
"""

import contextlib
import itertools
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from outlive.core.errors import ConfigInvalid, InvalidState
from outlive.core.printable import printable
from outlive.core.values import dataclass
from outlive.files.denied import DeniedPaths
from outlive.files.documents import read_found
from outlive.files.walk import enter

_MAX_BYTES = 64 << 20  # ~/.claude.json grows with every conversation; beyond this it is something else
_NOTHING = DeniedPaths()
_MAX_BACKUPS = 20  # that are looked at for what a file was before; older ones are of other days


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """A file as it is (`old`, None where it is missing) and as it is to be (`new`, None to remove it).

    `project` is the folder that nothing of it may leave; None for a user's file.
    """

    path: str
    old: str | None
    new: str | None
    project: str | None = None

    @property
    def is_needed(self) -> bool:
        """Whether there is anything to do."""
        return self.old != self.new

    @property
    def diff(self) -> str:
        """The change as a unified diff; empty when there is none."""
        import difflib  # noqa: PLC0415 -- completion imports this file, and shows no difference

        old, new = ((text or "").splitlines(keepends=True) for text in (self.old, self.new))
        path = printable(self.path)  # on one line
        before = "/dev/null" if self.old is None else path
        after = "/dev/null" if self.new is None else path
        lines = difflib.unified_diff(old, new, before, after)
        return "".join(
            line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
        )

    def apply(self, *, mode: int, is_backed_up: bool = True) -> str | None:
        """Do it, and return the path of the backup (None for a file that was missing).

        The file keeps its mode and owner, a link stays a link; a new one gets `mode`, less the umask. Without
        a backup nothing is kept of the old text: for a file in which there is nothing of the user's.

        Raises:
            ConfigInvalid: The file changed meanwhile, or cannot be written.
        """
        try:
            if read_text(self.path, self.project) != self.old:
                raise ConfigInvalid(
                    "config_invalid",
                    f"{self.path} was changed by another program just now.",
                    hint="Try again.",
                )
            with _reached(self.path, self.project, makes_folders=True) as (at, link):
                backup = _back_up(at, link) if is_backed_up and self.old is not None else None
                if self.new is None:
                    os.unlink(at)
                else:
                    _replace(at if link else os.path.realpath(at), self.new.encode(), mode=mode)
        except UnicodeEncodeError:
            raise ConfigInvalid(
                "config_invalid",
                f"What belongs into {self.path} is no UTF-8 text.",
                hint="Choose another path.",
            ) from None
        except OSError as error:
            raise ConfigInvalid(
                "config_invalid",
                f"{self.path} cannot be written: {error.strerror}.",
                hint="Look at the owner and the mode of the file and its folder.",
            ) from error
        return None if backup is None else self.path + backup


def read_text(path: str, project: str | None = None) -> str | None:
    """Return a file's text with its own line ends; None when it is missing.

    Raises:
        ConfigInvalid: It cannot be read, or is no text, or a link leads to it in a project.
    """
    try:
        with _reached(path, project) as (at, link):
            return read_found(at, _MAX_BYTES, follows_link=not link).decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise ConfigInvalid("config_invalid", f"{path} is no UTF-8 text ({error.reason}).") from None
    except OSError as error:
        raise ConfigInvalid("config_invalid", f"{path} cannot be read: {error.strerror}.") from error


@contextmanager
def _reached(path: str, project: str | None, *, makes_folders: bool = False) -> Iterator[tuple[str, int]]:
    """Give the path by which a file is opened, and the flag of open(2) against a link at its end.

    Below a project that is a path through the opened folder in which the file lies.

    Raises:
        FileNotFoundError: Its folder is missing.
        ConfigInvalid: The file, or what should be its folder, is a link or something else.
    """
    if project is None:
        if makes_folders:
            os.makedirs(os.path.dirname(os.path.realpath(path)), exist_ok=True)
        yield path, 0
        return
    parts = os.fsencode(os.path.relpath(path, project)).split(b"/")
    root = os.open(project, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for depth in range(1, len(parts)):
            with enter(os.dup(root), parts[:depth], _NOTHING) as (folder, name):
                if makes_folders:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(name, dir_fd=folder)
                os.stat(name, dir_fd=folder, follow_symlinks=False)  # a missing one is no refusal
        with enter(os.dup(root), parts, _NOTHING) as (folder, name):
            at = f"/proc/self/fd/{folder}/{os.fsdecode(name)}"
            if os.path.islink(at):
                raise _leaves(path, project)
            yield at, os.O_NOFOLLOW
    except InvalidState:
        raise _leaves(path, project) from None
    finally:
        os.close(root)


def _leaves(path: str, project: str) -> ConfigInvalid:
    return ConfigInvalid(
        "config_invalid",
        f"{path} is a link, or lies behind one: nothing is read or written that may be outside of {project}.",
        hint="Make it a file of the project's, or change the file that is meant by hand.",
    )


def backup_texts(path: str, project: str | None = None) -> list[str]:
    """Return what the backups of a file hold, newest first; what cannot be read is left out."""
    texts: list[str] = []
    for suffix in _backup_suffixes():
        if not os.path.lexists(path + suffix):
            break
        with contextlib.suppress(ConfigInvalid):
            texts.append(read_text(path + suffix, project) or "")
    return texts[: -_MAX_BACKUPS - 1 : -1]


def _backup_suffixes() -> Iterator[str]:
    """Yield what backups are called behind their file's name: .bak, .bak.1, .bak.2 and so on."""
    yield ".bak"
    for number in itertools.count(1):
        yield f".bak.{number}"


def _back_up(path: str, link: int) -> str:
    """Copy the file to the first name of a backup that is free; return what was added to its own."""
    for suffix in _backup_suffixes():
        with contextlib.suppress(FileExistsError):
            fd = os.open(path + suffix, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            old = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | link)
            with open(fd, "wb") as copy, open(old, "rb") as file:
                shutil.copyfileobj(file, copy)
                _take_after(copy.fileno(), os.fstat(file.fileno()))
            return suffix
    raise AssertionError("there is always another name")


def _replace(path: str, content: bytes, *, mode: int) -> None:
    new = f"{path}.outlive-{os.getpid()}"
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with open(fd, "wb") as file:
            with contextlib.suppress(FileNotFoundError):
                _take_after(fd, os.stat(path, follow_symlinks=False))
            file.write(content)
            file.flush()
            os.fsync(fd)
        os.replace(new, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(new)
        raise


def _take_after(fd: int, old: os.stat_result) -> None:
    """Give a file owner and mode of another one; the owner is only root's to give."""
    if (old.st_uid, old.st_gid) != (os.geteuid(), os.getegid()):
        with contextlib.suppress(PermissionError):
            os.fchown(fd, old.st_uid, old.st_gid)
    os.fchmod(fd, old.st_mode & 0o7777)
