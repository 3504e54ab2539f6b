"""Starting `outlive serve` in ways that may fail: what it prints, how it ends, how long it takes."""

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.processes import wait_state_folder_empty
from tests.support.server import end_keeper, outlive_command

_PATIENCE_S = 60.0
_OURS = ("OUTLIVE_", "ALLOWED_COMMANDS", "MAX_SESSIONS", "MAX_BUFFER_SIZE", "MCP_", "TERMINATION_TIMEOUT")
_ELSEWHERE = {
    "OUTLIVE_MCP_PORT": "off",
    "OUTLIVE_REST_PORT": "off",
    "OUTLIVE_BRIDGE_PORT": "off",
}  # their numbers are for one server on a machine


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return this process's environment without settings of ours, and with `extra`."""
    return (
        {name: text for name, text in os.environ.items() if not name.startswith(_OURS)}
        | _ELSEWHERE
        | dict(extra or {})
    )


def run(
    *words: str, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command line to its end and return what it said (blocks)."""
    return subprocess.run(
        [*outlive_command(), *words],
        env=environment(env),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_PATIENCE_S,
        check=False,
    )


@dataclass(slots=True)
class Launched:
    """A running server whose stdout and stderr are read by the test."""

    process: subprocess.Popen[str]

    def ready(self) -> dict[str, Any]:
        """Return the ready line (blocks); the rest of stdout must stay empty."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.end(signal.SIGKILL)
        document: dict[str, Any] = json.loads(line)
        return document

    def end(self, number: signal.Signals = signal.SIGINT) -> tuple[int, str, str]:
        """Send a signal; return the exit code and the rest of stdout and stderr (blocks)."""
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=_PATIENCE_S)
        return self.process.returncode, out, err

    def said(self, text: str) -> str:
        """Return stderr up to the line that contains `text` (blocks)."""
        assert self.process.stderr is not None
        lines = []
        for line in self.process.stderr:
            lines.append(line)
            if text in line:
                return "".join(lines)
        raise AssertionError(f"{text!r} was never said: {''.join(lines)}")


@contextlib.contextmanager
def launched(state_dir: Path, *words: str, env: Mapping[str, str] | None = None) -> Iterator[Launched]:
    """Start `outlive serve` on a state folder; in the end nothing of it is left."""
    process = subprocess.Popen(
        [*outlive_command(), "serve", "--state-dir", str(state_dir), *words],
        env=environment(env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        with process:
            try:
                yield Launched(process)
            finally:
                if process.poll() is None:
                    process.kill()
    finally:
        end_keeper(state_dir)
        assert wait_state_folder_empty(state_dir) == {}
