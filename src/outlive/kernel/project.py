"""The project that a folder belongs to: its repository's root, else the folder itself. Asks the file system.

Short ids, keys and workspaces belong to a project, so that two of them on one server do not see each other's.
No program of the keeper needs it; the server and every client do, and here lies what both may use and what is
loaded already.
"""

import os
import stat

# What lies in the root folder of a working copy: of git (a file in linked work trees and submodules),
# Mercurial, Jujutsu, Subversion.
_MARKS = (".git", ".hg", ".jj", ".svn")
_MARK_BYTES = 4096  # one path: PATH_MAX


def project_root(folder: str) -> str:
    """Return the root of the repository around an absolute folder; the folder itself where there is none.

    The search ends at the home folder, and below the root of the file system: a repository of dotfiles makes
    the whole home folder no project. Blocks for some `lstat` calls a level: a relay and the command line call
    it once, the server for what a person is asked about.
    """
    # Through links: the same project must have one name, by whichever path its host was opened.
    folder = os.path.realpath(folder)
    home = os.path.realpath(os.path.expanduser("~"))
    place = folder
    while place not in {"/", home}:
        # The innermost one: a submodule or a vendored repository is a project of its own. A dangling link
        # marks one, too.
        if any(os.path.lexists(os.path.join(place, mark)) for mark in _MARKS):
            return place
        place = os.path.dirname(place)
    return folder


def project_identity(root: str) -> str:
    """Return what tells the project in a folder from every other one that will ever be there.

    Ordinary work changes none of it (commits, branches, pulls, `git gc`); a clone, a copy or a restored
    backup in the same place has another one. Blocks.
    """
    # Start-up time: OpenSSL and ctypes take 2.5 ms, and only the server asks this.
    import hashlib  # noqa: PLC0415

    from outlive.kernel.calls import birth_ns  # noqa: PLC0415

    parts = []
    for path in (root, *(os.path.join(root, mark) for mark in _MARKS)):
        try:
            # An inode's number is given again, even at once, but not with the same time of birth. A device's
            # number may be another one after a boot.
            found = os.stat(path)
            parts.append(f"{found.st_ino} {birth_ns(path)}")
            if stat.S_ISREG(found.st_mode):  # a linked work tree: its file says where the repository is
                with open(path, "rb") as file:
                    parts.append(hashlib.sha256(file.read(_MARK_BYTES)).hexdigest())
        except OSError:
            parts.append("")
    return " ".join(parts)


def own_project() -> str:
    """Return the project of the current folder; `/` where that was removed."""
    return project_root(working_folder())


def host_folder(cwd: str | None) -> str:
    """Return the folder in which an MCP host works: the given one, else our own.

    The home folder for a host that runs in `/`.

    Programs that a desktop starts run in `/`, where no command of a user belongs.
    """
    folder = os.path.abspath(os.path.expanduser(cwd)) if cwd is not None else working_folder()
    return os.path.expanduser("~") if folder == "/" and cwd is None else folder


def home_folder() -> str:
    """Return the user's home; / where it is no folder."""
    home = os.path.expanduser("~")
    return home if os.path.isdir(home) else "/"


def working_folder() -> str:
    """Return the current folder; / where it has no path: it was removed, or its path is too long."""
    try:
        return os.getcwd()
    except OSError:
        return "/"


def own_folder() -> str:
    """Return a path of the current folder; one without a path is found by this process while it lives."""
    try:
        return os.getcwd()
    except OSError:
        return f"/proc/{os.getpid()}/cwd"
