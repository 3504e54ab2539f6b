"""The servers that agents are tried on: how each is started, and which adapter speaks to it."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import outlive
from bench.agents.adapters.adapter import Adapter
from bench.agents.adapters.lean import LeanAdapter
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
        is_ours: Whether a restart of the host must not stop the commands.
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
            server = json.loads((around.state_dir / "server.json").read_text())
            os.kill(int(server["pid"]), 15)
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


CONTESTANTS: dict[str, Contestant] = {one.label: one for one in (_outlive("lean", LeanAdapter),)}
