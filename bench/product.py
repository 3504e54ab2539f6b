"""Our own server as a contestant: started on a state folder of its own, ended with its keeper."""

import importlib.util
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.context import Bench, clean_environment
from bench.docker_api import IMAGE
from bench.measure import Unavailable
from bench.servers import Endpoint

PATH = "/ws/mcp"
_MCP_PATH = "/mcp"
_ANY_PORTS = tuple(word for door in ("jsonrpc", "mcp", "rest", "bridge") for word in (f"--{door}-port", "0"))
_READY_S = 30
_STOP_S = 20


@dataclass(frozen=True, slots=True)
class Installation:
    """How to call the program, on which state folder; the log of what it says goes beside that."""

    command: tuple[str, ...]
    state_dir: Path

    def spawn(self, *words: str, **env: str) -> subprocess.Popen[str]:
        """Start `outlive serve` with these words and variables; its standard output is a pipe."""
        with open(self.state_dir.with_suffix(".log"), "a") as log:
            return subprocess.Popen(
                [*self.command, "serve", "--print-json", "--state-dir", str(self.state_dir), *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env={**self._environment(), **env},
                cwd=self.state_dir.parent,
            )

    def run(self, *words: str) -> None:
        """Run a command as `outlive run` does.

        A server and a keeper are started if there is none, and stay.
        """
        subprocess.run(
            [*self.command, "run", "--", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**self._environment(), "OUTLIVE_STATE_DIR": str(self.state_dir)},
            cwd=self.state_dir.parent,
            timeout=60,
            check=True,
        )

    def told(self, *words: str, given: str = "") -> str:
        """Run one verb on the state folder, with `given` as its standard input, and return what it prints."""
        done = subprocess.run(
            [*self.command, *words, "--state-dir", str(self.state_dir)],
            capture_output=True,
            text=True,
            timeout=60,
            env=self._environment(),
            input=given,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"outlive {' '.join(words[:2])}: {done.stderr.strip()}")
        return done.stdout

    def keeper(self, *words: str) -> str:
        """Run one `outlive keeper` verb and return what it prints."""
        return self.told("keeper", *words)

    def keeper_pids(self) -> dict[str, int]:
        """The pids of supervisor and guardian."""
        status: dict[str, Any] = json.loads(self.keeper("status", "--json"))
        return {name: int(status[name]["pid"]) for name in ("supervisor", "guardian")}

    def stop(self, server: subprocess.Popen[str]) -> None:
        """End the server, then the keeper and everything it keeps."""
        keepers = {}
        with suppress(RuntimeError, ValueError, KeyError, TypeError):
            keepers = self.keeper_pids()
        self.stop_server(server)
        with suppress(RuntimeError, subprocess.TimeoutExpired):
            self.keeper("stop", "--kill")
        # The guardian first: it would start the supervisor again.
        for name in ("guardian", "supervisor"):
            if name in keepers:
                _end(keepers[name])

    def stop_server(self, server: subprocess.Popen[str]) -> None:
        """End the server only; the keeper stays."""
        server.terminate()
        try:
            server.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
        if server.stdout is not None:
            server.stdout.close()

    def _environment(self) -> dict[str, str]:
        # Nobody's own settings, and room for clients that were here a moment ago and may come back.
        config = str(self.state_dir.parent / "config")
        return clean_environment(XDG_CONFIG_HOME=config, MAX_SESSIONS="1000")


def _end(pid: int) -> None:
    """Wait for a process to be gone; kill it when it stays."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        if not select.select([descriptor], [], [], 5)[0]:
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            select.select([descriptor], [], [], 5)
    finally:
        os.close(descriptor)


def find_installation(state_dir: Path) -> Installation:
    """The program that belongs to this Python.

    Raises:
        Unavailable: There is none.
    """
    script = Path(sys.executable).parent / "outlive"
    if script.exists():
        return Installation((str(script),), state_dir)
    if importlib.util.find_spec("outlive") and importlib.util.find_spec("outlive.__main__"):
        return Installation((sys.executable, "-m", "outlive"), state_dir)
    raise Unavailable(f"outlive is not installed for {sys.executable} (make setup)")


def _await_ready(server: subprocess.Popen[str], log: Path) -> dict[str, Any]:
    assert server.stdout is not None
    if select.select([server.stdout], [], [], _READY_S)[0] and (line := server.stdout.readline()):
        ready: dict[str, Any] = json.loads(line)
        return ready
    raise RuntimeError(f"outlive serve did not get ready: {log.read_text()[-2000:].strip()}")


@contextmanager
def outlive(bench: Bench) -> Iterator[Endpoint]:
    """A fresh server with a fresh keeper on an empty state folder.

    Raises:
        Unavailable: outlive is not installed for this Python.
    """
    with _served(bench) as (_, ports, pids):
        yield Endpoint("ours", ports["jsonrpc"], PATH, "jsonrpc", pids)


@contextmanager
def outlive_containers(bench: Bench, *, host: str, words: Sequence[str]) -> Iterator[Endpoint]:
    """The same, with Docker mode at the daemon `host`; `words` say more about its containers.

    Raises:
        Unavailable: outlive is not installed for this Python.
    """
    with _served(bench, "--image", IMAGE, *words, DOCKER_HOST=host) as (_, ports, pids):
        yield Endpoint("ours", ports["jsonrpc"], PATH, "jsonrpc", pids)


@contextmanager
def outlive_mcp(bench: Bench) -> Iterator[Endpoint]:
    """The same, reached by its MCP door.

    Raises:
        Unavailable: outlive is not installed for this Python.
    """
    with _served(bench) as (_, ports, pids):
        yield Endpoint("ours", ports["mcp"], _MCP_PATH, "mcp", pids)


@contextmanager
def outlive_rest(bench: Bench) -> Iterator[Endpoint]:
    """The same, reached by its REST door (which, like every port, answers for all of them).

    Raises:
        Unavailable: outlive is not installed for this Python.
    """
    with _served(bench) as (_, ports, pids):
        yield Endpoint("ours", ports["rest"], "/health", "rest", pids)


@contextmanager
def outlive_installed(bench: Bench) -> Iterator[Installation]:
    """The same, for who calls the program: its state folder has a running server.

    Raises:
        Unavailable: outlive is not installed for this Python.
    """
    with _served(bench) as (installation, _, _):
        yield installation


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Two servers of this machine: commands of `near` that need something run on `far`, its node of that
    name.
    """

    near: Endpoint
    far: Endpoint
    add: Callable[[str, int], None]  # another name for the node, at another port of this machine

    @property
    def pids(self) -> list[int]:
        """The pids of servers and keepers of both."""
        return [*self.near.pids.values(), *self.far.pids.values()]


@contextmanager
def outlive_fleet(bench: Bench) -> Iterator[Fleet]:
    """A fresh server with another one as its node; its own machine takes no command that needs something.

    Raises:
        Unavailable: outlive is not installed for this Python.
    """
    with _served(bench) as near, _served(bench, "--capacity", "cpu=1000") as far:
        token = far[0].told("token", "create", "--name", "near").strip()

        def add(name: str, port: int) -> None:
            near[0].told("node", "add", name, f"http://127.0.0.1:{port}", "--token-file", "-", given=token)

        add("far", far[1]["jsonrpc"])
        near[0].told("node", "drain", "local")
        yield Fleet(
            near=Endpoint("near", near[1]["jsonrpc"], PATH, "jsonrpc", near[2]),
            far=Endpoint("far", far[1]["jsonrpc"], PATH, "jsonrpc", far[2]),
            add=add,
        )


@contextmanager
def _served(
    bench: Bench, *words: str, **env: str
) -> Iterator[tuple[Installation, dict[str, int], dict[str, int]]]:
    """Serve while the block runs; yield who serves, the ports of the doors and the pids of the processes."""
    with bench.folder() as folder:
        installation = find_installation(folder / "s")
        installation.state_dir.mkdir(mode=0o700)
        server = installation.spawn(*_ANY_PORTS, *words, **env)
        try:
            ready = _await_ready(server, installation.state_dir.with_suffix(".log"))
            yield installation, ready["ports"], {"server": int(ready["pid"]), **installation.keeper_pids()}
        finally:
            installation.stop(server)
