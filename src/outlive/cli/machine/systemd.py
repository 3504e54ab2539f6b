"""Asking systemd: `systemctl` of one scope, with an answer that says what to do by hand where there is none."""

import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence

from outlive.cli.machine.units import Scope
from outlive.core.errors import BackendUnavailable, StartFailed

_PATIENCE_S = 120.0  # longer than a unit's start may take (90 s)
_BOOTED = "/run/systemd/system"  # sd_booted(3)
_PROPERTIES = ("LoadState", "ActiveState", "SubState", "UnitFileState", "MainPID")


class Systemd:
    """The service manager of this machine, or of this user."""

    def __init__(self, scope: Scope) -> None:
        """Take the scope; nothing is asked yet."""
        self._words = ["systemctl", "--user"] if scope == "user" else ["systemctl"]
        self._scope = scope

    def absence(self) -> str | None:
        """Return why systemd cannot be asked here, None when it can."""
        if shutil.which("systemctl") is None:
            return "There is no systemctl on this machine"
        if not os.path.isdir(_BOOTED):
            return "This machine was not started by systemd"
        if self._scope == "user" and not os.environ.get("XDG_RUNTIME_DIR"):
            return "There is no systemd of this user here (XDG_RUNTIME_DIR is not set)"
        return None

    def typed(self, words: Sequence[str]) -> str:
        """Return a call as one would type it."""
        return shlex.join([*self._words, *words])

    def call(self, words: Sequence[str]) -> str:
        """Run systemctl with these words and return what it said.

        Raises:
            StartFailed: It failed; the message holds what it said.
            BackendUnavailable: `timeout`, it did not answer.
        """
        try:
            done = subprocess.run(
                [*self._words, *words],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_PATIENCE_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise BackendUnavailable("timeout", f"`{self.typed(words)}` did not answer: {error}.") from error
        if done.returncode:
            said = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
            raise StartFailed(
                "start_failed",
                f"`{self.typed(words)}` failed: {said}",
                hint=f"See {self.typed(['status', 'outlive', 'outlive-keeper'])}.",
            )
        return done.stdout

    def unit(self, name: str) -> Mapping[str, str]:
        """Return LoadState, ActiveState, SubState, UnitFileState and MainPID of a unit.

        Raises:
            OutliveError: As `call` does.
        """
        said = self.call(["show", name, f"--property={','.join(_PROPERTIES)}"])
        found = dict(line.partition("=")[::2] for line in said.splitlines())
        return {name: found.get(name, "") for name in _PROPERTIES}
