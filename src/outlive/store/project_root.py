"""The root of the project that a folder belongs to (`project_root`): its repository's, else the folder itself. Asks the file system."""

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
