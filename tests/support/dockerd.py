"""A Docker daemon of the tests' own, through scripts/docker.sh: started, killed, started again, and ended
with all it started.
"""

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.processes import wait_dead

_SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "docker.sh"


class Dockerd:
    """One daemon; everything that it keeps lies in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.host = f"unix://{folder}/docker.sock"

    @property
    def pid(self) -> int:
        """The daemon's own pid."""
        return int((self.folder / "pid").read_text())

    def start(self) -> None:
        """Start it; returns when it answers."""
        self._run("start")

    def make_images(self) -> None:
        """Make the images of the tests."""
        self._run("images")

    def make_python_image(self) -> None:
        """Make an image with Debian's Python, which needs the packages of this machine."""
        self._run("python")

    async def kill(self) -> None:
        """Kill it, and only it."""
        pid = self.pid
        os.kill(pid, signal.SIGKILL)
        await wait_dead(pid)

    def stop(self) -> None:
        """End it and its containers, and remove the folder."""
        self._run("stop")
        shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self, verb: str) -> None:
        subprocess.run([_SCRIPT, verb, str(self.folder)], check=True, timeout=90, stdin=subprocess.DEVNULL)


def skip_or_fail_without_docker() -> None:
    """Skip a test that needs a daemon of its own where none can be started; fail where one is required."""
    reason = "" if os.geteuid() == 0 else "only root can start a Docker daemon"
    if shutil.which("dockerd") is None:
        reason = "dockerd is not installed (scripts/docker.sh install)"
    if reason and os.environ.get("OUTLIVE_REQUIRE_DOCKER"):
        pytest.fail(reason)
    if reason:
        pytest.skip(reason)
