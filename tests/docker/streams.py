"""Servers whose containers are reached by a stream: `StreamHouse`; `DaemonPort`, a TCP port that leads to a daemon and can be cut."""

import asyncio
import contextlib
import hashlib
import json
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from outlive.client import Client, Process
from tests.docker.tools import remove_containers
from tests.support.processes import is_alive
from tests.support.server import OutliveServer

_PATIENCE_S = 30.0
_PIECE = 65536


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


class DaemonPort:
    """A TCP port on loopback that leads to a daemon's Unix socket."""

    def __init__(self, path: str) -> None:
        """Take the daemon's socket."""
        self._path = path
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self.port = 0
        self.cuts = 0

    @property
    def host(self) -> str:
        """What DOCKER_HOST is to be."""
        return f"tcp://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        """Listen."""
        self._thread.start()
        self._do(self._listen())
        return self

    def __exit__(self, *_exception: object) -> None:
        """Cut everything."""
        self.cut()
        self._do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()

    def cut(self) -> None:
        """Break every connection in its middle; new ones are let through."""
        self.cuts += 1
        self._do(self._cut())

    def _do(self, doing: Any) -> None:  # noqa: ANN401 -- a coroutine
        asyncio.run_coroutine_threadsafe(doing, self._loop).result(10)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _end(self) -> None:
        assert self._server is not None
        self._server.close()
        await self._cut()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _cut(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            there, back = await asyncio.open_unix_connection(self._path)
            self._writers |= {writer, back}
            try:
                async with asyncio.TaskGroup() as both:
                    both.create_task(_pump(reader, back))
                    both.create_task(_pump(there, writer))
            finally:
                self._writers -= {writer, back}


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(_PIECE):
            writer.write(data)
            await writer.drain()
    with contextlib.suppress(OSError):
        writer.close()


class StreamHouse:
    """A server in Docker mode with one container, which goes with the test."""

    def __init__(
        self, folder: Path, host: str, *args: str, unix: str = "", transport: str = "stream"
    ) -> None:
        """`host` is what the server uses, `unix` how the test itself reaches the same daemon."""
        self.workspace = folder / "workspace"
        self.workspace.mkdir()
        self.state = folder / "state"
        self._unix = unix or host
        words = ["--backend", "docker", "--image", "outlive-test", "--docker-workspace", str(self.workspace)]
        words += ["--docker-transport", transport] if transport else []
        self.server = OutliveServer(self.state, args=[*words, *args], env={"DOCKER_HOST": host})
        self.client: Client

    def __enter__(self) -> Self:
        """Start."""
        self.server.__enter__()
        self.client = Client(state_dir=str(self.state)).__enter__()
        return self

    def __exit__(self, *_exception: object) -> None:
        """Remove the container; what stands for it here leaves, too."""
        standing = [pid for folder in self.state.glob("containers/*") for pid in _standing(folder)]
        with contextlib.suppress(Exception):  # the test has failed already where this fails
            for info in self.client.list():
                if not info.is_closed:
                    self.client.get(info.process_id).cancel(0)
        try:
            self.remove_containers()
            until(lambda: not any(is_alive(pid) for pid in standing))
        finally:
            self.client.close()
            self.server.close()

    def start(self, command: str | list[str], **options: Any) -> Process:  # noqa: ANN401 -- the client's
        """Start a command in the workspace."""
        return self.client.start(command, cwd=str(self.workspace), **options)

    def pid(self, what: str) -> int:
        """Return who stands for the container ("init"), or its ferry; 0 when that does not run."""
        [folder] = self.state.glob("containers/*")
        standing = _standing(folder)
        if what == "init":
            return standing[0]
        return standing[1] if len(standing) > 1 else 0

    def container(self) -> str:
        """Return the container's id."""
        [found] = self.state.glob("containers/*/ferry.json")
        return str(json.loads(found.read_text())["container"])

    def remove_containers(self) -> None:
        """Remove them all, with everything that lives in them (blocks)."""
        remove_containers(self._unix, self.state)

    def is_linked(self) -> bool:
        """Whether a stream leads into the container."""
        return any(self.state.glob("containers/*/linked"))

    def kill(self, pid: int) -> None:
        """Kill one process, and only it."""
        assert pid > 1
        os.kill(pid, signal.SIGKILL)


def _standing(folder: Path) -> list[int]:
    """Return who stands for a container, by its folder, and its ferry where that runs."""
    with contextlib.suppress(OSError, ValueError):
        init = int((folder / "init").read_text())
        with contextlib.suppress(OSError):
            for child in Path(f"/proc/{init}/task/{init}/children").read_text().split():
                words = Path(f"/proc/{child}/cmdline").read_bytes()
                if b"outlive.docker_ferry\0" in words.split(b"stand\0")[0]:
                    return [init, int(child)]
        return [init]
    return []


def digest_of_numbers(count: int) -> str:
    """Return the digest of what `seq COUNT` writes."""
    return hashlib.sha256(b"".join(b"%d\n" % number for number in range(1, count + 1))).hexdigest()
