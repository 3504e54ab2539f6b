"""A server in Docker mode, `DockerHouse`, with what waits for its commands."""

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from outlive.client import Client, Process
from tests.extensions.docker.tools import remove_containers
from tests.support.server import OutliveServer

_PATIENCE_S = 60.0


def until(claim: Callable[[], object], *, patience_s: float = _PATIENCE_S) -> None:
    """Wait until something is true."""
    deadline = time.monotonic() + patience_s
    while not claim():
        assert time.monotonic() < deadline, "it did not become true"
        time.sleep(0.02)


def output_of(process: Process) -> tuple[bytes, bytes]:
    """Follow a process to its end, and return all of both streams."""
    found = {"stdout": b"", "stderr": b""}
    with process.follow() as follow:
        for piece in follow:
            found[str(piece.stream)] += piece.data  # type: ignore[union-attr] # nothing was released
    return found["stdout"], found["stderr"]


class DockerHouse:
    """A server in Docker mode with one container, which goes with the test."""

    def __init__(self, folder: Path, host: str, *args: str) -> None:
        """`host` is where the daemon listens."""
        self.workspace = folder / "workspace"
        self.workspace.mkdir()
        self.state = folder / "state"
        self._host = host
        words = ["--backend", "docker", "--image", "outlive-test", "--docker-workspace", str(self.workspace)]
        self.server = OutliveServer(self.state, args=[*words, *args], env={"DOCKER_HOST": host})
        self.client: Client

    def __enter__(self) -> Self:
        """Start."""
        self.server.__enter__()
        self.client = Client(state_dir=str(self.state)).__enter__()
        return self

    def __exit__(self, *_exception: object) -> None:
        """Remove the container."""
        with contextlib.suppress(Exception):  # the test has failed already where this fails
            for info in self.client.list():
                if not info.is_closed:
                    self.client.get(info.process_id).cancel(0)
        try:
            remove_containers(self._host, self.state)
        finally:
            self.client.close()
            self.server.close()

    def start(self, command: str | list[str], **options: Any) -> Process:  # noqa: ANN401 -- the client's
        """Start a command in the workspace."""
        return self.client.start(command, cwd=str(self.workspace), **options)
