"""A real `outlive serve` on a state folder of its own: start, kill, start again, and leave nothing behind."""

import contextlib
import itertools
import json
import os
import secrets
import selectors
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import outlive
from outlive.cli.server.keeper import stop_keeper
from outlive.core.errors import OutliveError
from outlive.core.layout import Layout
from outlive.extensions.contract import extensions
from outlive.kernel.locks import holder_of
from tests.support.preloaded import ForkedProcess, preloaded
from tests.support.processes import end, wait_state_folder_empty
from tests.support.run_mark import count_server

START_PATIENCE_S = 60.0
STOP_PATIENCE_S = 60.0
_PORTS = range(12_000, 32_000)  # ip(7): ip_local_port_range begins at 32768
_PORTS_A_WORKER = 2_500
_OURS = (
    "OUTLIVE_",
    "ALLOWED_COMMANDS",
    "MAX_SESSIONS",
    "MAX_BUFFER_SIZE",
    "MCP_",
    "TERMINATION_TIMEOUT",
    "USE_DOCKER",
    "OTEL_",
    "TRACEPARENT",
)
# What an interpreter reads when it starts, and modules when they are imported: a fork of a loaded process has
# read it already.
_READ_BY_IMPORTS = ("PYTHON", "LD_", "COVERAGE_", "OUTLIVE_DEGRADE", "OUTLIVE_KEEPER_", "OUTLIVE_FAILPOINT")


def outlive_command() -> list[str]:
    """Return how to call the product: the script installed beside this Python, or the module.

    OUTLIVE_TEST_COMMAND names another one, for instance that of a freshly built wheel.
    """
    if chosen := os.environ.get("OUTLIVE_TEST_COMMAND"):
        return shlex.split(chosen)
    script = Path(sys.executable).with_name("outlive")
    return [str(script)] if script.exists() else [sys.executable, "-m", "outlive"]


def heeded_path(folder: Path) -> str:
    """Return a PYTHONPATH with a folder that the product heeds, since outlive itself is found by it."""
    return f"{folder}{os.pathsep}{Path(outlive.__file__).parents[1]}"


def _ports_in_turn() -> Iterator[int]:
    """Yield the ports of this pytest worker, from any of them on, each again only after all others.

    Drawn at random, two of one server's four ports were the same one in 3 of 10 000 starts, and a port that
    waits for its server's next start could be given to another worker's server.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    worker += 4 * int(os.environ.get("OUTLIVE_TEST_LANE", "0"))  # a run beside another one says which it is
    first = worker * _PORTS_A_WORKER % len(_PORTS)
    mine = _PORTS[first : first + _PORTS_A_WORKER]
    begin = secrets.randbelow(len(mine))
    return itertools.cycle((*mine[begin:], *mine[:begin]))


_NEXT_PORTS = _ports_in_turn()


def free_port() -> int:
    """Return a TCP port that is free now, below the range from which the kernel takes ports for connections.

    None that was returned before in this pytest worker, until all 2500 of the worker's own were.
    """
    while True:
        port = next(_NEXT_PORTS)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def run_outlive(
    *words: str, state_dir: Path, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run one short verb (`keeper status`, `doctor`, …) on a state folder and return what it said (blocks).

    As a fork, as servers are; tests/cli executes each verb.
    """
    command = [*outlive_command(), *words, "--state-dir", str(state_dir)]
    environment = _environment(state_dir, env or {})
    if "OUTLIVE_DEGRADE" in environment or not _may_be_forked(environment, env or {}):
        return subprocess.run(
            command,
            env=environment,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=START_PATIENCE_S,
            check=False,
        )
    with tempfile.TemporaryFile() as stderr:
        process = preloaded().start(command, env=environment, cwd=cwd, umask=-1, stderr=stderr)
        with process.stdout:
            said = process.stdout.read().decode()
        code = process.wait(START_PATIENCE_S)
        stderr.seek(0)
        return subprocess.CompletedProcess(command, code, said, stderr.read().decode())


def _may_be_forked(environment: Mapping[str, str], chosen: Mapping[str, str]) -> bool:
    """Tell whether a fork is what a test wants: where it asks for another interpreter, program or way of
    loading, it gets that.
    """
    # Where PYTHONPATH is set, outlive executes itself anew without it, and a fork is no program of its own.
    is_usual = len(outlive_command()) == 1 and not {"OUTLIVE_TEST_COMMAND", "PYTHONPATH"} & environment.keys()
    is_measured = any(name.startswith("COVERAGE_") for name in environment)
    return is_usual and not is_measured and not any(name.startswith(_READ_BY_IMPORTS) for name in chosen)


def end_keeper(state_dir: Path, *, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> str:
    """End the keeper of a state folder, with all that it runs (blocks).

    Return what was in the way, "" if nothing was.

    As `keeper stop --kill` does, in this process: a program for it is a sixth of the processor time of a
    server that is started and stopped, and a run stops a thousand. The program is run where no keeper serves
    the folder (it starts one for what may live without), and where the keeper does not let us.
    """
    layout = Layout(str(state_dir))
    if holder_of(layout.supervisor_lock) is not None:
        # In a thread: the one that calls may have an event loop, which our code may not block.
        with ThreadPoolExecutor(1) as elsewhere, contextlib.suppress(OutliveError):
            elsewhere.submit(stop_keeper, layout, kill=True).result()
            return ""
    stopped = run_outlive("keeper", "stop", "--kill", state_dir=state_dir, env=env, cwd=cwd)
    return "" if stopped.returncode == 0 else f"keeper stop --kill failed: {stopped.stdout}{stopped.stderr}"


def _environment(state_dir: Path, extra: Mapping[str, str]) -> dict[str, str]:
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(_OURS) or name in {"OUTLIVE_TEST_COMMAND", "OUTLIVE_DEGRADE"}
    }
    # Whatever configuration this machine has is no part of a test.
    own = {"OUTLIVE_STATE_DIR": str(state_dir), "OUTLIVE_CONFIG": os.devnull}
    return clean | own | dict(extra)


@dataclass(frozen=True, slots=True)
class KeeperStatus:
    """What `outlive keeper status --json` says; a pid is None when that part does not run."""

    guardian_pid: int | None
    supervisor_pid: int | None
    processes: int
    redundant: bool

    @classmethod
    def parse(cls, text: str) -> "KeeperStatus":
        """Read the JSON document of the command."""
        document = json.loads(text)
        return cls(
            guardian_pid=(document.get("guardian") or {}).get("pid"),
            supervisor_pid=(document.get("supervisor") or {}).get("pid"),
            processes=document["processes"],
            redundant=document["redundant"],
        )


class OutliveServer:
    """One server process and its state folder.

    All methods block: call them in a worker thread from async tests.

    Use as a context manager: leaving it stops server and keeper and asserts that no process is left.
    """

    def __init__(
        self,
        state_dir: Path,
        *,
        args: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        umask: int = -1,
        is_executed: bool = False,
    ) -> None:
        """Describe the server; `args` go behind `serve`, `env` on top of this process's environment.

        `cwd` is the folder and `umask` the umask that it is started with; this process's own by default. It
        is a fork of a process that has its modules loaded, where that makes no difference, unless it is to be
        `executed`.
        """
        self.state_dir = state_dir
        self.ready: dict[str, Any] = {}
        self._args = list(args)
        self._env = dict(env or {})
        self._cwd = cwd
        self._umask = umask
        self._is_executed = is_executed
        self._process: subprocess.Popen[bytes] | ForkedProcess | None = None
        # Beside the state folder, unless a test says otherwise: on a disk that is full it would tell nothing.
        self.stderr_file = state_dir.with_name(state_dir.name + ".stderr")

    @property
    def pid(self) -> int:
        """The server's pid."""
        return int(self.ready["pid"])

    @property
    def port(self) -> int:
        """Where the JSON-RPC door listens; the same after a restart."""
        return int(self.ready["ports"]["jsonrpc"])

    @property
    def url(self) -> str:
        """The WebSocket address of document 000's endpoint (promise S0.1)."""
        return f"ws://127.0.0.1:{self.port}/ws/mcp"

    @property
    def mcp_url(self) -> str:
        """The HTTP address of the MCP endpoint (promise S4.1); the same after a restart."""
        return f"http://127.0.0.1:{self.ready['ports']['mcp']}/mcp"

    @property
    def rest_url(self) -> str:
        """The root of the REST door (promise S4.7); the same after a restart."""
        return f"http://127.0.0.1:{self.ready['ports']['rest']}"

    @property
    def bridge_url(self) -> str:
        """The WebSocket address that an extension of document 003 dials (promise S3.1).

        The same after a restart.
        """
        return f"ws://127.0.0.1:{self.ready['ports']['bridge']}"

    @property
    def stderr(self) -> str:
        """Everything that all starts of this server wrote for people."""
        return self.stderr_file.read_text(errors="replace") if self.stderr_file.exists() else ""

    @property
    def is_running(self) -> bool:
        """Whether the server process lives."""
        return self._process is not None and self._process.poll() is None

    def start(self, *, port: int | None = None) -> "OutliveServer":
        """Start the server and wait for its ready line. Without `port`: the last one, at first any free one.

        Not the kernel's choice of a free one: while the server is down between two starts, the port of some
        other test's outgoing connection would be taken from the same range.
        """
        if self.is_running:
            raise AssertionError("the server runs already")
        wanted = port if port is not None else (self.port if self.ready else free_port())
        mcp_port = self.ready["ports"].get("mcp", "off") if self.ready else free_port()
        rest_port = self.ready["ports"].get("rest", "off") if self.ready else free_port()
        bridge_port = self.ready["ports"].get("bridge", "off") if self.ready else free_port()
        words = ["serve", "--print-json", "--jsonrpc-port", str(wanted), "--mcp-port", str(mcp_port)]
        words += ["--rest-port", str(rest_port)]
        if any(one.name == "bridge" for one in extensions()):  # the core's tests run without, too
            words += ["--bridge-port", str(bridge_port)]
        words += ["--state-dir", str(self.state_dir)]
        self._process = self._started([*words, *self._args])
        try:
            self.ready = json.loads(self._ready_line(self._process))
        except ValueError as error:
            raise AssertionError(f"no ready line; stderr:\n{self.stderr}") from error
        return self

    def _started(self, words: list[str]) -> subprocess.Popen[bytes] | ForkedProcess:
        count_server()
        environment = _environment(self.state_dir, self._env)
        command = outlive_command()
        with self.stderr_file.open("ab") as stderr:
            if not self._is_executed and _may_be_forked(environment, self._env):
                return preloaded().start(
                    [*command, *words], env=environment, cwd=self._cwd, umask=self._umask, stderr=stderr
                )
            return subprocess.Popen(
                [*command, *words],
                env=environment,
                cwd=self._cwd,
                umask=self._umask,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
            )

    def _ready_line(self, process: subprocess.Popen[bytes] | ForkedProcess) -> bytes:
        assert process.stdout is not None
        deadline = time.monotonic() + START_PATIENCE_S
        line = b""
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while not line.endswith(b"\n"):
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise AssertionError(f"not ready after {START_PATIENCE_S} s; stderr:\n{self.stderr}")
                piece = os.read(process.stdout.fileno(), 65536)
                if not piece:
                    raise AssertionError(f"the server ended before it was ready; stderr:\n{self.stderr}")
                line += piece
        return line

    def kill(self) -> None:
        """End the server with SIGKILL, as a crash would."""
        self._end(signal.SIGKILL)

    def stop(self, sent: signal.Signals = signal.SIGTERM) -> int:
        """Ask the server to stop; return its exit code. What it started lives on."""
        return self._end(sent)

    def _end(self, sent: signal.Signals) -> int:
        process = self._process
        if process is None:
            raise AssertionError("the server was never started")
        if process.poll() is None:
            process.send_signal(sent)
        code = process.wait(STOP_PATIENCE_S)
        if process.stdout is not None:
            process.stdout.close()
        return code

    def restart(self) -> "OutliveServer":
        """Kill the server if it lives and start it again on the same port and state folder."""
        self.kill()
        return self.start()

    def keeper_status(self) -> KeeperStatus:
        """Ask the keeper through the command line."""
        answer = run_outlive(
            "keeper", "status", "--json", state_dir=self.state_dir, env=self._env, cwd=self._cwd
        )
        if answer.returncode != 0:
            raise AssertionError(f"keeper status failed: {answer.stdout}{answer.stderr}")
        return KeeperStatus.parse(answer.stdout)

    def close(self) -> None:
        """Stop the server, the keeper and every process; raise if one was left or a traceback was printed."""
        problems: list[str] = []
        if self._process is not None:
            try:
                self.stop()
            except subprocess.TimeoutExpired:
                problems.append(f"the server ignored SIGTERM for {STOP_PATIENCE_S} s")
                self.kill()
        if trouble := end_keeper(self.state_dir, env=self._env, cwd=self._cwd):
            problems.append(trouble)
        if left := wait_state_folder_empty(self.state_dir):
            problems.append(f"processes left: {left}")
            for pid in left:
                end(pid)
        if "Traceback (most recent call last)" in self.stderr:
            problems.append(f"the server printed a traceback:\n{self.stderr}")
        if problems:
            raise AssertionError("\n".join(problems))

    def __enter__(self) -> Self:
        """Start if that has not happened yet."""
        if self._process is None:
            self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()
