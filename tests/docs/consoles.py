"""The console blocks of the pages (`$ command`, then what it says), run as a reader would type them."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.docs.pages import blocks

PATIENCE_S = 60.0
_OURS = ("OUTLIVE_", "ALLOWED_COMMANDS", "MAX_BUFFER_SIZE", "MAX_SESSIONS", "MCP_", "TERMINATION_TIMEOUT")


def commands(text: str) -> list[tuple[str, str]]:
    """Return (command, what the page shows of its answer) for every `$` line of the console blocks."""
    found: list[tuple[str, str]] = []
    for block in blocks(text, "console"):
        for part in ("\n" + block).split("\n$ ")[1:]:
            command, _, shown = part.partition("\n")
            found.append((command, shown))
    return found


@dataclass(frozen=True, slots=True)
class Console:
    """A folder to type in, with this Python's scripts first on the PATH."""

    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """The environment without settings of whoever runs the tests."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
        for name in ("ARGS", "MAKEFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "MFLAGS"):
            clean.pop(name, None)  # whoever runs the tests by make: its words are not the reader's
        # Others may serve on this machine: any free port instead of the documented one.
        clean["OUTLIVE_MCP_PORT"] = clean["OUTLIVE_REST_PORT"] = "0"
        return clean | {"PATH": f"{Path(sys.executable).parent}:{clean.get('PATH', os.defpath)}"}

    def run(self, command: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Type a command and wait for its end (blocks)."""
        return subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env=self.environment | env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    @contextmanager
    def server(self, command: str, **env: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
        """Type a command that serves; yield it and its banner once it is ready; press Ctrl-C at the end."""
        said = self.folder / "server.txt"
        with said.open("wb") as file:
            process = subprocess.Popen(
                ["bash", "-c", f"exec {command}"],
                cwd=self.folder,
                env=self.environment | env,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
        try:
            yield process, self._banner(process, said)
        finally:
            if process.poll() is None:
                self.interrupt(process)
            process.wait(PATIENCE_S)

    @staticmethod
    def interrupt(process: subprocess.Popen[bytes]) -> None:
        """Press Ctrl-C: a terminal sends it to everybody there, make and what make has started."""
        os.killpg(process.pid, signal.SIGINT)

    @staticmethod
    def _banner(process: subprocess.Popen[bytes], said: Path) -> str:
        deadline = time.monotonic() + PATIENCE_S
        while "Ctrl-C" not in (text := said.read_text()):  # the banner's last line
            assert process.poll() is None, text
            assert time.monotonic() < deadline, text
            time.sleep(0.05)
        return text
