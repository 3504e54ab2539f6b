"""A keeper whose commands are all started by a runner: `ContainedHouse`."""

import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Self, Unpack

from outlive.core.identity import ProcessId
from outlive.core.spec import Spec
from tests.keeper.client import until
from tests.keeper.house import House, Options
from tests.support.processes import end

__all__ = ["CONTAINER", "ContainedHouse"]

CONTAINER = "session-0123456789abcdef"


class ContainedHouse(House):
    """A house with one container, which is none: its runner is a process beside the keeper."""

    def __init__(self, state_dir: Path, *, runner: Path, env: Mapping[str, str] | None = None) -> None:
        """Describe; `runner` is the program."""
        super().__init__(state_dir, env=env)
        self._program = runner
        self._runner: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        """Start the runner, the keeper, and connect."""
        socket = Path(self.layout.runner_socket(CONTAINER))
        socket.parent.mkdir(parents=True)
        self.state_dir.chmod(0o700)
        words = [
            str(self._program),
            "serve",
            "--any-peer",
            socket.name,
        ]  # the whole path may be longer than sockets take
        self._runner = subprocess.Popen(words, cwd=socket.parent, env={}, stdin=subprocess.DEVNULL)
        Path(self.layout.container(CONTAINER), "init").write_text(f"{self._runner.pid}\n")
        until(socket.exists, "the runner to listen")
        return super().__enter__()

    def __exit__(self, kind: type[BaseException] | None, *exception: object) -> None:
        """End the keeper, then the runner: nothing may be left."""
        try:
            self.end()
        finally:
            if self._runner is not None:
                end(self._runner.pid)
                self._runner.wait()
            super().__exit__(kind, *exception)

    def spec(self, *argv: str, **options: Unpack[Options]) -> tuple[ProcessId, Spec]:
        """Return an id and the spec of a command that runs in the container."""
        process_id, spec = super().spec(*argv, **options)
        return process_id, replace(spec, container=CONTAINER)
