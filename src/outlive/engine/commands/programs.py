"""What the file system says about programs and folders, as the shell would ask it. Blocking: run it in a thread."""

import os
import stat

from outlive.core.errors import StartFailed
from outlive.policy.commands import ProgramFile

_MAX_LINKS = 40  # as the kernel follows (path_resolution(7))


def check_folder(cwd: str) -> str:
    """Return `cwd` when it is a folder that can be entered.

    Raises:
        StartFailed: `cwd_missing`, `permission_denied`.
    """
    if not os.path.isdir(cwd):
        what = "is not a folder" if os.path.exists(cwd) else "does not exist"
        raise StartFailed("cwd_missing", f"The working folder {cwd!r} {what}.", details={"cwd": cwd})
    if not os.access(cwd, os.X_OK):
        raise StartFailed(
            "permission_denied",
            f"The working folder {cwd!r} may not be entered.",
            hint="Choose another cwd or change the folder's mode.",
            details={"cwd": cwd},
        )
    return cwd


def find_program(name: str, *, path: str, cwd: str) -> str:
    """Return the absolute path of a program: `name` itself when it has a slash, else the first match in `path`.

    As execvp(3): a file that may not be executed is remembered while the search goes on; empty and relative
    entries of `path` begin in `cwd`.

    Raises:
        StartFailed: `not_found`, `permission_denied`.
    """
    folders = [""] if "/" in name else path.split(":")
    is_forbidden = False
    for folder in folders:
        candidate = os.path.join(cwd, folder, name)
        try:
            mode = os.stat(candidate).st_mode
        except PermissionError:
            is_forbidden = True
            continue
        except (OSError, ValueError):
            continue
        if stat.S_ISREG(mode) and os.access(candidate, os.X_OK):
            return candidate
        is_forbidden = True
    if is_forbidden:
        raise StartFailed(
            "permission_denied",
            f"{name!r} is there, but this user may not execute it.",
            hint="Make it executable (chmod +x), or run it through its interpreter.",
            details={"program": name},
        )
    raise StartFailed("not_found", f"No program {name!r} was found.", details={"program": name})


def look_up(word: str, *, path: str, cwd: str, own_path: str) -> ProgramFile | None:
    """Return the file that a program's name or path leads to, with every link on the way; None where there is none.

    `own_path` is the server's PATH: only its absolute folders count for `is_own`.
    """
    try:
        found = find_program(word, path=path, cwd=cwd)
        state = os.stat(found)
    except (StartFailed, OSError):
        return None
    identity = (state.st_dev, state.st_ino)
    paths = [_settled(found)]
    while len(paths) <= _MAX_LINKS:
        try:
            target = os.readlink(paths[-1])
        except OSError:  # no link: the file itself
            break
        paths.append(_settled(os.path.join(os.path.dirname(paths[-1]), target)))
    return ProgramFile(
        paths=tuple(paths),
        identity=identity,
        is_own=_identity_of(word.rpartition("/")[2], own_path) == identity,
    )


def _settled(path: str) -> str:
    """Return a path whose folder has no links in it; its last part may be one."""
    folder, name = os.path.split(path)
    return os.path.join(os.path.realpath(folder), name)


def _identity_of(name: str, own_path: str) -> tuple[int, int] | None:
    folders = ":".join(folder for folder in own_path.split(":") if folder.startswith("/"))
    try:
        state = os.stat(find_program(name, path=folders or "/nonexistent", cwd="/"))
    except (StartFailed, OSError):
        return None
    return state.st_dev, state.st_ino
