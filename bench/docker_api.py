"""A Docker daemon as a contestant: what its own `exec` costs, asked over its socket without any client's
overhead.
"""

import http.client
import json
import os
import shutil
import socket
import statistics
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from bench.measure import Unavailable

IMAGE = "outlive-test"
_TIMEOUT_S = 60


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("docker", timeout=_TIMEOUT_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(_TIMEOUT_S)
        self.sock.connect(self._path)


class Daemon:
    """One daemon, by its socket. All methods block."""

    def __init__(self, socket_path: str) -> None:
        self._path = socket_path

    @property
    def host(self) -> str:
        """What DOCKER_HOST says for it."""
        return f"unix://{self._path}"

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, bytes]:
        """Send one request and return status and body.

        Raises:
            OSError: Nobody answers.
        """
        connection = _UnixConnection(self._path)
        try:
            text = None if body is None else json.dumps(body)
            connection.request(method, path, text, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def containers_of(self, workspace: Path) -> list[str]:
        """Return the ids of the containers in which a folder is mounted."""
        filters = quote(json.dumps({"volume": [str(workspace)]}))
        found: list[dict[str, Any]] = json.loads(
            self.ask("GET", f"/containers/json?all=1&filters={filters}")[1]
        )
        return [str(container["Id"]) for container in found]

    def remove_all_of(self, workspace: Path) -> None:
        """Remove those containers with all that runs in them."""
        for container in self.containers_of(workspace):
            self.ask("DELETE", f"/containers/{container}?force=1&v=1")

    def time_exec(self, container: str, command: Sequence[str], *, count: int) -> float:
        """Return the median seconds from asking for a command to its end and exit code.

        Raises:
            RuntimeError: It ended with another code than 0.
        """
        times = []
        for _ in range(count):
            began = time.perf_counter()
            wanted = {"Cmd": list(command), "AttachStdout": True, "AttachStderr": True}
            made = json.loads(self.ask("POST", f"/containers/{container}/exec", wanted)[1])
            self.ask("POST", f"/exec/{made['Id']}/start", {"Detach": False, "Tty": False})
            ended = json.loads(self.ask("GET", f"/exec/{made['Id']}/json")[1])
            times.append(time.perf_counter() - began)
            if ended["ExitCode"] != 0:
                raise RuntimeError(f"docker exec: {command!r} ended with {ended['ExitCode']}")
        return statistics.median(times)

    def time_program(self, container: str, command: Sequence[str], *, count: int) -> float | None:
        """Return the same for the `docker` program; None where it is not installed."""
        program = shutil.which("docker")
        if program is None:
            return None
        times = []
        for _ in range(count):
            began = time.perf_counter()
            subprocess.run([program, "-H", self.host, "exec", container, *command], check=True)
            times.append(time.perf_counter() - began)
        return statistics.median(times)


def find_daemon() -> Daemon:
    """Return the daemon of OUTLIVE_TEST_DOCKER_HOST or DOCKER_HOST, or this machine's own.

    Raises:
        Unavailable: It does not answer, or has not the tests' image.
    """
    host = (
        os.environ.get("OUTLIVE_TEST_DOCKER_HOST")
        or os.environ.get("DOCKER_HOST")
        or "unix:///var/run/docker.sock"
    )
    if not host.startswith("unix://"):
        raise Unavailable(f"the daemon is not on this machine: {host}")
    daemon = Daemon(host.removeprefix("unix://"))
    try:
        status, _ = daemon.ask("GET", f"/images/{IMAGE}/json")
    except (OSError, http.client.HTTPException) as error:
        raise Unavailable(f"no Docker daemon answers at {host} ({error})") from error
    if status != http.client.OK:
        raise Unavailable(f"the daemon has no image {IMAGE} (scripts/docker.sh images FOLDER)")
    return daemon
