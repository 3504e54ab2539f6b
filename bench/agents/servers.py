"""The servers that agents are tried on: how each is started, and which adapter speaks to it."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import outlive
from bench.agents.adapters.adapter import Adapter
from bench.agents.adapters.documents import DocumentsAdapter
from bench.agents.adapters.lean import LeanAdapter
from bench.agents.adapters.own_bash import OwnBashAdapter
from bench.agents.adapters.peers import (
    BashCommandAdapter,
    DesktopCommanderAdapter,
    ServerCommandsAdapter,
    TerminalMcpAdapter,
)
from bench.agents.left_behind import await_end
from bench.agents.tokens import PEERS
from bench.context import clean_environment

_PORTS = ("OUTLIVE_JSONRPC_PORT", "OUTLIVE_MCP_PORT", "OUTLIVE_REST_PORT", "OUTLIVE_BRIDGE_PORT")
# The defaults of a server, which are scaled as the tasks are.
_WAIT_S = 45.0
_GRACE_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Where one server runs: its own folder beside the project, and how long a minute of the tasks lasts."""

    folder: Path
    minute_s: float

    @property
    def state_dir(self) -> Path:
        """The folder for what the server keeps."""
        return self.folder / "s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestant:
    """One server with one tool set.

    Attributes:
        label: What tables and the command line call it.
        version: Its package and version.
        words: The command line that starts it.
        adapter: The class that speaks to its tools.
        own_words: What names its own programs in their command lines: they are no work of the agent's.
        env: What is added to its environment.
        clean: Ends what it keeps beside the child of the host.
        missing: Why it can not be started here; "" where it can.
    """

    label: str
    version: str
    words: Callable[[Surroundings], list[str]]
    adapter: type[Adapter]
    own_words: tuple[str, ...]
    env: Callable[[Surroundings], Mapping[str, str]] = field(default=lambda _: {})
    clean: Callable[[Surroundings], None] = field(default=lambda _: None)
    missing: str = ""


def _outlive(label: str, adapter: type[Adapter]) -> Contestant:
    program = str(Path(sys.executable).with_name("outlive"))

    def words(around: Surroundings) -> list[str]:
        return [program, "mcp", "--state-dir", str(around.state_dir)]

    def env(around: Surroundings) -> Mapping[str, str]:
        return {
            **dict.fromkeys(_PORTS, "0"),
            "OUTLIVE_MCP_TOOLS": label,
            "OUTLIVE_WAIT": f"{_WAIT_S * around.minute_s / 60:g}",
            "TERMINATION_TIMEOUT": f"{_GRACE_S * around.minute_s / 60:g}",
        }

    def clean(around: Surroundings) -> None:
        with contextlib.suppress(OSError, ValueError, KeyError):
            pid = int(json.loads((around.state_dir / "server.json").read_text())["pid"])
            os.kill(pid, signal.SIGTERM)
            # Until it is gone it would start a keeper anew.
            await_end(pid)
        subprocess.run(
            [program, "keeper", "stop", "--kill", "--state-dir", str(around.state_dir)],
            env=clean_environment(),
            capture_output=True,
            check=False,
            timeout=30,
        )

    return Contestant(
        label=label,
        version=f"outlive {outlive.__version__}",
        words=words,
        adapter=adapter,
        own_words=("outlive", "/shim"),
        env=env,
        clean=clean,
    )


def _package(label: str, version: str, words: list[str], adapter: type[Adapter], *own: str) -> Contestant:
    """Return a server of `scripts/agent-peers.sh`, whose program is a path below its folder."""
    return Contestant(
        label=label,
        version=version,
        words=lambda _: words,
        adapter=adapter,
        own_words=(str(PEERS), *own),
        missing="" if Path(words[-1]).exists() else "not installed (scripts/agent-peers.sh)",
    )


def _npm(label: str, program: str, adapter: type[Adapter], *own: str) -> Contestant:
    words = ["node", str(PEERS / "node_modules" / program)]
    return _package(label, _npm_version(program), words, adapter, *own)


def _npm_version(program: str) -> str:
    """Return name and version of the package that a program of `node_modules` belongs to."""
    parts = program.split("/")
    name = "/".join(parts[:2]) if program.startswith("@") else parts[0]
    with contextlib.suppress(OSError):
        about = json.loads((PEERS / "node_modules" / name / "package.json").read_text())
        return f"{name} {about['version']}"
    return name


def _pip_version(name: str) -> str:
    found = list(PEERS.glob(f"python/lib/python3*/site-packages/{name.replace('-', '_')}-*.dist-info"))
    return f"{name} {found[0].name.split('-')[1].removesuffix('.dist')}" if found else name


def _own_bash() -> Contestant:
    root = Path(__file__).resolve().parent.parent.parent
    return Contestant(
        label="own-bash",
        version="a model of Claude Code's own Bash",
        words=lambda _: [sys.executable, "-m", "bench.peers.own_bash"],
        adapter=OwnBashAdapter,
        own_words=("bench.peers.own_bash",),
        env=lambda around: {"OWN_BASH_MINUTE_S": f"{around.minute_s:g}", "PYTHONPATH": str(root)},
    )


CONTESTANTS: dict[str, Contestant] = {
    one.label: one
    for one in (
        _outlive("lean", LeanAdapter),
        _outlive("documents", DocumentsAdapter),
        _own_bash(),
        _npm(
            "desktop-commander",
            "@wonderwhy-er/desktop-commander/dist/index.js",
            DesktopCommanderAdapter,
            "--version",  # it asks for Python and Node, which takes seconds on a full machine
        ),
        _npm("bash-command", "bash-command-mcp/dist/index.js", BashCommandAdapter),
        _npm("server-commands", "mcp-server-commands/build/index.js", ServerCommandsAdapter),
        _package(
            "terminal-mcp",
            _pip_version("terminal-mcp"),
            [str(PEERS / "python" / "bin" / "terminal-mcp")],
            TerminalMcpAdapter,
        ),
    )
}
