"""How others call this very installation: words for configuration files that go on working from any folder
and after an upgrade.

What changes with an upgrade is what lies inside of an environment: pipx, uv and a new `python -m venv` make
that anew, and a link or a script on the PATH outside of it stays. So that one is preferred where it leads
here.
"""

import os
import shutil
import sys
from collections.abc import Mapping, Sequence

_COMMAND = "outlive"
# Folders whose content any program may remove: uvx and `pipx run` keep environments in the user's cache.
_CACHE_VARIABLES = ("XDG_CACHE_HOME", "UV_CACHE_DIR", "TMPDIR")
_TEMPORARY = ("/tmp", "/var/tmp", "/dev/shm", "/run")  # noqa: S108 -- looked at, not written to


def program_words() -> list[str]:
    """Return the words that run `outlive`, the first one absolute.

    In this order: a link or script of that name on the PATH, outside of every environment, that leads to this
    installation (~/.local/bin/outlive of pipx and `uv tool`); the name by which it was called, and the script
    beside this Python; this Python itself, by a name that has no version in it.
    """
    beside = os.path.join(os.path.dirname(sys.executable), _COMMAND)
    called = os.path.abspath(shutil.which(sys.argv[0]) or sys.argv[0])
    ours = {os.path.realpath(path) for path in (called, beside) if _is_program(path)}
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        path = os.path.join(folder, _COMMAND)
        if (
            os.path.isabs(path)
            and _is_program(path)
            and os.path.realpath(path) in ours
            and not _in_venv(path)
        ):
            return [path]
    for path in (called, beside):
        if _is_program(path):
            return [path]
    return [_unversioned(sys.executable), "-P", "-m", _COMMAND]


def short_lived(path: str, environ: Mapping[str, str]) -> str | None:
    """Return the temporary folder or cache that the path lies in, None where it lies in none."""
    import tempfile  # noqa: PLC0415 -- completion imports this file, and asks nothing of the kind

    home = environ.get("HOME", "")
    folders = [environ.get(name, "") for name in _CACHE_VARIABLES]
    folders += [*_TEMPORARY, tempfile.gettempdir(), f"{home}/.cache" if home else ""]
    real = os.path.realpath(path)
    for folder in folders:
        if folder.startswith("/") and _lies_in((path, real), folder):
            return folder
    return None


def _lies_in(paths: Sequence[str], folder: str) -> bool:
    prefix = folder.rstrip("/") + "/"
    return any(path.startswith(prefix) for path in paths)


def _is_program(path: str) -> bool:
    return os.path.basename(path) == _COMMAND and os.access(path, os.X_OK) and os.path.isfile(path)


def _in_venv(path: str) -> bool:
    return os.path.exists(os.path.join(os.path.dirname(os.path.dirname(path)), "pyvenv.cfg"))


def _unversioned(python: str) -> str:
    """Return python3 or python of the same folder, where that is the same interpreter."""
    for name in ("python3", "python"):
        path = os.path.join(os.path.dirname(python), name)
        if os.path.exists(path) and os.path.samefile(path, python):
            return path
    return python
