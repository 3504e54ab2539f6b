"""Environments beside the one that runs the tests: with its packages, and with another tree of ours or more
packages installed.
"""

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path


class Environment:
    """A virtual environment with the packages of this one; its commands know nothing of the tests."""

    def __init__(self, folder: Path, *, source: Path | None = None) -> None:
        """Make it; with `source` the package `outlive` is found there instead."""
        venv.create(folder, symlinks=True)
        self.python = folder / "bin" / "python"
        packages = Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
        first = "" if source is None else f"import sys; sys.path.insert(0, {str(source)!r})\n"
        theirs = sysconfig.get_path("purelib")
        # `addsitedir` heeds the files there that say where an editable installation lies.
        (packages / "others.pth").write_text(f"{first}import site; site.addsitedir({theirs!r})\n")
        self.variables = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("OUTLIVE_", "PYTHON")) and name != "VIRTUAL_ENV"
        }
        self.variables |= {"OUTLIVE_STATE_DIR": str(folder / "state")}

    def install(self, project: Path) -> None:
        """Install a project, without what it needs, which is here."""
        words = ("-m", "pip", "--python", str(self.python), "install", "--quiet", "--no-index", "--no-deps")
        self._checked(sys.executable, *words, "--no-build-isolation", "--disable-pip-version-check", project)

    def run(self, *words: str | Path, code: int = 0, cwd: str | Path = "/", timeout_s: float = 110) -> str:
        """Return what a command of the environment's Python prints; it has to exit with `code`, and of one
        that is not 0 what it says on stderr is returned.
        """
        return self._checked(self.python, *words, code=code, cwd=cwd, timeout_s=timeout_s)

    def outlive(self, *words: str, code: int = 0) -> str:
        """Return what `outlive` prints."""
        return self.run("-m", "outlive", *words, code=code)

    def _checked(
        self, *words: str | Path, code: int = 0, cwd: str | Path = "/", timeout_s: float = 110
    ) -> str:
        done = subprocess.run(
            [str(word) for word in words],
            env=self.variables,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        assert done.returncode == code, (
            f"{words}: {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
        )
        return done.stdout if code == 0 else done.stderr
