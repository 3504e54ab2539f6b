"""One file that a verb changes for the user: shown as a diff, backed up, replaced in one piece."""

import contextlib
import itertools
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass

from outlive.core.errors import ConfigInvalid

_MAX_BYTES = 64 << 20  # ~/.claude.json grows with every conversation; beyond this it is something else
_MAX_BACKUPS = 20  # that are looked at for what a file was before; older ones are of other days


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """A file as it is (`old`, None where it is missing) and as it is to be (`new`, None to remove it)."""

    path: str
    old: str | None
    new: str | None

    @property
    def is_needed(self) -> bool:
        """Whether there is anything to do."""
        return self.old != self.new

    @property
    def diff(self) -> str:
        """The change as a unified diff; empty when there is none."""
        import difflib  # noqa: PLC0415 -- completion imports this file, and shows no difference

        old, new = ((text or "").splitlines(keepends=True) for text in (self.old, self.new))
        before = "/dev/null" if self.old is None else self.path
        after = "/dev/null" if self.new is None else self.path
        lines = difflib.unified_diff(old, new, before, after)
        return "".join(
            line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
        )

    def apply(self, *, mode: int, is_backed_up: bool = True) -> str | None:
        """Do it, and return the path of the backup (None for a file that was missing).

        The file keeps its mode and owner, a link stays a link; a new one gets `mode`, less the umask. Without a backup
        nothing is kept of the old text: for a file in which there is nothing of the user's.

        Raises:
            ConfigInvalid: The file changed meanwhile, or cannot be written.
        """
        try:
            if read_text(self.path) != self.old:
                raise ConfigInvalid(
                    "config_invalid",
                    f"{self.path} was changed by another program just now.",
                    hint="Try again.",
                )
            backup = _back_up(self.path) if is_backed_up and self.old is not None else None
            if self.new is None:
                os.unlink(self.path)
            else:
                _replace(os.path.realpath(self.path), self.new.encode(), mode=mode)
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
        return backup


def read_text(path: str) -> str | None:
    """Return a file's text with its own line ends; None when it is missing.

    Raises:
        ConfigInvalid: It cannot be read, or is no text.
    """
    try:
        with open(path, "rb") as file:
            raw = file.read(_MAX_BYTES + 1)
        if len(raw) > _MAX_BYTES:
            raise ConfigInvalid("config_invalid", f"{path} is larger than {_MAX_BYTES >> 20} MiB.")
        return raw.decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise ConfigInvalid("config_invalid", f"{path} is no UTF-8 text ({error.reason}).") from None
    except OSError as error:
        raise ConfigInvalid("config_invalid", f"{path} cannot be read: {error.strerror}.") from error


def backup_texts(path: str) -> list[str]:
    """Return what the backups of a file hold, newest first; what cannot be read is left out."""
    texts: list[str] = []
    for backup in _backup_names(path):
        if not os.path.lexists(backup):
            break
        with contextlib.suppress(ConfigInvalid):
            texts.append(read_text(backup) or "")
    return texts[: -_MAX_BACKUPS - 1 : -1]


def _backup_names(path: str) -> Iterator[str]:
    """Yield FILE.bak, FILE.bak.1, FILE.bak.2 and so on."""
    yield f"{path}.bak"
    for number in itertools.count(1):
        yield f"{path}.bak.{number}"


def _back_up(path: str) -> str:
    """Copy the file to the first name of a backup that is free."""
    for backup in _backup_names(path):
        with contextlib.suppress(FileExistsError):
            fd = os.open(backup, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with open(fd, "wb") as copy, open(path, "rb") as file:
                shutil.copyfileobj(file, copy)
                _take_after(copy.fileno(), os.fstat(file.fileno()))
            return backup
    raise AssertionError("there is always another name")


def _replace(path: str, content: bytes, *, mode: int) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    new = f"{path}.outlive-{os.getpid()}"
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with open(fd, "wb") as file:
            with contextlib.suppress(FileNotFoundError):
                _take_after(fd, os.stat(path))
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
