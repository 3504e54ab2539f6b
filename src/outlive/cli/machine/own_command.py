"""How others call this very installation: for configuration files that must go on working from any folder."""

import os
import shutil
import sys

_COMMAND = "outlive"


def program_words() -> list[str]:
    """Return the words that run `outlive`, the first one absolute.

    As it was called, where that was by its name: a link such as ~/.local/bin/outlive stays right when what it
    points to is installed anew.
    """
    called = os.path.abspath(shutil.which(sys.argv[0]) or sys.argv[0])
    beside = os.path.join(os.path.dirname(sys.executable), _COMMAND)
    for path in (called, beside):
        if os.path.basename(path) == _COMMAND and os.access(path, os.X_OK) and os.path.isfile(path):
            return [path]
    return [sys.executable, "-P", "-m", "outlive"]
