"""The project that a folder belongs to: its repository's root, else the folder itself. Asks the file system.

Short ids, keys and workspaces belong to a project, so that two of them on one server do not see each other's. No program of the keeper needs
it; the server and every client do, and here lies what both may use and what is loaded already.
"""

import os

# What lies in the root folder of a working copy: of git (a file in linked work trees and submodules), Mercurial, Jujutsu, Subversion.
_MARKS = (".git", ".hg", ".jj", ".svn")


def project_root(folder: str) -> str:
    """Return the root of the repository around an absolute folder; the folder itself where there is none.

    The search ends at the home folder, and below the root of the file system: a repository of dotfiles makes the whole home
    folder no project. Blocks for some `lstat` calls a level: a relay and the command line call it once, the server for what a person is asked about.
    """
    # Through links: the same project must have one name, by whichever path its host was opened.
    folder = os.path.realpath(folder)
    home = os.path.realpath(os.path.expanduser("~"))
    place = folder
    while place not in {"/", home}:
        # The innermost one: a submodule or a vendored repository is a project of its own. A dangling link marks one, too.
        if any(os.path.lexists(os.path.join(place, mark)) for mark in _MARKS):
            return place
        place = os.path.dirname(place)
    return folder


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
