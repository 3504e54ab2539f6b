"""What the file system says about programs and folders, as the shell would ask it. Blocking: run it in a thread."""

import os
import stat

from outlive.core.errors import StartFailed

__all__ = ["check_folder", "find_program"]


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
