"""The project that a folder belongs to: its repository's root, else the folder itself. Asks the file system.

Short ids, keys and workspaces belong to a project, so that two of them on one server do not see each other's.
"""

import os

from outlive.store.project_root import project_root


def own_project() -> str:
    """Return the project of the current folder; `/` where that was removed."""
    return project_root(_own_folder())


def host_folder(cwd: str | None) -> str:
    """Return the folder in which an MCP host works: the given one, else our own; the home folder for a host that runs in `/`.

    Programs that a desktop starts run in `/`, where no command of a user belongs.
    """
    folder = os.path.abspath(os.path.expanduser(cwd)) if cwd is not None else _own_folder()
    return os.path.expanduser("~") if folder == "/" and cwd is None else folder


def _own_folder() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:  # it was removed under the host
        return "/"
