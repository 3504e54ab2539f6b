"""A keeper that belongs to an ordinary user, for a test that runs as root."""

import functools
import os
import shutil
import site
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import outlive
from outlive.core.layout import Layout
from outlive.keeper.common.spawn import SHIM_VARIABLE, keeper_environment
from outlive.kernel import sockets
from tests.keeper.client import until
from tests.keeper.house import House, shim_program
from tests.support.run_mark import open_folder_of_run

NOBODY = 65534
# For a Python with a copy of the keeper's source alone: its folder and the state folder are the arguments.
ENSURE = (
    "import sys; sys.path.insert(0, sys.argv[1]); from outlive.keeper.common.launch import "
    "ensure_keeper; ensure_keeper(sys.argv[2], deadline_s=20.0, find_program=str)"
)
SYSTEM_PYTHON = "/usr/bin/python3"  # one that everybody may run
_SETPRIV = shutil.which("setpriv") or ""
CAN_BECOME = bool(os.geteuid() == 0 and _SETPRIV and os.path.exists(SYSTEM_PYTHON))


def as_nobody(*words: str) -> list[str]:
    """Return the words that run others as an ordinary user."""
    user = str(NOBODY)
    return [_SETPRIV, "--reuid", user, "--regid", user, "--clear-groups", *words]


@functools.cache
def ordinary_outlive() -> list[str]:
    """Return the words that run outlive as an ordinary user, by the system's Python and this environment's
    packages.

    Empty where that user cannot reach them, or they are of another version of Python.
    """
    paths = [*site.getsitepackages(), str(Path(outlive.__file__).parents[1])]
    code = f"import sys; sys.path[:0] = {paths!r}; from outlive.cli.main import main; main()"
    words = as_nobody(SYSTEM_PYTHON, "-I", "-B", "-c", code)
    tried = CAN_BECOME and subprocess.run([*words, "--version"], cwd="/", capture_output=True, check=False)
    return words if tried and tried.returncode == 0 else []


def own_folder(path: Path) -> Path:
    """Make a folder of an ordinary user's."""
    path.mkdir(mode=0o700)
    os.chown(path, NOBODY, NOBODY)
    return path


@contextmanager
def open_folder() -> Iterator[Path]:
    """Yield a folder that everybody may enter: pytest's own are closed to others."""
    folder = open_folder_of_run()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class OrdinaryHouse(House):
    """A house whose keeper is an ordinary user's: it runs a copy of the keeper's source, which that user may
    read.
    """

    def __init__(self, folder: Path, *, env: dict[str, str] | None = None) -> None:
        super().__init__(folder / "state")
        self._source = folder / "src" / "outlive"
        self._more = env or {}
        for name in ("core", "keeper", "kernel", "protocols"):
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(Path(outlive.__file__).parent / name, self._source / name, ignore=ignored)
        shutil.copy(outlive.__file__, self._source)
        self.state_dir.mkdir(mode=0o700)
        os.chown(self.state_dir, NOBODY, NOBODY)
        self._program = str(shutil.copy(shim_program(), folder / "program"))
        Path(self._program).chmod(0o755)

    def ensure(self) -> None:
        """Start the keeper as that user if it is not served."""
        layout = Layout(str(self.state_dir))

        def is_served() -> bool:
            try:
                sockets.connect_unix(layout.keeper_socket).close()
            except OSError:
                return False
            return True

        if is_served():
            return
        env = keeper_environment() | {SHIM_VARIABLE: self._program, **self._more}
        words = (SYSTEM_PYTHON, "-S", "-s", "-P", "-c", ENSURE, str(self._source.parent), str(self.state_dir))
        subprocess.run(as_nobody(*words), env=env, check=True, timeout=60, cwd="/")
        until(is_served, "the ordinary user's keeper")
